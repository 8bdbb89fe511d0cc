//! The broker in this process, and its topics.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;

use super::narration::Steps;
use super::stage::Stage;
use crate::kafka::{self, ClientSettings, EmbeddedBroker, LogEnds, LogRange, OutputProducer};
use crate::model::{Record, TopicPartition};
use crate::plan::{self, Plan};
use crate::topology::Topology;

/// Partitions of each topic.
pub(super) const PARTITIONS: i32 = 8;
/// The most that the broker keeps of a partition; it drops the oldest beyond that.
const KEPT: usize = 5 * 1024 * 1024;
/// What we let a partition have: the record format and the batches' heads come on top.
const ALLOWED: usize = KEPT / 10 * 8;
/// What the record format adds to a record at most.
const FRAME: usize = 64;
/// How long one answer, or the delivery of what is queued, may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Records after which the producer is served and progress is shown.
const CHUNK: usize = 1000;

/// A record for a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NewRecord {
    /// The topic.
    pub(super) topic: &'static str,
    /// The key.
    pub(super) key: String,
    /// The value; `None` is a tombstone.
    pub(super) value: Option<String>,
    /// In milliseconds.
    pub(super) timestamp: i64,
}

impl NewRecord {
    /// Where it goes, as Kafka's Java clients choose.
    pub(super) fn partition(&self) -> TopicPartition {
        TopicPartition::new(self.topic, kafka::partition_for_key(self.key.as_bytes(), PARTITIONS))
    }

    /// The bytes it takes on the broker, at most.
    fn size(&self) -> usize {
        self.key.len() + self.value.as_ref().map_or(0, String::len) + FRAME
    }
}

/// A broker with what the demos do to it.
pub(super) struct DemoCluster {
    /// The broker.
    broker: EmbeddedBroker,
    /// Settings of clients.
    settings: ClientSettings,
    /// Fills topics.
    producer: OutputProducer,
    /// Asks what topics hold.
    ends: LogEnds,
}

impl DemoCluster {
    /// Starts the broker.
    pub(super) fn start() -> Result<Self, kafka::Error> {
        let broker = EmbeddedBroker::start()?;
        let servers = BTreeMap::from([("bootstrap.servers".to_owned(), broker.bootstrap_servers())]);
        let settings = ClientSettings::new("demo", servers);
        let producer = OutputProducer::new(&settings)?;
        let ends = LogEnds::new(&settings)?;
        Ok(Self { broker, settings, producer, ends })
    }

    /// For `bootstrap.servers`.
    pub(super) fn bootstrap_servers(&self) -> String {
        self.broker.bootstrap_servers()
    }

    /// Settings of clients of this broker.
    pub(super) fn settings(&self) -> &ClientSettings {
        &self.settings
    }

    /// Creates these topics.
    pub(super) fn create(&self, topics: &[&str]) -> Result<(), kafka::Error> {
        topics.iter().try_for_each(|topic| self.broker.create_topic(topic, PARTITIONS))
    }

    /// Creates the topics that the topology writes, its own included: the broker makes none over the wire. Returns their names.
    pub(super) fn create_outputs(&self, topology: &Topology) -> Result<Vec<String>, kafka::Error> {
        let plan = Plan::resolve(topology);
        let inputs = plan.source_topics().map(|topic| (topic.to_owned(), PARTITIONS)).collect();
        let internal = plan::internal_topics(&plan, &inputs).into_iter().map(|topic| topic.name);
        let outputs: Vec<String> = plan.output_topics().map(str::to_owned).chain(internal).collect();
        self.create(&outputs.iter().map(String::as_str).collect::<Vec<_>>())?;
        Ok(outputs)
    }

    /// Writes `records` in order, each to the partition of its key, and checks that the broker has them all.
    pub(super) fn fill(&self, records: &[NewRecord], stage: &Stage, mut steps: Steps<'_>) -> anyhow::Result<()> {
        assert_fits(records)?;
        for (index, record) in records.iter().enumerate() {
            if index % CHUNK == 0 {
                stage.pause(Duration::ZERO)?;
                self.producer.poll();
                steps.show(index as u64);
            }
            self.send(record)?;
        }
        self.producer.flush(PATIENCE).context("the topics cannot be filled")?;
        let mut counts: BTreeMap<TopicPartition, i64> = BTreeMap::new();
        for record in records {
            *counts.entry(record.partition()).or_default() += 1;
        }
        for (partition, count) in counts {
            let LogRange { begin, end } = self.ends.of(&partition, PATIENCE)?;
            ensure!((begin, end) == (0, count), "{partition} got {count} records and holds offsets {begin} to {end}");
        }
        Ok(())
    }

    /// Writes one record now.
    pub(super) fn write(&self, record: &NewRecord) -> Result<(), kafka::Error> {
        self.send(record)?;
        self.producer.flush(PATIENCE)
    }

    /// Queues a record.
    fn send(&self, record: &NewRecord) -> Result<(), kafka::Error> {
        let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        let sent = Record {
            key: Some(bytes(&record.key)),
            value: record.value.as_deref().map(bytes),
            timestamp: record.timestamp,
            ..Record::default()
        };
        self.producer.send(record.topic, Some(record.partition().partition), &sent)
    }

    /// Checks that the broker still has all that was ever written to these topics.
    pub(super) fn assert_whole(&self, topics: &[String]) -> anyhow::Result<()> {
        for topic in topics {
            for partition in 0..PARTITIONS {
                let partition = TopicPartition::new(topic.as_str(), partition);
                let LogRange { begin, .. } = self.ends.of(&partition, PATIENCE)?;
                ensure!(begin == 0, "the broker has dropped the first {begin} records of {partition}: too many for it");
            }
        }
        Ok(())
    }
}

/// Checks that no partition gets more than the broker keeps.
pub(super) fn assert_fits(records: &[NewRecord]) -> anyhow::Result<()> {
    let mut sizes: BTreeMap<TopicPartition, usize> = BTreeMap::new();
    for record in records {
        *sizes.entry(record.partition()).or_default() += record.size();
    }
    match sizes.into_iter().find(|(_, size)| *size > ALLOWED) {
        Some((partition, size)) => {
            bail!("{partition} would get {size} bytes, but the broker keeps {KEPT}, and {ALLOWED} are allowed")
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_broker_keeps_is_refused() {
        let record =
            |value: usize| NewRecord { topic: "t", key: "k".to_owned(), value: Some("x".repeat(value)), timestamp: 1 };
        assert_fits(&[record(ALLOWED - FRAME - 1), NewRecord { topic: "other", ..record(ALLOWED / 2) }]).unwrap();
        let error = assert_fits(&[record(ALLOWED / 2), record(ALLOWED / 2)]).unwrap_err().to_string();
        assert!(error.contains("but the broker keeps 5242880"), "{error}");
    }

    #[test]
    fn what_the_broker_has_dropped_is_noticed() {
        let cluster = DemoCluster::start().unwrap();
        cluster.create(&["t"]).unwrap();
        let record = NewRecord { topic: "t", key: "k".to_owned(), value: Some("x".repeat(900_000)), timestamp: 1 };
        cluster.write(&record).unwrap();
        cluster.assert_whole(&["t".to_owned()]).unwrap();
        (0..6).for_each(|_| cluster.write(&record).unwrap());
        let error = cluster.assert_whole(&["t".to_owned()]).unwrap_err().to_string();
        assert!(error.starts_with("the broker has dropped the first 2 records of t-"), "{error}");
    }
}
