//! The broker goes away and comes back.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use weir::kafka::{LogEnds, TableReader, TransactionalProducer};
use weir::model::{Record, TopicPartition};
use weir_tests::{Broker, topics};

use super::{PATIENCE, Read, join, locked, settings, unpark_me, wait_until};

#[test]
fn clients_outlive_the_broker() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut broker = Broker::start(dir.path())?;
    let bootstrap = broker.bootstrap_servers();
    topics::create(&bootstrap, &[("outage", 1, &[])])?;
    let (member, state) = join("outage", &bootstrap, None, &["outage"])?;
    wait_until("an assignment", || {
        member.poll(Duration::from_millis(5))?;
        Ok(locked(&state).queues.len() == 1)
    })?;
    let reader = TableReader::new(&settings("outage", &bootstrap))?;
    let mut queues = reader.open(&[(TopicPartition::new("outage", 0), 0)], &unpark_me())?;
    let queue = queues.first_mut().context("a queue")?;
    let mut read = Read::default();
    read.until(queue, 0)?;
    assert_eq!(member.connection_error(), None);
    let ends = LogEnds::new(&settings("outage", &bootstrap))?;
    assert_eq!(ends.of(queue.partition(), PATIENCE)?.end, 0);
    let producer = TransactionalProducer::new(&settings("outage", &bootstrap), "outage-0")?;
    producer.init(PATIENCE)?;
    producer.begin()?;
    let record = Record { value: Some("sent".into()), timestamp: 1, ..Record::default() };
    producer.send("outage", Some(0), &record, Some(0))?;
    wait_until("the delivery", || {
        producer.poll();
        Ok(!producer.take_delivered().is_empty())
    })?;

    broker.kill()?;
    // Nobody knows whether the broker has seen the end of the transaction.
    let error = producer.commit(Duration::from_secs(3)).err().context("committed")?;
    assert!(error.unknown_outcome() && !error.is_fenced(), "{error:?}");
    wait_until("the loss", || {
        member.poll(Duration::from_millis(5))?;
        reader.poll(Duration::ZERO)?;
        queue.poll(10, 1000, &mut VecDeque::new())?;
        Ok(member.connection_error().is_some())
    })?;
    let start = Instant::now();
    let error = ends.of(queue.partition(), Duration::from_secs(1)).err().context("an answer")?;
    assert!(error.is_retriable(), "{error:?}");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());

    // Or else it would send the end of its transaction to the broker once that is back.
    drop(producer);
    broker.restart()?;
    let again = TransactionalProducer::new(&settings("outage", &bootstrap), "outage-0")?;
    again.init(PATIENCE)?;
    again.begin()?;
    again.send("outage", Some(0), &Record { value: Some("again".into()), timestamp: 1, ..Record::default() }, None)?;
    again.commit(PATIENCE)?;
    wait_until("the record", || {
        member.poll(Duration::from_millis(5))?;
        read.take(queue)?;
        Ok(read.values() == ["again"])
    })?;
    wait_until("the return", || {
        member.poll(Duration::from_millis(5))?;
        Ok(member.connection_error().is_none())
    })?;
    Ok(())
}

#[test]
fn dropping_clients_of_a_dead_broker_ends() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut broker = Broker::start(dir.path())?;
    let bootstrap = broker.bootstrap_servers();
    topics::create(&bootstrap, &[("dead", 1, &[])])?;
    let (member, state) = join("dead", &bootstrap, None, &["dead"])?;
    wait_until("an assignment", || {
        member.poll(Duration::from_millis(5))?;
        Ok(locked(&state).queues.len() == 1)
    })?;
    broker.kill()?;
    let start = Instant::now();
    let left = member.leave(Duration::from_secs(5));
    locked(&state).consumer = None;
    drop(member);
    assert!(start.elapsed() < Duration::from_secs(15), "{:?} {left:?}", start.elapsed());
    Ok(())
}

#[test]
fn the_broker_ends_with_its_owner() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let broker = Broker::start(dir.path())?;
    let pid = broker.pid().context("a pid")?;
    drop(broker);
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    Ok(())
}
