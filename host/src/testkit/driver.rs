//! Runs a topology on records that a test pipes in, one partition of everything (as Kafka Streams' test driver).

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use bytes::Bytes;

use crate::model::{Entry, Logic, Record, StateRead, StateWrite, StoreError, StoreIndex, TaskId};
use crate::node::Output;
use crate::plan::Plan;
use crate::task::{GlobalTables, Options, StreamTask, TaskError, TaskFailure};

/// Stores in memory.
#[derive(Debug, Default)]
pub struct MemoryState {
    /// Entries by store and key; the lock is held for single look-ups only.
    entries: RwLock<BTreeMap<(StoreIndex, Bytes), Entry>>,
}

impl MemoryState {
    /// Applies a write.
    pub fn apply(&self, write: &StateWrite) {
        let mut entries = self.entries.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        let at = (write.store, write.key.clone());
        match &write.entry {
            Some(entry) => entries.insert(at, entry.clone()),
            None => entries.remove(&at),
        };
    }

    /// All entries of a store, by key.
    pub fn entries(&self, store: StoreIndex) -> Vec<(Bytes, Entry)> {
        let entries = self.entries.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        entries
            .iter()
            .filter(|((of, _), _)| *of == store)
            .map(|((_, key), entry)| (key.clone(), entry.clone()))
            .collect()
    }
}

impl StateRead for MemoryState {
    fn get(&self, store: StoreIndex, key: &[u8]) -> Result<Option<Entry>, StoreError> {
        let entries = self.entries.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(entries.get(&(store, Bytes::copy_from_slice(key))).cloned())
    }
}

impl From<TaskError> for DriverError {
    fn from(error: TaskError) -> Self {
        Self::Broken(Box::new(error))
    }
}

/// A test that cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// No source of the topology reads this topic.
    #[error("the topology reads no topic {topic}")]
    UnknownTopic {
        /// The topic.
        topic: String,
    },
    /// A task stopped.
    #[error("a task stopped")]
    Failed(#[source] Box<TaskFailure>),
    /// A task broke.
    #[error("a task broke")]
    Broken(#[source] Box<TaskError>),
}

/// One task of each sub-topology, its stores in memory, its inputs from the test.
pub struct TopologyTestDriver {
    /// The topology.
    plan: Arc<Plan>,
    /// What its functions are.
    logic: Box<dyn Logic>,
    /// Its tasks, with their stores.
    tasks: Vec<(StreamTask, Arc<MemoryState>)>,
    /// Rows of global tables.
    globals: Vec<Arc<MemoryState>>,
    /// Next offset of each topic.
    offsets: BTreeMap<String, i64>,
    /// What was written, in order.
    outputs: Vec<Output>,
}

impl TopologyTestDriver {
    /// A driver of `plan` with `logic`; `options` sets the sizes of batches.
    pub fn new(plan: Arc<Plan>, logic: Box<dyn Logic>, options: Options) -> Self {
        let globals: Vec<Arc<MemoryState>> =
            plan.global_tables.iter().map(|_| Arc::new(MemoryState::default())).collect();
        let tasks = plan
            .subtopologies
            .iter()
            .filter_map(|part| {
                let stores = Arc::new(MemoryState::default());
                let rows: GlobalTables =
                    globals.iter().map(|rows| Arc::clone(rows) as Arc<dyn StateRead + Send + Sync>).collect();
                let id = TaskId { subtopology: part.index, partition: 0 };
                let positions = vec![0; part.sources.len()];
                let task = StreamTask::new(id, Arc::clone(&plan), options, Arc::clone(&stores) as _, rows, &positions)?;
                Some((task, stores))
            })
            .collect();
        Self { plan, logic, tasks, globals, offsets: BTreeMap::new(), outputs: Vec::new() }
    }

    /// Puts records into a topic, without processing them; their offsets are set.
    pub fn pipe(&mut self, topic: &str, records: impl IntoIterator<Item = Record>) -> Result<(), DriverError> {
        let records: Vec<Record> = records
            .into_iter()
            .map(|mut record| {
                let next = self.offsets.entry(topic.to_owned()).or_default();
                record.offset = *next;
                *next += 1;
                record
            })
            .collect();
        let mut known = false;
        for (table, rows) in self.plan.global_tables.iter().zip(&self.globals) {
            if table.topic == topic {
                known = true;
                for record in &records {
                    let Some(key) = record.key.clone() else { continue };
                    let timestamp = record.timestamp;
                    let entry = record.value.clone().map(|value| Entry { timestamp, version: 0, value });
                    rows.apply(&StateWrite { store: StoreIndex(0), key, entry });
                }
            }
        }
        for (task, _) in &mut self.tasks {
            let Some(source) = task.part().and_then(|part| part.sources.iter().position(|s| s.topic == topic)) else {
                continue;
            };
            known = true;
            if let Some(queue) = task.queue_mut(source) {
                queue.extend(records.iter().cloned(), None);
            }
        }
        if known { Ok(()) } else { Err(DriverError::UnknownTopic { topic: topic.to_owned() }) }
    }

    /// Processes all that was piped in. The logs end where the test ended them.
    pub fn run(&mut self) -> Result<(), DriverError> {
        for (task, _) in &mut self.tasks {
            let topics: Vec<String> =
                task.part().map(|part| part.sources.iter().map(|s| s.topic.clone()).collect()).unwrap_or_default();
            for (source, topic) in topics.iter().enumerate() {
                let end = self.offsets.get(topic).copied().unwrap_or(0);
                if let Some(queue) = task.queue_mut(source) {
                    queue.extend([], Some(end));
                }
            }
            loop {
                let step = task.step(self.logic.as_mut());
                let idle = step.is_idle();
                self.outputs.extend(step.outputs);
                if let Some(failure) = task.failure() {
                    return Err(DriverError::Failed(Box::new(failure.clone())));
                }
                if idle {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Commits: hands on what waits for it, and applies uncommitted state to the stores.
    pub fn commit(&mut self) -> Result<(), DriverError> {
        for (task, stores) in &mut self.tasks {
            self.outputs.extend(task.emit_pending(self.logic.as_mut())?);
            task.overlay().writes().iter().for_each(|write| stores.apply(write));
            task.committed();
        }
        Ok(())
    }

    /// Takes what was written to a topic, in order.
    pub fn read(&mut self, topic: &str) -> Vec<Record> {
        let (taken, rest) = std::mem::take(&mut self.outputs).into_iter().partition(|output| *output.topic == *topic);
        self.outputs = rest;
        let taken: Vec<Output> = taken;
        taken.into_iter().map(|output| output.record).collect()
    }

    /// The entry of a store as the topology sees it now, uncommitted state included.
    pub fn entry(&self, store: &str, key: &[u8]) -> Result<Option<Entry>, StoreError> {
        for (task, _) in &self.tasks {
            let index = task.part().and_then(|part| part.stores.iter().position(|of| of.name == store));
            if let Some(index) = index.and_then(|index| u16::try_from(index).ok()) {
                return task.entry(StoreIndex(index), key);
            }
        }
        Err(StoreError { store: store.to_owned(), reason: "the topology has no such store".to_owned() })
    }

    /// The tasks, to look at.
    pub fn tasks(&self) -> impl Iterator<Item = &StreamTask> {
        self.tasks.iter().map(|(task, _)| task)
    }
}
