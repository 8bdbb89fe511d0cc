//! The input partitions of a task, and which record is next.

use crate::model::Record;

use super::RecordQueue;

/// A record taken from the group.
#[derive(Clone, Debug)]
pub struct Picked {
    /// Index of its source in the plan.
    pub source: usize,
    /// The record.
    pub record: Record,
}

/// One queue a source. Gives records lowest timestamp first, ties in declared order, one partition's in order of offset.
///
/// It gives nothing as long as some queue is empty without its end being known: a record with a lower timestamp may be
/// on its way (task idling, KIP-695 with `max.task.idle.ms = 0`).
#[derive(Debug)]
pub struct PartitionGroup {
    /// By source.
    queues: Vec<RecordQueue>,
    /// Sources that take part in the order; the others (tables that are read first) are no part of it.
    ordered: Vec<usize>,
}

impl PartitionGroup {
    /// A group of these queues, of which those in `ordered` are given in the order of timestamps.
    pub fn new(queues: Vec<RecordQueue>, ordered: Vec<usize>) -> Self {
        Self { queues, ordered }
    }

    /// The queue of a source.
    pub fn queue(&self, source: usize) -> Option<&RecordQueue> {
        self.queues.get(source)
    }

    /// The queue of a source, to fill it.
    pub fn queue_mut(&mut self, source: usize) -> Option<&mut RecordQueue> {
        self.queues.get_mut(source)
    }

    /// All queues, by source.
    pub fn queues(&self) -> &[RecordQueue] {
        &self.queues
    }

    /// The source whose record is next, if that can be told.
    pub fn next_source(&self) -> Option<usize> {
        let mut next: Option<(i64, usize)> = None;
        for &source in &self.ordered {
            let queue = self.queues.get(source)?;
            match queue.head_timestamp() {
                Some(timestamp) => {
                    if next.is_none_or(|(lowest, _)| timestamp < lowest) {
                        next = Some((timestamp, source));
                    }
                }
                None if queue.at_end() => {}
                None => return None,
            }
        }
        next.map(|(_, source)| source)
    }

    /// Takes up to `max` records in order, only while `belongs` says so of the next one's source.
    pub fn take(&mut self, max: usize, belongs: impl Fn(usize) -> bool) -> Vec<Picked> {
        let mut taken = Vec::new();
        while taken.len() < max {
            let Some(source) = self.next_source().filter(|source| belongs(*source)) else { break };
            let Some(record) = self.queues.get_mut(source).and_then(RecordQueue::pop) else { break };
            taken.push(Picked { source, record });
        }
        taken
    }

    /// Puts back records that were taken last, in the order in which they were taken.
    pub fn put_back(&mut self, taken: Vec<Picked>) {
        for picked in taken.into_iter().rev() {
            if let Some(queue) = self.queues.get_mut(picked.source) {
                queue.put_back(picked.record);
            }
        }
    }

    /// The input that keeps the task from choosing: empty, and its end not known.
    pub fn waits_for(&self) -> Option<usize> {
        self.ordered
            .iter()
            .copied()
            .find(|source| self.queues.get(*source).is_some_and(|queue| queue.is_empty() && !queue.at_end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(offset: i64, timestamp: i64) -> Record {
        Record { offset, timestamp, value: Some("v".into()), ..Record::default() }
    }

    fn group(records: &[&[(i64, i64)]]) -> PartitionGroup {
        let queues = records
            .iter()
            .map(|of| {
                let mut queue = RecordQueue::new(0);
                queue.extend(of.iter().map(|(offset, timestamp)| record(*offset, *timestamp)), None);
                queue
            })
            .collect();
        PartitionGroup::new(queues, (0..records.len()).collect())
    }

    fn order(taken: &[Picked]) -> Vec<(usize, i64)> {
        taken.iter().map(|picked| (picked.source, picked.record.offset)).collect()
    }

    #[test]
    fn lowest_timestamp_first_ties_in_declared_order() {
        let mut group = group(&[&[(0, 5), (1, 1), (2, 9)], &[(0, 5), (1, 6), (2, 9)]]);
        assert_eq!(order(&group.take(9, |_| true)), [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2)]);
        assert_eq!(group.waits_for(), Some(0), "the first is empty and its end isn't known");
        group.queue_mut(0).unwrap().extend([], Some(3));
        assert_eq!(order(&group.take(9, |_| true)), [(1, 2)]);
    }

    #[test]
    fn an_empty_queue_holds_the_others_until_its_end_is_known() {
        let mut group = group(&[&[], &[(0, 7)]]);
        assert!(group.take(9, |_| true).is_empty());
        group.queue_mut(0).unwrap().extend([], Some(0));
        assert_eq!(order(&group.take(9, |_| true)), [(1, 0)]);
    }

    #[test]
    fn put_back_restores_the_order() {
        let mut group = group(&[&[(0, 1), (1, 3)], &[(0, 2), (1, 4)]]);
        let taken = group.take(3, |_| true);
        let before = order(&taken);
        group.put_back(taken);
        assert_eq!(order(&group.take(3, |_| true)), before);
    }
}
