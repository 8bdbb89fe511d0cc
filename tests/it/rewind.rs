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
use weir_tests::{Broker, Host, topics};

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
    let instance = host.status()?["instance"].as_str().context("instance")?.to_owned();
    for thread in 0..THREADS {
        take_over(broker, &format!("projekt-{instance}-{thread}"))?;
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
