//! Outputs under at-least-once: sent at once, in order, without duplicates from retries.

use std::time::Duration;

use super::outbox::Outbox;
use super::{ClientSettings, Error};
use crate::model::Record;

/// An idempotent producer outside transactions.
pub struct OutputProducer {
    /// The producer.
    outbox: Outbox,
}

impl OutputProducer {
    /// Does not connect yet.
    pub fn new(settings: &ClientSettings) -> Result<Self, Error> {
        let config = settings.output_producer();
        Ok(Self { outbox: Outbox::new(&config, "outputs", "outputs", settings.message_timeout())? })
    }

    /// Queues a record. `partition` `None`: murmur2 of the key as Java (null key: random). While the queue is full, waits for
    /// room, at most `message.timeout.ms`.
    pub fn send(&self, topic: &str, partition: Option<i32>, record: &Record) -> Result<(), Error> {
        self.outbox.send(topic, partition, record, None)
    }

    /// Waits until the broker has all records. Returns the first failure since the last flush: after it, records are missing
    /// in their topics. After a time-out the rest stays queued, and the next flush waits for it.
    pub fn flush(&self, timeout: Duration) -> Result<(), Error> {
        let drained = self.outbox.drain(timeout);
        if let Some(failure) = self.outbox.unusable().or_else(|| self.outbox.take_failure()) {
            return Err(failure);
        }
        drained
    }

    /// Whether records are on their way: queued or sent, and not known to be delivered.
    pub fn has_unsent(&self) -> bool {
        self.outbox.in_flight() > 0
    }

    /// Whether it has failed for good: another one must be made.
    pub fn is_unusable(&self) -> bool {
        self.outbox.unusable().is_some()
    }

    /// Serves delivery reports without waiting.
    pub fn poll(&self) {
        self.outbox.poll();
    }
}
