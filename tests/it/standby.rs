//! Standbys: a failover goes on from local state, wherever the group puts a task.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use weir_tests::host::TIMEOUT;
use weir_tests::{Broker, Host, Setup, topics, wait};

use crate::crash::{IMPATIENT, setup};
use crate::grown::{self, Grown};
use crate::projekt::{PARTITIONS, create_topics, wait_caught_up};

/// The topic by which instances agree on standbys.
const CONTROL: &str = "projekt-control";

/// The project aggregate with a standby of each task.
fn with_standbys<'a>(broker: &Broker, state: &'a Path) -> Setup<'a> {
    setup(broker, state, "exactly-once").set("app.threads", "2").set("state.standby", "1")
}

/// Names of the tasks in a list of a status.
fn names(status: &Value, list: &str) -> Result<BTreeSet<String>> {
    let all = status[list].as_array().with_context(|| format!("{list} of {status}"))?;
    all.iter().map(|task| Ok(task["task"].as_str().context("a name")?.to_owned())).collect()
}

/// Waits until the instances run all tasks, each with a standby on exactly one other instance that has applied all that there is
/// to apply. Returns owner and standby of each task, by index of the instance.
fn wait_followed(broker: &Broker, hosts: &[&Host]) -> Result<BTreeMap<String, (usize, usize)>> {
    wait::until("a standby of each task", TIMEOUT, || {
        let (mut owners, mut standbys) = (BTreeMap::new(), BTreeMap::new());
        for (index, host) in hosts.iter().enumerate() {
            let status = host.status()?;
            ensure!(status["standby_problems"] == Value::Array(Vec::new()), "{}", status["standby_problems"]);
            for task in status["tasks"].as_array().context("tasks")? {
                ensure!(task["state"] == "running", "{task}");
            }
            owners.extend(names(&status, "tasks")?.into_iter().map(|task| (task, index)));
            for standby in status["standbys"].as_array().context("standbys")? {
                let partitions = standby["partitions"].as_array().context("partitions")?;
                ensure!(standby["reason"] == "" && partitions.len() == 3, "{standby}");
                let task = standby["task"].as_str().context("a name")?;
                let (_, number) = task.rsplit_once('_').context("a partition")?;
                for part in partitions {
                    let topic = part["topic"].as_str().context("a topic")?;
                    let end = topics::end(&broker.bootstrap_servers(), topic, number.parse()?)?;
                    ensure!(part["position"] == end, "{task}: {part}, but {topic} ends at {end}");
                }
                let other = standbys.insert(task.to_owned(), index);
                ensure!(other.is_none(), "{task}: standbys on {other:?} and {index}");
            }
        }
        ensure!(owners.len() == usize::try_from(PARTITIONS)?, "{owners:?}");
        let pairs = owners.into_iter().map(|(task, owner)| {
            let standby = standbys.remove(&task).with_context(|| format!("no standby of {task}"))?;
            ensure!(standby != owner, "{task} stands by where it runs");
            Ok((task, (owner, standby)))
        });
        let pairs = pairs.collect::<Result<_>>()?;
        ensure!(standbys.is_empty(), "standbys of nothing: {standbys:?}");
        Ok(pairs)
    })
}

/// Records that the restores of these tasks read, and the offsets that there were; each must have begun where its standby was.
fn restored(status: &Value, tasks: &BTreeSet<String>) -> Result<(i64, i64)> {
    let (mut records, mut offsets) = (0, 0);
    for task in status["tasks"].as_array().context("tasks")? {
        if !tasks.contains(task["task"].as_str().context("a name")?) {
            continue;
        }
        for restore in task["restore"].as_array().context("restore")? {
            let end = restore["end"].as_i64().context("end")?;
            ensure!(end == 0 || restore["start"].as_i64() > Some(0), "read from the beginning: {restore}");
            records += restore["records"].as_i64().context("records")?;
            offsets += end;
        }
    }
    Ok((records, offsets))
}

/// Waits until the instance runs all tasks.
fn wait_all(host: &Host) -> Result<Value> {
    host.wait_status("all tasks", |status| {
        let tasks = status["tasks"].as_array().context("tasks")?;
        ensure!(tasks.len() == usize::try_from(PARTITIONS)?, "{} tasks", tasks.len());
        ensure!(tasks.iter().all(|task| task["state"] == "running"), "{}", status["tasks"]);
        Ok(())
    })
}

#[test]
fn a_failover_goes_on_where_the_standby_is() -> Result<()> {
    let input = Grown::new(3)?;
    let parts = input.parts(4);
    let dir = tempfile::tempdir()?;
    let broker = Broker::start_with(&dir.path().join("broker"), IMPATIENT)?;
    create_topics(&broker)?;
    topics::produce_all(&broker.bootstrap_servers(), &input.tables)?;
    let states = ["a", "b"].map(|name| dir.path().join(name));
    let start = |state: usize| Host::start(&with_standbys(&broker, &states[state]));

    let mut a = start(0)?;
    let mut b = start(1)?;
    topics::produce_all(&broker.bootstrap_servers(), parts[0])?;
    wait_caught_up(&broker).with_context(|| a.log())?;
    wait_followed(&broker, &[&a, &b]).with_context(|| format!("{}\n{}", a.log(), b.log()))?;
    let (_, metrics) = b.get("/metrics")?;
    ensure!(metrics.contains("weir_standby_tasks 4\n"), "{metrics}");

    // Nothing has come since the standby was told to be at the end: nothing is read.
    let moving = names(&a.status()?, "tasks")?;
    a.kill()?;
    let status = wait_all(&b)?;
    let (records, offsets) = restored(&status, &moving)?;
    ensure!(records == 0 && offsets > 0, "{records} records of {offsets} offsets: {status}");
    ensure!(names(&status, "standbys")?.is_empty(), "{status}");
    topics::produce_all(&broker.bootstrap_servers(), parts[1])?;
    wait_caught_up(&broker).with_context(|| b.log())?;

    // Killed while records flow, with a state that is older than the changelogs at the start: it reads what is new.
    let mut a = start(0)?;
    wait_followed(&broker, &[&a, &b]).with_context(|| format!("{}\n{}", a.log(), b.log()))?;
    let moving = names(&b.status()?, "tasks")?;
    let progress = grown::progress(&broker)?;
    let before = usize::try_from(progress.committed()?)?;
    topics::produce_all(&broker.bootstrap_servers(), parts[2])?;
    progress.wait(before + parts[2].len() / 3, TIMEOUT).with_context(|| b.log())?;
    b.kill()?;
    let status = wait_all(&a)?;
    let (records, offsets) = restored(&status, &moving)?;
    eprintln!("killed while records flow: {records} records read of {offsets} offsets");
    ensure!(records * 4 < offsets, "{records} records of {offsets} offsets: {status}");
    topics::produce_all(&broker.bootstrap_servers(), parts[3])?;
    wait_caught_up(&broker).with_context(|| a.log())?;
    input.assert_last(&broker).with_context(|| a.log())?;
    grown::assert_chain(&broker).with_context(|| a.log())?;
    ensure!(a.terminate()?.success(), "{}", a.log());
    for log in [a.log(), b.log()] {
        ensure!(!log.contains("were not closed in time") && !log.contains("still open elsewhere"), "{log}");
    }
    Ok(())
}

#[test]
fn standbys_follow_the_group() -> Result<()> {
    let input = Grown::new(2)?;
    let parts = input.parts(2);
    let dir = tempfile::tempdir()?;
    let broker = Broker::start_with(&dir.path().join("broker"), IMPATIENT)?;
    create_topics(&broker)?;
    topics::produce_all(&broker.bootstrap_servers(), &input.tables)?;
    topics::produce_all(&broker.bootstrap_servers(), parts[0])?;
    let states = ["a", "b", "c"].map(|name| dir.path().join(name));
    let start = |state: usize| Host::start(&with_standbys(&broker, &states[state]));

    let mut hosts = [start(0)?, start(1)?, start(2)?];
    wait_caught_up(&broker).with_context(|| hosts[0].log())?;
    let logs = || states.iter().map(|state| std::fs::read_to_string(state.with_extension("log")).unwrap_or_default());
    let told = || logs().collect::<Vec<_>>().join("\n----\n");
    let placed = wait_followed(&broker, &hosts.each_ref()).with_context(told)?;
    let instances: BTreeSet<String> = topics::read_last(&broker.bootstrap_servers(), CONTROL)?
        .into_keys()
        .map(|key| String::from_utf8_lossy(&key).into_owned())
        .collect();
    let ids = hosts.iter().map(|host| Ok(host.status()?["instance"].as_str().context("instance")?.to_owned()));
    ensure!(ids.collect::<Result<BTreeSet<_>>>()? == instances, "reports of {instances:?}");

    // Whoever is lost, and whatever moves because of that: it goes where its standby is.
    hosts[2].kill()?;
    let left = wait_followed(&broker, &[&hosts[0], &hosts[1]]).with_context(told)?;
    for (index, host) in hosts.iter().enumerate().take(2) {
        let moved = left.iter().filter(|(task, (owner, _))| *owner == index && placed[*task].0 != index);
        let moved: BTreeSet<String> = moved.map(|(task, _)| task.clone()).collect();
        for task in &moved {
            ensure!(placed[task].1 == index, "{task} went from {:?} to {index}", placed[task]);
        }
        let (records, _) = restored(&host.status()?, &moved)?;
        ensure!(records == 0, "{records} records read by {index}: {moved:?}");
    }
    // The state of what moved on is still there.
    for (task, (owner, standby)) in &placed {
        for index in [owner, standby] {
            ensure!(states[*index].join(task).join("CURRENT").exists(), "{task} of {index}");
        }
    }

    // Who leaves says so; who is alone stands by for nobody.
    ensure!(hosts[1].terminate()?.success(), "{}", hosts[1].log());
    topics::produce_all(&broker.bootstrap_servers(), parts[1])?;
    let status = wait_all(&hosts[0])?;
    ensure!(names(&status, "standbys")?.is_empty(), "{status}");
    let gone = std::fs::read_to_string(states[1].join("weir.json"))?;
    let gone: Value = serde_json::from_str(&gone)?;
    let reports = topics::read_last(&broker.bootstrap_servers(), CONTROL)?;
    let gone = gone["instance"].as_str().context("instance")?;
    ensure!(!reports.contains_key(gone.as_bytes()), "{gone} has left, but is among {:?}", reports.keys());
    wait_caught_up(&broker).with_context(told)?;
    input.assert_last(&broker).with_context(told)?;
    grown::assert_chain(&broker).with_context(told)?;
    ensure!(hosts[0].terminate()?.success(), "{}", hosts[0].log());
    Ok(())
}

/// A state that ran here once and was brought forward as a standby: the offsets that it had then replace nothing.
#[test]
fn a_standby_s_old_offsets_are_not_resumed_from() -> Result<()> {
    let input = Grown::new(2)?;
    let parts = input.parts(2);
    let dir = tempfile::tempdir()?;
    let broker = Broker::start_with(&dir.path().join("broker"), IMPATIENT)?;
    create_topics(&broker)?;
    topics::produce_all(&broker.bootstrap_servers(), &input.tables)?;
    topics::produce_all(&broker.bootstrap_servers(), parts[0])?;
    let states = ["a", "b"].map(|name| dir.path().join(name));
    let start = |state: usize| Host::start(&with_standbys(&broker, &states[state]));

    let mut a = start(0)?;
    wait_caught_up(&broker).with_context(|| a.log())?;
    let mut b = start(1)?;
    wait_followed(&broker, &[&a, &b]).with_context(|| format!("{}\n{}", a.log(), b.log()))?;
    topics::produce_all(&broker.bootstrap_servers(), parts[1])?;
    wait_caught_up(&broker).with_context(|| b.log())?;
    wait_followed(&broker, &[&a, &b]).with_context(|| format!("{}\n{}", a.log(), b.log()))?;
    let status = a.status()?;
    let (own, others) = (names(&status, "tasks")?, names(&status, "standbys")?);
    // In this order, so that the tasks of the other never come here. It finds nothing to do in those that it gets for a moment.
    ensure!(a.terminate()?.success(), "{}", a.log());
    b.kill()?;
    topics::delete_group(&broker.bootstrap_servers(), "projekt")?;

    let a = start(0)?;
    let status = a.wait_status("the verdict on each task", |status| {
        let tasks = status["tasks"].as_array().context("tasks")?;
        ensure!(tasks.len() == usize::try_from(PARTITIONS)?, "{} tasks", tasks.len());
        let settled = |task: &Value| task["state"] == "running" || task["state"] == "failed";
        ensure!(tasks.iter().all(settled), "{}", status["tasks"]);
        Ok(())
    })?;
    for task in status["tasks"].as_array().context("tasks")? {
        let name = task["task"].as_str().context("a name")?;
        let reason = task["reason"].as_str().context("a reason")?;
        if own.contains(name) {
            ensure!(task["state"] == "running", "the copy of {name}'s offsets replaces the group's: {task}");
        } else {
            ensure!(others.contains(name) && task["state"] == "failed", "{task}");
            ensure!(reason.contains("beyond offset") && reason.contains("would count twice"), "{reason}");
        }
    }
    Ok(())
}
