//! A small application whose result shows each record that is lost or processed twice: two streams, one joined with a table, and a
//! count of each key's records, each count on the output.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use weir_tests::host::{TIMEOUT, plugin};
use weir_tests::{Broker, Host, Setup, group, topics};

/// Its name, and the group's.
pub(crate) const APP: &str = "counted";
/// The streams.
pub(crate) const STREAMS: [&str; 2] = ["in", "more"];
/// The table.
pub(crate) const TABLE: &str = "rows";
/// The changelog of the counts.
pub(crate) const CHANGELOG: &str = "counted-counts-changelog";
/// Partitions of each topic.
pub(crate) const PARTITIONS: i32 = 4;
/// Keys of each partition.
const KEYS: usize = 5;

/// The topology.
const TOPOLOGY: &str = r#"
[app]
id = "counted"
threads = 2

[kafka]
"bootstrap.servers" = "set by the test"

[state]
dir = "set by the test"

[plugins.evil]
file = "EVIL.wasm"

[tables.rows]

[streams.in]
[streams.more]

[joins.with-row]
left = "in"
table = "rows"
kind = "left"
function = "evil.join_echo"

[aggregates.counts]
inputs = [
  { from = "with-row", function = "evil.fold_echo" },
  { from = "more", function = "evil.fold_echo" },
]
emit = "each"

[sinks.out]
from = "counts"
"#;

/// A broker with the topics, and what was written to them.
pub(crate) struct Counted {
    /// The broker.
    pub(crate) broker: Broker,
    /// Where its files, the topology and the state folders are.
    pub(crate) dir: PathBuf,
    /// Records of each key.
    fed: BTreeMap<String, u64>,
}

impl Counted {
    /// A broker with further `properties`, and rows in the table.
    pub(crate) fn start(dir: &Path, properties: &str) -> Result<Self> {
        let broker = Broker::start_with(&dir.join("broker"), properties)?;
        let counted = Self { broker, dir: dir.to_owned(), fed: BTreeMap::new() };
        for topic in [TABLE, "in", "more", "out"] {
            counted.create(topic)?;
        }
        counted.write_rows(1)?;
        Ok(counted)
    }

    /// Creates a topic.
    pub(crate) fn create(&self, topic: &str) -> Result<()> {
        topics::create(&self.bootstrap(), &[(topic, PARTITIONS, &[])])
    }

    /// For clients.
    pub(crate) fn bootstrap(&self) -> String {
        self.broker.bootstrap_servers()
    }

    /// The topology, with parts of its text replaced, in a file `NAME.toml`.
    pub(crate) fn topology(&self, name: &str, changes: &[(&str, &str)]) -> Result<PathBuf> {
        let file = plugin("evil")?;
        let mut text = TOPOLOGY.replace("EVIL.wasm", file.to_str().context("a path")?);
        for (from, to) in changes {
            ensure!(text.contains(from), "the topology has no {from}");
            text = text.replace(from, to);
        }
        let path = self.dir.join(format!("{name}.toml"));
        fs::write(&path, text)?;
        Ok(path)
    }

    /// A run of the topology with its state in `state`; heartbeats are quick, sessions long.
    pub(crate) fn setup<'a>(&self, state: &'a Path) -> Result<Setup<'a>> {
        let topology = self.topology("counted", &[])?;
        let setup = Setup { topology, bootstrap: self.bootstrap(), state, set: Vec::new(), fault: None };
        Ok(setup.set("kafka.heartbeat.interval.ms", "300"))
    }

    /// Writes `each` records of each key to a stream.
    pub(crate) fn feed(&mut self, topic: &str, each: usize) -> Result<()> {
        let keys: Vec<(i32, String)> = keys().collect();
        let records: Vec<_> = (0..each)
            .flat_map(|_| keys.iter().map(|(partition, key)| (*partition, key.as_str(), Some("echo"), 1)))
            .collect();
        topics::produce(&self.bootstrap(), topic, &records)?;
        for (_, key) in keys {
            *self.fed.entry(key).or_default() += each as u64;
        }
        Ok(())
    }

    /// Writes `each` rows of each key to the table.
    pub(crate) fn write_rows(&self, each: usize) -> Result<()> {
        let keys: Vec<(i32, String)> = keys().collect();
        let rows: Vec<_> = (0..each)
            .flat_map(|_| keys.iter().map(|(partition, key)| (*partition, key.as_str(), Some("row"), 1)))
            .collect();
        topics::produce(&self.bootstrap(), TABLE, &rows)
    }

    /// Waits until all is processed and committed.
    pub(crate) fn wait_caught_up(&self, host: &Host) -> Result<()> {
        group::wait_caught_up(&self.bootstrap(), APP, &STREAMS, TIMEOUT).with_context(|| host.log())
    }

    /// Each record must have been counted once: the counts of each key are 1, 2, … up to their number.
    pub(crate) fn assert_counts(&self) -> Result<()> {
        let mut counts: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for record in topics::read(&self.bootstrap(), "out")? {
            let key = String::from_utf8(record.key.context("a key")?.to_vec())?;
            let count = String::from_utf8(record.value.context("a value")?.to_vec())?;
            counts.entry(key).or_default().push(count.parse()?);
        }
        for (key, fed) in &self.fed {
            let counts = counts.get(key).map(Vec::as_slice).unwrap_or_default();
            ensure!(counts.iter().copied().eq(1..=*fed), "{key}: {fed} records, and the counts {counts:?}");
        }
        ensure!(counts.len() == self.fed.len(), "{} keys of {}", counts.len(), self.fed.len());
        Ok(())
    }
}

/// All keys, with the partition of each.
fn keys() -> impl Iterator<Item = (i32, String)> {
    (0..PARTITIONS).flat_map(|partition| (0..KEYS).map(move |key| (partition, format!("k{partition}-{key}"))))
}

/// Waits until the instance has so many tasks and they all run.
pub(crate) fn wait_tasks(host: &Host, tasks: usize) -> Result<Value> {
    host.wait_status("its tasks", |status| {
        let found = status["tasks"].as_array().context("tasks")?;
        ensure!(found.len() == tasks, "{} tasks of {tasks}", found.len());
        ensure!(found.iter().all(|task| task["state"] == "running"), "{}", status["tasks"]);
        Ok(())
    })
}

/// Records that the instance has processed since it was started.
pub(crate) fn processed(host: &Host) -> Result<u64> {
    let status = host.status()?;
    let tasks = status["tasks"].as_array().context("tasks")?;
    Ok(tasks.iter().filter_map(|task| task["processed"].as_u64()).sum())
}

/// The restores of a topic's partitions in a status.
pub(crate) fn restores(status: &Value, topic: &str) -> Vec<Value> {
    let tasks = status["tasks"].as_array().into_iter().flatten();
    let restores = tasks.filter_map(|task| task["restore"].as_array()).flatten();
    restores.filter(|restore| restore["topic"] == topic).cloned().collect()
}

/// Ends it with SIGTERM, which must be a success.
pub(crate) fn terminate(host: &mut Host) -> Result<()> {
    let ended = host.terminate()?;
    ensure!(ended.success(), "SIGTERM ended it with {ended}: {}", host.log());
    Ok(())
}

/// Waits until it has ended by itself, with this exit code and these words.
pub(crate) fn ensure_ended(host: &mut Host, code: i32, says: &[&str]) -> Result<()> {
    let ended = host.wait_end()?;
    let log = host.log();
    ensure!(ended.code() == Some(code), "ended with {ended}, not with {code}:\n{log}");
    for words in says {
        ensure!(log.contains(words), "'{words}' is not in:\n{log}");
    }
    Ok(())
}
