//! One stream thread's transactions: changelog records, input offsets and, under exactly-once, outputs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::producer::Producer;
use rdkafka::{Offset, TopicPartitionList};

use super::outbox::Outbox;
use super::source_consumer::GroupMetadata;
use super::{ClientSettings, Error};
use crate::model::{Record, TopicPartition};

/// How long one attempt to abort may take while records are still on their way: between attempts their reports are served,
/// which librdkafka waits for in vain.
const ABORT_ATTEMPT: Duration = Duration::from_millis(20);

/// A producer of transactions. After an error of `commit` or `abort` that is not to be resumed it is spent: make a new one of
/// the same id, whose `init` ends what this one left open. (A request that timed out may still be on its way, and Kafka would
/// take it for the next transaction's; after a failed delivery librdkafka 2.12.1 numbers the next transaction's records wrongly.)
pub struct TransactionalProducer {
    /// The producer.
    outbox: Outbox,
    /// `transactional.id`.
    id: String,
    /// Whether `init` has succeeded.
    ready: AtomicBool,
}

impl TransactionalProducer {
    /// Does not connect yet.
    pub fn new(settings: &ClientSettings, transactional_id: &str) -> Result<Self, Error> {
        let config = settings.transactional_producer(transactional_id);
        let outbox = Outbox::new(&config, "transactions", transactional_id, settings.message_timeout())?;
        Ok(Self { outbox, id: transactional_id.to_owned(), ready: AtomicBool::new(false) })
    }

    /// Its `transactional.id`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Fences earlier producers of the same id and ends what they left open. After a time-out it may be called again; once it has
    /// succeeded it does nothing.
    pub fn init(&self, timeout: Duration) -> Result<(), Error> {
        if self.ready.load(Ordering::Relaxed) {
            return Ok(());
        }
        let result = self.outbox.producer().init_transactions(timeout);
        result.map_err(|error| self.error("init", &error))?;
        self.ready.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Opens a transaction.
    pub fn begin(&self) -> Result<(), Error> {
        self.forget();
        self.outbox.producer().begin_transaction().map_err(|error| self.error("begin", &error))
    }

    /// Queues a record. `partition` `None`: murmur2 of the key as Java (null key: random). `tag`: what its delivered offset
    /// counts for, see [`Self::take_delivered`]. While the queue is full, waits for room, at most `message.timeout.ms`.
    pub fn send(&self, topic: &str, partition: Option<i32>, record: &Record, tag: Option<u32>) -> Result<(), Error> {
        self.outbox.send(topic, partition, record, tag)
    }

    /// Adds the group's offsets (the next ones to process) and their metadata to the transaction. Waits for the answer, at
    /// most for what is left of `transaction.timeout.ms`; after a time-out the same call may be made again
    /// ([`Error::can_be_resumed`]). A member that the group has gone on without is refused ([`Error::is_stale_member`]).
    pub fn send_offsets(
        &self,
        offsets: &[(TopicPartition, i64, String)],
        group: &GroupMetadata,
        timeout: Duration,
    ) -> Result<(), Error> {
        let mut list = TopicPartitionList::with_capacity(offsets.len());
        for (partition, offset, metadata) in offsets {
            let mut element = list.add_partition(&partition.topic, partition.partition);
            let set = element.set_offset(Offset::Offset(*offset));
            set.map_err(|error| Error::request(format!("offset {offset} of {partition}"), &error))?;
            element.set_metadata(metadata);
        }
        let result = self.outbox.producer().send_offsets_to_transaction(&list, group.inner(), timeout);
        result.map_err(|error| self.error("adding offsets", &error))
    }

    /// Waits until all records are delivered; the first that was not is the error. What follows in the transaction is the
    /// caller's: after this, `take_delivered` is complete.
    pub fn flush(&self, timeout: Duration) -> Result<(), Error> {
        self.outbox.drain(timeout)?;
        match self.outbox.unusable().or_else(|| self.outbox.take_failure()) {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    /// Waits until all records are delivered, then commits. Fails with the first delivery failure or a time-out while the
    /// outcome is certain (not committed), and with [`Error::UnknownOutcome`] from then on. After a time-out it may be called
    /// again, to wait on ([`Error::can_be_resumed`]).
    pub fn commit(&self, timeout: Duration) -> Result<(), Error> {
        let start = Instant::now();
        // rdkafka's own flush before the commit waits in steps of 100 ms: nothing must be left for it to wait for.
        self.outbox.drain(timeout)?;
        if let Some(failure) = self.outbox.unusable().or_else(|| self.outbox.take_failure()) {
            return Err(failure);
        }
        let left = timeout.saturating_sub(start.elapsed()).max(Duration::from_millis(1));
        self.outbox.producer().commit_transaction(left).map_err(|error| {
            let (code, reason, fatal) = parts(&error);
            let resumable = matches!(&error, KafkaError::Transaction(inner) if inner.is_retriable());
            Error::UnknownOutcome { transactional_id: self.id.clone(), code, reason, fatal, resumable }
        })
    }

    /// Aborts the transaction; its records never count as delivered.
    pub fn abort(&self, timeout: Duration) -> Result<(), Error> {
        let start = Instant::now();
        loop {
            let left = timeout.saturating_sub(start.elapsed());
            let attempt = if self.outbox.in_flight() > 0 { left.min(ABORT_ATTEMPT) } else { left };
            match self.outbox.producer().abort_transaction(attempt.max(Duration::from_millis(1))) {
                Ok(()) => {
                    self.outbox.drain(timeout.saturating_sub(start.elapsed()))?;
                    self.forget();
                    return Ok(());
                }
                Err(KafkaError::Transaction(error)) if error.is_retriable() && start.elapsed() < timeout => {
                    self.outbox.wait();
                    self.outbox.poll();
                }
                Err(error) => return Err(self.error("abort", &error)),
            }
        }
    }

    /// Highest delivered offset of each tag since the last call. Complete after a commit.
    pub fn take_delivered(&self) -> BTreeMap<u32, i64> {
        self.outbox.take_delivered()
    }

    /// Serves delivery reports without waiting.
    pub fn poll(&self) {
        self.outbox.poll();
    }

    /// Drops what was heard of an earlier transaction.
    fn forget(&self) {
        drop(self.outbox.take_delivered());
        drop(self.outbox.take_failure());
    }

    /// A step that failed.
    fn error(&self, step: &'static str, error: &KafkaError) -> Error {
        match error {
            KafkaError::Transaction(inner) => Error::Transaction {
                transactional_id: self.id.clone(),
                step,
                error: inner.clone(),
                reason: inner.string(),
            },
            other => Error::request(format!("transaction of '{}': {step}", self.id), other),
        }
    }
}

/// Code, words and whether the producer is unusable.
fn parts(error: &KafkaError) -> (Code, String, bool) {
    match error {
        KafkaError::Transaction(inner) => (inner.code(), inner.string(), inner.is_fatal()),
        other => (other.rdkafka_error_code().unwrap_or(Code::Fail), other.to_string(), false),
    }
}
