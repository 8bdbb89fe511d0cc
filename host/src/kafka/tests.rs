//! The clients against librdkafka's mock cluster, in this process.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::client::locked;
use super::*;
use crate::model::{Header, Record, TopicPartition};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A broker with topics, and settings for it.
fn embedded(topics: &[(&str, i32)]) -> (EmbeddedBroker, ClientSettings) {
    let broker = EmbeddedBroker::start().unwrap();
    for (name, partitions) in topics {
        broker.create_topic(name, *partitions).unwrap();
    }
    let properties = BTreeMap::from([("bootstrap.servers".to_owned(), broker.bootstrap_servers())]);
    (broker, ClientSettings::new("app", properties))
}

/// A record.
fn record(key: &str, value: &str) -> Record {
    let bytes = |text: &str| Some(Bytes::copy_from_slice(text.as_bytes()));
    Record { key: bytes(key), value: bytes(value), timestamp: 3, ..Record::default() }
}

/// A waker for this thread.
fn unpark_me() -> Waker {
    let me = thread::current();
    Arc::new(move || me.unpark())
}

/// Reads until the end of the partition is `end`.
fn read_to(queue: &mut PartitionQueue, end: i64) -> Vec<Record> {
    let (mut records, mut reached) = (VecDeque::new(), None);
    let start = Instant::now();
    while reached != Some(end) {
        let polled = queue.poll(100, 1 << 20, &mut records).unwrap();
        if polled.records > 0 || polled.end.is_some() {
            reached = polled.end;
        } else {
            assert!(start.elapsed() < PATIENCE, "end {end} of {}: {records:?}", queue.partition());
            thread::park_timeout(Duration::from_millis(20));
        }
    }
    records.into()
}

#[test]
fn a_table_is_read_with_its_end() {
    let (_broker, settings) = embedded(&[("table", 2)]);
    let outputs = OutputProducer::new(&settings).unwrap();
    let headers = vec![Header { name: "h".into(), value: Some("x".into()) }, Header { name: "n".into(), value: None }];
    outputs.send("table", Some(1), &Record { headers: headers.clone(), ..record("k", "v") }).unwrap();
    outputs.send("table", Some(1), &Record { value: None, ..record("k", "") }).unwrap();
    outputs.flush(PATIENCE).unwrap();

    let reader = TableReader::new(&settings).unwrap();
    let partitions = [(TopicPartition::new("table", 0), 0), (TopicPartition::new("table", 1), 0)];
    let mut queues = reader.open(&partitions, &unpark_me()).unwrap();
    assert_eq!(read_to(&mut queues[0], 0), []);
    let records = read_to(&mut queues[1], 2);
    assert_eq!(records[0], Record { headers, ..record("k", "v") });
    assert_eq!(records[1], Record { value: None, offset: 1, ..record("k", "") });

    // More comes later; a closed partition brings nothing.
    reader.close(&[TopicPartition::new("table", 0)]).unwrap();
    for partition in [0, 1] {
        outputs.send("table", Some(partition), &record("k", "w")).unwrap();
    }
    outputs.flush(PATIENCE).unwrap();
    assert_eq!(read_to(&mut queues[1], 3).len(), 1);
    reader.poll(Duration::ZERO).unwrap();
    assert_eq!(queues[0].poll(10, 1000, &mut VecDeque::new()).unwrap(), Polled::default());
}

#[test]
fn the_waker_is_let_go_with_the_queue() {
    let (_broker, settings) = embedded(&[("t", 1)]);
    let reader = TableReader::new(&settings).unwrap();
    let probe = Arc::new(());
    let held = Arc::clone(&probe);
    let waker: Waker = Arc::new(move || {
        let _held = &held;
    });
    let queues = reader.open(&[(TopicPartition::new("t", 0), 0)], &waker).unwrap();
    drop(waker);
    assert_eq!(Arc::strong_count(&probe), 2);
    drop(queues);
    assert_eq!(Arc::strong_count(&probe), 1);
}

#[test]
fn an_offset_outside_the_log_is_an_error() {
    let (_broker, settings) = embedded(&[("t", 1)]);
    let reader = TableReader::new(&settings).unwrap();
    let mut queues = reader.open(&[(TopicPartition::new("t", 0), 9)], &unpark_me()).unwrap();
    let start = Instant::now();
    let error = loop {
        match queues[0].poll(1, 1, &mut VecDeque::new()) {
            Err(error) => break error,
            Ok(polled) => assert_eq!(polled, Polled::default()),
        }
        assert!(start.elapsed() < PATIENCE);
        thread::park_timeout(Duration::from_millis(20));
    };
    assert!(matches!(&error, Error::OffsetOutOfRange { offset: 9, .. }), "{error:?}");
    assert!(error.to_string().starts_with("t-0: offset 9 is not in the log: "), "{error}");
    assert!(!error.is_retriable());
}

#[test]
fn topics_are_counted_but_never_created() {
    let (_broker, settings) = embedded(&[("here", 3)]);
    let admin = TopicAdmin::new(&settings).unwrap();
    let counts = || admin.partition_counts(&["here", "there"], PATIENCE).unwrap();
    assert_eq!(counts(), [Some(3), None]);
    assert_eq!(counts(), [Some(3), None]);
    let here = NewTopic { name: "here".to_owned(), partitions: 9, config: Vec::new() };
    admin.create(&[here], PATIENCE).unwrap();
    assert_eq!(admin.cleanup_policy("here", Duration::from_millis(500)).unwrap(), None);
}

/// Tells each thing that happens to a waiting test.
#[derive(Default)]
struct Seen {
    /// Partitions of each assignment and, negative, each revocation.
    counts: Mutex<Vec<i64>>,
    /// Signalled with it.
    changed: Condvar,
}

impl RebalanceListener for Seen {
    fn assigned(&self, partitions: Vec<TopicPartition>) -> Vec<(TopicPartition, i64)> {
        locked(&self.counts).push(partitions.len() as i64);
        self.changed.notify_all();
        Vec::new()
    }

    fn revoked(&self, partitions: Vec<TopicPartition>, lost: bool) {
        assert!(!lost);
        locked(&self.counts).push(-(partitions.len() as i64));
        self.changed.notify_all();
    }
}

#[test]
fn leaving_serves_the_revocation_and_lets_the_listener_go() {
    let (_broker, settings) = embedded(&[("t", 2)]);
    let seen = Arc::new(Seen::default());
    let consumer = SourceConsumer::new(&settings, None, Arc::clone(&seen) as Arc<dyn RebalanceListener>).unwrap();
    // Leaving before joining is nothing.
    assert!(consumer.connection_error().is_none());
    consumer.subscribe(&["t"]).unwrap();
    let start = Instant::now();
    while locked(&seen.counts).is_empty() {
        assert!(start.elapsed() < PATIENCE);
        consumer.poll(Duration::from_millis(20)).unwrap();
    }
    consumer.leave(PATIENCE).unwrap();
    assert_eq!(*locked(&seen.counts), [2, -2]);
    assert_eq!(Arc::strong_count(&seen), 1);
}

#[test]
fn a_broker_that_is_not_there_is_told_and_waited_for() {
    let properties = BTreeMap::from([("bootstrap.servers".to_owned(), "127.0.0.1:1".to_owned())]);
    let settings = ClientSettings::new("app", properties);
    let consumer = SourceConsumer::new(&settings, None, Arc::new(Seen::default())).unwrap();
    consumer.subscribe(&["t"]).unwrap();
    let start = Instant::now();
    while consumer.connection_error().is_none() {
        assert!(start.elapsed() < PATIENCE);
        consumer.poll(Duration::from_millis(20)).unwrap();
    }
    let reason = consumer.connection_error().unwrap();
    assert!(reason.contains("127.0.0.1:1"), "{reason}");
    let error = TopicAdmin::new(&settings).unwrap().partition_counts(&["t"], Duration::from_millis(300)).unwrap_err();
    assert!(error.is_retriable() && error.to_string().starts_with("metadata of topic 't': "), "{error}");
    let partition = TopicPartition::new("t", 0);
    let error = LogEnds::new(&settings).unwrap().of(&partition, Duration::from_millis(300)).unwrap_err();
    assert!(error.is_retriable(), "{error:?}");
    let error = consumer.committed(&[partition], Duration::from_millis(300)).unwrap_err();
    assert!(error.is_retriable(), "{error:?}");
}

#[test]
fn errors_say_what_to_do() {
    use rdkafka::error::RDKafkaErrorCode as Code;
    let request = |code| Error::Request { what: "x".to_owned(), code };
    assert!(request(Code::BrokerTransportFailure).is_retriable());
    assert!(!request(Code::TopicAuthorizationFailed).is_retriable());
    assert!(request(Code::IllegalGeneration).is_stale_member());
    let fatal = |code| Error::Consumer { client: "source", code, reason: String::new(), fatal: true };
    assert!(fatal(Code::FencedInstanceId).is_fenced() && fatal(Code::FencedInstanceId).is_fatal());
    let stray = Error::Stray { partition: TopicPartition::new("t", 1), offset: 4 };
    assert!(stray.is_fatal() && !stray.is_retriable());
    assert_eq!(stray.to_string(), "t-1: the record at offset 4 came outside the partition's own queue");
    let large = |limit| Error::TooLarge { topic: "t".to_owned(), size: 9, limit, setting: "max" };
    assert_eq!(large(Some(5)).to_string(), "a record of 9 bytes for topic 't' is larger than max allows (5 bytes)");
    assert_eq!(large(None).to_string(), "a record of 9 bytes for topic 't' is larger than max allows");
}
