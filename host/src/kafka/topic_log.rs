//! A topic of one partition as an append-only log: the registry's.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::client::locked;
use super::outbox::Outbox;
use super::{ClientSettings, Error, LogEnds, PartitionQueue, TableReader, Waker};
use crate::model::{Record, TopicPartition};

/// Records taken at once.
const RECORDS: usize = 256;

/// Bytes taken at once.
const BYTES: usize = 4 << 20;

/// How long one wait lasts before the clients' own events are served again.
const SLICE: Duration = Duration::from_millis(100);

/// The log: appends, and reads from its begin on.
pub struct TopicLog {
    /// The topic's only partition.
    partition: TopicPartition,
    /// For appends.
    outbox: Outbox,
    /// How long an append may take.
    patience: Duration,
    /// Only one append at a time: the offset reported is its own. Held while the broker answers.
    appending: Mutex<()>,
    /// For reads; keeps the queue's client served.
    reader: Arc<TableReader>,
    /// The partition's queue.
    queue: PartitionQueue,
    /// Told when the queue becomes non-empty.
    signal: Arc<Signal>,
    /// Read, not yet handed out.
    read: VecDeque<Record>,
    /// Everything below has been handed out, or was not there to hand out.
    position: i64,
    /// Everything below is in `read`, or before it.
    fetched: i64,
    /// The log's end when it was opened.
    end_at_open: i64,
}

/// How long to wait before the log's ends are asked for again.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Wakes the reader.
#[derive(Default)]
struct Signal {
    /// Whether the queue has become non-empty since the reader looked.
    raised: Mutex<bool>,
    /// Signalled with it.
    changed: Condvar,
}

impl TopicLog {
    /// Opens the log of `topic`, which must exist with one partition.
    pub fn open(settings: &ClientSettings, topic: &str, timeout: Duration) -> Result<Self, Error> {
        let partition = TopicPartition::new(topic, 0);
        let (ends, start) = (LogEnds::new(settings)?, Instant::now());
        let range = loop {
            // A topic that another instance has just created may have no leader yet.
            match ends.of(&partition, timeout.saturating_sub(start.elapsed())) {
                Err(error) if error.is_retriable() && start.elapsed() < timeout => ends.pause(LOOK_EVERY),
                range => break range?,
            }
        };
        let reader = TableReader::new(settings)?;
        let signal = Arc::new(Signal::default());
        let raise = Arc::clone(&signal);
        let waker: Waker = Arc::new(move || raise.raise());
        let mut queues = reader.open(&[(partition.clone(), range.begin)], &waker)?;
        let queue = queues.pop().ok_or_else(|| Error::Missing { name: partition.to_string() })?;
        Ok(Self {
            outbox: Outbox::new(&settings.log_producer(), "log", topic, timeout)?,
            partition,
            patience: timeout,
            appending: Mutex::new(()),
            reader,
            queue,
            signal,
            read: VecDeque::new(),
            position: range.begin,
            fetched: range.begin,
            end_at_open: range.end,
        })
    }

    /// Appends a record and returns its offset, once all in-sync replicas have it.
    pub fn append(&self, key: &[u8], value: Option<&[u8]>) -> Result<i64, Error> {
        let _one_at_a_time = locked(&self.appending);
        let record = Record {
            key: Some(Bytes::copy_from_slice(key)),
            value: value.map(Bytes::copy_from_slice),
            ..Record::default()
        };
        drop(self.outbox.take_delivered());
        self.outbox.send(&self.partition.topic, Some(self.partition.partition), &record, Some(0))?;
        self.outbox.drain(self.patience)?;
        if let Some(failure) = self.outbox.unusable().or_else(|| self.outbox.take_failure()) {
            return Err(failure);
        }
        let delivered = self.outbox.take_delivered();
        delivered
            .get(&0)
            .copied()
            .ok_or_else(|| Error::Timeout { what: format!("an append to {}", self.partition), after: self.patience })
    }

    /// The next committed record: offset, key, value. Waits for one, at most for `timeout`.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<(i64, Bytes, Option<Bytes>)>, Error> {
        let start = Instant::now();
        loop {
            if let Some(record) = self.read.pop_front() {
                self.position = if self.read.is_empty() { self.fetched } else { record.offset + 1 };
                return Ok(Some((record.offset, record.key.unwrap_or_default(), record.value)));
            }
            self.signal.lower();
            self.reader.poll(Duration::ZERO)?;
            let polled = self.queue.poll(RECORDS, BYTES, &mut self.read)?;
            let after_last = self.read.back().map(|record| record.offset + 1);
            self.fetched = polled.end.or(after_last).unwrap_or(self.fetched).max(self.fetched);
            if self.read.is_empty() {
                self.position = self.fetched;
                let left = timeout.saturating_sub(start.elapsed());
                if left.is_zero() {
                    return Ok(None);
                }
                self.signal.wait(left.min(SLICE));
            }
        }
    }

    /// The log's end when it was opened: whoever has reached it has seen all that was there.
    pub fn end_at_open(&self) -> i64 {
        self.end_at_open
    }

    /// Everything below has been returned by [`Self::next`], or was not there to return (compacted, markers).
    pub fn position(&self) -> i64 {
        self.position
    }
}

impl Signal {
    /// Called by librdkafka.
    fn raise(&self) {
        *locked(&self.raised) = true;
        self.changed.notify_one();
    }

    /// Called before the queue is looked at.
    fn lower(&self) {
        *locked(&self.raised) = false;
    }

    /// Waits until the queue has something, or the time is up.
    fn wait(&self, timeout: Duration) {
        let raised = locked(&self.raised);
        // A poisoned lock ends the wait early, which is harmless.
        drop(self.changed.wait_timeout_while(raised, timeout, |raised| !*raised));
    }
}
