//! What all producers share: sending with back-pressure, and delivery reports.
//!
//! Reports arrive when the producer is polled. The first failure is kept until someone asks for it; nothing is lost silently.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{DeliveryResult, Header, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, NoCustomPartitioner, Producer, ProducerContext};

use super::Error;
use super::client::log;
use crate::model::{Record, TopicPartition};

/// rdkafka's `flush` and `poll` always use up the time they are given: a wait is made of slices of this length.
const SLICE: Duration = Duration::from_millis(1);

/// A producer and what it has heard of its records.
pub(super) struct Outbox {
    /// rdkafka's producer.
    producer: BaseProducer<Reports>,
    /// The transactional id, or what the producer is for; for people.
    name: String,
    /// The largest record that the producer takes (`message.max.bytes`).
    largest: usize,
    /// How long a full queue is waited for.
    patience: Duration,
}

/// Delivery reports so far.
pub(super) struct Reports {
    /// What the producer is for.
    role: &'static str,
    /// Reports, written while the producer is polled.
    heard: Mutex<Heard>,
}

/// What the reports said.
#[derive(Default)]
struct Heard {
    /// Highest delivered offset of each tag.
    delivered: BTreeMap<u32, i64>,
    /// The first failure.
    failure: Option<Error>,
}

impl Outbox {
    /// Makes the producer for `role`, called `name` in errors.
    pub(super) fn new(
        config: &ClientConfig,
        role: &'static str,
        name: &str,
        patience: Duration,
    ) -> Result<Self, Error> {
        let native = config.create_native_config().and_then(|native| native.get("message.max.bytes"));
        let largest = native.map_err(|error| Error::client(role, error))?;
        let reports = Reports { role, heard: Mutex::default() };
        let producer = config.create_with_context(reports).map_err(|error| Error::client(role, error))?;
        Ok(Self { producer, name: name.to_owned(), largest: largest.parse().unwrap_or(usize::MAX), patience })
    }

    /// Queues a record. `partition` `None`: by the key, as Java. The highest delivered offset of `tag` is kept. While the
    /// queue is full, waits for room. A timestamp that is not positive becomes the time of sending (librdkafka knows no other).
    pub(super) fn send(
        &self,
        topic: &str,
        partition: Option<i32>,
        record: &Record,
        tag: Option<u32>,
    ) -> Result<(), Error> {
        let mut message: BaseRecord<'_, [u8], [u8], usize> = BaseRecord {
            topic,
            partition,
            payload: record.value.as_deref(),
            key: record.key.as_deref(),
            timestamp: (record.timestamp > 0).then_some(record.timestamp),
            headers: headers(record),
            // 0: no tag.
            delivery_opaque: tag.map_or(0, |tag| tag as usize + 1),
        };
        let mut start = None;
        loop {
            match self.producer.send(message) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(Code::QueueFull), back)) => {
                    if start.get_or_insert_with(Instant::now).elapsed() >= self.patience {
                        let what = format!("room in the queue of producer '{}'", self.name);
                        return Err(Error::Timeout { what, after: self.patience });
                    }
                    self.producer.poll(SLICE);
                    message = back;
                }
                Err((error, _)) => return Err(self.refused(topic, partition, record, &error)),
            }
        }
    }

    /// Why a record was not even queued.
    fn refused(&self, topic: &str, partition: Option<i32>, record: &Record, error: &KafkaError) -> Error {
        match error.rdkafka_error_code() {
            Some(Code::MessageSizeTooLarge) => Error::TooLarge {
                topic: topic.to_owned(),
                size: record.size(),
                limit: Some(self.largest),
                setting: "the producer's message.max.bytes",
            },
            Some(Code::Fatal) => self.unusable().unwrap_or_else(|| Error::request(format!("send to {topic}"), error)),
            code => Error::Delivery {
                partition: TopicPartition::new(topic, partition.unwrap_or(-1)),
                code: code.unwrap_or(Code::Fail),
            },
        }
    }

    /// Why the producer is unusable, if it is.
    pub(super) fn unusable(&self) -> Option<Error> {
        let (code, reason) = self.producer.client().fatal_error()?;
        Some(Error::Producer { producer: self.name.clone(), code, reason })
    }

    /// Serves the reports that are there, without waiting.
    pub(super) fn poll(&self) {
        // One poll serves one event; an event holds the reports of a batch.
        for _ in 0..64 {
            let before = self.producer.in_flight_count();
            self.producer.poll(Duration::ZERO);
            if self.producer.in_flight_count() >= before {
                break;
            }
        }
    }

    /// Waits until every record sent has its report. Failures are kept, not returned.
    pub(super) fn drain(&self, timeout: Duration) -> Result<(), Error> {
        let start = Instant::now();
        while self.producer.in_flight_count() > 0 {
            if start.elapsed() >= timeout {
                let count = self.producer.in_flight_count();
                let what = format!("delivery of {count} records of producer '{}'", self.name);
                return Err(Error::Timeout { what, after: timeout });
            }
            self.producer.poll(SLICE);
        }
        Ok(())
    }

    /// Waits for a report, at most for `SLICE`.
    pub(super) fn wait(&self) {
        self.producer.poll(SLICE);
    }

    /// The first failure since the last call.
    pub(super) fn take_failure(&self) -> Option<Error> {
        self.producer.context().heard(|heard| heard.failure.take())
    }

    /// The highest delivered offset of each tag since the last call.
    pub(super) fn take_delivered(&self) -> BTreeMap<u32, i64> {
        self.producer.context().heard(|heard| std::mem::take(&mut heard.delivered))
    }

    /// Records without a report.
    pub(super) fn in_flight(&self) -> i32 {
        self.producer.in_flight_count()
    }

    /// rdkafka's producer, for transactions.
    pub(super) fn producer(&self) -> &BaseProducer<Reports> {
        &self.producer
    }
}

impl Reports {
    /// Works on what was heard. The lock is held for a few instructions only.
    fn heard<T>(&self, work: impl FnOnce(&mut Heard) -> T) -> T {
        work(&mut self.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ClientContext for Reports {
    fn log(&self, level: RDKafkaLogLevel, fac: &str, message: &str) {
        log(self.role, level, fac, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        // Connections come back, and what does not shows in the reports: nothing to decide here.
        tracing::debug!(target: "weir::kafka", client = self.role, %error, reason);
    }

    fn stats_raw(&self, _: &[u8]) {}
}

impl ProducerContext<NoCustomPartitioner> for Reports {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, tag: usize) {
        match result {
            Ok(message) => {
                let Some(tag) = tag.checked_sub(1).and_then(|tag| u32::try_from(tag).ok()) else { return };
                let offset = message.offset();
                self.heard(|heard| {
                    let highest = heard.delivered.entry(tag).or_insert(offset);
                    *highest = offset.max(*highest);
                });
            }
            Err((error, message)) => {
                let code = error.rdkafka_error_code().unwrap_or(Code::Fail);
                let failure = failure(code, message);
                self.heard(|heard| heard.failure.get_or_insert(failure).is_fatal());
            }
        }
    }
}

/// What a failed delivery means.
fn failure(code: Code, message: &impl Message) -> Error {
    if code == Code::MessageSizeTooLarge {
        return Error::TooLarge {
            topic: message.topic().to_owned(),
            size: message.payload().map_or(0, <[u8]>::len) + message.key().map_or(0, <[u8]>::len),
            limit: None,
            setting: "the topic's max.message.bytes",
        };
    }
    Error::Delivery { partition: TopicPartition::new(message.topic(), message.partition()), code }
}

/// The record's headers as rdkafka takes them.
fn headers(record: &Record) -> Option<OwnedHeaders> {
    let count = record.headers.len();
    (count > 0).then(|| {
        record.headers.iter().fold(OwnedHeaders::new_with_capacity(count), |headers, header| {
            headers.insert(Header { key: &header.name, value: header.value.as_deref() })
        })
    })
}
