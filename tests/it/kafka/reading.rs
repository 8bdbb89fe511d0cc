//! Partitions read through queues of their own: what comes, where the end is, what is out of range.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use weir::kafka::{Error, PartitionQueue, TableReader, TransactionalProducer};
use weir::model::{Header, Record, TopicPartition};
use weir_tests::topics;

use super::{PATIENCE, Read, bootstrap, range, settings, unpark_me, wait_until};

/// Opens one partition.
fn open(reader: &std::sync::Arc<TableReader>, topic: &str, partition: i32, at: i64) -> Result<PartitionQueue> {
    let mut queues = reader.open(&[(TopicPartition::new(topic, partition), at)], &unpark_me())?;
    queues.pop().context("a queue")
}

/// Sends values in a transaction of a producer that has begun none; leaves it open.
fn send_all(producer: &TransactionalProducer, topic: &str, values: &[&str]) -> Result<()> {
    producer.begin()?;
    for value in values {
        let record = Record {
            key: Some(Bytes::from_static(b"k")),
            value: Some(Bytes::copy_from_slice(value.as_bytes())),
            timestamp: 1,
            ..Record::default()
        };
        producer.send(topic, Some(0), &record, None)?;
    }
    Ok(())
}

/// A producer of transactions that is ready.
fn producer(app: &str, bootstrap: &str, id: &str) -> Result<TransactionalProducer> {
    let producer = TransactionalProducer::new(&settings(app, bootstrap), id)?;
    producer.init(PATIENCE)?;
    Ok(producer)
}

#[test]
fn every_record_comes_through_its_partitions_own_queue() -> Result<()> {
    let bootstrap = bootstrap()?;
    topics::create(&bootstrap, &[("own-queues", 3, &[])])?;
    let names: Vec<String> = (0..3000).map(|i| format!("v{i}")).collect();
    let records: Vec<_> =
        names.iter().zip(0..).map(|(name, i)| (i % 3, "key", Some(name.as_str()), 1_000 + i64::from(i))).collect();
    topics::produce(&bootstrap, "own-queues", &records)?;

    let reader = TableReader::new(&settings("own-queues", &bootstrap))?;
    let partitions: Vec<_> = (0..3).map(|p| (TopicPartition::new("own-queues", p), 0)).collect();
    let mut queues = reader.open(&partitions, &unpark_me())?;
    for (queue, partition) in queues.iter_mut().zip(0..) {
        let mut read = Read::default();
        read.until(queue, 1000)?;
        assert_eq!(read.offsets(), (0..1000).collect::<Vec<_>>());
        let want: Vec<_> = names.iter().skip(partition).step_by(3).cloned().collect();
        assert_eq!(read.values(), want);
        assert_eq!(read.records.back().map(|record| record.timestamp), Some(1_000 + 2997 + partition as i64));
    }
    // A record on the main queue would be an error.
    for _ in 0..20 {
        reader.poll(Duration::from_millis(5))?;
    }
    Ok(())
}

#[test]
fn nulls_empties_and_headers_stay_what_they_are() -> Result<()> {
    let bootstrap = bootstrap()?;
    topics::create(&bootstrap, &[("shapes", 1, &[])])?;
    let header =
        |name: &str, value: Option<&'static [u8]>| Header { name: name.into(), value: value.map(Bytes::from_static) };
    let record = |key: Option<&'static [u8]>, value: Option<&'static [u8]>, headers| Record {
        key: key.map(Bytes::from_static),
        value: value.map(Bytes::from_static),
        timestamp: 5,
        offset: 0,
        headers,
    };
    let mut sent = vec![
        record(Some(b"k"), Some(b"v"), vec![]),
        record(None, Some(b"v"), vec![]),
        record(Some(b""), Some(b""), vec![]),
        record(Some(b"k"), None, vec![]),
        record(Some(b"k"), Some(b"v"), vec![header("a", Some(b"1")), header("b", None), header("a", Some(b""))]),
        record(None, None, vec![header("ü", Some(b"\xff\x00"))]),
    ];
    let producer = producer("shapes", &bootstrap, "shapes")?;
    producer.begin()?;
    for record in &sent {
        producer.send("shapes", Some(0), record, None)?;
    }
    producer.commit(PATIENCE)?;

    let reader = TableReader::new(&settings("shapes", &bootstrap))?;
    let mut queue = open(&reader, "shapes", 0, 0)?;
    let mut read = Read::default();
    read.until(&mut queue, 7)?;
    for (record, offset) in sent.iter_mut().zip(0..) {
        record.offset = offset;
    }
    assert_eq!(read.records, sent);
    Ok(())
}

#[test]
fn the_end_behind_a_commit_marker_is_the_log_end() -> Result<()> {
    let bootstrap = bootstrap()?;
    topics::create(&bootstrap, &[("marker", 1, &[])])?;
    let producer = producer("marker", &bootstrap, "marker")?;
    send_all(&producer, "marker", &["a", "b", "c"])?;
    producer.commit(PATIENCE)?;

    // The marker is written after the commit is decided.
    wait_until("the marker", || Ok(range(&bootstrap, "marker", 0)? == (0, 4)))?;
    let reader = TableReader::new(&settings("marker", &bootstrap))?;
    let mut read = Read::default();
    read.until(&mut open(&reader, "marker", 0, 0)?, 4)?;
    assert_eq!(read.offsets(), [0, 1, 2]);
    Ok(())
}

#[test]
fn aborted_records_at_the_tail_are_passed_over() -> Result<()> {
    let bootstrap = bootstrap()?;
    topics::create(&bootstrap, &[("aborted", 1, &[])])?;
    let producer = producer("aborted", &bootstrap, "aborted")?;
    send_all(&producer, "aborted", &["a"])?;
    producer.commit(PATIENCE)?;
    send_all(&producer, "aborted", &["x", "y"])?;
    // On the log before the transaction is aborted.
    wait_until("the records", || {
        producer.poll();
        Ok(range(&bootstrap, "aborted", 0)?.1 == 4)
    })?;
    producer.abort(PATIENCE)?;

    wait_until("the marker", || Ok(range(&bootstrap, "aborted", 0)? == (0, 5)))?;
    let reader = TableReader::new(&settings("aborted", &bootstrap))?;
    let mut read = Read::default();
    read.until(&mut open(&reader, "aborted", 0, 0)?, 5)?;
    assert_eq!(read.values(), ["a"]);
    // From behind the last visible record too.
    let mut tail = Read::default();
    reader.close(&[TopicPartition::new("aborted", 0)])?;
    tail.until(&mut open(&reader, "aborted", 0, 1)?, 5)?;
    assert!(tail.records.is_empty());
    Ok(())
}

#[test]
fn an_empty_log_has_its_end_at_once() -> Result<()> {
    let bootstrap = bootstrap()?;
    topics::create(&bootstrap, &[("empty", 1, &[]), ("emptied", 1, &[])])?;
    assert_eq!(range(&bootstrap, "empty", 0)?, (0, 0));
    let reader = TableReader::new(&settings("empty", &bootstrap))?;
    Read::default().until(&mut open(&reader, "empty", 0, 0)?, 0)?;

    topics::produce(&bootstrap, "emptied", &[(0, "k", Some("v"), 1), (0, "k", Some("w"), 1)])?;
    topics::delete_records(&bootstrap, "emptied", 0, -1)?;
    assert_eq!(range(&bootstrap, "emptied", 0)?, (2, 2));
    let mut read = Read::default();
    read.until(&mut open(&reader, "emptied", 0, 2)?, 2)?;
    assert!(read.records.is_empty());
    Ok(())
}

#[test]
fn an_open_transaction_ends_what_can_be_read_but_not_the_log() -> Result<()> {
    let bootstrap = bootstrap()?;
    topics::create(&bootstrap, &[("open", 1, &[])])?;
    topics::produce(&bootstrap, "open", &[(0, "k", Some("a"), 1), (0, "k", Some("b"), 1)])?;
    let producer = producer("open", &bootstrap, "open")?;
    send_all(&producer, "open", &["c"])?;
    wait_until("the record", || {
        producer.poll();
        Ok(range(&bootstrap, "open", 0)?.1 == 3)
    })?;

    let reader = TableReader::new(&settings("open", &bootstrap))?;
    let mut queue = open(&reader, "open", 0, 0)?;
    let mut read = Read::default();
    read.until(&mut queue, 2)?;
    assert_eq!(read.values(), ["a", "b"]);
    assert_eq!(range(&bootstrap, "open", 0)?, (0, 3));

    producer.commit(PATIENCE)?;
    read.until(&mut queue, 4)?;
    assert_eq!(read.values(), ["a", "b", "c"]);
    Ok(())
}

#[test]
fn an_offset_outside_the_log_is_an_error_that_names_it() -> Result<()> {
    let bootstrap = bootstrap()?;
    topics::create(&bootstrap, &[("ranges", 2, &[])])?;
    topics::produce(&bootstrap, "ranges", &[(0, "k", Some("a"), 1), (1, "k", Some("a"), 1), (1, "k", Some("b"), 1)])?;
    topics::delete_records(&bootstrap, "ranges", 1, 1)?;
    let reader = TableReader::new(&settings("ranges", &bootstrap))?;
    for (partition, at) in [(0, 7), (1, 0)] {
        let mut queue = open(&reader, "ranges", partition, at)?;
        let mut records = VecDeque::new();
        let mut found = None;
        wait_until("the error", || {
            found = queue.poll(10, 1000, &mut records).err();
            Ok(found.is_some())
        })?;
        let Some(Error::OffsetOutOfRange { partition: named, offset, .. }) = found else {
            anyhow::bail!("not out of range: {found:?}");
        };
        assert_eq!((named, offset), (TopicPartition::new("ranges", partition), at));
        assert!(records.is_empty());
    }
    Ok(())
}

#[test]
fn a_partition_can_be_closed_and_opened_again() -> Result<()> {
    let bootstrap = bootstrap()?;
    topics::create(&bootstrap, &[("again", 2, &[])])?;
    let names: Vec<String> = (0..100).map(|i| format!("v{i}")).collect();
    let records: Vec<_> = names.iter().map(|name| (0, "k", Some(name.as_str()), 1)).collect();
    topics::produce(&bootstrap, "again", &records)?;
    let reader = TableReader::new(&settings("again", &bootstrap))?;
    let other = open(&reader, "again", 1, 0)?;
    for at in [0, 50, 20, 99, 100, 0] {
        let mut queue = open(&reader, "again", 0, at)?;
        let mut read = Read::default();
        read.until(&mut queue, 100)?;
        assert_eq!(read.offsets(), (at..100).collect::<Vec<_>>());
        reader.close(&[TopicPartition::new("again", 0)])?;
    }
    // Closed with records on their way: none of them comes into the next life.
    for _ in 0..10 {
        let queue = open(&reader, "again", 0, 0)?;
        reader.close(&[TopicPartition::new("again", 0)])?;
        drop(queue);
    }
    let mut read = Read::default();
    read.until(&mut open(&reader, "again", 0, 90)?, 100)?;
    assert_eq!(read.offsets(), (90..100).collect::<Vec<_>>());
    reader.poll(Duration::ZERO)?;
    drop(other);
    Ok(())
}

#[test]
fn opening_others_loses_nothing_of_a_partition_at_its_end() -> Result<()> {
    let bootstrap = bootstrap()?;
    topics::create(&bootstrap, &[("beside", 4, &[])])?;
    let reader = TableReader::new(&settings("beside", &bootstrap))?;
    let mut queue = open(&reader, "beside", 0, 0)?;
    let mut read = Read::default();
    read.until(&mut queue, 0)?;
    let mut others = Vec::new();
    for partition in 1..4 {
        others.push(open(&reader, "beside", partition, 0)?);
        topics::produce(&bootstrap, "beside", &[(0, "k", Some(&partition.to_string()), 1)])?;
        read.until(&mut queue, i64::from(partition))?;
    }
    assert_eq!(read.values(), ["1", "2", "3"]);
    Ok(())
}

#[test]
fn a_poll_keeps_to_records_and_bytes() -> Result<()> {
    let bootstrap = bootstrap()?;
    topics::create(&bootstrap, &[("limits", 1, &[])])?;
    let value = "x".repeat(99);
    let records: Vec<_> = (0..50).map(|_| (0, "k", Some(value.as_str()), 1)).collect();
    topics::produce(&bootstrap, "limits", &records)?;
    let reader = TableReader::new(&settings("limits", &bootstrap))?;
    let mut queue = open(&reader, "limits", 0, 0)?;
    let mut records = VecDeque::new();
    let mut polled = queue.poll(1, 1, &mut records)?;
    wait_until("a record", || {
        if polled.records == 0 {
            polled = queue.poll(1, 1, &mut records)?;
        }
        Ok(polled.records > 0)
    })?;
    // One record, though it is larger than the limit.
    assert_eq!((polled.records, polled.bytes, polled.end), (1, 100, None));
    let polled = queue.poll(10, 350, &mut records)?;
    assert_eq!((polled.records, polled.bytes, polled.end), (3, 300, None));
    let polled = queue.poll(10, 1 << 20, &mut records)?;
    assert_eq!((polled.records, polled.bytes, polled.end), (10, 1000, None));
    let mut read = Read { records, end: None };
    read.until(&mut queue, 50)?;
    assert_eq!(read.offsets(), (0..50).collect::<Vec<_>>());
    Ok(())
}

#[test]
fn the_waker_is_called_when_records_come() -> Result<()> {
    let bootstrap = bootstrap()?;
    topics::create(&bootstrap, &[("wake", 1, &[])])?;
    let (send, receive) = std::sync::mpsc::sync_channel(64);
    let waker: weir::kafka::Waker = std::sync::Arc::new(move || {
        let _ = send.try_send(());
    });
    let reader = TableReader::new(&settings("wake", &bootstrap))?;
    let mut queues = reader.open(&[(TopicPartition::new("wake", 0), 0)], &waker)?;
    let queue = queues.first_mut().context("a queue")?;
    let mut read = Read::default();
    // The end of the empty log, then each record: every wait is ended by the waker alone.
    for count in 0..4 {
        if count > 0 {
            topics::produce(&bootstrap, "wake", &[(0, "k", Some("v"), 1)])?;
        }
        while read.end != Some(count) {
            if read.take(queue)? == 0 && read.end != Some(count) {
                receive.recv_timeout(PATIENCE)?;
            }
        }
    }
    drop(queues);
    Ok(())
}
