//! Producers: fencing, back-pressure, records that are too large, topics that are missing.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use weir::kafka::{Error, OutputProducer, TransactionalProducer, partition_for_key};
use weir::model::Record;
use weir_tests::topics;

use super::{PATIENCE, bootstrap, settings, wait_until};

/// A record.
fn record(key: &str, value: impl Into<Bytes>) -> Record {
    Record {
        key: Some(Bytes::copy_from_slice(key.as_bytes())),
        value: Some(value.into()),
        timestamp: 9,
        ..Record::default()
    }
}

#[test]
fn a_new_producer_of_the_same_id_fences_the_old_one() -> Result<()> {
    let bootstrap = bootstrap()?;
    topics::create(&bootstrap, &[("fence", 1, &[])])?;
    let settings = settings("fence", &bootstrap);
    let old = TransactionalProducer::new(&settings, "fence-0")?;
    old.init(PATIENCE)?;
    old.begin()?;
    old.send("fence", Some(0), &record("k", "old"), None)?;

    let new = TransactionalProducer::new(&settings, "fence-0")?;
    new.init(PATIENCE)?;
    let error = old.commit(PATIENCE).err().context("committed")?;
    assert!(error.is_fenced() && error.is_fatal(), "{error:?}");

    new.begin()?;
    new.send("fence", Some(0), &record("k", "new"), None)?;
    new.commit(PATIENCE)?;
    let values: Vec<_> = topics::read(&bootstrap, "fence")?.into_iter().filter_map(|r| r.value).collect();
    assert_eq!(values, ["new"]);
    Ok(())
}

#[test]
fn commits_are_quick() -> Result<()> {
    let bootstrap = bootstrap()?;
    topics::create(&bootstrap, &[("quick", 2, &[])])?;
    let producer = TransactionalProducer::new(&settings("quick", &bootstrap), "quick-0")?;
    producer.init(PATIENCE)?;
    let mut times = Vec::new();
    for round in 0..20 {
        let start = Instant::now();
        producer.begin()?;
        for i in 0..100 {
            producer.send("quick", Some(i % 2), &record("k", format!("{round}-{i}")), Some(0))?;
        }
        producer.commit(PATIENCE)?;
        times.push(start.elapsed());
    }
    times.sort();
    // The crate's own commit takes 100 ms and more.
    let median = times.get(10).context("median")?;
    assert!(*median < Duration::from_millis(80), "{times:?}");
    assert_eq!(topics::read(&bootstrap, "quick")?.len(), 2000);
    Ok(())
}

#[test]
fn a_record_that_is_too_large_is_named_with_its_limit() -> Result<()> {
    let bootstrap = bootstrap()?;
    topics::create(&bootstrap, &[("large", 1, &[("max.message.bytes", "20000")])])?;
    let settings = settings("large", &bootstrap);
    let producer = TransactionalProducer::new(&settings, "large-0")?;
    producer.init(PATIENCE)?;
    producer.begin()?;
    let error = producer.send("large", Some(0), &record("k", vec![b'x'; 1_000_000]), None).err().context("sent")?;
    assert_eq!(
        error.to_string(),
        "a record of 1000001 bytes for topic 'large' is larger than the producer's message.max.bytes allows (1000000 bytes)"
    );
    // Nothing was queued: the transaction goes on.
    producer.send("large", Some(0), &record("k", "small"), None)?;
    producer.commit(PATIENCE)?;

    // Larger than the topic allows: the broker says so, and the commit returns it.
    producer.begin()?;
    producer.send("large", Some(0), &record("k", vec![b'x'; 30_000]), None)?;
    let error = producer.commit(PATIENCE).err().context("committed")?;
    assert_eq!(
        error.to_string(),
        "a record of 30001 bytes for topic 'large' is larger than the topic's max.message.bytes allows"
    );
    drop(producer);
    let producer = TransactionalProducer::new(&settings, "large-0")?;
    producer.init(PATIENCE)?;
    producer.begin()?;
    producer.send("large", Some(0), &record("k", "small again"), None)?;
    producer.commit(PATIENCE)?;
    assert_eq!(topics::read(&bootstrap, "large")?.len(), 2);

    let outputs = OutputProducer::new(&settings)?;
    outputs.send("large", Some(0), &record("k", vec![b'x'; 30_000]))?;
    outputs.send("large", Some(0), &record("k", "fits"))?;
    let error = outputs.flush(PATIENCE).err().context("flushed")?;
    assert!(matches!(error, Error::TooLarge { .. }), "{error:?}");
    outputs.flush(PATIENCE)?;
    Ok(())
}

#[test]
fn an_aborted_transaction_leaves_the_next_one_whole() -> Result<()> {
    let bootstrap = bootstrap()?;
    topics::create(&bootstrap, &[("abort", 1, &[])])?;
    let new = || {
        let producer = TransactionalProducer::new(&settings("abort", &bootstrap), "abort-0")?;
        producer.init(PATIENCE)?;
        anyhow::Ok(producer)
    };
    let mut producer = new()?;
    for round in 0..6 {
        producer.begin()?;
        for i in 0..2000 {
            producer.send("abort", Some(0), &record("k", format!("aborted {i}")), Some(1))?;
        }
        if round % 2 == 1 {
            // Some are on the log, others on their way. Else: all are still queued.
            wait_until("a delivery", || {
                producer.poll();
                Ok(!producer.take_delivered().is_empty())
            })?;
        }
        let start = Instant::now();
        let aborted = producer.abort(PATIENCE);
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        assert!(aborted.is_err() || producer.take_delivered().is_empty());
        // librdkafka may end a transaction before the broker has begun it, which the broker refuses.
        if let Err(error) = aborted {
            assert!(error.is_fatal() && !error.is_fenced(), "{error:?}");
            producer = new()?;
        }
        producer.begin()?;
        for i in 0..10 {
            producer.send("abort", Some(0), &record("k", format!("{round}-{i}")), Some(1))?;
        }
        producer.commit(PATIENCE)?;
    }
    let values: Vec<_> = topics::read(&bootstrap, "abort")?.into_iter().filter_map(|r| r.value).collect();
    let want = (0..6).flat_map(|round| (0..10).map(move |i| Bytes::from(format!("{round}-{i}"))));
    assert_eq!(values, want.collect::<Vec<_>>());
    Ok(())
}

#[test]
fn outputs_go_where_javas_partitioner_sends_them() -> Result<()> {
    let bootstrap = bootstrap()?;
    topics::create(&bootstrap, &[("partitioned", 7, &[])])?;
    let outputs = OutputProducer::new(&settings("partitioned", &bootstrap))?;
    for i in 0..200 {
        outputs.send("partitioned", None, &record(&format!("key-{i}"), "v"))?;
    }
    outputs.send("partitioned", None, &record("", "v"))?;
    outputs.poll();
    outputs.flush(PATIENCE)?;
    let records = topics::read(&bootstrap, "partitioned")?;
    assert_eq!(records.len(), 201);
    for record in records {
        let key = record.key.unwrap_or_default();
        assert_eq!(record.partition, partition_for_key(&key, 7), "{key:?}");
    }
    Ok(())
}

#[test]
fn a_missing_topic_fails_the_flush_and_is_named() -> Result<()> {
    let bootstrap = bootstrap()?;
    let outputs = OutputProducer::new(&settings("nowhere", &bootstrap))?;
    outputs.send("nowhere", None, &record("k", "v"))?;
    let error = outputs.flush(PATIENCE).err().context("flushed")?;
    assert!(error.to_string().contains("nowhere"), "{error}");
    assert!(matches!(error, Error::Delivery { .. }), "{error:?}");
    Ok(())
}

#[test]
fn a_full_queue_holds_the_sender_back() -> Result<()> {
    let bootstrap = bootstrap()?;
    topics::create(&bootstrap, &[("full", 1, &[])])?;
    let properties = [("bootstrap.servers", bootstrap.as_str()), ("queue.buffering.max.messages", "100")];
    let properties = properties.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let outputs = OutputProducer::new(&weir::kafka::ClientSettings::new("full", properties))?;
    for i in 0..5000 {
        outputs.send("full", Some(0), &record("k", format!("{i}")))?;
    }
    outputs.flush(PATIENCE)?;
    let values: Vec<_> = topics::read(&bootstrap, "full")?.into_iter().filter_map(|r| r.value).collect();
    assert_eq!(values, (0..5000).map(|i| Bytes::from(format!("{i}"))).collect::<Vec<_>>());
    Ok(())
}
