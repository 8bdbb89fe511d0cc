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

#[test]
fn equals_kafka_streams_under_both_guarantees_and_with_any_number_of_threads() -> Result<()> {
    for (guarantee, threads) in [("exactly-once", "8"), ("at-least-once", "8"), ("exactly-once", "1")] {
        let dir = tempfile::tempdir()?;
        let broker = broker_with(dir.path(), "before-input.jsonl")?;
        let state = dir.path().join("state");
        let setup = Setup::new("projekt", broker.bootstrap_servers(), &state)
            .set("app.guarantee", guarantee)
            .set("app.threads", threads);
        let mut host = Host::start(&setup)?;
        host.wait_ready()?;
        wait_caught_up(&broker).with_context(|| host.log())?;
        assert_equals_oracle(&broker, "before-final.jsonl")
            .with_context(|| format!("{guarantee}, {threads} threads"))?;
        let ended = host.terminate()?;
        ensure!(ended.success(), "SIGTERM ended it with {ended}: {}", host.log());
    }
    Ok(())
}
