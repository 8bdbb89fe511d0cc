//! Instances come and go while records flow.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use weir::kafka::{ClientSettings, TransactionalProducer};
use weir::model::Record;
use weir_tests::host::TIMEOUT;
use weir_tests::{Broker, Host, topics};

use crate::counted::{self, Counted, PARTITIONS, TABLE, restores};
use crate::crash::{IMPATIENT, setup, wait_under_way};
use crate::flow::{CHUNK, Flow};
use crate::grown::{self, Grown};
use crate::projekt::{create_topics, wait_caught_up};

/// Waits until the instance has so many tasks and they all run.
pub(crate) fn wait_tasks(host: &Host, tasks: std::ops::RangeInclusive<usize>) -> Result<()> {
    host.wait_status("its share of the tasks", |status| {
        let found = status["tasks"].as_array().context("tasks")?;
        ensure!(tasks.contains(&found.len()), "{} tasks", found.len());
        ensure!(found.iter().all(|task| task["state"] == "running"), "{}", status["tasks"]);
        Ok(())
    })?;
    Ok(())
}

#[test]
fn instances_come_and_go_while_records_flow() -> Result<()> {
    let input = Grown::new(3)?;
    let dir = tempfile::tempdir()?;
    let broker = Broker::start_with(&dir.path().join("broker"), IMPATIENT)?;
    create_topics(&broker)?;
    topics::produce_all(&broker.bootstrap_servers(), &input.tables)?;
    let states = ["a", "b", "c"].map(|name| dir.path().join(name));
    let start = |state: usize| Host::start(&setup(&broker, &states[state], "exactly-once").set("app.threads", "2"));
    let flow = Flow::new(&broker, &input.streams)?;
    let come_and_go = || -> Result<()> {
        let mut a = start(0)?;
        let mut b = start(1)?;
        wait_tasks(&a, 4..=4)?;
        flow.wait(1, 6)?;
        let mut c = start(2)?;
        wait_tasks(&c, 2..=3)?;
        flow.wait(2, 6)?;
        ensure!(a.terminate()?.success(), "{}", a.log());
        wait_tasks(&b, 4..=4)?;
        flow.wait(3, 6)?;
        b.kill()?;
        wait_tasks(&c, 8..=8)?;
        flow.wait(4, 6)?;
        // Its state is older than the changelogs now.
        let mut a = start(0)?;
        wait_tasks(&a, 4..=4)?;
        flow.wait(6, 6)?;
        wait_caught_up(&broker).with_context(|| format!("{}\n{}", a.log(), c.log()))?;
        ensure!(a.terminate()?.success(), "{}", a.log());
        ensure!(c.terminate()?.success(), "{}", c.log());
        Ok(())
    };
    let logs = || states.iter().map(|state| std::fs::read_to_string(state.with_extension("log")).unwrap_or_default());
    flow.during(come_and_go).with_context(|| logs().collect::<Vec<_>>().join("\n----\n"))?;
    input.assert_last(&broker)?;
    grown::assert_chain(&broker)
}

/// A stopped process wakes up after others have taken its partitions over: nothing of what it held may count twice.
#[test]
fn a_process_that_slept_through_its_session_commits_nothing() -> Result<()> {
    let input = Grown::new(2)?;
    let parts = input.parts(3);
    let dir = tempfile::tempdir()?;
    let broker = Broker::start_with(&dir.path().join("broker"), IMPATIENT)?;
    create_topics(&broker)?;
    topics::produce_all(&broker.bootstrap_servers(), &input.tables)?;
    topics::produce_all(&broker.bootstrap_servers(), parts[0])?;
    let states = ["a", "b"].map(|name| dir.path().join(name));
    // Commits far apart: much is uncommitted when it falls asleep.
    let patient = |state: usize| {
        let setup = setup(&broker, &states[state], "exactly-once").set("app.threads", "2");
        Host::start(&setup.set("app.commit_interval", "4 s"))
    };
    let progress = grown::progress(&broker)?;
    let mut sleeper = patient(0)?;
    wait_caught_up(&broker).with_context(|| sleeper.log())?;
    for part in &parts[1..] {
        // A commit may come before we look; then there is more.
        let mut chunks = part.chunks(CHUNK);
        let mut under_way = false;
        while !under_way {
            let chunk = chunks.next().context("every record was committed before it was seen")?;
            topics::produce_all(&broker.bootstrap_servers(), chunk)?;
            under_way = wait_under_way(&sleeper, &progress, Duration::from_secs(1)).is_ok();
        }
        sleeper.signal("STOP")?;
        for chunk in chunks {
            topics::produce_all(&broker.bootstrap_servers(), chunk)?;
        }
        let mut other = patient(1)?;
        wait_caught_up(&broker).with_context(|| other.log())?;
        sleeper.signal("CONT")?;
        wait_tasks(&other, 4..=4)?;
        ensure!(other.terminate()?.success(), "{}", other.log());
        wait_tasks(&sleeper, 8..=8)?;
    }
    wait_caught_up(&broker).with_context(|| sleeper.log())?;
    input.assert_last(&broker).with_context(|| sleeper.log())?;
    grown::assert_chain(&broker).with_context(|| sleeper.log())?;
    ensure!(sleeper.terminate()?.success(), "{}", sleeper.log());
    Ok(())
}

/// A restore that a rebalance interrupts goes on where it was, although it has never been at its end: a transaction that is open at
/// the table's end keeps it waiting there.
#[test]
fn a_restore_goes_on_where_a_rebalance_has_interrupted_it() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut counted = Counted::start(dir.path(), "")?;
    counted.write_rows(20)?;
    counted.feed("in", 2)?;
    let rows: Vec<i64> =
        (0..PARTITIONS).map(|partition| topics::end(&counted.bootstrap(), TABLE, partition)).collect::<Result<_>>()?;
    let open = open_transaction(&counted)?;

    let states = ["a", "b"].map(|name| dir.path().join(name));
    let a = Host::start(&counted.setup(&states[0])?)?;
    let waits_at_its_rows = |tasks: usize, began: &dyn Fn(i64, i64) -> bool| {
        a.wait_status("restores that wait for the transaction", |status| {
            let found = restores(status, TABLE);
            ensure!(found.len() == tasks, "{} restores: {status}", found.len());
            for restore in &found {
                let partition = usize::try_from(restore["partition"].as_u64().context("partition")?)?;
                let (position, start) = (restore["position"].as_i64(), restore["start"].as_i64().context("start")?);
                ensure!(position == Some(rows[partition]) && restore["done"] == false, "{restore}");
                ensure!(began(start, rows[partition]), "began at {start}: {restore}");
            }
            Ok(())
        })
    };
    waits_at_its_rows(4, &|start, _| start == 0)?;
    let b = Host::start(&counted.setup(&states[1])?)?;
    waits_at_its_rows(2, &|start, rows| start == rows)?;

    open.abort(TIMEOUT)?;
    for host in [&a, &b] {
        counted::wait_tasks(host, 2)?;
    }
    counted.wait_caught_up(&a)?;
    counted.assert_counts()
}

/// A transaction that has written to every partition of the table and is open.
fn open_transaction(counted: &Counted) -> Result<TransactionalProducer> {
    let properties = [
        ("bootstrap.servers".to_owned(), counted.bootstrap()),
        ("transaction.timeout.ms".to_owned(), "600000".to_owned()),
    ];
    let producer = TransactionalProducer::new(&ClientSettings::new("writer", properties.into()), "writer")?;
    producer.init(TIMEOUT)?;
    producer.begin()?;
    for partition in 0..PARTITIONS {
        let record = Record {
            key: Some("unfinished".into()),
            value: Some("row".into()),
            timestamp: 1,
            offset: 0,
            headers: Vec::new(),
        };
        producer.send(TABLE, Some(partition), &record, None)?;
    }
    producer.flush(TIMEOUT)?;
    Ok(producer)
}
