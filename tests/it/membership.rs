//! The instance as a member of its group: back at once after a crash, gone or staying after a clean stop as asked, and never two
//! under one id. Sessions are long here: who waited for the end of one would be seen to.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rdkafka::consumer::{BaseConsumer, Consumer};
use serde_json::Value;
use weir_tests::host::TIMEOUT;
use weir_tests::{Host, topics, wait};

use crate::counted::{self, Counted, PARTITIONS, ensure_ended, processed, terminate, wait_tasks};

/// The session time-out of the tests.
const SESSION: Duration = Duration::from_secs(60);
/// Clearly less than that, and enough on a machine that is busy.
const AT_ONCE: Duration = Duration::from_secs(25);
/// The session time-out of the one test that waits for the end of a session.
const SHORT_SESSION: &str = "35000";

/// A run with long sessions.
fn setup<'a>(counted: &Counted, state: &'a Path) -> Result<weir_tests::Setup<'a>> {
    Ok(counted.setup(state)?.set("kafka.session.timeout.ms", &SESSION.as_millis().to_string()))
}

/// `weir.json` of a state folder.
fn identity(state: &Path) -> Result<Value> {
    Ok(serde_json::from_slice(&fs::read(state.join("weir.json"))?)?)
}

/// Offsets of the output that are hidden by open transactions.
fn hidden(counted: &Counted) -> Result<i64> {
    let end = |isolation: &str, partition| -> Result<i64> {
        let consumer: BaseConsumer = topics::client(&counted.bootstrap()).set("isolation.level", isolation).create()?;
        Ok(consumer.fetch_watermarks("out", partition, Duration::from_secs(10))?.1)
    };
    (0..PARTITIONS).map(|of| Ok(end("read_uncommitted", of)? - end("read_committed", of)?)).sum()
}

/// Waits until every task has processed something that is in an open transaction.
fn wait_open(counted: &Counted, host: &Host) -> Result<()> {
    host.wait_status("records of all tasks", |status| {
        let tasks = status["tasks"].as_array().context("tasks")?;
        ensure!(tasks.len() == PARTITIONS as usize, "{} tasks", tasks.len());
        ensure!(tasks.iter().all(|task| task["processed"].as_u64() > Some(0)), "{status}");
        Ok(())
    })?;
    wait::until("open transactions", TIMEOUT, || {
        ensure!(hidden(counted)? > 0, "nothing is hidden");
        Ok(())
    })
}

#[test]
fn a_killed_process_is_back_at_once() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut counted = Counted::start(dir.path(), "")?;
    let state = dir.path().join("state");
    let mut host = Host::start(&setup(&counted, &state)?.set("app.commit_interval", "5 s"))?;
    counted.feed("in", 20)?;
    counted.wait_caught_up(&host)?;
    counted.feed("more", 20)?;
    wait_open(&counted, &host)?;
    host.kill()?;

    let start = Instant::now();
    let mut host = Host::start(&setup(&counted, &state)?)?;
    wait::until("the first record", SESSION, || {
        ensure!(processed(&host)? > 0, "nothing yet");
        Ok(())
    })
    .with_context(|| host.log())?;
    let took = start.elapsed();
    eprintln!("the first record after {took:?}");
    ensure!(took < AT_ONCE, "the first record after {took:?}:\n{}", host.log());
    counted.wait_caught_up(&host)?;
    counted.assert_counts()?;
    terminate(&mut host)
}

#[test]
fn fewer_threads_leave_no_transaction_of_the_others_open() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut counted = Counted::start(dir.path(), "")?;
    let state = dir.path().join("state");
    let many = setup(&counted, &state)?.set("app.threads", "4").set("app.commit_interval", "30 s");
    let mut host = Host::start(&many)?;
    wait_tasks(&host, PARTITIONS as usize)?;
    counted.feed("in", 20)?;
    wait_open(&counted, &host)?;
    host.kill()?;
    let ids = |identity: &Value| identity["transactional_ids"].as_array().map_or(0, Vec::len);
    ensure!(ids(&identity(&state)?) == 4, "{}", identity(&state)?);

    let start = Instant::now();
    let mut host = Host::start(&setup(&counted, &state)?.set("app.threads", "1"))?;
    counted.wait_caught_up(&host)?;
    wait::until("the end of all transactions", AT_ONCE, || {
        let hidden = hidden(&counted)?;
        ensure!(hidden == 0, "{hidden} offsets are hidden");
        Ok(())
    })
    .with_context(|| host.log())?;
    ensure!(start.elapsed() < SESSION, "after {:?}", start.elapsed());
    // They are not looked for again.
    ensure!(ids(&identity(&state)?) == 1, "{}", identity(&state)?);
    counted.assert_counts()?;
    terminate(&mut host)
}

#[test]
fn a_clean_stop_leaves_or_stays_as_asked() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut counted = Counted::start(dir.path(), "")?;
    let states = ["a", "b"].map(|name| dir.path().join(name));
    let start = |state: usize, on_stop: &str| {
        let setup = setup(&counted, &states[state])?.set("kafka.session.timeout.ms", SHORT_SESSION);
        Host::start(&setup.set("app.on_stop", on_stop))
    };
    let (all, half) = (PARTITIONS as usize, PARTITIONS as usize / 2);
    let b = start(1, "leave")?;
    wait_tasks(&b, all)?;

    // It leaves: the other one has everything at once.
    let mut a = start(0, "leave")?;
    wait_tasks(&a, half)?;
    let stopped = Instant::now();
    terminate(&mut a)?;
    wait_tasks(&b, all)?;
    eprintln!("leave: the other instance has all tasks after {:?}", stopped.elapsed());
    ensure!(stopped.elapsed() < AT_ONCE, "after {:?}:\n{}", stopped.elapsed(), b.log());

    // It stays: nobody else gets its tasks, and it has them again at once, without a rebalance of the other.
    let mut a = start(0, "stay")?;
    wait_tasks(&a, half)?;
    wait_tasks(&b, half)?;
    let rebalances = b.metric("weir_rebalances_total")?;
    terminate(&mut a)?;
    let a_log = a.log();
    let restarted = Instant::now();
    let mut a = start(0, "stay")?;
    wait_tasks(&a, half)?;
    eprintln!("stay: the same instance has its tasks again after {:?}", restarted.elapsed());
    ensure!(restarted.elapsed() < AT_ONCE, "after {:?}:\n{}", restarted.elapsed(), a.log());
    ensure!(b.metric("weir_rebalances_total")? == rebalances, "the other one was disturbed:\n{a_log}\n{}", b.log());

    // It stays, and does not come back: the others wait for the end of its session.
    terminate(&mut a)?;
    let stopped = Instant::now();
    counted.feed("in", 3)?;
    wait_tasks(&b, all)?;
    eprintln!("stay, without a return: the other instance has all tasks after {:?}", stopped.elapsed());
    ensure!(stopped.elapsed() > AT_ONCE, "it has not stayed: {:?}", stopped.elapsed());
    counted.wait_caught_up(&b)?;
    counted.assert_counts()
}

#[test]
fn a_copied_folder_is_another_instance_and_a_clone_is_put_out() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut counted = Counted::start(dir.path(), "")?;
    let [original, copied] = ["original", "copied"].map(|name| dir.path().join(name));
    let mut first = Host::start(&setup(&counted, &original)?)?;
    counted.feed("in", 5)?;
    counted.wait_caught_up(&first)?;
    terminate(&mut first)?;
    copy(&original, &copied)?;

    // A copy: both run.
    let mut first = Host::start(&setup(&counted, &original)?)?;
    wait_tasks(&first, PARTITIONS as usize)?;
    let mut second = Host::start(&setup(&counted, &copied)?)?;
    for host in [&first, &second] {
        wait_tasks(host, PARTITIONS as usize / 2)?;
    }
    ensure!(second.log().contains("the state folder is a copy"), "{}", second.log());
    counted.feed("more", 5)?;
    counted.wait_caught_up(&first)?;
    counted.assert_counts()?;
    terminate(&mut second)?;
    wait_tasks(&first, PARTITIONS as usize)?;

    // A clone of the disk, which nothing tells from the original: the file says what it said there.
    let mut clone = identity(&copied)?;
    clone["instance"] = identity(&original)?["instance"].clone();
    fs::write(copied.join("weir.json"), clone.to_string())?;
    let mut second = Host::start(&setup(&counted, &copied)?)?;
    ensure_ended(
        &mut first,
        78,
        &["error: another process has joined the group under this instance's id", "delete weir.json in it"],
    )?;
    wait_tasks(&second, PARTITIONS as usize)?;
    counted.feed("more", 5)?;
    counted.wait_caught_up(&second)?;
    counted.assert_counts()?;
    terminate(&mut second)
}

/// A static member that comes back is given what it had, whatever it subscribes to now.
#[test]
fn a_topology_with_other_inputs_gets_them_at_once() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut counted = Counted::start(dir.path(), "")?;
    let state = dir.path().join("state");
    let less = counted
        .topology("less", &[("[streams.more]", ""), ("  { from = \"more\", function = \"evil.fold_echo\" },\n", "")])?;
    let mut smaller = setup(&counted, &state)?;
    smaller.topology = less;
    let mut host = Host::start(&smaller)?;
    counted.feed("in", 5)?;
    weir_tests::group::wait_caught_up(&counted.bootstrap(), counted::APP, &["in"], TIMEOUT)
        .with_context(|| host.log())?;
    host.kill()?;
    counted.feed("more", 5)?;
    let start = Instant::now();
    let mut host = Host::start(&setup(&counted, &state)?)?;
    counted.wait_caught_up(&host)?;
    ensure!(start.elapsed() < SESSION, "after {:?}:\n{}", start.elapsed(), host.log());
    counted.assert_counts()?;
    terminate(&mut host)
}

/// Instances of different topologies in one group: a task that lacks an input does not run, and says why.
#[test]
fn a_task_whose_partitions_do_not_come_together_says_so() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let counted = Counted::start(dir.path(), "")?;
    let states: BTreeMap<&str, _> = ["whole", "less"].map(|name| (name, dir.path().join(name))).into();
    let whole = Host::start(&setup(&counted, &states["whole"])?)?;
    wait_tasks(&whole, PARTITIONS as usize)?;
    let mut smaller = setup(&counted, &states["less"])?;
    smaller.topology = counted
        .topology("less", &[("[streams.more]", ""), ("  { from = \"more\", function = \"evil.fold_echo\" },\n", "")])?;
    let mut less = Host::start(&smaller)?;
    whole.wait_status("tasks that lack an input", |status| {
        let tasks = status["tasks"].as_array().context("tasks")?;
        let (failed, running): (Vec<&Value>, Vec<&Value>) = tasks.iter().partition(|task| task["state"] == "failed");
        ensure!(failed.len() == 2 && running.len() == 2, "{status}");
        for task in failed {
            let reason = task["reason"].as_str().unwrap_or_default();
            ensure!(reason.contains("the group has not given ") && reason.contains(" in-"), "{reason}");
            ensure!(reason.contains("do all instances run the same topology?"), "{reason}");
        }
        Ok(())
    })?;
    // The other one is made the same, and all is well.
    terminate(&mut less)?;
    wait_tasks(&whole, PARTITIONS as usize)?;
    let same = Host::start(&setup(&counted, &states["less"])?)?;
    for host in [&whole, &same] {
        wait_tasks(host, PARTITIONS as usize / 2)?;
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
