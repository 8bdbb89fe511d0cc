//! Transactions: records go out when they are flushed, or before; answers are lost, come late, or say no.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::{output, timeout};
use crate::kafka::Error;
use crate::model::{Checkpoint, Entry, Record, StateWrite, TaskId, TopicPartition};
use crate::runtime::edge::{Place, Transactions};
use crate::runtime::simulation::cluster::{Identity, MemberPlace, Refused};
use crate::runtime::simulation::coverage::Seen;
use crate::runtime::simulation::fault::Fault;
use crate::runtime::simulation::logic::STATES;
use crate::runtime::simulation::wire::Wire;
use crate::runtime::simulation::world::{Stage, World};

/// A transactional producer.
pub(super) struct Producer {
    /// The process.
    wire: Wire,
    /// `transactional.id`.
    id: String,
    /// What it knows.
    known: RefCell<Known>,
}

/// What a producer knows.
#[derive(Default)]
struct Known {
    /// Who it is, once it is initialised.
    identity: Option<Identity>,
    /// Records on their way.
    queue: VecDeque<(TopicPartition, Record, Option<u32>)>,
    /// Highest delivered offset of each tag.
    delivered: BTreeMap<u32, i64>,
    /// Why a record was not delivered.
    failure: Option<Error>,
    /// Delivered records of changelogs, and the offsets added: what a faulty engine applies too early.
    changes: Vec<(TopicPartition, Record)>,
    /// See `changes`.
    offsets: Vec<(TopicPartition, i64, String)>,
}

impl Producer {
    /// Not initialised.
    pub(super) fn new(wire: Wire, id: &str) -> Self {
        Self { wire, id: id.to_owned(), known: RefCell::default() }
    }

    /// Who it is; an error before it is initialised.
    fn identity(&self) -> Result<Identity, Error> {
        self.known.borrow().identity.clone().ok_or_else(|| timeout("a producer that was not initialised"))
    }

    /// The coordinator's refusal of this producer.
    fn refused(&self, world: &mut World) -> Error {
        world.saw(Seen::ProducerFenced);
        Error::fenced(&self.id)
    }

    /// Adds a partition (or the group's offsets) to the transaction. An end that is being carried out is waited for.
    fn add(&self, world: &mut World, identity: &Identity, partition: Option<&TopicPartition>) -> Result<(), Error> {
        let now = world.now;
        let mut added = world.cluster.coordinator.add(identity, partition, now);
        if added == Err(Refused::Concurrent) {
            world.carry(Some(&self.id));
            added = world.cluster.coordinator.add(identity, partition, now);
        }
        added.map_err(|_| self.refused(world))
    }

    /// Delivers up to `max` records; the first failure is kept.
    fn deliver(&self, max: usize) -> Result<(), Error> {
        let identity = self.identity()?;
        for _ in 0..max {
            let Some((partition, record, tag)) = self.known.borrow_mut().queue.pop_front() else { return Ok(()) };
            let delivered = self.wire.effect("delivers a record", |world| {
                if tag.is_some() {
                    world.processes[self.wire.process].stage = Stage::Committing;
                }
                if world.mishap(1) {
                    world.saw(Seen::DeliveryFailed);
                    return Err(Error::delivery(partition.clone()));
                }
                self.add(world, &identity, Some(&partition))?;
                Ok(world.cluster.log(&partition).append(record.clone(), Some(identity.producer)))
            });
            let mut known = self.known.borrow_mut();
            match delivered {
                Ok(offset) => {
                    if let Some(tag) = tag {
                        known.delivered.insert(tag, offset);
                        known.changes.push((partition, Record { offset, ..record }));
                    }
                }
                Err(error) => {
                    known.failure.get_or_insert(error);
                    known.queue.clear();
                }
            }
        }
        Ok(())
    }

    /// Delivers everything; the first failure is the error.
    fn drain(&self) -> Result<(), Error> {
        self.deliver(usize::MAX)?;
        match self.known.borrow_mut().failure.take() {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    /// Ends the transaction at the coordinator.
    fn end(&self, world: &mut World, identity: &Identity) -> Result<(), Error> {
        let mut ended = world.cluster.coordinator.end(identity, true);
        if ended == Err(Refused::Concurrent) {
            world.carry(Some(&self.id));
            ended = world.cluster.coordinator.end(identity, true);
        }
        ended.map_err(|_| {
            world.saw(Seen::ProducerFenced);
            Error::lost_end(&self.id, true, false)
        })
    }

    /// The fault: stores get what the transaction holds before it is committed.
    fn checkpoint_early(&self, world: &mut World) {
        let known = self.known.borrow();
        for partition in 0..world.scenario.partitions {
            let task = TaskId { subtopology: 0, partition };
            let Some(database) = world.processes[self.wire.process].disk.tasks.get_mut(&task) else { continue };
            let changes = known.changes.iter().filter(|(of, _)| of.partition == partition);
            let mut checkpoint: Checkpoint = database.checkpoint.clone();
            let mut writes = Vec::new();
            for (of, Record { key, value, timestamp, offset, .. }) in changes {
                let entry = value.clone().map(|value| Entry { timestamp: *timestamp, version: 1, value });
                writes.extend(key.clone().map(|key| StateWrite { store: STATES, key, entry }));
                checkpoint.tables.insert(of.clone(), offset + 1);
            }
            for (of, offset, _) in known.offsets.iter().filter(|(of, ..)| of.partition == partition) {
                checkpoint.streams.insert(of.clone(), *offset);
            }
            database.settle();
            database.commit(&writes, &checkpoint);
        }
    }
}

impl Transactions for Producer {
    fn init(&self, _: Duration) -> Result<(), Error> {
        let identity = self.wire.effect("initialises a producer", |world| {
            if world.is_unavailable() {
                world.saw(Seen::CoordinatorUnavailable);
                return Err(timeout("init"));
            }
            if world.fault == Some(Fault::NoInit)
                && let Some(present) = world.cluster.coordinator.present(&self.id)
            {
                return Ok(present);
            }
            let mut made = world.cluster.coordinator.init(&self.id);
            if made.is_err() && (world.calm || world.random.chance(70)) {
                world.carry(Some(&self.id));
                made = world.cluster.coordinator.init(&self.id);
            }
            made.map_err(|_| timeout("init, as the last transaction is being ended"))
        })?;
        self.wire.look(|world| match world.unknown.remove(&self.id) {
            Some(true) => world.saw(Seen::UnknownCommitted),
            Some(false) => world.saw(Seen::UnknownAborted),
            None => {}
        });
        self.known.borrow_mut().identity = Some(identity);
        Ok(())
    }

    fn begin(&self) -> Result<(), Error> {
        let mut known = self.known.borrow_mut();
        *known = Known { identity: known.identity.take(), ..Known::default() };
        Ok(())
    }

    fn send(&self, topic: &str, partition: Option<i32>, record: &Record, tag: Option<u32>) -> Result<(), Error> {
        let to = output(topic, partition, record.key.as_ref());
        self.known.borrow_mut().queue.push_back((to, record.clone(), tag));
        Ok(())
    }

    fn send_offsets(&self, offsets: &[(TopicPartition, i64, String)], place: &Place, _: Duration) -> Result<(), Error> {
        let identity = self.identity()?;
        let place: MemberPlace = *place.get().ok_or_else(|| timeout("a place in the group"))?;
        let lost_answer = self.wire.effect("adds offsets", |world| {
            let process = &mut world.processes[self.wire.process];
            process.stage = Stage::Committing;
            if process.lost && process.told.iter().any(|thread| self.id.ends_with(&format!("-{thread}"))) {
                world.violated("a process commits what it knows that it has lost");
            }
            if world.is_unavailable() || world.mishap(2) {
                world.saw(Seen::StepResumed);
                world.wait();
                return Err(timeout("adding offsets"));
            }
            self.add(world, &identity, None)?;
            if world.fault != Some(Fault::NoGeneration) && !world.cluster.group.has(place) {
                world.saw(Seen::StaleCommitRefused);
                return Err(Error::stale_member());
            }
            world.cluster.group.add(identity.producer, offsets);
            if world.fault == Some(Fault::OffsetsBeforeState) {
                world.cluster.group.commit(offsets);
            }
            Ok(world.mishap(2))
        })?;
        self.known.borrow_mut().offsets = offsets.to_vec();
        if lost_answer { Err(timeout("the answer to adding offsets")) } else { Ok(()) }
    }

    fn flush(&self, _: Duration) -> Result<(), Error> {
        if self.wire.look(|world| world.mishap(3)) {
            self.wire.look(|world| world.saw(Seen::StepResumed));
            self.deliver(1)?;
            return Err(timeout("flush"));
        }
        self.drain()
    }

    fn commit(&self, _: Duration) -> Result<(), Error> {
        self.drain()?;
        let identity = self.identity()?;
        if self.wire.look(|world| world.fault == Some(Fault::CheckpointBeforeTransaction)) {
            self.wire.effect("commits stores too early", |world| self.checkpoint_early(world));
        }
        self.wire.effect("ends a transaction", |world| {
            if world.is_unavailable() || world.mishap(3) {
                world.saw(Seen::StepResumed);
                world.wait();
                return Err(Error::lost_end(&self.id, false, true));
            }
            let (takes_effect, late) = (!world.mishap(4), world.mishap(40));
            if !takes_effect {
                world.unknown.insert(self.id.clone(), false);
                if late {
                    world.cluster.late_ends.push(identity.clone());
                }
                return Err(Error::lost_end(&self.id, false, false));
            }
            self.end(world, &identity)?;
            if world.calm || world.random.chance(60) {
                world.carry(Some(&self.id));
            }
            if world.mishap(4) {
                world.unknown.insert(self.id.clone(), true);
                return Err(Error::lost_end(&self.id, false, false));
            }
            world.processes[self.wire.process].stage = Stage::Committed;
            Ok(())
        })
    }

    fn take_delivered(&self) -> BTreeMap<u32, i64> {
        std::mem::take(&mut self.known.borrow_mut().delivered)
    }

    fn poll(&self) {
        let some = self.wire.look(|world| world.random.below(3));
        // What fails is told by the next flush.
        let _later = self.deliver(some);
    }
}
