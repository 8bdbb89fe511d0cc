//! A state folder in memory, with what a crash of the process does to RocksDB.
//!
//! What is committed is there after a crash. What a restore wrote without the log is there up to some write, or is not; before anything
//! is committed it is made durable, all of it.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::random::Random;
use crate::model::{Checkpoint, Entry, StateWrite, StoreIndex, TaskId};

/// Rows of a task's stores.
pub(super) type Rows = BTreeMap<(StoreIndex, Bytes), Entry>;

/// A state folder.
#[derive(Debug, Default)]
pub(super) struct Disk {
    /// The instance's id.
    pub(super) id: String,
    /// Stores of each task that was ever opened here.
    pub(super) tasks: BTreeMap<TaskId, Database>,
}

/// The stores of a task.
#[derive(Debug, Default)]
pub(super) struct Database {
    /// The topic of each store.
    topics: Vec<String>,
    /// What its readers see.
    pub(super) rows: Rows,
    /// What survives a crash for certain.
    durable: Rows,
    /// What was written without the log since.
    unlogged: Vec<StateWrite>,
    /// The last checkpoint.
    pub(super) checkpoint: Checkpoint,
}

/// Applies writes to rows.
pub(super) fn apply<'a>(rows: &mut Rows, writes: impl IntoIterator<Item = &'a StateWrite>) {
    for write in writes {
        let at = (write.store, write.key.clone());
        match &write.entry {
            Some(entry) => rows.insert(at, entry.clone()),
            None => rows.remove(&at),
        };
    }
}

impl Database {
    /// Opens it with these stores.
    pub(super) fn open(&mut self, topics: Vec<String>) {
        self.topics = topics;
    }

    /// Whether something would be lost in a crash.
    pub(super) fn is_unsettled(&self) -> bool {
        !self.unlogged.is_empty()
    }

    /// Makes durable what was written without the log.
    pub(super) fn settle(&mut self) {
        apply(&mut self.durable, &std::mem::take(&mut self.unlogged));
    }

    /// Applies writes with their checkpoint.
    pub(super) fn commit(&mut self, writes: &[StateWrite], checkpoint: &Checkpoint) {
        apply(&mut self.rows, writes);
        apply(&mut self.durable, writes);
        self.checkpoint = checkpoint.clone();
    }

    /// Applies writes without the log.
    pub(super) fn restore(&mut self, writes: &[StateWrite]) {
        apply(&mut self.rows, writes);
        self.unlogged.extend(writes.iter().cloned());
    }

    /// Empties a store, and forgets how far it was. Returns whether the checkpoint knew.
    pub(super) fn clear(&mut self, store: StoreIndex) -> bool {
        self.rows.retain(|(of, _), _| *of != store);
        self.durable.retain(|(of, _), _| *of != store);
        let before = self.checkpoint.tables.len();
        if let Some(topic) = self.topics.get(usize::from(store.0)) {
            self.checkpoint.tables.retain(|partition, _| *partition.topic != **topic);
        }
        self.checkpoint.tables.len() < before
    }

    /// The process dies. Returns how many writes were lost.
    fn crash(&mut self, random: &mut Random) -> usize {
        let kept = random.between(0, self.unlogged.len());
        let lost = self.unlogged.split_off(kept);
        self.settle();
        self.rows = self.durable.clone();
        lost.len()
    }
}

impl Disk {
    /// The process ends by itself: nothing is lost.
    pub(super) fn close(&mut self) {
        self.tasks.values_mut().for_each(Database::settle);
    }

    /// The process dies. Returns how many writes were lost.
    pub(super) fn crash(&mut self, random: &mut Random) -> usize {
        self.tasks.values_mut().map(|database| database.crash(random)).sum()
    }
}
