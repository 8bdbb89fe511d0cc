//! What came out: the aggregates on an output topic, counted as they arrive.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::cluster::PARTITIONS;
use crate::kafka::{self, ClientSettings, PartitionQueue, TableReader};
use crate::model::TopicPartition;

/// Most records, and bytes, that are taken at once.
const TAKE: (usize, usize) = (1000, 1 << 20);

/// What matters of an aggregate.
#[derive(Debug, Deserialize)]
struct Aggregate {
    /// The project.
    projekt: Option<IgnoredAny>,
    /// Its row in `wirtschaftseinheiten`.
    wirtschaftseinheit: Option<IgnoredAny>,
    /// Its row in `mietobjekte`.
    mietobjekt: Option<IgnoredAny>,
    /// Findings.
    befunde: List,
    /// Tasks.
    aufgaben: List,
    /// Work done.
    durchfuehrungen: List,
    /// Groups.
    gruppen: List,
}

/// A list of an aggregate.
#[derive(Debug, Deserialize)]
struct List {
    /// Records that came.
    anzahl: u64,
}

/// The last aggregate of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Last {
    /// Whether it has both rows.
    joined: bool,
    /// Records in its lists.
    counted: u64,
}

impl Last {
    /// What matters of a value; `None`: no project is in it.
    fn read(value: &[u8]) -> anyhow::Result<Option<Self>> {
        let aggregate: Aggregate = serde_json::from_slice(value)?;
        let lists = [aggregate.befunde, aggregate.aufgaben, aggregate.durchfuehrungen, aggregate.gruppen];
        Ok(aggregate.projekt.map(|_| Self {
            joined: aggregate.wirtschaftseinheit.is_some() && aggregate.mietobjekt.is_some(),
            counted: lists.iter().map(|list| list.anzahl).sum(),
        }))
    }
}

/// How a run ended, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Outcome {
    /// Projects.
    pub(super) projekte: u64,
    /// Projects with both rows.
    pub(super) joined: u64,
    /// Projects that lack a row.
    pub(super) missing: u64,
}

/// Reads an output topic from its beginning.
pub(super) struct Outputs {
    /// The consumer.
    reader: Arc<TableReader>,
    /// Its partitions.
    queues: Vec<PartitionQueue>,
    /// The last aggregate of each key.
    last: BTreeMap<Bytes, Last>,
}

impl Outputs {
    /// Begins to read `topic`.
    pub(super) fn of(topic: &str, settings: &ClientSettings) -> Result<Self, kafka::Error> {
        let reader = TableReader::new(settings)?;
        let partitions: Vec<(TopicPartition, i64)> =
            (0..PARTITIONS).map(|partition| (TopicPartition::new(topic, partition), 0)).collect();
        // Nobody sleeps until something comes: it is looked at from time to time.
        let waker: kafka::Waker = Arc::new(|| {});
        let queues = reader.open(&partitions, &waker)?;
        Ok(Self { reader, queues, last: BTreeMap::new() })
    }

    /// Takes what is there now.
    pub(super) fn take(&mut self) -> anyhow::Result<()> {
        self.reader.poll(Duration::ZERO)?;
        let mut records = VecDeque::new();
        for queue in &mut self.queues {
            while queue.poll(TAKE.0, TAKE.1, &mut records)?.records > 0 {}
        }
        for record in records {
            let (Some(key), Some(value)) = (record.key, record.value) else { continue };
            if let Some(last) = Last::read(&value)? {
                // The record's bytes lie in a buffer with many others.
                self.last.insert(Bytes::copy_from_slice(&key), last);
            }
        }
        Ok(())
    }

    /// Records that the last aggregates have counted, all together.
    pub(super) fn counted(&self) -> u64 {
        self.last.values().map(|last| last.counted).sum()
    }

    /// Keys of projects that lack a row.
    pub(super) fn missing(&self) -> impl Iterator<Item = &Bytes> {
        self.last.iter().filter(|(_, last)| !last.joined).map(|(key, _)| key)
    }

    /// The numbers.
    pub(super) fn outcome(&self) -> Outcome {
        let (projekte, missing) = (self.last.len() as u64, self.missing().count() as u64);
        Outcome { projekte, joined: projekte - missing, missing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_joined_when_it_has_both_rows() {
        let check = |rows: &str, expected| {
            let lists = r#""befunde":{"anzahl":1,"letzte":{"B1":"HOCH"}},"aufgaben":{"anzahl":2},"durchfuehrungen":{"anzahl":0},"gruppen":{"anzahl":3}"#;
            assert_eq!(Last::read(format!("{{{rows},{lists}}}").as_bytes()).unwrap(), expected, "{rows}");
        };
        let last = |joined| Some(Last { joined, counted: 6 });
        check(r#""projekt":{},"wirtschaftseinheit":{},"mietobjekt":{}"#, last(true));
        check(r#""projekt":{},"wirtschaftseinheit":{},"mietobjekt":null"#, last(false));
        check(r#""projekt":{},"wirtschaftseinheit":null,"mietobjekt":{}"#, last(false));
        check(r#""projekt":null,"wirtschaftseinheit":null,"mietobjekt":null"#, None);
        Last::read(b"{}").unwrap_err();
    }
}
