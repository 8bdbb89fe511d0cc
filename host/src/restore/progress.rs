//! How far one partition of a table or changelog is restored.
//!
//! ```text
//! begin ≤ start ≤ applied ──▶ target = min(first end, current end)
//! ```
//!
//! Done is when everything below the target is *applied*: the position behind what the task has applied, which starts at the offset
//! assigned, so that an empty log is done at once; or the offset of an end-of-partition event, so that a log whose tail is markers,
//! aborted data or compacted away is done too. It is never the last record's offset + 1 that must equal the end.

use std::time::Duration;

use crate::model::{RestoreStatus, TopicPartition};

/// The restore of one partition. Once done it stays done: live reading goes on with the same position.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The store that is filled.
    store: String,
    /// The partition that is read.
    partition: TopicPartition,
    /// The offset assigned.
    start: i64,
    /// Everything below is applied.
    applied: i64,
    /// The log as the broker last said.
    log: Option<Log>,
    /// Where the reader last found nothing more to read, under read_committed.
    reader_end: Option<i64>,
    /// Records applied until it was done.
    records: u64,
    /// When the restore began, on the caller's clock.
    started_at: Duration,
    /// Whether everything below the target is, or was, applied.
    done: bool,
}

/// A log, as the broker says.
#[derive(Clone, Copy, Debug)]
struct Log {
    /// Its first offset now.
    begin: i64,
    /// Its end at the first answer: what was there when the restore began.
    first_end: i64,
    /// Its end now.
    end: i64,
}

impl Log {
    /// Below this everything must be applied. A log that has become shorter than at first is not waited for.
    fn target(self) -> i64 {
        self.first_end.min(self.end)
    }
}

impl Progress {
    /// A restore of `store` from `partition` that begins at the offset `start`, at `started_at` on the caller's clock.
    pub fn new(store: &str, partition: TopicPartition, start: i64, started_at: Duration) -> Self {
        Self {
            store: store.to_owned(),
            partition,
            start,
            applied: start,
            log: None,
            reader_end: None,
            records: 0,
            started_at,
            done: false,
        }
    }

    /// The partition that is read.
    pub fn partition(&self) -> &TopicPartition {
        &self.partition
    }

    /// Everything below is applied: what a checkpoint may say.
    pub fn position(&self) -> i64 {
        self.applied
    }

    /// Where the reader last found nothing more to read.
    pub fn reader_end(&self) -> Option<i64> {
        self.reader_end
    }

    /// Records applied until it was done.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The task has applied `records` more records, and with them everything below `position`.
    pub fn applied(&mut self, position: i64, records: u64) {
        if !self.done {
            self.records += records;
        }
        self.advance(position);
    }

    /// The reader has delivered everything below `offset`, the task has applied it, and nothing more is readable now.
    pub fn end_of_partition(&mut self, offset: i64) {
        self.reader_end = Some(offset);
        self.advance(offset);
    }

    /// The broker says that the log holds offsets from `begin` to before `end` (its true end, open transactions included).
    pub fn log_range(&mut self, begin: i64, end: i64) {
        let first_end = self.log.map_or(end, |log| log.first_end);
        self.log = Some(Log { begin, first_end, end });
        self.decide();
    }

    /// Whether everything below the target is applied.
    pub fn done(&self) -> bool {
        self.done
    }

    /// What to say of it at `now` on the caller's clock.
    pub fn status(&self, now: Duration) -> RestoreStatus {
        let elapsed = now.saturating_sub(self.started_at).as_secs_f64();
        let target = self.log.map(Log::target);
        let (mut rate, mut seconds_left) = (0.0, None);
        if !self.done && elapsed > 0.0 {
            rate = self.records as f64 / elapsed;
            // In offsets and not in records: nobody knows how many of the offsets left still have a record.
            let (gone, left) = (self.applied - self.start, target.map(|target| target - self.applied));
            seconds_left = left.filter(|_| gone > 0).map(|left| left as f64 * elapsed / gone as f64);
        }
        RestoreStatus {
            store: self.store.clone(),
            topic: self.partition.topic.to_string(),
            partition: self.partition.partition,
            start: self.start,
            end: target,
            position: self.applied,
            records: self.records,
            rate,
            seconds_left,
            done: self.done,
            waits_for: self.waits_for(),
        }
    }

    /// What is missing, for people; empty when done.
    fn waits_for(&self) -> String {
        if self.done {
            return String::new();
        }
        let Some(target) = self.log.map(Log::target) else {
            return format!("waits for the broker to say where {} ends", self.partition);
        };
        match self.reader_end {
            Some(end) if end == self.applied => {
                format!("waits for an open transaction at offset {end} (last stable offset); end is {target}")
            }
            _ => format!(
                "reads {}: {} of offsets {} to {target} left",
                self.partition,
                target - self.applied,
                self.start
            ),
        }
    }

    /// Everything below `position` is applied. Never goes back.
    fn advance(&mut self, position: i64) {
        self.applied = self.applied.max(position);
        self.decide();
    }

    /// Ends the restore if nothing is missing: all below the target is applied, or has been deleted from the log.
    fn decide(&mut self) {
        if let Some(log) = self.log {
            let target = log.target();
            self.done |= self.applied >= target || log.begin >= target;
        }
    }
}

#[cfg(test)]
mod tests;
