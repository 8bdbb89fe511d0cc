//! The state folder and its stores.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use crate::model::{Checkpoint, Entry, StateRead, StateWrite, StoreError, StoreIndex, TaskId};
use crate::plan::StorePlan;
use crate::runtime::edge::{Folder, Stores};
use crate::runtime::simulation::coverage::Seen;
use crate::runtime::simulation::disk::Database;
use crate::runtime::simulation::fault::Fault;
use crate::runtime::simulation::wire::Wire;
use crate::runtime::simulation::world::{Stage, World};
use crate::store::{Error, StoreSpec};
use crate::view::Catalog;

/// A process's state folder.
pub(in crate::runtime::simulation) struct SimulatedFolder {
    /// The process.
    pub(in crate::runtime::simulation) wire: Wire,
    /// The instance's id.
    pub(in crate::runtime::simulation) id: String,
}

impl Folder for SimulatedFolder {
    fn instance_id(&self) -> &str {
        &self.id
    }

    fn record_transactional_id(&self, _: &str) -> Result<(), Error> {
        Ok(())
    }

    fn path(&self, task: TaskId) -> PathBuf {
        PathBuf::from(&self.id).join(task.to_string())
    }

    fn open(&self, task: TaskId, specs: &[StoreSpec]) -> Result<Arc<dyn Stores>, Error> {
        let topics = specs.iter().map(|spec| spec.topic.clone()).collect();
        self.wire.effect("opens stores", |world| {
            world.processes[self.wire.process].disk.tasks.entry(task).or_default().open(topics);
        });
        Ok(Arc::new(SimulatedStores { wire: self.wire.clone(), task }))
    }
}

/// The stores of a task.
struct SimulatedStores {
    /// The process.
    wire: Wire,
    /// The task.
    task: TaskId,
}

impl SimulatedStores {
    /// Looks at the database, or changes it.
    fn with<T>(&self, world: &mut World, look: impl FnOnce(&mut Database) -> T) -> T {
        look(world.processes[self.wire.process].disk.tasks.entry(self.task).or_default())
    }

    /// Makes durable what was written without the log.
    fn settle(&self) {
        if self
            .wire
            .look(|world| world.fault != Some(Fault::UnsettledCheckpoint) && self.with(world, |it| it.is_unsettled()))
        {
            self.wire.effect("makes restored rows durable", |world| self.with(world, Database::settle));
        }
    }
}

impl StateRead for SimulatedStores {
    fn get(&self, store: StoreIndex, key: &[u8]) -> Result<Option<Entry>, StoreError> {
        let at = (store, Bytes::copy_from_slice(key));
        Ok(self.wire.look(|world| self.with(world, |database| database.rows.get(&at).cloned())))
    }
}

impl Stores for SimulatedStores {
    fn checkpoint(&self) -> Checkpoint {
        self.wire.look(|world| self.with(world, |database| database.checkpoint.clone()))
    }

    fn commit(&self, writes: &[StateWrite], checkpoint: &Checkpoint) -> Result<(), Error> {
        self.settle();
        self.wire.effect("commits stores", |world| {
            self.with(world, |database| database.commit(writes, checkpoint));
            let stage = &mut world.processes[self.wire.process].stage;
            if *stage == Stage::Committed {
                *stage = Stage::Storing;
            }
        });
        Ok(())
    }

    fn restore(&self, writes: &[StateWrite]) -> Result<(), Error> {
        self.wire.effect("restores rows", |world| self.with(world, |database| database.restore(writes)));
        Ok(())
    }

    fn persist(&self, checkpoint: &Checkpoint) -> Result<(), Error> {
        self.commit(&[], checkpoint)
    }

    fn clear(&self, store: StoreIndex) -> Result<(), Error> {
        self.settle();
        self.wire.effect("clears a store", |world| {
            if self.with(world, |database| database.clear(store)) {
                world.saw(Seen::CheckpointBelowLog);
            }
        });
        Ok(())
    }

    fn show(self: Arc<Self>, _: &Catalog, _: &StorePlan, _: i32, _: StoreIndex) {}
}
