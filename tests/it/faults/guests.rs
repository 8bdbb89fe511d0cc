//! Plugins that misbehave: the process lives, the task says what happened, the others go on.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use weir_tests::host::{TIMEOUT, plugin};
use weir_tests::topics::{self, NewTopicSpec};
use weir_tests::{Broker, Host, Setup, group, wait};

use super::{ensure_not_ready, evil, setup, task, terminate, wait_failed};

/// What the values of the first partitions tell the plugin to do, and what its task says then. The last one does nothing.
const DEEDS: [(&str, &str); 7] = [
    ("trap", "trap: panic: a trap on purpose, at evil/src/deed.rs"),
    ("abort", "trap: "),
    ("spin", "time-out: "),
    ("bomb", "memory limit: "),
    ("deep", "trap: "),
    ("reject", "on purpose"),
    ("fail", "on purpose"),
];
/// The partition without a deed.
const GOOD: i32 = 7;
/// Records before the deed, and after it.
const AROUND: i64 = 3;

/// A broker with the topology's topics, of which the input and the copy take records of 4 MiB.
fn broker(dir: &Path) -> Result<Broker> {
    let broker = Broker::start(&dir.join("broker"))?;
    let large: &[(&str, &str)] = &[("max.message.bytes", "4194304")];
    let all: [NewTopicSpec<'_>; 3] = [("in", 8, large), ("out", 8, &[]), ("copy", 8, large)];
    topics::create(&broker.bootstrap_servers(), &all)?;
    Ok(broker)
}

/// The counts of each key on the topic `out`, in order.
fn counts(broker: &Broker) -> Result<BTreeMap<String, Vec<i64>>> {
    let mut counts: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for record in topics::read(&broker.bootstrap_servers(), "out")? {
        let key = String::from_utf8(record.key.context("a key")?.to_vec())?;
        let value = String::from_utf8(record.value.context("a value")?.to_vec())?;
        counts.entry(key).or_default().push(value.parse()?);
    }
    Ok(counts)
}

/// Each task with a deed has stopped before it, and says why.
fn ensure_stopped(host: &Host, broker: &Broker) -> Result<()> {
    for (partition, (deed, says)) in (0..).zip(DEEDS) {
        let reason = wait_failed(host, &format!("0_{partition}"))?;
        let place = format!("stopped before in-{partition} offset {AROUND}: plugin evil ");
        ensure!(reason.starts_with(&place) && reason.contains(", function transform_obey: "), "{deed}: {reason}");
        ensure!(reason.contains(says), "{deed}: '{says}' is not in {reason}");
        ensure_not_ready(host, &format!("[-]task-0_{partition} failed: failed: {place}"))?;
    }
    // What came before is committed; the record, and what comes after it, is not.
    wait::until("the commits before the records", TIMEOUT, || {
        for partition in 0..GOOD {
            let committed = group::committed(&broker.bootstrap_servers(), "evil", "in", partition)?;
            ensure!(committed == Some(AROUND), "partition {partition} is committed at {committed:?}");
        }
        Ok(())
    })?;
    Ok(())
}

#[test]
fn a_plugin_that_misbehaves_stops_its_task_until_it_behaves() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let broker = broker(dir.path())?;
    let bootstrap = broker.bootstrap_servers();
    let mut records = Vec::new();
    let keys: Vec<String> = (0..=GOOD).map(|partition| format!("k{partition}")).collect();
    for (partition, key) in (0..).zip(&keys) {
        let deed = DEEDS.get(usize::try_from(partition)?).map_or("echo", |(deed, _)| deed);
        let around = std::iter::repeat_n("echo", usize::try_from(AROUND)?);
        for value in around.clone().chain([deed]).chain(around) {
            records.push((partition, key.as_str(), Some(value), 1));
        }
    }
    topics::produce(&bootstrap, "in", &records)?;
    let state = dir.path().join("state");
    let setup = setup(evil(dir.path())?, &broker, &state);
    let mut host = Host::start(&setup)?;
    ensure_stopped(&host, &broker)?;
    for kind in ["trap", "timeout", "memory"] {
        let metrics = host.get("/metrics")?.1;
        let line = metrics
            .lines()
            .find(|line| line.starts_with("weir_plugin_failures_total") && line.contains(&format!("kind=\"{kind}\"")));
        ensure!(line.is_some_and(|line| !line.ends_with(" 0")), "{kind}: {line:?}");
    }

    // The others go on.
    topics::produce(&bootstrap, "in", &[(GOOD, "k7", Some("again"), 2)])?;
    host.wait_status("the partition without a deed at its end", |status| {
        let task = task(status, &format!("0_{GOOD}"))?;
        ensure!(task["state"] == "running" && task["inputs"][0]["position"] == 2 * AROUND + 2, "{task}");
        Ok(())
    })?;

    // A restart changes nothing: the records are still there, and nothing before them is done again.
    terminate(&mut host)?;
    let host = Host::start(&setup)?;
    ensure_stopped(&host, &broker)?;
    for (key, counts) in counts(&broker)? {
        let end = if key == "k7" { 2 * AROUND + 2 } else { AROUND };
        ensure!(counts.iter().copied().eq(1..=end), "{key}: {counts:?}");
    }

    // A version that behaves takes up the very records.
    let (code, answer) = host.deploy("evil", &fs::read(plugin("evil-tame")?)?)?;
    ensure!(code == 200, "{code} {answer}");
    host.wait_ready()?;
    group::wait_caught_up(&bootstrap, "evil", &["in"], TIMEOUT).with_context(|| host.log())?;
    for (key, counts) in counts(&broker)? {
        let end = if key == "k7" { 2 * AROUND + 2 } else { 2 * AROUND + 1 };
        ensure!(counts.iter().copied().eq(1..=end), "{key}: {counts:?}");
    }

    a_record_larger_than_the_producer_takes(&broker, &setup, host)
}

/// A record that fits its input, but not what our producer takes, stops its task before anything of it is done; with a larger
/// limit it goes on.
fn a_record_larger_than_the_producer_takes(broker: &Broker, setup: &Setup<'_>, mut host: Host) -> Result<()> {
    let bootstrap = broker.bootstrap_servers();
    let large = "x".repeat(1_500_000);
    let position = group::committed(&bootstrap, "evil", "in", 0)?.context("committed")?;
    let producer: BaseProducer = topics::client(&bootstrap).set("message.max.bytes", "2000000").create()?;
    producer.send(BaseRecord::to("in").partition(0).key("k0").payload(&large)).map_err(|(error, _)| error)?;
    producer.flush(TIMEOUT)?;
    topics::produce(&bootstrap, "in", &[(0, "k0", Some("after"), 2)])?;

    let reason = wait_failed(&host, "0_0")?;
    let says = format!(
        "stopped before in-0 offset {position}: the record for topic copy would have 1500002 bytes, the limit is"
    );
    ensure!(reason.starts_with(&says) && reason.ends_with("(kafka.\"message.max.bytes\")"), "{reason}");
    let before = counts(broker)?.remove("k0").context("k0")?.len();
    terminate(&mut host)?;

    let topology = setup.topology.clone();
    let more = super::setup(topology, broker, setup.state).set("kafka.message.max.bytes", "3000000");
    let mut host = Host::start(&more)?;
    host.wait_ready()?;
    group::wait_caught_up(&bootstrap, "evil", &["in"], TIMEOUT).with_context(|| host.log())?;
    let counts = counts(broker)?.remove("k0").context("k0")?;
    ensure!(counts.len() == before + 2, "{counts:?}");
    let copies = topics::read(&bootstrap, "copy")?;
    let copied = copies.iter().filter(|copy| copy.value.as_deref() == Some(large.as_bytes())).count();
    ensure!(copied == 1, "copied {copied} times");
    terminate(&mut host)
}
