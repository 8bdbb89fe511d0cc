//! Takes batches of input records and gives output records and state changes.

use std::sync::Arc;

use bytes::Bytes;

use crate::model::{Entry, Logic, Record, StateRead, StateWrite, StoreError, StoreIndex, TaskId, TopicPartition};
use crate::node::{BatchFailure, Effects, Emitted, Item, Output, Pass, RecordFailure, Tally};
use crate::plan::{NodeKind, OnError, Plan, SourceKind, SubtopologyPlan, TimePolicy};

use super::below::Below;
use super::pending::Pending;
use super::{Overlay, PartitionGroup, Picked, RecordQueue};

/// Bounds of a task.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Most stream records in a batch.
    pub batch: usize,
    /// Most rows that are applied before a batch (`time = "latest"`): a busy table must not starve the streams.
    pub rows: usize,
    /// Most bytes of key, value and headers of a record for a topic.
    pub max_record_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { batch: 512, rows: 4096, max_record_bytes: 1_000_000 - 1024 }
    }
}

/// Global tables that joins look up, by index in the plan; the rows are in store 0 of each.
pub type GlobalTables = Vec<Arc<dyn StateRead + Send + Sync>>;

/// What a step did.
#[derive(Debug, Default)]
pub struct Step {
    /// Stream records processed.
    pub records: usize,
    /// Rows applied.
    pub rows: usize,
    /// Records for topics, in order.
    pub outputs: Vec<Output>,
    /// What was counted.
    pub tally: Tally,
}

impl Step {
    /// Whether nothing happened.
    pub fn is_idle(&self) -> bool {
        self.records == 0 && self.rows == 0
    }
}

/// Why a task stopped before a record. Nothing of the record, or after it, is processed or committed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stopped before {partition} offset {offset}: {failure}")]
pub struct TaskFailure {
    /// Where the record came from.
    pub partition: TopicPartition,
    /// Its offset.
    pub offset: i64,
    /// What is wrong.
    pub failure: RecordFailure,
}

/// A task that cannot go on, for a reason that is not in a record.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// Its state cannot be read.
    #[error("task {task}: its state cannot be read")]
    Store {
        /// The task.
        task: TaskId,
        /// What the store said.
        #[source]
        source: StoreError,
    },
    /// States that an aggregate hands on at a commit were refused.
    #[error("task {task}: at the commit: {failure}")]
    Emit {
        /// The task.
        task: TaskId,
        /// What is wrong.
        failure: RecordFailure,
    },
}

/// What ends a run of a batch early: the record at this place of it stops the task. Those before it are applied.
struct Halt(usize, RecordFailure);

/// A task of a sub-topology and a partition.
pub struct StreamTask {
    /// Its id.
    id: TaskId,
    /// The whole plan; `id.subtopology` is this task's part.
    plan: Arc<Plan>,
    /// Bounds.
    options: Options,
    /// Input records.
    group: PartitionGroup,
    /// Committed state.
    stores: Arc<dyn StateRead + Send + Sync>,
    /// Global tables.
    globals: GlobalTables,
    /// Uncommitted state.
    overlay: Overlay,
    /// States to hand on at the next commit.
    pending: Pending,
    /// Topic of each sink node.
    sink_topics: Vec<Option<Arc<str>>>,
    /// Topic of dead letters.
    dead_letters: Option<Arc<str>>,
    /// Topic of each source.
    topics: Vec<Arc<str>>,
    /// Whether something happened since the last commit.
    dirty: bool,
    /// Why it stopped, if it did.
    failure: Option<TaskFailure>,
    /// Stream records processed since it was made.
    processed: u64,
    /// What it counted since it was made.
    tally: Tally,
    /// What it counted in this step.
    step_tally: Tally,
}

impl StreamTask {
    /// A task with committed state `stores` that reads source `i` from `positions[i]` on. `None`: no such sub-topology.
    pub fn new(
        id: TaskId,
        plan: Arc<Plan>,
        options: Options,
        stores: Arc<dyn StateRead + Send + Sync>,
        globals: GlobalTables,
        positions: &[i64],
    ) -> Option<Self> {
        let part = plan.subtopologies.get(id.subtopology as usize)?;
        let queues = part
            .sources
            .iter()
            .enumerate()
            .map(|(source, _)| RecordQueue::new(positions.get(source).copied().unwrap_or(0)))
            .collect();
        let ordered = part
            .sources
            .iter()
            .enumerate()
            .filter(|(_, source)| part.time == TimePolicy::Timestamp || source.kind == SourceKind::Stream)
            .map(|(index, _)| index)
            .collect();
        let sink_topics = part
            .nodes
            .iter()
            .map(|node| match &node.kind {
                NodeKind::Sink { topic } => Some(Arc::from(topic.as_str())),
                _ => None,
            })
            .collect();
        let topics = part.sources.iter().map(|source| Arc::from(source.topic.as_str())).collect();
        let overlay = Overlay::new(part.stores.len());
        Some(Self {
            id,
            options,
            group: PartitionGroup::new(queues, ordered),
            stores,
            globals,
            overlay,
            pending: Pending::default(),
            sink_topics,
            dead_letters: plan.dead_letters.as_deref().map(Arc::from),
            topics,
            dirty: false,
            failure: None,
            processed: 0,
            tally: Tally::default(),
            step_tally: Tally::default(),
            plan,
        })
    }

    /// Its id.
    pub fn id(&self) -> TaskId {
        self.id
    }

    /// Its part of the plan.
    pub fn part(&self) -> Option<&SubtopologyPlan> {
        self.plan.subtopologies.get(self.id.subtopology as usize)
    }

    /// The queue of a source, to fill it.
    pub fn queue_mut(&mut self, source: usize) -> Option<&mut RecordQueue> {
        self.group.queue_mut(source)
    }

    /// The queues, by source.
    pub fn queues(&self) -> &[RecordQueue] {
        self.group.queues()
    }

    /// Uncommitted state.
    pub fn overlay(&self) -> &Overlay {
        &self.overlay
    }

    /// Bytes that wait for the commit: state, and what is handed on then.
    pub fn uncommitted_bytes(&self) -> usize {
        self.overlay.bytes() + self.pending.bytes()
    }

    /// Why it stopped, if it did.
    pub fn failure(&self) -> Option<&TaskFailure> {
        self.failure.as_ref()
    }

    /// Goes on after a failure: the record that stopped it is tried again.
    pub fn retry(&mut self) {
        self.failure = None;
    }

    /// Whether there is something to commit.
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// Stream records processed since it was made.
    pub fn processed(&self) -> u64 {
        self.processed
    }

    /// What it counted since it was made.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Next offsets to process, by source.
    pub fn positions(&self) -> Vec<i64> {
        self.group.queues().iter().map(RecordQueue::position).collect()
    }

    /// The state under a key as the task sees it now: uncommitted first.
    pub fn entry(&self, store: StoreIndex, key: &[u8]) -> Result<Option<Entry>, StoreError> {
        match self.overlay.get(store, key) {
            Some(entry) => Ok(entry.cloned()),
            None => self.stores.get(store, key),
        }
    }

    /// Applies rows and processes one batch of what is in the queues.
    pub fn step(&mut self, logic: &mut dyn Logic) -> Step {
        let mut step = Step::default();
        if self.failure.is_some() {
            return step;
        }
        let before: Vec<i64> = self.positions();
        let tables: Vec<Option<StoreIndex>> = self.tables();
        if self.part().is_some_and(|part| part.time == TimePolicy::Latest) {
            step.rows = self.apply_queued_rows(&tables);
        }
        let is_stream = |source: usize| tables.get(source).is_some_and(Option::is_none);
        // Under `time = "timestamp"` a row whose turn it is ends the batch and is applied before the next one.
        while let Some(source) = self.group.next_source().filter(|source| !is_stream(*source)) {
            let Some(picked) = self.group.take(1, |next| next == source).pop() else { break };
            self.apply_row(tables.get(source).copied().flatten(), picked.record);
            step.rows += 1;
            if step.rows >= self.options.rows {
                break;
            }
        }
        let batch = self.group.take(self.options.batch, is_stream);
        if !batch.is_empty() {
            let done = match self.run(logic, &batch, false, &mut step.outputs) {
                Ok(()) => batch.len(),
                Err(Halt(at, failure)) => {
                    self.stop(&batch, at, failure);
                    at
                }
            };
            step.records = done;
            self.processed += done as u64;
            self.group.put_back(batch.into_iter().skip(done).collect());
        }
        self.dirty |= self.positions() != before;
        step.tally = std::mem::take(&mut self.step_tally);
        self.tally.add(&step.tally);
        step
    }

    /// Which store each source fills; `None`: it is a stream.
    fn tables(&self) -> Vec<Option<StoreIndex>> {
        let sources = self.part().map(|part| part.sources.as_slice()).unwrap_or_default();
        sources
            .iter()
            .map(|source| match source.kind {
                SourceKind::Stream => None,
                SourceKind::Table(store) => Some(store),
            })
            .collect()
    }

    /// Applies rows that wait in the tables' queues, whatever their timestamps.
    fn apply_queued_rows(&mut self, tables: &[Option<StoreIndex>]) -> usize {
        let mut applied = 0;
        for (source, store) in tables.iter().enumerate() {
            if store.is_none() {
                continue;
            }
            while applied < self.options.rows {
                let Some(record) = self.group.queue_mut(source).and_then(RecordQueue::pop) else { break };
                self.apply_row(*store, record);
                applied += 1;
            }
        }
        applied
    }

    /// Applies one row: its value, or its removal. A row without a key is dropped, as Kafka Streams does.
    fn apply_row(&mut self, store: Option<StoreIndex>, record: Record) {
        self.dirty = true;
        match (store, row(record)) {
            (Some(store), Some((key, entry))) => self.overlay.apply(StateWrite { store, key, entry }),
            _ => self.step_tally.drop_one("table-null-key"),
        }
    }

    /// Runs a batch; when it fails as a whole, halves it until the record that fails alone is found.
    ///
    /// `fresh`: the logic's instance was made after the last failure, so that a failure is the record's own.
    fn run(
        &mut self,
        logic: &mut dyn Logic,
        batch: &[Picked],
        fresh: bool,
        outputs: &mut Vec<Output>,
    ) -> Result<(), Halt> {
        match self.pass(logic, batch) {
            Ok(effects) => {
                self.apply(effects, outputs);
                Ok(())
            }
            // The batch's first: nothing of it is applied.
            Err(BatchFailure::Store(source)) => Err(Halt(0, RecordFailure::State(source))),
            Err(BatchFailure::Record { origin, failure }) => {
                let (before, _) = batch.split_at(origin.min(batch.len()));
                if !before.is_empty() {
                    self.run(logic, before, fresh, outputs)?;
                }
                Err(Halt(origin, failure))
            }
            Err(BatchFailure::Call { .. }) if batch.len() > 1 => {
                let (first, second) = batch.split_at(batch.len() / 2);
                self.run(logic, first, true, outputs)?;
                self.run(logic, second, false, outputs).map_err(|Halt(at, failure)| Halt(first.len() + at, failure))
            }
            Err(BatchFailure::Call { .. }) if !fresh => self.run(logic, batch, true, outputs),
            Err(BatchFailure::Call { function, failure }) => {
                let on_error =
                    self.plan.functions.get(usize::from(function.0)).map_or(OnError::Fail, |used| used.on_error);
                let reason = failure.to_string();
                match on_error {
                    OnError::Fail => return Err(Halt(0, RecordFailure::Call(reason))),
                    OnError::Skip => self.step_tally.drop_one("failed-call"),
                    OnError::DeadLetter => {
                        let effects = self.with_pass(logic, batch, |pass| {
                            pass.dead_letter(function, 0, &reason);
                            Ok(())
                        });
                        self.apply(effects.unwrap_or_default(), outputs);
                    }
                }
                Ok(())
            }
        }
    }

    /// Moves a batch through the nodes; nothing is applied.
    fn pass(&self, logic: &mut dyn Logic, batch: &[Picked]) -> Result<Effects, BatchFailure> {
        let mut sources: Vec<Vec<Item>> = vec![Vec::new(); self.topics.len()];
        for (origin, picked) in batch.iter().enumerate() {
            if let Some(items) = sources.get_mut(picked.source) {
                items.push(Item { origin, record: picked.record.clone() });
            }
        }
        self.with_pass(logic, batch, |pass| pass.run(sources))
    }

    /// Makes a pass over this task's state for `batch`; what it does is the result.
    fn with_pass(
        &self,
        logic: &mut dyn Logic,
        batch: &[Picked],
        act: impl FnOnce(&mut Pass<'_, Below<'_>>) -> Result<(), BatchFailure>,
    ) -> Result<Effects, BatchFailure> {
        let Some(plan) = self.part() else { return Ok(Effects::default()) };
        let below = Below {
            overlay: &self.overlay,
            stores: self.stores.as_ref(),
            globals: &self.globals,
            topics: &self.topics,
            partition: self.id.partition,
            batch,
        };
        let mut pass = Pass {
            plan,
            functions: &self.plan.functions,
            logic,
            inputs: &below,
            max_record_bytes: self.options.max_record_bytes,
            dead_letters: self.dead_letters.as_ref(),
            sink_topics: &self.sink_topics,
            outputs: Vec::new(),
            effects: Effects::default(),
        };
        act(&mut pass)?;
        Ok(pass.finish())
    }

    /// Applies what a batch does, all of it.
    fn apply(&mut self, effects: Effects, outputs: &mut Vec<Output>) {
        for write in effects.writes {
            self.overlay.apply(write);
        }
        outputs.extend(effects.outputs);
        effects.pending.into_iter().for_each(|change| self.pending.push(change));
        self.step_tally.add(&effects.tally);
        self.dirty = true;
    }

    /// Notes why the task stops before the record at `at` of the batch.
    fn stop(&mut self, batch: &[Picked], at: usize, failure: RecordFailure) {
        let Some(picked) = batch.get(at) else { return };
        let topic = self.topics.get(picked.source).cloned().unwrap_or_else(|| Arc::from(""));
        let partition = TopicPartition::new(topic, self.id.partition);
        self.failure = Some(TaskFailure { partition, offset: picked.record.offset, failure });
    }

    /// Hands on what aggregates with `emit = "commit"` kept back. Call before a commit; the outputs belong to it.
    pub fn emit_pending(&mut self, logic: &mut dyn Logic) -> Result<Vec<Output>, TaskError> {
        if self.pending.is_empty() {
            return Ok(Vec::new());
        }
        let emitted = self.take_pending()?;
        let effects = self.with_pass(logic, &[], |pass| pass.emit(emitted)).map_err(|failure| match failure {
            BatchFailure::Store(source) => TaskError::Store { task: self.id, source },
            BatchFailure::Record { failure, .. } => TaskError::Emit { task: self.id, failure },
            BatchFailure::Call { failure, .. } => {
                TaskError::Emit { task: self.id, failure: RecordFailure::Call(failure.to_string()) }
            }
        })?;
        let mut outputs = Vec::new();
        self.apply(effects, &mut outputs);
        Ok(outputs)
    }

    /// The states to hand on: the last of each key, in the order of first changes.
    fn take_pending(&mut self) -> Result<Vec<Emitted>, TaskError> {
        let mut emitted = Vec::new();
        for (node, keys) in self.pending.take() {
            let kind = self.part().and_then(|part| part.nodes.get(node)).map(|node| &node.kind);
            let Some(NodeKind::Aggregate { store, .. }) = kind else { continue };
            let store = *store;
            let mut items = Vec::with_capacity(keys.len());
            for (origin, pending) in keys.into_iter().enumerate() {
                let entry =
                    self.entry(store, &pending.key).map_err(|source| TaskError::Store { task: self.id, source })?;
                let timestamp = entry.as_ref().map_or(0, |entry| entry.timestamp);
                let value = entry.map(|entry| entry.value);
                let record = Record { key: Some(pending.key), value, timestamp, offset: 0, headers: pending.headers };
                items.push(Item { origin, record });
            }
            emitted.push(Emitted { node, items });
        }
        Ok(emitted)
    }

    /// The overlay is in the stores now.
    pub fn committed(&mut self) {
        self.overlay.clear();
        self.dirty = false;
    }
}

/// A table's row as its store keeps it: key, and entry or removal. `None`: the record has no key.
fn row(record: Record) -> Option<(Bytes, Option<Entry>)> {
    let Record { key, value, timestamp, .. } = record;
    Some((key?, value.map(|value| Entry { timestamp, version: 0, value })))
}
