//! Topics for tests: created, filled from fixtures, read to their end.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Headers, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::wait::until;

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(10);

/// A record as it is on a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicRecord {
    /// Its partition.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// Its timestamp in milliseconds.
    pub timestamp: i64,
    /// Its key.
    pub key: Option<Bytes>,
    /// Its value.
    pub value: Option<Bytes>,
    /// Its headers.
    pub headers: Vec<(String, Option<Bytes>)>,
}

/// A line of a fixture file.
#[derive(Deserialize)]
struct FixtureLine<'a> {
    /// Where it goes.
    #[serde(borrow)]
    topic: std::borrow::Cow<'a, str>,
    /// Its partition there.
    partition: i32,
    /// Its timestamp.
    timestamp: i64,
    /// Its key.
    #[serde(borrow)]
    key: Option<std::borrow::Cow<'a, str>>,
    /// Its value: the very bytes of the JSON; null is null.
    #[serde(borrow)]
    value: Option<&'a RawValue>,
}

/// Settings of a client of the broker.
pub fn client(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("reconnect.backoff.max.ms", "500");
    config
}

/// A topic to create: name, partitions, settings.
pub type NewTopicSpec<'a> = (&'a str, i32, &'a [(&'a str, &'a str)]);

/// Creates topics and waits until they can be written to.
pub fn create(bootstrap: &str, topics: &[NewTopicSpec<'_>]) -> Result<()> {
    let new: Vec<NewTopic<'_>> = topics
        .iter()
        .map(|(name, partitions, config)| {
            let new = NewTopic::new(name, *partitions, TopicReplication::Fixed(1));
            config.iter().fold(new, |new, (key, value)| new.set(key, value))
        })
        .collect();
    let options = AdminOptions::new().operation_timeout(Some(ATTEMPT)).request_timeout(Some(ATTEMPT));
    // A client that came before the broker knew its controller waits for it without asking again.
    let created = until("the topics", PATIENCE, || {
        let admin: AdminClient<DefaultClientContext> = client(bootstrap).create()?;
        Ok(block_on(admin.create_topics(&new, &options))?)
    })?;
    for result in created {
        match result {
            Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((topic, code)) => bail!("create topic '{topic}': {code}"),
        }
    }
    let consumer: BaseConsumer = client(bootstrap).create()?;
    for (name, partitions, _) in topics {
        for partition in 0..*partitions {
            let ask = || Ok(consumer.fetch_watermarks(name, partition, Duration::from_secs(5))?);
            until(&format!("{name}-{partition}"), PATIENCE, ask)?;
        }
    }
    Ok(())
}

/// Deletes a topic, and waits until it is gone.
pub fn delete(bootstrap: &str, topic: &str) -> Result<()> {
    let admin: AdminClient<DefaultClientContext> = client(bootstrap).create()?;
    let options = AdminOptions::new().operation_timeout(Some(ATTEMPT)).request_timeout(Some(ATTEMPT));
    for result in block_on(admin.delete_topics(&[topic], &options))? {
        result.map_err(|(topic, code)| anyhow::anyhow!("delete topic '{topic}': {code}"))?;
    }
    let consumer: BaseConsumer = client(bootstrap).create()?;
    until(&format!("the end of {topic}"), PATIENCE, || {
        let metadata = consumer.fetch_metadata(Some(topic), ATTEMPT)?;
        let gone = metadata.topics().iter().all(|found| found.name() != topic || found.error().is_some());
        anyhow::ensure!(gone, "it is still there");
        Ok(())
    })
}

/// Raises a topic's partition count.
pub fn add_partitions(bootstrap: &str, topic: &str, count: usize) -> Result<()> {
    let admin: AdminClient<DefaultClientContext> = client(bootstrap).create()?;
    let options = AdminOptions::new().operation_timeout(Some(ATTEMPT)).request_timeout(Some(ATTEMPT));
    for result in block_on(admin.create_partitions(&[NewPartitions::new(topic, count)], &options))? {
        result.map_err(|(topic, code)| anyhow::anyhow!("more partitions for '{topic}': {code}"))?;
    }
    Ok(())
}

/// Deletes the records of a partition below `offset` (-1: all there are).
pub fn delete_records(bootstrap: &str, topic: &str, partition: i32, offset: i64) -> Result<()> {
    let admin: AdminClient<DefaultClientContext> = client(bootstrap).create()?;
    let mut list = TopicPartitionList::new();
    let offset = if offset < 0 { Offset::End } else { Offset::Offset(offset) };
    list.add_partition_offset(topic, partition, offset)?;
    for element in block_on(admin.delete_records(&list, &AdminOptions::new()))?.elements() {
        element.error()?;
    }
    Ok(())
}

/// Deletes a consumer group with its offsets, once it has no member any more.
pub fn delete_group(bootstrap: &str, group: &str) -> Result<()> {
    let admin: AdminClient<DefaultClientContext> = client(bootstrap).create()?;
    until("the end of the group", PATIENCE, || {
        for result in block_on(admin.delete_groups(&[group], &AdminOptions::new()))? {
            result.map_err(|(group, code)| anyhow::anyhow!("delete group '{group}': {code}"))?;
        }
        Ok(())
    })
}

/// A producer for fixtures: large batches, nothing lost silently.
pub fn producer(bootstrap: &str) -> Result<BaseProducer<Failures>> {
    let mut config = client(bootstrap);
    config.set("linger.ms", "50").set("enable.idempotence", "true").set("partitioner", "murmur2_random");
    Ok(config.create_with_context(Failures::default())?)
}

/// The first record that was not delivered.
#[derive(Default)]
pub struct Failures(std::sync::Mutex<Option<KafkaError>>);

impl rdkafka::ClientContext for Failures {}

impl rdkafka::producer::ProducerContext for Failures {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &rdkafka::message::DeliveryResult<'_>, (): ()) {
        if let (Err((error, _)), Ok(mut first)) = (result, self.0.lock()) {
            first.get_or_insert_with(|| error.clone());
        }
    }
}

/// Queues a record, waiting for room.
pub fn send(producer: &BaseProducer<Failures>, mut record: BaseRecord<'_, [u8], [u8]>) -> Result<()> {
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                producer.poll(Duration::from_millis(5));
                record = back;
            }
            Err((error, _)) => return Err(error.into()),
        }
    }
}

/// Waits until all is delivered.
pub fn flush(producer: &BaseProducer<Failures>) -> Result<()> {
    producer.flush(PATIENCE)?;
    let failed = producer.context().0.lock().ok().and_then(|mut first| first.take());
    failed.map_or(Ok(()), |error| Err(error.into()))
}

/// Writes records (partition, key, value, timestamp) to a topic.
pub fn produce(bootstrap: &str, topic: &str, records: &[(i32, &str, Option<&str>, i64)]) -> Result<()> {
    let producer = producer(bootstrap)?;
    for (partition, key, value, timestamp) in records {
        let record = BaseRecord {
            topic,
            partition: Some(*partition),
            payload: value.map(str::as_bytes),
            key: Some(key.as_bytes()),
            timestamp: Some(*timestamp),
            headers: None,
            delivery_opaque: (),
        };
        send(&producer, record)?;
    }
    flush(&producer)
}

/// A record for an input topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputRecord {
    /// Where it goes.
    pub topic: String,
    /// Its partition there.
    pub partition: i32,
    /// Its timestamp.
    pub timestamp: i64,
    /// Its key.
    pub key: String,
    /// Its value: the very bytes of the JSON.
    pub value: Option<String>,
}

/// The records of a fixture's text, lines `{topic, partition, timestamp, key, value}`, all of which have a key.
pub fn parse(fixture: &str) -> Result<Vec<InputRecord>> {
    let record = |line: &str| {
        let line: FixtureLine<'_> = serde_json::from_str(line).with_context(|| line.to_owned())?;
        Ok(InputRecord {
            topic: line.topic.into_owned(),
            partition: line.partition,
            timestamp: line.timestamp,
            key: line.key.context("no key")?.into_owned(),
            value: line.value.map(|value| value.get().to_owned()),
        })
    };
    fixture.lines().map(record).collect()
}

/// Writes records in order.
pub fn produce_all(bootstrap: &str, records: &[InputRecord]) -> Result<()> {
    let producer = producer(bootstrap)?;
    for record in records {
        let record = BaseRecord {
            topic: &record.topic,
            partition: Some(record.partition),
            payload: record.value.as_ref().map(String::as_bytes),
            key: Some(record.key.as_bytes()),
            timestamp: Some(record.timestamp),
            headers: None,
            delivery_opaque: (),
        };
        send(&producer, record)?;
        producer.poll(Duration::ZERO);
    }
    flush(&producer)
}

/// Partitions of a topic, and its setting `name`.
pub fn describe(bootstrap: &str, topic: &str, name: &str) -> Result<(usize, Option<String>)> {
    let consumer: BaseConsumer = client(bootstrap).create()?;
    let metadata = consumer.fetch_metadata(Some(topic), Duration::from_secs(10))?;
    let partitions = metadata.topics().first().map_or(0, |topic| topic.partitions().len());
    let admin: AdminClient<DefaultClientContext> = client(bootstrap).create()?;
    let resource = [ResourceSpecifier::Topic(topic)];
    let found = block_on(admin.describe_configs(&resource, &AdminOptions::new()))?.pop().context("no answer")?;
    let found = found.map_err(|code| anyhow::anyhow!("describe topic '{topic}': {code}"))?;
    Ok((partitions, found.get(name).and_then(|entry| entry.value.clone())))
}

/// Writes a fixture file's lines `{topic, partition, timestamp, key, value}` in order; how many there were.
pub fn produce_file(bootstrap: &str, file: &Path) -> Result<usize> {
    let producer = producer(bootstrap)?;
    let mut lines = BufReader::with_capacity(1 << 20, File::open(file).with_context(|| file.display().to_string())?);
    let (mut line, mut count) = (String::new(), 0);
    while lines.read_line(&mut line)? > 0 {
        let fixture: FixtureLine<'_> =
            serde_json::from_str(&line).with_context(|| format!("{}:{}", file.display(), count + 1))?;
        let record = BaseRecord {
            topic: fixture.topic.as_ref(),
            partition: Some(fixture.partition),
            payload: fixture.value.map(RawValue::get).map(str::as_bytes),
            key: fixture.key.as_deref().map(str::as_bytes),
            timestamp: Some(fixture.timestamp),
            headers: None,
            delivery_opaque: (),
        };
        send(&producer, record)?;
        count += 1;
        if count % 1000 == 0 {
            producer.poll(Duration::ZERO);
        }
        line.clear();
    }
    flush(&producer)?;
    Ok(count)
}

/// All committed records of a topic up to its end now (up to an open transaction), by partition and offset.
pub fn read(bootstrap: &str, topic: &str) -> Result<Vec<TopicRecord>> {
    let mut records = Vec::new();
    visit(bootstrap, topic, |record| records.push(record))?;
    records.sort_by_key(|record| (record.partition, record.offset));
    Ok(records)
}

/// The last committed record of each key of a topic, tombstones left out.
pub fn read_last(bootstrap: &str, topic: &str) -> Result<BTreeMap<Bytes, TopicRecord>> {
    let mut last = BTreeMap::new();
    visit(bootstrap, topic, |record| {
        let key = record.key.clone().unwrap_or_default();
        if record.value.is_some() {
            last.insert(key, record);
        } else {
            last.remove(&key);
        }
    })?;
    Ok(last)
}

/// Hands every committed record to `each`; within a partition in order.
fn visit(bootstrap: &str, topic: &str, mut each: impl FnMut(TopicRecord)) -> Result<()> {
    let mut config = client(bootstrap);
    config.set("group.id", "reads-only").set("enable.auto.commit", "false").set("isolation.level", "read_committed");
    config.set("enable.partition.eof", "true").set("fetch.wait.max.ms", "50");
    let consumer: BaseConsumer = config.create()?;
    let metadata = until(topic, PATIENCE, || Ok(consumer.fetch_metadata(Some(topic), Duration::from_secs(10))?))?;
    let found = metadata.topics().iter().find(|found| found.name() == topic && found.error().is_none());
    let partitions = found.with_context(|| format!("topic '{topic}' does not exist"))?.partitions().len();
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition_offset(topic, i32::try_from(partition)?, Offset::Beginning)?;
    }
    consumer.assign(&list)?;
    let mut open: Vec<bool> = vec![true; partitions];
    let start = Instant::now();
    while open.contains(&true) {
        if start.elapsed() > PATIENCE {
            bail!("topic '{topic}' is not read to its end within {PATIENCE:?}");
        }
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(message)) => each(TopicRecord {
                partition: message.partition(),
                offset: message.offset(),
                timestamp: message.timestamp().to_millis().unwrap_or(-1),
                key: message.key().map(Bytes::copy_from_slice),
                value: message.payload().map(Bytes::copy_from_slice),
                headers: message.headers().map_or_else(Vec::new, |headers| {
                    let owned = headers.iter().map(|h| (h.key.to_owned(), h.value.map(Bytes::copy_from_slice)));
                    owned.collect()
                }),
            }),
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                let partition = usize::try_from(partition)?;
                *open.get_mut(partition).context("an unknown partition")? = false;
            }
            // librdkafka tries again.
            Some(Err(_)) | None => {}
        }
    }
    Ok(())
}

/// The end of a partition's log.
pub fn end(bootstrap: &str, topic: &str, partition: i32) -> Result<i64> {
    let consumer: BaseConsumer = client(bootstrap).create()?;
    let ends = || Ok(consumer.fetch_watermarks(topic, partition, Duration::from_secs(5))?.1);
    until("the end of a log", PATIENCE, ends)
}

/// Waits for an admin request in this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    /// Unparks the waiting thread.
    struct Unpark(std::thread::Thread);

    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }

    let mut future = std::pin::pin!(future);
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}
