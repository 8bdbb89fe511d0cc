//! Crashes: of the host at any moment, with its state folder and without, and of the broker.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use weir_tests::host::TIMEOUT;
use weir_tests::{Broker, Host, Setup, group, topics, wait};

use crate::grown::{self, Grown};
use crate::projekt::{create_topics, wait_caught_up};

/// Kills, each after a part of the input; one more part follows.
const KILLS: usize = 5;
/// The kill after which the state folder is lost.
const FOLDER_LOST: usize = 2;
/// Stream threads.
pub(crate) const THREADS: usize = 3;
/// A broker that lets sessions end soon, and ends transactions of the dead soon.
pub(crate) const IMPATIENT: &str =
    "group.min.session.timeout.ms=1000\ntransaction.abort.timed.out.transaction.cleanup.interval.ms=500";

/// The project aggregate with every update on the output, on a broker that is `IMPATIENT`.
pub(crate) fn setup<'a>(broker: &Broker, state: &'a Path, guarantee: &str) -> Setup<'a> {
    Setup::new("projekt", broker.bootstrap_servers(), state)
        .set("app.guarantee", guarantee)
        .set("app.threads", &THREADS.to_string())
        .set("aggregates.projekt-store.emit", "each")
        .set("kafka.session.timeout.ms", "3000")
        .set("kafka.heartbeat.interval.ms", "300")
        .set("kafka.transaction.timeout.ms", "10000")
}

/// Restores of all tasks, once each task says where its own began and that they are done.
pub(crate) fn restores(status: &Value) -> Option<Vec<Value>> {
    let tasks = status["tasks"].as_array()?;
    let mut all = Vec::new();
    for task in tasks {
        let of = task["restore"].as_array().filter(|of| of.len() == 3)?;
        all.extend(of.iter().cloned());
    }
    let done = !all.is_empty() && all.iter().all(|restore| restore["done"] == true);
    done.then_some(all)
}

/// Restores of all tasks of a host that is ready.
fn all_restores(host: &Host) -> Result<Vec<Value>> {
    let status = host.status()?;
    restores(&status).with_context(|| format!("not restored: {status}"))
}

/// A log that had records when the restore began must not have been read from its beginning.
fn assert_resumed(restores: &[Value], changelogs: bool) -> Result<()> {
    for restore in restores {
        let is_changelog = restore["topic"].as_str().is_some_and(|topic| topic.ends_with("-changelog"));
        let (start, end) = (restore["start"].as_i64(), restore["end"].as_i64());
        ensure!(is_changelog && !changelogs || end == Some(0) || start > Some(0), "read from the beginning: {restore}");
    }
    Ok(())
}

#[test]
fn killed_five_times_under_exactly_once() -> Result<()> {
    killed_five_times("exactly-once")
}

#[test]
fn killed_five_times_under_at_least_once() -> Result<()> {
    killed_five_times("at-least-once")
}

/// The input comes in parts, always while the host is down, so that the order across topics is that of Kafka Streams.
fn killed_five_times(guarantee: &str) -> Result<()> {
    let input = Grown::new(3)?;
    let parts = input.parts(KILLS + 1);
    let dir = tempfile::tempdir()?;
    let broker = Broker::start_with(&dir.path().join("broker"), IMPATIENT)?;
    create_topics(&broker)?;
    topics::produce_all(&broker.bootstrap_servers(), &input.tables)?;
    let progress = grown::progress(&broker)?;
    let state = dir.path().join("state");
    let setup = setup(&broker, &state, guarantee);

    let (mut before, mut fed, mut middles) = (0, 0, 0);
    for (kill, part) in parts.iter().enumerate().take(KILLS) {
        topics::produce_all(&broker.bootstrap_servers(), part)?;
        fed += part.len();
        let mut host = Host::start(&setup)?;
        let goal = i64::try_from(before + (fed - before) * (kill + 1) / (KILLS + 1))?;
        let mut restored = None;
        let committed = wait::until("progress", TIMEOUT, || {
            restored = restored.take().or_else(|| restores(&host.status().ok()?));
            let committed = progress.committed()?;
            ensure!(committed >= goal, "{committed} of {goal} offsets");
            Ok(committed)
        });
        let committed = committed.with_context(|| host.log())?;
        host.kill()?;
        middles += usize::from(committed < i64::try_from(fed)?);
        // What the first commits of all tasks left may not have reached the stores before the first kills.
        if let Some(restored) = restored.filter(|_| kill > 0 && kill != FOLDER_LOST + 1) {
            assert_resumed(&restored, kill > 2).with_context(|| format!("after kill {kill}"))?;
        }
        if kill == FOLDER_LOST {
            std::fs::remove_dir_all(&state)?;
        }
        before = fed;
    }
    eprintln!("{guarantee}: {middles} of {KILLS} kills in the middle of a part");

    topics::produce_all(&broker.bootstrap_servers(), parts[KILLS])?;
    let mut host = Host::start(&setup)?;
    host.wait_ready()?;
    assert_resumed(&all_restores(&host)?, true)?;
    wait_caught_up(&broker).with_context(|| host.log())?;
    input.assert_last(&broker).with_context(|| host.log())?;
    if guarantee == "exactly-once" {
        input.assert_all(&broker).with_context(|| host.log())?;
    }
    let ended = host.terminate()?;
    ensure!(ended.success(), "SIGTERM ended it with {ended}: {}", host.log());

    // A clean end leaves nothing to restore.
    let mut host = Host::start(&setup)?;
    host.wait_ready()?;
    let restores = all_restores(&host)?;
    assert_resumed(&restores, true)?;
    for restore in &restores {
        ensure!(restore["records"] == 0, "restored twice: {restore}");
    }
    ensure!(host.terminate()?.success(), "{}", host.log());
    if guarantee == "exactly-once" {
        input.assert_all(&broker)?;
    }
    input.assert_last(&broker)
}

/// Waits until the host has processed more than it has committed.
pub(crate) fn wait_under_way(host: &Host, progress: &group::Progress, timeout: Duration) -> Result<()> {
    wait::until("records that are processed and not committed", timeout, || {
        let status = host.status()?;
        let tasks = status["tasks"].as_array().context("tasks")?;
        let inputs = tasks.iter().filter_map(|task| task["inputs"].as_array()).flatten();
        let processed: i64 = inputs.filter_map(|input| input["position"].as_i64()).sum();
        let committed = progress.committed()?;
        ensure!(processed > committed, "{processed} processed, {committed} committed");
        Ok(())
    })
}

#[test]
fn the_broker_hangs_and_dies_while_records_flow() -> Result<()> {
    let input = Grown::new(2)?;
    let parts = input.parts(4);
    let dir = tempfile::tempdir()?;
    let mut broker = Broker::start_with(&dir.path().join("broker"), IMPATIENT)?;
    create_topics(&broker)?;
    topics::produce_all(&broker.bootstrap_servers(), &input.tables)?;
    let state = dir.path().join("state");
    let mut fed = 0;

    // It hangs until the host's session is over.
    let mut host = Host::start(&setup(&broker, &state, "exactly-once"))?;
    host.wait_ready()?;
    for part in &parts[..2] {
        topics::produce_all(&broker.bootstrap_servers(), part)?;
        grown::progress(&broker)?.wait(fed + part.len() / 4, TIMEOUT).with_context(|| host.log())?;
        fed += part.len();
        broker.signal("STOP")?;
        host.wait_status("the loss of the session", |status| {
            ensure!(status["state"] == "rebalancing", "{}", status["state"]);
            Ok(())
        })?;
        broker.signal("CONT")?;
    }
    wait_caught_up(&broker).with_context(|| host.log())?;
    ensure!(host.terminate()?.success(), "{}", host.log());

    // It dies in the middle of a transaction, though not of a commit: a Kafka broker that is alone in its cluster can lose the
    // markers of a commit that it was about to write (seen in 4.4.0: it takes partitions for deleted that have no leader yet).
    let setup = setup(&broker, &state, "exactly-once").set("app.threads", "1").set("app.commit_interval", "5 s");
    let mut host = Host::start(&setup)?;
    host.wait_ready()?;
    for pair in parts[2..].chunks(2) {
        topics::produce_all(&broker.bootstrap_servers(), pair[0])?;
        fed += pair[0].len();
        let progress = grown::progress(&broker)?;
        progress.wait(fed, TIMEOUT).with_context(|| host.log())?;
        topics::produce_all(&broker.bootstrap_servers(), pair[1])?;
        fed += pair[1].len();
        wait_under_way(&host, &progress, TIMEOUT).with_context(|| host.log())?;
        broker.kill()?;
        broker.restart()?;
    }
    wait_caught_up(&broker).with_context(|| host.log())?;
    input.assert_last(&broker).with_context(|| host.log())?;
    grown::assert_chain(&broker).with_context(|| host.log())?;
    let ended = host.terminate()?;
    ensure!(ended.success(), "SIGTERM ended it with {ended}: {}", host.log());
    Ok(())
}
