//! The transaction coordinator: ids with epochs, open transactions, their ends.
//!
//! Ending a transaction is decided at once and carried out later, one partition after another, as Kafka does: between the two its
//! records are stable nowhere, and no transaction of the same id may begin. A producer whose epoch is not the last one of its id is
//! refused.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::log::ProducerId;
use crate::model::TopicPartition;

/// How long a transaction may stay open.
const TRANSACTION: Duration = Duration::from_secs(2);

/// A producer as its coordinator knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::runtime::simulation) struct Identity {
    /// `transactional.id`.
    pub(in crate::runtime::simulation) id: String,
    /// The producer's id, the same for all epochs.
    pub(in crate::runtime::simulation) producer: ProducerId,
    /// Which of the producers that had the id it is.
    pub(in crate::runtime::simulation) epoch: u32,
}

/// A transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Transaction {
    /// None.
    #[default]
    Empty,
    /// Open.
    Open {
        /// Since when.
        since: Duration,
        /// Where it wrote.
        partitions: BTreeSet<TopicPartition>,
    },
    /// Decided.
    Ending {
        /// Whether it is committed.
        commit: bool,
        /// Where its marker is missing.
        partitions: BTreeSet<TopicPartition>,
    },
}

/// A transactional id.
#[derive(Debug, Default)]
struct Known {
    /// Its producer id.
    producer: ProducerId,
    /// Its last epoch.
    epoch: u32,
    /// Its transaction.
    transaction: Transaction,
}

/// Why the coordinator refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime::simulation) enum Refused {
    /// Another producer has the id.
    Fenced,
    /// The last transaction has not been carried out.
    Concurrent,
}

/// A step of carrying out an end.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::runtime::simulation) enum Carry {
    /// Write a marker there.
    Marker(TopicPartition),
    /// All markers are written: the group's offsets are next, then it is over.
    Offsets,
}

/// All transactional ids.
#[derive(Default)]
pub(in crate::runtime::simulation) struct Coordinator {
    /// By id.
    ids: BTreeMap<String, Known>,
    /// The last producer id given.
    last: ProducerId,
}

impl Coordinator {
    /// Makes a producer the one of its id. What its predecessor left open is aborted first.
    pub(in crate::runtime::simulation) fn init(&mut self, id: &str) -> Result<Identity, Refused> {
        let last = &mut self.last;
        let known = self.ids.entry(id.to_owned()).or_insert_with(|| {
            *last += 1;
            Known { producer: *last, ..Known::default() }
        });
        match std::mem::take(&mut known.transaction) {
            Transaction::Empty => {
                known.epoch += 1;
                Ok(Identity { id: id.to_owned(), producer: known.producer, epoch: known.epoch })
            }
            Transaction::Open { partitions, .. } => {
                known.epoch += 1;
                known.transaction = Transaction::Ending { commit: false, partitions };
                Err(Refused::Concurrent)
            }
            ending @ Transaction::Ending { .. } => {
                known.transaction = ending;
                Err(Refused::Concurrent)
            }
        }
    }

    /// The id's present producer, fenced or not: what a world without fencing knows.
    pub(in crate::runtime::simulation) fn present(&self, id: &str) -> Option<Identity> {
        let known = self.ids.get(id)?;
        Some(Identity { id: id.to_owned(), producer: known.producer, epoch: known.epoch })
    }

    /// The id of this producer, if it is still its own.
    fn own(&mut self, of: &Identity) -> Result<&mut Known, Refused> {
        self.ids.get_mut(&of.id).filter(|known| known.epoch == of.epoch).ok_or(Refused::Fenced)
    }

    /// Adds a partition to the producer's transaction, which opens with the first.
    pub(in crate::runtime::simulation) fn add(
        &mut self,
        of: &Identity,
        partition: Option<&TopicPartition>,
        now: Duration,
    ) -> Result<(), Refused> {
        let known = self.own(of)?;
        match &mut known.transaction {
            Transaction::Ending { .. } => return Err(Refused::Concurrent),
            Transaction::Open { partitions, .. } => partitions.extend(partition.cloned()),
            empty => *empty = Transaction::Open { since: now, partitions: partition.cloned().into_iter().collect() },
        }
        Ok(())
    }

    /// Whether this producer has a transaction open.
    pub(in crate::runtime::simulation) fn is_open(&mut self, of: &Identity) -> bool {
        self.own(of).is_ok_and(|known| matches!(known.transaction, Transaction::Open { .. }))
    }

    /// Decides the end of the producer's transaction. Nothing open: nothing to do.
    pub(in crate::runtime::simulation) fn end(&mut self, of: &Identity, commit: bool) -> Result<(), Refused> {
        let known = self.own(of)?;
        match std::mem::take(&mut known.transaction) {
            Transaction::Empty => {}
            Transaction::Open { partitions, .. } => known.transaction = Transaction::Ending { commit, partitions },
            ending @ Transaction::Ending { .. } => {
                // The same request again finds it done; another one comes too soon.
                let same = matches!(&ending, Transaction::Ending { commit: decided, .. } if *decided == commit);
                known.transaction = ending;
                return if same { Ok(()) } else { Err(Refused::Concurrent) };
            }
        }
        Ok(())
    }

    /// What is to be carried out next, of any id or of this one; with the producer and whether it commits.
    pub(in crate::runtime::simulation) fn carry(&mut self, only: Option<&str>) -> Option<(ProducerId, bool, Carry)> {
        for (_, known) in self.ids.iter_mut().filter(|(id, _)| only.is_none_or(|only| only == *id)) {
            let Transaction::Ending { commit, partitions } = &mut known.transaction else { continue };
            let commit = *commit;
            return Some(match partitions.pop_first() {
                Some(partition) => (known.producer, commit, Carry::Marker(partition)),
                None => {
                    known.transaction = Transaction::Empty;
                    (known.producer, commit, Carry::Offsets)
                }
            });
        }
        None
    }

    /// Aborts what has been open for too long, and fences who left it so. Returns how many transactions that were.
    pub(in crate::runtime::simulation) fn step(&mut self, now: Duration) -> usize {
        let mut aborted = 0;
        for known in self.ids.values_mut() {
            if let Transaction::Open { since, partitions } = &mut known.transaction
                && now.saturating_sub(*since) > TRANSACTION
            {
                let partitions = std::mem::take(partitions);
                known.transaction = Transaction::Ending { commit: false, partitions };
                known.epoch += 1;
                aborted += 1;
            }
        }
        aborted
    }

    /// Whether no transaction is open or being ended.
    pub(in crate::runtime::simulation) fn is_idle(&self) -> bool {
        self.ids.values().all(|known| known.transaction == Transaction::Empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_producer_ends_what_the_old_one_left_open_and_fences_it() {
        let mut coordinator = Coordinator::default();
        let now = Duration::ZERO;
        let partition = TopicPartition::new("out", 0);
        let old = coordinator.init("id").unwrap();
        coordinator.add(&old, Some(&partition), now).unwrap();
        assert_eq!(coordinator.init("id"), Err(Refused::Concurrent));
        assert_eq!(coordinator.end(&old, true), Err(Refused::Fenced));
        assert_eq!(coordinator.carry(None), Some((old.producer, false, Carry::Marker(partition))));
        assert_eq!(coordinator.carry(None), Some((old.producer, false, Carry::Offsets)));
        let new = coordinator.init("id").unwrap();
        assert_eq!((new.producer, new.epoch > old.epoch, coordinator.is_idle()), (old.producer, true, true));
    }

    #[test]
    fn an_end_that_is_decided_stays_so_and_an_open_one_times_out() {
        let mut coordinator = Coordinator::default();
        let one = coordinator.init("id").unwrap();
        coordinator.add(&one, None, Duration::ZERO).unwrap();
        coordinator.end(&one, true).unwrap();
        assert_eq!((coordinator.end(&one, true), coordinator.end(&one, false)), (Ok(()), Err(Refused::Concurrent)));
        assert_eq!(coordinator.carry(None), Some((one.producer, true, Carry::Offsets)));
        coordinator.add(&one, None, Duration::ZERO).unwrap();
        assert_eq!((coordinator.step(TRANSACTION), coordinator.step(TRANSACTION * 2)), (0, 1));
        assert_eq!(coordinator.end(&one, true), Err(Refused::Fenced));
    }
}
