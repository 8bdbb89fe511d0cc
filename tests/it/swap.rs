//! Versions of a plugin take over from one another while records flow.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use weir_tests::host::plugin;
use weir_tests::topics::TopicRecord;
use weir_tests::{Broker, Host, Setup};

use crate::load::{self, Load};
use crate::projekt::{PARTITIONS, create_topics};

/// The versions: the second writes the time of the last change, the first knows nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// `projekt.wasm`.
    First,
    /// `projekt-v2.wasm`.
    Second,
}

impl Version {
    /// The one that made an output.
    fn of(record: &TopicRecord) -> Result<Self> {
        let value: Value = serde_json::from_slice(record.value.as_ref().context("a value")?)?;
        Ok(if value.get("letzteAenderungAm").is_some() { Self::Second } else { Self::First })
    }

    /// The other one.
    fn other(self) -> Self {
        if self == Self::First { Self::Second } else { Self::First }
    }

    /// Its file.
    fn file(self) -> Result<String> {
        let file = plugin(if self == Self::First { "projekt" } else { "projekt-v2" })?;
        Ok(file.to_str().context("a path")?.to_owned())
    }
}

/// The tasks in the status.
fn tasks(status: &Value) -> Result<&Vec<Value>> {
    status["tasks"].as_array().context("tasks")
}

/// Waits until each task has processed and committed something under this generation.
fn wait_generation(host: &Host, generation: &Value) -> Result<()> {
    host.wait_status("a commit of each task under the new version", |status| {
        let there = tasks(status)?.iter().filter(|task| task["generation"] == *generation).count();
        ensure!(there == usize::try_from(PARTITIONS)?, "{there} tasks are at generation {generation}");
        Ok(())
    })?;
    Ok(())
}

/// Which thread has which task, and since how many records.
fn owners(host: &Host) -> Result<(Vec<(Value, Value)>, u64)> {
    let status = host.status()?;
    let tasks = tasks(&status)?;
    let processed = tasks.iter().filter_map(|task| task["processed"].as_u64()).sum();
    Ok((tasks.iter().map(|task| (task["task"].clone(), task["thread"].clone())).collect(), processed))
}

/// The versions that wrote a partition, in the order of its offsets; each stretch of one version once.
fn stretches(broker: &Broker) -> Result<BTreeMap<i32, Vec<Version>>> {
    let mut stretches = BTreeMap::new();
    for (partition, records) in load::records(broker)? {
        let mut versions = records.iter().map(Version::of).collect::<Result<Vec<_>>>()?;
        versions.dedup();
        stretches.insert(partition, versions);
    }
    Ok(stretches)
}

/// Ten swaps and a rollback under load; then, after a kill, the active version is still the active one.
fn swap_under_load(guarantee: &str) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let broker = Broker::start(&dir.path().join("broker"))?;
    create_topics(&broker)?;
    load::write_rows(&broker)?;
    let state = dir.path().join("state");
    let setup = Setup::new("projekt", broker.bootstrap_servers(), &state)
        .set("app.guarantee", guarantee)
        .set("app.threads", "4")
        // So long the group waits for a member that was killed.
        .set("kafka.session.timeout.ms", "6000");
    let mut host = Host::start(&setup)?;
    host.wait_ready()?;
    let load = Load::start(&broker, 0);
    load::wait_flowing(&broker)?;
    let rebalances = host.metric("weir_rebalances_total")?;
    let (owners_before, processed_before) = owners(&host)?;

    let mut version = Version::First;
    let mut wrote = vec![version];
    let mut last = host.status()?["generation"].as_i64().context("a generation")?;
    for swap in 0..10 {
        version = version.other();
        let file = version.file()?;
        let activation = if swap % 2 == 0 {
            let (code, answer) = host.deploy("projekt", &std::fs::read(&file)?)?;
            ensure!(code == 200, "{code}: {answer}");
            answer
        } else {
            let message = format!("swap {swap}");
            host.command_json(&["plugin", "deploy", &file, "--name", "projekt", "--message", &message])?
        };
        ensure!(activation["already_active"] == false && activation["waits_for"].is_null(), "{activation}");
        let generation = activation["generation"].as_i64().context("a generation")?;
        ensure!(generation > last, "{generation} after {last}");
        last = generation;
        wait_generation(&host, &activation["generation"])?;
        wrote.push(version);
    }
    let back = host.command_json(&["plugin", "rollback", "projekt"])?;
    wait_generation(&host, &back["generation"])?;
    version = version.other();
    wrote.push(version);

    let listed = host.command_json(&["plugin", "list"])?["plugins"][0].clone();
    ensure!(listed["digest"] == back["digest"] && listed["generation"] == back["generation"], "{listed} {back}");
    ensure!(listed["previous"] == listed["file_digest"], "the topology's file is the version before: {listed}");
    let history = host.command_json(&["plugin", "show", "projekt"])?["history"].clone();
    let kinds: Vec<&str> = history.as_array().context("a history")?.iter().filter_map(|h| h["kind"].as_str()).collect();
    assert_eq!(kinds, [&["rollback"][..], &["deploy"; 10], &["file"]].concat());

    // The tasks have never moved, and have never been opened anew: their counts go on.
    assert_eq!(host.metric("weir_rebalances_total")?, rebalances);
    let (owners_after, processed_after) = owners(&host)?;
    assert_eq!(owners_after, owners_before);
    ensure!(processed_after > processed_before, "{processed_after} after {processed_before}");

    // Records go on while the process dies and comes back with the topology's old file.
    host.kill()?;
    host = Host::start(&setup)?;
    host.wait_ready()?;
    let after_kill = host.command_json(&["plugin", "list"])?["plugins"][0].clone();
    assert_eq!(after_kill, listed);
    let rounds = load.stop()?;
    load::wait_counts(&broker, rounds).with_context(|| host.log())?;
    for (partition, versions) in stretches(&broker)? {
        assert_eq!(versions, wrote, "partition {partition}");
    }
    let ended = host.terminate()?;
    ensure!(ended.success(), "SIGTERM ended it with {ended}: {}", host.log());
    Ok(())
}

#[test]
fn ten_swaps_and_a_rollback_lose_and_double_nothing() -> Result<()> {
    swap_under_load("exactly-once")
}

#[test]
fn at_least_once_outputs_are_of_one_version_too() -> Result<()> {
    swap_under_load("at-least-once")
}
