//! Memory: one number for everything, kept under much more input than it, and refused where it cannot be enough.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rdkafka::producer::BaseRecord;
use serde_json::{Value, json};
use weir_tests::command::weir;
use weir_tests::{Broker, Host, Setup, host, topics};

use crate::projekt::{OUTPUT, create_topics, wait_caught_up};

/// The memory it gets, in MiB.
const MEMORY: u64 = 160;
/// Projects.
const PROJECTS: u64 = 16_000;
/// Versions of each project.
const VERSIONS: u64 = 4;
/// Bytes of a text that does not compress.
const TEXT: usize = 6_000;

/// A text that is another one for each number.
fn text(number: u64) -> String {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let letter = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'a' + (state % 26) as u8)
    };
    std::iter::repeat_with(letter).take(TEXT).collect()
}

/// Writes a row and all versions of each project; how many bytes that were.
fn write(broker: &Broker) -> Result<u64> {
    let producer = topics::producer(&broker.bootstrap_servers())?;
    let mut bytes = 0;
    let mut write = |topic: &str, number: u64, value: Value| -> Result<()> {
        let (key, value) = (format!("P{number:05}"), value.to_string());
        bytes += value.len() as u64;
        let record = BaseRecord::to(topic).key(key.as_bytes()).payload(value.as_bytes()).timestamp(1_000);
        topics::send(&producer, record)
    };
    for number in 0..PROJECTS {
        write("wirtschaftseinheiten", number, json!({ "id": "W", "strasse": text(number) }))?;
    }
    for version in 1..=VERSIONS {
        for number in 0..PROJECTS {
            let project = json!({
                "projektId": "P", "erstelltAm": 1, "version": version,
                "beschreibung": text(number + version * PROJECTS),
            });
            write("projekte", number, project)?;
        }
    }
    topics::flush(&producer)?;
    Ok(bytes)
}

/// The project aggregate in that much memory.
fn setup<'a>(broker: &Broker, state: &'a Path, guarantee: &str) -> Setup<'a> {
    Setup::new("projekt", broker.bootstrap_servers(), state)
        .set("app.guarantee", guarantee)
        .set("app.threads", "2")
        .set("state.memory", &format!("{MEMORY} MiB"))
        .set("plugins.projekt.memory", "16 MiB")
}

#[test]
fn memory_stays_under_its_number_whatever_flows_through() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let broker = Broker::start(&dir.path().join("broker"))?;
    create_topics(&broker)?;
    let bytes = write(&broker)?;
    ensure!(bytes > 2 * (MEMORY << 20), "only {bytes} bytes");
    let state = dir.path().join("state");
    // One long commit after the other: only their bound in bytes keeps them from holding all.
    let mut first = Host::start(&setup(&broker, &state, "exactly-once").set("app.commit_interval", "20 s"))?;
    wait_caught_up(&broker).with_context(|| first.log())?;
    let last = topics::read_last(&broker.bootstrap_servers(), OUTPUT)?;
    ensure!(last.len() as u64 == PROJECTS, "{} projects", last.len());
    for (number, record) in last.values().enumerate() {
        let value: Value = serde_json::from_slice(record.value.as_ref().context("a value")?)?;
        ensure!(value["projekt"]["version"] == VERSIONS, "project {number} is at {}", value["projekt"]["version"]);
    }
    let peak = first.peak_memory()?;
    eprintln!("{} MiB of input, {} MiB of memory, a peak of {} MiB", bytes >> 20, MEMORY, peak >> 20);
    ensure!(peak <= MEMORY << 20, "{} MiB with state.memory = {MEMORY} MiB", peak >> 20);
    let status = first.status()?;
    let parts = status["memory"]["parts"].as_array().context("parts")?;
    for part in parts {
        ensure!(part["used"].as_u64() <= part["limit"].as_u64(), "{part}");
    }
    let used: BTreeMap<_, _> = parts.iter().map(|part| (part["part"].to_string(), part["used"].as_u64())).collect();
    ensure!(used["\"stores\""] > Some(1 << 20) && used["\"plugins\""] > Some(1 << 20), "{used:?}");
    ensure!(first.metric("weir_memory_limit_bytes")? > (MEMORY << 20) as f64);
    ensure!(first.terminate()?.success(), "{}", first.log());

    // Reading all of the state anew takes no more.
    std::fs::remove_dir_all(&state)?;
    let mut second = Host::start(&setup(&broker, &state, "exactly-once"))?;
    second.wait_ready()?;
    let peak = second.peak_memory()?;
    eprintln!("a restore: a peak of {} MiB", peak >> 20);
    ensure!(peak <= MEMORY << 20, "{} MiB with state.memory = {MEMORY} MiB", peak >> 20);
    ensure!(second.terminate()?.success(), "{}", second.log());
    Ok(())
}

#[test]
fn too_little_memory_is_refused_before_anything_starts() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let broker = Broker::start(&dir.path().join("broker"))?;
    create_topics(&broker)?;
    let state = dir.path().join("state");
    // Enough with one partition each, too little with eight: nothing is created, and the numbers are told.
    let started = setup(&broker, &state, "exactly-once").set("app.threads", "2").set("state.memory", "132 MiB");
    let mut host = Host::spawn(&started)?;
    let ended = host.wait_end()?;
    ensure!(ended.code() == Some(78), "{ended}: {}", host.log());
    let log = host.log();
    let error = log.lines().find(|line| line.starts_with("error: ")).context("no error")?;
    ensure!(error.contains("state.memory is 132 MiB, but this topology needs "), "{error}");
    ensure!(error.contains("3 queues of 64 KiB for 72 partitions"), "{error}");
    ensure!(
        topics::read(&broker.bootstrap_servers(), "projekt-projekt-store-changelog").is_err(),
        "a topic was created"
    );

    // What cannot be enough for anyone is told without a broker.
    let file = host::root().join("plugins/projekt/weir.toml");
    let file = file.to_str().context("a path")?;
    let check =
        |memory: &str| weir(&["check", file, "--set", "app.threads=8", "--set", &format!("state.memory={memory}")]);
    let refused = check("128 MiB")?;
    ensure!(refused.code == Some(78) && refused.stderr.contains("state.memory is 128 MiB"), "{refused:?}");
    let fine = check("512 MiB")?;
    ensure!(fine.code == Some(0), "{fine:?}");
    ensure!(fine.stdout.contains("memory: 512 MiB in all, as if each topic had one partition"), "{}", fine.stdout);
    Ok(())
}
