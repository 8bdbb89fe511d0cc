//! The records of one input partition that were fetched and not yet processed.

use std::collections::VecDeque;

use crate::model::{Header, Record};

/// FIFO of a partition. Knows how far it was processed, and whether its end was seen.
#[derive(Debug, Default)]
pub struct RecordQueue {
    /// Fetched records, in the order of their offsets.
    records: VecDeque<Record>,
    /// Bytes that `records` take.
    bytes: usize,
    /// Next offset to process: everything below is in the task's state, or was nothing.
    position: i64,
    /// The partition's end after the records above, if the fetcher came there and nothing was fetched since.
    end: Option<i64>,
}

impl RecordQueue {
    /// An empty queue of a partition that is read from `position` on.
    pub fn new(position: i64) -> Self {
        Self { position, ..Self::default() }
    }

    /// Takes in what a fetch brought: records, and the exclusive end when the fetcher has reached it.
    pub fn extend(&mut self, records: impl IntoIterator<Item = Record>, end: Option<i64>) {
        for record in records {
            self.bytes += bytes(&record);
            self.end = None;
            self.records.push_back(record);
        }
        if end.is_some() {
            self.end = end;
        }
        self.step_over();
    }

    /// Timestamp of the next record.
    pub fn head_timestamp(&self) -> Option<i64> {
        self.records.front().map(|record| record.timestamp)
    }

    /// Takes the next record; the position moves behind it.
    pub fn pop(&mut self) -> Option<Record> {
        let record = self.records.pop_front()?;
        self.bytes -= bytes(&record);
        self.position = record.offset + 1;
        self.step_over();
        Some(record)
    }

    /// Puts back a record that was taken last and not processed; the position moves before it.
    pub fn put_back(&mut self, record: Record) {
        self.bytes += bytes(&record);
        self.position = record.offset;
        self.records.push_front(record);
    }

    /// What lies between the last record and the end (markers, aborted or compacted records) needs no processing.
    fn step_over(&mut self) {
        if let Some(end) = self.end
            && self.records.is_empty()
        {
            self.position = self.position.max(end);
        }
    }

    /// Next offset to process.
    pub fn position(&self) -> i64 {
        self.position
    }

    /// Whether there is nothing to process, and it is known that the log has no more.
    pub fn at_end(&self) -> bool {
        self.records.is_empty() && self.end.is_some()
    }

    /// Number of buffered records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether no record is buffered.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes of buffered records.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Bytes that a record takes in a queue: its own, and those of what describes it.
fn bytes(record: &Record) -> usize {
    record.size() + size_of::<Record>() + record.headers.len() * size_of::<Header>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(offset: i64) -> Record {
        Record { offset, timestamp: offset * 10, value: Some("v".into()), ..Record::default() }
    }

    #[test]
    fn position_moves_behind_processed_records_and_over_what_is_no_record() {
        let mut queue = RecordQueue::new(5);
        queue.extend([record(5), record(8)], Some(10));
        assert_eq!((queue.position(), queue.at_end()), (5, false));
        queue.pop();
        assert_eq!(queue.position(), 6, "between records only what was processed counts");
        queue.pop();
        assert_eq!((queue.position(), queue.at_end()), (10, true), "a trailing marker is stepped over");
        queue.extend([record(10)], None);
        assert_eq!((queue.position(), queue.at_end()), (10, false), "the end is no longer known");
        queue.pop();
        assert_eq!((queue.position(), queue.at_end()), (11, false));
        queue.extend([], Some(11));
        assert!(queue.at_end());
    }

    #[test]
    fn a_record_put_back_is_the_next_again() {
        let mut queue = RecordQueue::new(0);
        queue.extend([record(3), record(4)], None);
        let taken = queue.pop().unwrap();
        let bytes = queue.bytes();
        queue.put_back(taken.clone());
        assert_eq!((queue.position(), queue.len(), queue.bytes()), (3, 2, bytes + super::bytes(&taken)));
        assert_eq!(queue.pop(), Some(taken));
    }
}
