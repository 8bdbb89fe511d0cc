//! What is played in a seed: the inputs, and how the engine is set up.

use std::time::Duration;

use bytes::Bytes;

use super::cluster::{Cluster, ProducerId};
use super::logic::{A, B, CLEAR, TABLE};
use super::random::Random;
use crate::model::{Record, TopicPartition};

/// Producer ids of whoever fills the inputs; no engine's producer comes so far.
const STRANGERS: u64 = 1 << 32;
/// Producer ids of those who leave a transaction open.
const OPEN: u64 = 1 << 33;

/// A seed's setting.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    /// Partitions of every topic.
    pub(super) partitions: i32,
    /// Processes.
    pub(super) processes: usize,
    /// Stream threads of each.
    pub(super) threads: usize,
    /// Outputs are part of the transaction.
    pub(super) exactly_once: bool,
    /// Some records arrive only while the processes run: then the order of the two streams is the engine's choice.
    pub(super) live: bool,
    /// Stream records in a batch.
    pub(super) batch: usize,
    /// Time between commits.
    pub(super) commit_interval: Duration,
    /// Time between checkpoints of a restore.
    pub(super) persist_interval: Duration,
    /// Steps of chaos.
    pub(super) chaos: usize,
    /// Records that arrive later, first one first.
    pub(super) later: Vec<(TopicPartition, Record)>,
    /// Transactions of whoever fills the tables that are still open, and whether they will be committed.
    pub(super) open: Vec<(TopicPartition, ProducerId, bool)>,
}

/// A record.
fn record(key: &Bytes, value: Option<String>, timestamp: i64) -> Record {
    Record { key: Some(key.clone()), value: value.map(Bytes::from), timestamp, ..Record::default() }
}

/// The keys of a partition.
fn keys(partition: i32) -> Vec<Bytes> {
    ["x", "y", "z"].map(|name| Bytes::from(format!("{partition}{name}"))).into()
}

impl Scenario {
    /// A seed's setting, with its inputs in the cluster's logs: tables first and whole.
    pub(super) fn new(random: &mut Random, cluster: &mut Cluster) -> Self {
        let mut scenario = Self {
            partitions: 2,
            processes: random.between(1, 3),
            threads: random.between(1, 2),
            exactly_once: random.chance(70),
            live: random.chance(40),
            batch: random.between(1, 4),
            commit_interval: Duration::from_millis(random.between(0, 40) as u64),
            persist_interval: Duration::from_millis(random.between(0, 60) as u64),
            chaos: random.between(40, 200),
            later: Vec::new(),
            open: Vec::new(),
        };
        for partition in 0..scenario.partitions {
            scenario.fill_table(random, cluster, partition);
            for topic in [A, B] {
                scenario.fill_stream(random, cluster, topic, partition);
            }
        }
        scenario.mix(random);
        scenario
    }

    /// Mixes what arrives later; the order of each partition stays.
    fn mix(&mut self, random: &mut Random) {
        let mut mixed = Vec::new();
        let mut left = std::mem::take(&mut self.later);
        while !left.is_empty() {
            let first = random.below(left.len());
            let at = left.iter().position(|(partition, _)| *partition == left[first].0).unwrap_or(first);
            mixed.push(left.remove(at));
        }
        self.later = mixed;
    }

    /// Rows of one partition: some replaced, some removed, some aborted, the last ones perhaps not committed yet.
    fn fill_table(&mut self, random: &mut Random, cluster: &mut Cluster, partition: i32) {
        let of = TopicPartition::new(TABLE, partition);
        for round in 0..random.between(1, 3) {
            for key in keys(partition) {
                let value = (!random.chance(15)).then(|| format!("r{round}"));
                append(random, cluster, &of, vec![record(&key, value, 1)]);
            }
        }
        if random.chance(15) {
            // The last rows are there, and not committed yet: nothing may be joined before it is known what becomes of them.
            let producer = OPEN + u64::try_from(partition).unwrap_or(0);
            for key in keys(partition) {
                cluster.log(&of).append(record(&key, Some("last".to_owned()), 1), Some(producer));
            }
            self.open.push((of.clone(), producer, random.chance(70)));
        }
        if self.live {
            // Rows of keys that no stream has: they change no result, but keep the table's reader busy.
            for index in 0..random.between(0, 3) {
                let key = Bytes::from(format!("{partition}row{}", random.below(2)));
                self.later.push((of.clone(), record(&key, Some(format!("later{index}")), 1)));
            }
        }
    }

    /// Records of one stream partition.
    fn fill_stream(&mut self, random: &mut Random, cluster: &mut Cluster, topic: &str, partition: i32) {
        let of = TopicPartition::new(topic, partition);
        let keys = keys(partition);
        let mut timestamp = 0;
        let mut early = Vec::new();
        for index in 0..random.between(3, 9) {
            timestamp += random.between(0, 3) as i64;
            let value = match random.below(12) {
                0 => None,
                1 if topic == B => Some(CLEAR.to_owned()),
                _ => Some(format!("{topic}{index}")),
            };
            let key = &keys[random.below(keys.len())];
            let one = record(key, value, timestamp - random.below(2) as i64);
            if self.live && index > 1 {
                self.later.push((of.clone(), one));
            } else {
                early.push(one);
            }
        }
        while !early.is_empty() {
            let rest = early.split_off(random.between(1, 4).min(early.len()));
            append(random, cluster, &of, early);
            early = rest;
        }
    }
}

/// Appends records: as they are, in a transaction, or after one that is aborted.
pub(super) fn append(random: &mut Random, cluster: &mut Cluster, to: &TopicPartition, records: Vec<Record>) {
    let log = cluster.log(to);
    let producer = STRANGERS + random.below(1 << 16) as u64;
    if random.chance(15) {
        for record in &records {
            let value = record.value.as_ref().map(|_| Bytes::from_static(b"aborted"));
            log.append(Record { value, ..record.clone() }, Some(producer));
        }
        log.end_transaction(producer, false);
    }
    let transaction = random.chance(30);
    for record in records {
        log.append(record, transaction.then_some(producer));
    }
    if transaction {
        log.end_transaction(producer, true);
    }
    if random.chance(5) {
        // An aborted tail: the log's end is no record's.
        log.append(Record { key: Some(Bytes::from_static(b"0tail")), ..Record::default() }, Some(producer + 1));
        log.end_transaction(producer + 1, false);
    }
}
