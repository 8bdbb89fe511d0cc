//! The fixture `before` several times over, under other keys and at later times: more records, and a known result.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use weir::kafka::partition_for_key;
use weir_tests::topics::{self, InputRecord};
use weir_tests::{Broker, group};

use crate::projekt::{OUTPUT, PARTITIONS, STREAMS, fixture};

/// How far apart in time two copies are: more than one of them is long.
const APART: i64 = 10_000;

/// Input, and what Kafka Streams makes of it.
pub(crate) struct Grown {
    /// The tables' records.
    pub(crate) tables: Vec<InputRecord>,
    /// The streams' records, by time.
    pub(crate) streams: Vec<InputRecord>,
    /// The values of each key, in order.
    pub(crate) all: BTreeMap<String, Vec<Value>>,
}

impl Grown {
    /// So many copies.
    pub(crate) fn new(copies: i64) -> Result<Self> {
        let (input, all) = (
            std::fs::read_to_string(fixture("before-input.jsonl"))?,
            std::fs::read_to_string(fixture("before-all.jsonl"))?,
        );
        let mut grown = Self { tables: Vec::new(), streams: Vec::new(), all: BTreeMap::new() };
        for copy in 0..copies {
            // Ids of projects are "P0000146"; no other text looks like it.
            let mine = |text: &str| text.replace("\"P0000", &format!("\"P{copy:02}00"));
            for mut record in topics::parse(&mine(&input))? {
                record.timestamp += copy * APART;
                record.partition = partition_for_key(record.key.as_bytes(), PARTITIONS);
                let of = if STREAMS.contains(&record.topic.as_str()) { &mut grown.streams } else { &mut grown.tables };
                of.push(record);
            }
            for line in mine(&all).lines() {
                let mut line: Value = serde_json::from_str(line)?;
                let key = line["key"].as_str().context("a key")?.to_owned();
                grown.all.entry(key).or_default().push(line["value"].take());
            }
        }
        Ok(grown)
    }

    /// The streams' records in so many parts.
    pub(crate) fn parts(&self, count: usize) -> Vec<&[InputRecord]> {
        self.streams.chunks(self.streams.len().div_ceil(count)).collect()
    }

    /// The last value of each key must be Kafka Streams'.
    pub(crate) fn assert_last(&self, broker: &Broker) -> Result<()> {
        let got = values(broker)?;
        let keys = |of: &BTreeMap<String, Vec<Value>>| of.keys().cloned().collect::<Vec<_>>();
        ensure!(keys(&got) == keys(&self.all), "other keys: {:?}", keys(&got));
        for (key, want) in &self.all {
            let (want, got) = (want.last(), got[key].last());
            ensure!(got == want, "{key}:\n want {want:?}\n  got {got:?}");
        }
        Ok(())
    }

    /// The values of each key must be Kafka Streams', each once and in order.
    pub(crate) fn assert_all(&self, broker: &Broker) -> Result<()> {
        let got = values(broker)?;
        for (key, want) in &self.all {
            let got = got.get(key).with_context(|| format!("no output for {key}"))?;
            let differ = got.iter().zip(want).position(|(got, want)| got != want);
            ensure!(
                got == want,
                "{key}: {} outputs of {}, the first that differs is number {differ:?}",
                got.len(),
                want.len()
            );
        }
        ensure!(got.len() == self.all.len(), "{} keys of {}", got.len(), self.all.len());
        Ok(())
    }

    /// No value of Kafka Streams' is missing, and they come in its order; any may come again with those after it.
    pub(crate) fn assert_none_missing(&self, broker: &Broker) -> Result<()> {
        let got = values(broker)?;
        for (key, want) in &self.all {
            let mut got = got.get(key).with_context(|| format!("no output for {key}"))?.iter();
            for (number, want) in want.iter().enumerate() {
                ensure!(got.any(|got| got == want), "{key}: output {number} is missing: {want}");
            }
        }
        Ok(())
    }
}

/// The values of each key on the output topic, in order, with the order of topics left to chance: from one to the next
/// exactly one record of the input has been added.
pub(crate) fn assert_chain(broker: &Broker) -> Result<()> {
    for (key, values) in values(broker)? {
        for pair in values.windows(2) {
            let [before, after] = pair else { continue };
            let added = counted(after) - counted(before);
            ensure!(before != after, "{key}: the same output twice: {before}");
            ensure!((0..=1).contains(&added), "{key}: {added} records between\n {before}\n {after}");
        }
    }
    Ok(())
}

/// Records that the aggregate has counted.
fn counted(value: &Value) -> i64 {
    let lists = ["befunde", "aufgaben", "durchfuehrungen", "gruppen"];
    lists.iter().filter_map(|list| value[list]["anzahl"].as_i64()).sum()
}

/// The values of each key on the output topic, in order.
fn values(broker: &Broker) -> Result<BTreeMap<String, Vec<Value>>> {
    let mut values: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for record in topics::read(&broker.bootstrap_servers(), OUTPUT)? {
        let key = String::from_utf8(record.key.context("a key")?.to_vec())?;
        let value = serde_json::from_slice(&record.value.context("a value")?)?;
        values.entry(key).or_default().push(value);
    }
    Ok(values)
}

/// How far the application is with its streams.
pub(crate) fn progress(broker: &Broker) -> Result<group::Progress> {
    group::Progress::new(&broker.bootstrap_servers(), "projekt", &STREAMS)
}
