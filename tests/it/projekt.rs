//! The project aggregate, from the topics to the topic, beside what Kafka Streams makes of the same records.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use weir_tests::{Broker, Host, Setup, group, topics};

/// All input topics.
pub(crate) const INPUTS: [&str; 8] = [
    "wirtschaftseinheiten",
    "mietobjekte",
    "projekte",
    "projektstatus",
    "befunde",
    "aufgaben",
    "durchfuehrungen",
    "gruppen",
];
/// The input topics that are streams.
pub(crate) const STREAMS: [&str; 6] =
    ["projekte", "projektstatus", "befunde", "aufgaben", "durchfuehrungen", "gruppen"];
/// The output topic.
pub(crate) const OUTPUT: &str = "projekt-aggregate";
/// Partitions of each topic.
pub(crate) const PARTITIONS: i32 = 8;

/// A fixture of the project aggregate.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/projekt").join(name)
}

/// A broker with the input topics and the records of a fixture.
pub(crate) fn broker_with(dir: &Path, records: &str) -> Result<Broker> {
    let broker = Broker::start(&dir.join("broker"))?;
    create_topics(&broker)?;
    topics::produce_file(&broker.bootstrap_servers(), &fixture(records))?;
    Ok(broker)
}

/// Creates the inputs and the output.
pub(crate) fn create_topics(broker: &Broker) -> Result<()> {
    let all: Vec<topics::NewTopicSpec<'_>> =
        INPUTS.iter().chain([&OUTPUT]).map(|name| (*name, PARTITIONS, [].as_slice())).collect();
    topics::create(&broker.bootstrap_servers(), &all)
}

/// The last value of each key as Kafka Streams has it.
pub(crate) fn oracle(name: &str) -> Result<BTreeMap<String, Value>> {
    let text = std::fs::read_to_string(fixture(name))?;
    text.lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line)?;
            let key = line["key"].as_str().context("a key")?.to_owned();
            Ok((key, line["value"].clone()))
        })
        .collect()
}

/// The last value of each key on the output topic; each record must carry its header.
pub(crate) fn outputs(broker: &Broker) -> Result<BTreeMap<String, Value>> {
    topics::read_last(&broker.bootstrap_servers(), OUTPUT)?
        .into_iter()
        .map(|(key, record)| {
            let header =
                record.headers.iter().find(|(name, _)| name == "eventType").and_then(|(_, value)| value.as_deref());
            ensure!(header == Some(b"ProjektAggregat".as_slice()), "eventType of {key:?} is {header:?}");
            let value = record.value.context("a value")?;
            Ok((String::from_utf8(key.to_vec())?, serde_json::from_slice(&value)?))
        })
        .collect()
}

/// A line of the oracle's file of all outputs.
#[derive(serde::Deserialize)]
struct AllLine<'a> {
    /// Its key.
    key: &'a str,
    /// Its timestamp.
    timestamp: i64,
    /// Its value, to the byte.
    #[serde(borrow)]
    value: &'a serde_json::value::RawValue,
}

/// Compares outputs with Kafka Streams': the same keys, the same values as JSON.
pub(crate) fn assert_equals_oracle(broker: &Broker, name: &str) -> Result<()> {
    let (want, got) = (oracle(name)?, outputs(broker)?);
    let missing: Vec<&String> = want.keys().filter(|key| !got.contains_key(*key)).collect();
    let foreign: Vec<&String> = got.keys().filter(|key| !want.contains_key(*key)).collect();
    ensure!(missing.is_empty() && foreign.is_empty(), "missing keys {missing:?}, foreign keys {foreign:?}");
    for (key, want) in &want {
        let got = &got[key];
        ensure!(got == want, "{key}:\n want {want}\n  got {got}");
    }
    Ok(())
}

/// Waits until everything on the inputs is processed and committed.
pub(crate) fn wait_caught_up(broker: &Broker) -> Result<()> {
    group::wait_caught_up(&broker.bootstrap_servers(), "projekt", &STREAMS, Duration::from_secs(180))
}

/// Runs the application until everything is processed, then ends it.
fn run(broker: &Broker, dir: &Path, set: &[(&str, &str)]) -> Result<()> {
    let state = dir.join("state");
    let mut setup = Setup::new("projekt", broker.bootstrap_servers(), &state);
    for (path, value) in set {
        setup = setup.set(path, value);
    }
    let mut host = Host::start(&setup)?;
    host.wait_ready()?;
    wait_caught_up(broker).with_context(|| host.log())?;
    let ended = host.terminate()?;
    ensure!(ended.success(), "SIGTERM ended it with {ended}: {}", host.log());
    Ok(())
}

#[test]
fn equals_kafka_streams_whatever_guarantee_threads_and_time() -> Result<()> {
    let variants: [&[(&str, &str)]; 4] = [
        &[("app.guarantee", "exactly-once"), ("app.threads", "8")],
        &[("app.guarantee", "at-least-once"), ("app.threads", "8")],
        &[("app.guarantee", "exactly-once"), ("app.threads", "1")],
        // The tables' records are older than the streams': both orders give the same.
        &[("app.time", "timestamp"), ("app.threads", "2")],
    ];
    for set in variants {
        let dir = tempfile::tempdir()?;
        let broker = broker_with(dir.path(), "before-input.jsonl")?;
        run(&broker, dir.path(), set)?;
        assert_equals_oracle(&broker, "before-final.jsonl").with_context(|| format!("{set:?}"))?;
    }
    Ok(())
}

#[test]
fn every_update_and_the_changelog_are_those_of_kafka_streams() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let broker = broker_with(dir.path(), "before-input.jsonl")?;
    run(&broker, dir.path(), &[("app.threads", "2"), ("aggregates.projekt-store.emit", "each")])?;

    // Bytes, not only JSON: fields, order, numbers.
    let mut want: BTreeMap<String, Vec<(i64, String)>> = BTreeMap::new();
    for line in std::fs::read_to_string(fixture("before-all.jsonl"))?.lines() {
        let line: AllLine<'_> = serde_json::from_str(line)?;
        want.entry(line.key.to_owned()).or_default().push((line.timestamp, line.value.get().to_owned()));
    }
    let mut got: BTreeMap<String, Vec<(i64, String)>> = BTreeMap::new();
    let mut partitions = BTreeMap::new();
    for record in topics::read(&broker.bootstrap_servers(), OUTPUT)? {
        let key = String::from_utf8(record.key.context("a key")?.to_vec())?;
        let event_type = [("eventType".to_owned(), Some("ProjektAggregat".into()))];
        ensure!(record.headers == event_type, "headers of {key}: {:?}", record.headers);
        let value = String::from_utf8(record.value.context("a value")?.to_vec())?;
        ensure!(*partitions.entry(key.clone()).or_insert(record.partition) == record.partition, "{key} moves");
        got.entry(key).or_default().push((record.timestamp, value));
    }
    for (key, want) in &want {
        let got = got.get(key).with_context(|| format!("no output for {key}"))?;
        ensure!(got == want, "{key}:\n want {want:?}\n  got {got:?}");
    }
    ensure!(got.len() == want.len(), "{} keys of {}", got.len(), want.len());

    // The changelog: name, settings, partitioning, and for each key the bare state at the time of its last change.
    let changelog = "projekt-projekt-store-changelog";
    let found = topics::describe(&broker.bootstrap_servers(), changelog, "cleanup.policy")?;
    ensure!(found == (8, Some("compact".to_owned())), "{found:?}");
    let found = topics::describe(&broker.bootstrap_servers(), changelog, "message.timestamp.type")?;
    ensure!(found.1.as_deref() == Some("CreateTime"), "{found:?}");
    let states = topics::read_last(&broker.bootstrap_servers(), changelog)?;
    let mut keys: BTreeMap<String, i64> = BTreeMap::new();
    for record in topics::parse(&std::fs::read_to_string(fixture("before-input.jsonl"))?)? {
        // As Kafka Streams: a record without a value changes no aggregate.
        if STREAMS.contains(&record.topic.as_str()) && record.value.is_some() {
            keys.insert(record.key, record.timestamp);
        }
    }
    ensure!(states.len() == keys.len(), "{} states of {}", states.len(), keys.len());
    for (key, timestamp) in keys {
        let state = states.get(key.as_bytes()).with_context(|| format!("no state of {key}"))?;
        ensure!(state.partition == weir::kafka::partition_for_key(key.as_bytes(), PARTITIONS), "{key} is elsewhere");
        ensure!(state.timestamp == timestamp && state.headers.is_empty(), "{key}: {state:?}");
        if let Some((_, value)) = want.get(&key).and_then(|of| of.last()) {
            ensure!(state.value.as_deref() == Some(value.as_bytes()), "{key}:\n want {value}\n  got {state:?}");
        }
    }
    Ok(())
}

#[test]
fn no_project_lacks_a_row_though_all_rows_have_later_timestamps() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let broker = Broker::start(&dir.path().join("broker"))?;
    create_topics(&broker)?;
    let mut records = topics::parse(&std::fs::read_to_string(fixture("before-input.jsonl"))?)?;
    let mut rows: BTreeMap<(String, String), bool> = BTreeMap::new();
    for record in records.iter_mut().filter(|record| !STREAMS.contains(&record.topic.as_str())) {
        record.timestamp += 86_400_000;
        rows.insert((record.key.clone(), record.topic.clone()), record.value.is_some());
    }
    topics::produce_all(&broker.bootstrap_servers(), &records)?;
    run(&broker, dir.path(), &[("app.threads", "8"), ("aggregates.projekt-store.emit", "each")])?;

    let mut joined = 0;
    for record in topics::read(&broker.bootstrap_servers(), OUTPUT)? {
        let key = String::from_utf8(record.key.context("a key")?.to_vec())?;
        let value: Value = serde_json::from_slice(&record.value.context("a value")?)?;
        for (field, table) in [("wirtschaftseinheit", "wirtschaftseinheiten"), ("mietobjekt", "mietobjekte")] {
            let row = rows.get(&(key.clone(), table.to_owned())) == Some(&true);
            ensure!(row != value[field].is_null(), "{key}: {table} has a row: {row}, and the project: {value}");
            joined += usize::from(row);
        }
    }
    ensure!(joined > 1000, "only {joined} joined");
    assert_equals_oracle(&broker, "before-final.jsonl")
}
