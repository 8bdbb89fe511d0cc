//! Commits that fail: a thread goes back to its last commit and loses or repeats nothing.
//!
//! A producer with a thread's transactional id takes its place on the broker, so that the thread's next commit is refused.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use weir::kafka::{ClientSettings, TransactionalProducer};
use weir::model::Record;
use weir_tests::host::TIMEOUT;
use weir_tests::{Broker, Host, group, topics, wait};

use crate::counted::{self, Counted, STREAMS, terminate};
use crate::crash::{IMPATIENT, THREADS, setup};
use crate::grown::{self, Grown};
use crate::projekt::{PARTITIONS, create_topics, wait_caught_up};

/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(30);

/// A producer of transactions that takes over `id`.
fn take_over(broker: &Broker, id: &str) -> Result<TransactionalProducer> {
    let properties = BTreeMap::from([("bootstrap.servers".to_owned(), broker.bootstrap_servers())]);
    let producer = TransactionalProducer::new(&ClientSettings::new("intruder", properties), id)?;
    producer.init(REQUEST)?;
    Ok(producer)
}

/// Refuses the next commit of every stream thread.
pub(crate) fn fence(broker: &Broker, host: &Host) -> Result<()> {
    fence_threads(broker, host, "projekt", THREADS)
}

/// Refuses the next commit of every one of an application's stream threads.
fn fence_threads(broker: &Broker, host: &Host, app: &str, threads: usize) -> Result<()> {
    let instance = host.status()?["instance"].as_str().context("instance")?.to_owned();
    for thread in 0..threads {
        take_over(broker, &format!("{app}-{instance}-{thread}"))?;
    }
    Ok(())
}

/// Copies a folder.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[test]
fn refused_commits_under_exactly_once() -> Result<()> {
    refused_commits("exactly-once")
}

#[test]
fn refused_commits_under_at_least_once() -> Result<()> {
    refused_commits("at-least-once")
}

/// Refused commits while records flow, and as the first commit on a state folder that is older than the group.
fn refused_commits(guarantee: &str) -> Result<()> {
    let input = Grown::new(2)?;
    let parts = input.parts(5);
    let dir = tempfile::tempdir()?;
    let broker = Broker::start_with(&dir.path().join("broker"), IMPATIENT)?;
    create_topics(&broker)?;
    let (state, old) = (dir.path().join("state"), dir.path().join("old"));
    let setup = setup(&broker, &state, guarantee);
    topics::produce_all(&broker.bootstrap_servers(), &input.tables)?;

    // A folder that knows nothing of the second part: as after a crash before the stores were written, or another owner.
    for part in &parts[..2] {
        topics::produce_all(&broker.bootstrap_servers(), part)?;
        let mut host = Host::start(&setup)?;
        wait_caught_up(&broker).with_context(|| host.log())?;
        ensure!(host.terminate()?.success(), "{}", host.log());
        if !old.exists() {
            copy(&state, &old)?;
        }
    }
    fs::remove_dir_all(&state)?;
    fs::rename(&old, &state)?;

    // An open transaction on a table keeps the tasks from running until their producers are fenced.
    let holder = take_over(&broker, "holder")?;
    holder.begin()?;
    for partition in 0..PARTITIONS {
        let record = Record { key: Some("held".into()), value: Some("{}".into()), timestamp: 1, ..Record::default() };
        holder.send("mietobjekte", Some(partition), &record, None)?;
    }
    holder.flush(REQUEST)?;
    let mut host = Host::start(&setup)?;
    host.wait_status("tasks that wait for the transaction", |status| {
        let tasks = status["tasks"].as_array().context("tasks")?;
        ensure!(tasks.len() == 8, "{} tasks", tasks.len());
        for task in tasks {
            let waits = task["restore"].to_string();
            ensure!(waits.contains("waits for an open transaction"), "{task}");
        }
        let begun = host.log().matches("transactions can begin").count();
        ensure!(begun >= 3 * THREADS, "{begun} producers in three runs of {THREADS} threads");
        Ok(())
    })?;
    fence(&broker, &host)?;
    topics::produce_all(&broker.bootstrap_servers(), parts[2])?;
    holder.abort(REQUEST)?;
    host.wait_ready()?;
    wait_caught_up(&broker).with_context(|| host.log())?;
    ensure!(host.log().contains("fenced by a newer instance"), "no commit was refused: {}", host.log());

    // While records flow; and between two parts, when all queues are at their ends.
    let progress = grown::progress(&broker)?;
    let mut fed: usize = parts[..3].iter().map(|part| part.len()).sum();
    for part in &parts[3..] {
        fence(&broker, &host)?;
        let (first, second) = part.split_at(part.len() / 2);
        topics::produce_all(&broker.bootstrap_servers(), first)?;
        progress.wait(fed + first.len() / 3, REQUEST).with_context(|| host.log())?;
        fence(&broker, &host)?;
        topics::produce_all(&broker.bootstrap_servers(), second)?;
        fed += part.len();
        wait_caught_up(&broker).with_context(|| host.log())?;
    }
    input.assert_last(&broker).with_context(|| host.log())?;
    if guarantee == "exactly-once" {
        grown::assert_chain(&broker).with_context(|| host.log())?;
    }
    let ended = host.terminate()?;
    ensure!(ended.success(), "SIGTERM ended it with {ended}: {}", host.log());
    Ok(())
}

/// A stream whose offset is gone from its log is not fetched any more, and cannot be set back either.
#[test]
fn a_stream_that_cannot_be_read_holds_no_other_task_back() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut counted = Counted::start(dir.path(), "")?;
    let state = dir.path().join("state");
    let setup = counted.setup(&state)?.set("app.threads", "1");
    counted.feed("in", 3)?;
    let mut host = Host::start(&setup)?;
    counted.wait_caught_up(&host)?;
    terminate(&mut host)?;
    // Meanwhile records come and go again.
    counted.feed("in", 2)?;
    topics::delete_records(&counted.bootstrap(), "in", 1, -1)?;

    let mut host = Host::start(&setup)?;
    host.wait_status("the task that cannot go on", |status| {
        let tasks = status["tasks"].as_array().context("tasks")?;
        let task = tasks.iter().find(|task| task["task"] == "0_1").context("0_1")?;
        let reason = task["reason"].as_str().unwrap_or_default();
        ensure!(task["state"] == "failed" && reason.contains("in-1"), "{task}");
        ensure!(tasks.iter().filter(|task| task["state"] == "running").count() == 3, "{status}");
        Ok(())
    })?;
    fence_threads(&counted.broker, &host, counted::APP, 1)?;
    counted.feed("more", 1)?;
    wait::until("the records of the other tasks", TIMEOUT, || {
        for partition in [0, 2, 3] {
            for topic in STREAMS {
                let committed = group::committed(&counted.bootstrap(), counted::APP, topic, partition)?;
                let end = topics::end(&counted.bootstrap(), topic, partition)?;
                ensure!(committed == Some(end), "{topic}-{partition}: {committed:?} of {end}");
            }
        }
        Ok(())
    })
    .with_context(|| host.log())?;
    ensure!(host.log().contains("did not go through"), "nothing was refused: {}", host.log());
    let status = host.status()?;
    let tasks = status["tasks"].as_array().context("tasks")?;
    ensure!(tasks.iter().any(|task| task["task"] == "0_1" && task["state"] == "failed"), "{status}");
    terminate(&mut host)
}

/// With `on_timeout = "proceed"` a task goes on without its tables; each task has its own time, and has it again when it begins again.
#[test]
fn a_task_s_time_for_its_tables_is_its_own() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut counted = Counted::start(dir.path(), "")?;
    let state = dir.path().join("state");
    let setup = counted.setup(&state)?.set("barrier.scope", "task");
    let setup = setup.set("barrier.timeout", "2 s").set("barrier.on_timeout", "proceed");
    // A row that is never committed: the table of one task is never full.
    let writer = take_over(&counted.broker, "writer")?;
    writer.begin()?;
    let row = Record { key: Some("k1-0".into()), value: Some("row".into()), timestamp: 1, ..Record::default() };
    writer.send(counted::TABLE, Some(1), &row, None)?;
    writer.flush(REQUEST)?;

    counted.feed("in", 1)?;
    let mut host = Host::start(&setup)?;
    counted.wait_caught_up(&host)?;
    // The others have theirs, unless the machine is slow.
    let given_up = |host: &Host| {
        host.log().lines().filter(|line| line.contains("not full in time") && line.contains("0_1")).count()
    };
    ensure!(given_up(&host) == 1, "{}", host.log());
    fence_threads(&counted.broker, &host, counted::APP, 2)?;
    counted.feed("more", 1)?;
    counted.wait_caught_up(&host)?;
    ensure!(given_up(&host) == 2, "{}", host.log());
    terminate(&mut host)
}
