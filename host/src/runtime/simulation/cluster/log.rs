//! One partition's log: records, markers, the last stable offset, compaction, a beginning that moves.
//!
//! As Kafka's: each transaction's end takes an offset of its own in each partition it wrote to; aborted records stay; readers of
//! committed records get nothing at or above the first offset of an open transaction; compaction removes records that a later
//! committed one of the same key supersedes, aborted ones and old markers, below the last stable offset, and never gives offsets away
//! again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;

use crate::model::Record;

/// A producer's id.
pub(in crate::runtime::simulation) type ProducerId = u64;

/// What an offset holds.
enum What {
    /// A record.
    Record {
        /// The record, with its offset.
        record: Record,
        /// Whose transaction it is part of.
        producer: Option<ProducerId>,
        /// Whether that transaction was aborted.
        aborted: bool,
    },
    /// The end of a transaction.
    Marker,
}

/// An offset that holds something.
struct Slot {
    /// The offset.
    offset: i64,
    /// What it holds.
    what: What,
}

/// A partition's log.
#[derive(Default)]
pub(in crate::runtime::simulation) struct Log {
    /// Its first offset.
    pub(in crate::runtime::simulation) begin: i64,
    /// Its next offset.
    pub(in crate::runtime::simulation) end: i64,
    /// What is in it, by offset.
    slots: Vec<Slot>,
    /// First offset of each open transaction.
    open: BTreeMap<ProducerId, i64>,
}

/// What a fetch passed.
#[derive(Default)]
pub(in crate::runtime::simulation) struct Passed {
    /// The next offset to fetch.
    pub(in crate::runtime::simulation) next: i64,
    /// Aborted records.
    pub(in crate::runtime::simulation) aborted: usize,
    /// Markers.
    pub(in crate::runtime::simulation) markers: usize,
    /// Offsets that hold nothing any more.
    pub(in crate::runtime::simulation) holes: usize,
}

impl Log {
    /// Appends a record, as part of a transaction of `producer` if there is one. Returns its offset.
    pub(in crate::runtime::simulation) fn append(&mut self, mut record: Record, producer: Option<ProducerId>) -> i64 {
        let offset = self.end;
        record.offset = offset;
        if let Some(producer) = producer {
            self.open.entry(producer).or_insert(offset);
        }
        self.slots.push(Slot { offset, what: What::Record { record, producer, aborted: false } });
        self.end += 1;
        offset
    }

    /// Ends a transaction with a marker.
    pub(in crate::runtime::simulation) fn end_transaction(&mut self, of: ProducerId, commit: bool) {
        let first = self.open.remove(&of);
        if let (Some(first), false) = (first, commit) {
            let from = self.at(first);
            for slot in &mut self.slots[from..] {
                if let What::Record { producer: Some(producer), aborted, .. } = &mut slot.what
                    && *producer == of
                {
                    *aborted = true;
                }
            }
        }
        self.slots.push(Slot { offset: self.end, what: What::Marker });
        self.end += 1;
    }

    /// The last stable offset: below it every transaction has ended.
    pub(in crate::runtime::simulation) fn stable(&self) -> i64 {
        self.open.values().min().copied().unwrap_or(self.end)
    }

    /// Where the first slot at or above `offset` is.
    fn at(&self, offset: i64) -> usize {
        self.slots.partition_point(|slot| slot.offset < offset)
    }

    /// Appends up to `max` committed records from `position` on.
    pub(in crate::runtime::simulation) fn fetch(
        &self,
        position: i64,
        max: usize,
        into: &mut VecDeque<Record>,
    ) -> Passed {
        let stable = self.stable();
        let mut passed = Passed { next: position, ..Passed::default() };
        let mut fetched = 0;
        for slot in &self.slots[self.at(position)..] {
            if slot.offset >= stable || fetched == max {
                break;
            }
            passed.holes += usize::try_from(slot.offset - passed.next).unwrap_or(0);
            passed.next = slot.offset + 1;
            match &slot.what {
                What::Marker => passed.markers += 1,
                What::Record { aborted: true, .. } => passed.aborted += 1,
                What::Record { record, .. } => {
                    into.push_back(record.clone());
                    fetched += 1;
                }
            }
        }
        if fetched < max && passed.next < stable {
            passed.holes += usize::try_from(stable - passed.next).unwrap_or(0);
            passed.next = stable;
        }
        passed
    }

    /// All committed records from `position` on.
    pub(in crate::runtime::simulation) fn committed(&self, position: i64) -> Vec<Record> {
        let mut records = VecDeque::new();
        self.fetch(position, usize::MAX, &mut records);
        records.into()
    }

    /// Removes what is superseded, aborted or an old marker, up to `below` (and the last stable offset). Removals (null values) stay:
    /// Kafka keeps them for longer than any reader lags.
    pub(in crate::runtime::simulation) fn compact(&mut self, below: i64) {
        let below = below.min(self.stable());
        let mut later: BTreeSet<Bytes> = BTreeSet::new();
        let stable = self.stable();
        for slot in self.slots.iter_mut().rev() {
            let keep = match &slot.what {
                What::Marker => slot.offset >= below,
                What::Record { aborted: true, .. } => slot.offset >= below,
                What::Record { record, .. } => {
                    let superseded = record.key.as_ref().is_some_and(|key| later.contains(key));
                    if slot.offset < stable
                        && let Some(key) = &record.key
                    {
                        later.insert(key.clone());
                    }
                    !superseded || slot.offset >= below
                }
            };
            if !keep {
                // Marked here, removed below.
                slot.offset = -1 - slot.offset;
            }
        }
        self.slots.retain(|slot| slot.offset >= 0);
    }

    /// Moves the beginning to the first offset that holds something, but not above `most`.
    pub(in crate::runtime::simulation) fn advance_begin(&mut self, most: i64) {
        let first = self.slots.first().map_or(self.stable(), |slot| slot.offset);
        self.begin = self.begin.max(first.min(most));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: &'static str, value: &'static str) -> Record {
        Record { key: Some(key.into()), value: Some(value.into()), ..Record::default() }
    }

    fn values(records: &[Record]) -> Vec<(i64, &str)> {
        let value = |record: &Record| -> &'static str {
            match record.value.as_deref() {
                Some(b"1") => "1",
                Some(b"2") => "2",
                Some(b"3") => "3",
                _ => "?",
            }
        };
        records.iter().map(|record| (record.offset, value(record))).collect()
    }

    #[test]
    fn readers_of_committed_records_see_neither_open_nor_aborted_ones_nor_markers() {
        let mut log = Log::default();
        log.append(record("k", "1"), Some(7));
        log.append(record("k", "2"), Some(8));
        assert_eq!((log.stable(), log.committed(0).len()), (0, 0));
        log.end_transaction(7, false);
        assert_eq!((log.stable(), log.end), (1, 3));
        log.end_transaction(8, true);
        assert_eq!((log.stable(), values(&log.committed(0))), (4, vec![(1, "2")]));
        let passed = log.fetch(0, 9, &mut VecDeque::new());
        assert_eq!((passed.next, passed.aborted, passed.markers, passed.holes), (4, 1, 2, 0));
    }

    #[test]
    fn compaction_keeps_the_last_committed_record_of_a_key_and_all_offsets() {
        let mut log = Log::default();
        log.append(record("k", "1"), None);
        log.append(record("k", "2"), Some(7));
        log.end_transaction(7, true);
        log.append(record("k", "3"), Some(8));
        log.compact(9);
        assert_eq!(values(&log.committed(0)), [(1, "2")], "an open transaction supersedes nothing");
        log.end_transaction(8, false);
        log.compact(9);
        assert_eq!((values(&log.committed(0)), log.end), (vec![(1, "2")], 5));
        let passed = log.fetch(0, 9, &mut VecDeque::new());
        assert_eq!((passed.next, passed.holes), (5, 4));
        log.advance_begin(9);
        assert_eq!(log.begin, 1);
    }
}
