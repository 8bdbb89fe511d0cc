//! Outputs outside transactions: in order, now or later, or reported as failed.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use super::{output, partition_of, timeout};
use crate::kafka::Error;
use crate::model::{Record, TopicPartition};
use crate::runtime::edge::Outputs;
use crate::runtime::simulation::coverage::Seen;
use crate::runtime::simulation::logic::A;
use crate::runtime::simulation::wire::Wire;
use crate::runtime::simulation::world::World;

/// A producer of outputs.
pub(super) struct Producer {
    /// The process.
    wire: Wire,
    /// Records on their way.
    queue: RefCell<VecDeque<(TopicPartition, Record)>>,
    /// A record was not delivered.
    failed: RefCell<bool>,
}

impl Producer {
    /// With nothing to send.
    pub(super) fn new(wire: Wire) -> Self {
        Self { wire, queue: RefCell::default(), failed: RefCell::default() }
    }

    /// Delivers up to `max` records.
    fn deliver(&self, max: usize) {
        for _ in 0..max {
            let Some((partition, record)) = self.queue.borrow_mut().pop_front() else { return };
            let delivered = self.wire.effect("delivers an output", |world| self.append(world, &partition, record));
            if !delivered {
                *self.failed.borrow_mut() = true;
            }
        }
    }

    /// Appends a record. `false`: it was lost, and those behind it that were on their way.
    fn append(&self, world: &mut World, partition: &TopicPartition, record: Record) -> bool {
        if world.mishap(1) {
            world.saw(Seen::DeliveryFailed);
            self.queue.borrow_mut().clear();
            return false;
        }
        let process = &world.processes[self.wire.process];
        let input = TopicPartition::new(A, partition_of(record.key.as_ref()));
        let own = process.streams.contains_key(&input) && process.place.is_some_and(|it| world.cluster.group.has(it));
        if !own {
            world.late_keys.extend(record.key.clone());
        }
        world.cluster.log(partition).append(record, None);
        true
    }
}

impl Outputs for Producer {
    fn send(&self, topic: &str, record: &Record) -> Result<(), Error> {
        self.queue.borrow_mut().push_back((output(topic, None, record.key.as_ref()), record.clone()));
        Ok(())
    }

    fn flush(&self, _: Duration) -> Result<(), Error> {
        if self.wire.look(|world| world.mishap(5)) {
            self.deliver(1);
            return Err(timeout("flush of outputs"));
        }
        self.deliver(usize::MAX);
        if std::mem::take(&mut *self.failed.borrow_mut()) {
            return Err(Error::delivery(TopicPartition::new("out", 0)));
        }
        Ok(())
    }

    fn has_unsent(&self) -> bool {
        !self.queue.borrow().is_empty()
    }

    fn is_unusable(&self) -> bool {
        false
    }

    fn poll(&self) {
        let some = self.wire.look(|world| world.random.below(4));
        self.deliver(some);
    }
}
