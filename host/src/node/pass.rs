//! One pass of a batch through all nodes of a sub-topology.

use bytes::Bytes;

use crate::model::{
    Entry, FunctionIndex, Header, Headers, Logic, Record, Refusal, StateWrite, StoreError, StoreIndex, Verdict,
};
use crate::plan::{FunctionUse, JoinTable, NodeInput, NodeKind, OnError, SubtopologyPlan};

use super::{BatchFailure, Item, RecordFailure, Tally, aggregate, join, transform};

/// Committed state of a task and what lies over it, as nodes look things up.
pub trait Inputs {
    /// Entries of one of the task's stores, as of now.
    fn entries(&self, store: StoreIndex, keys: &[Bytes]) -> Result<Vec<Option<Entry>>, StoreError>;
    /// Rows of a global table (index in the plan).
    fn global(&self, table: usize, keys: &[Bytes]) -> Result<Vec<Option<Entry>>, StoreError>;
    /// Where the batch's record `origin` came from: topic, partition, offset; for dead letters.
    fn origin(&self, origin: usize) -> (&str, i32, &Record);
}

/// A record for a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The topic.
    pub topic: std::sync::Arc<str>,
    /// The record; its partition is that of its key.
    pub record: Record,
}

/// What a batch does when it is applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// State changes, at most one a store and key.
    pub writes: Vec<StateWrite>,
    /// Records for topics, in order.
    pub outputs: Vec<Output>,
    /// Keys whose states are handed on at the next commit.
    pub pending: Vec<PendingEmit>,
    /// What it counts.
    pub tally: Tally,
}

/// A state that an aggregate with `emit = "commit"` hands on at the next commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingEmit {
    /// The aggregate, by index in the plan's nodes.
    pub node: usize,
    /// The state's key.
    pub key: Bytes,
    /// Headers of the last record that changed it.
    pub headers: Headers,
}

/// States of an aggregate that are handed on outside a batch (`emit = "commit"`).
#[derive(Clone, Debug)]
pub struct Emitted {
    /// The aggregate, by index in the plan's nodes.
    pub node: usize,
    /// The records it hands on.
    pub items: Vec<Item>,
}

/// The pass: the plan, the logic, the state below, and the effects so far.
pub struct Pass<'a, I: Inputs> {
    /// The sub-topology.
    pub plan: &'a SubtopologyPlan,
    /// Functions of the whole topology; `FunctionIndex` points here.
    pub functions: &'a [FunctionUse],
    /// What the functions are.
    pub logic: &'a mut dyn Logic,
    /// Where the nodes look things up.
    pub inputs: &'a I,
    /// Most bytes of key, value and headers that a record for a topic may have.
    pub max_record_bytes: usize,
    /// Where dead letters go.
    pub dead_letters: Option<&'a std::sync::Arc<str>>,
    /// Topic names, shared by outputs: by index in the plan's nodes.
    pub sink_topics: &'a [Option<std::sync::Arc<str>>],
    /// Records for topics so far, each with the place in the batch of the record that caused it.
    pub outputs: Vec<(usize, Output)>,
    /// What the batch does otherwise.
    pub effects: Effects,
}

impl<I: Inputs> Pass<'_, I> {
    /// Moves a batch through: `sources[i]` are the records of the plan's source `i`, with their place in the batch.
    pub fn run(&mut self, sources: Vec<Vec<Item>>) -> Result<(), BatchFailure> {
        self.through(sources, None)
    }

    /// Hands states on from aggregates; only what follows those nodes runs.
    pub fn emit(&mut self, emitted: Vec<Emitted>) -> Result<(), BatchFailure> {
        self.through(Vec::new(), Some(emitted))
    }

    /// What the batch does, its outputs in order.
    pub fn finish(mut self) -> Effects {
        // Nodes ran one after another; a reader of a topic sees records in the order of what caused them.
        self.outputs.sort_by_key(|(origin, _)| *origin);
        self.effects.outputs = self.outputs.into_iter().map(|(_, output)| output).collect();
        self.effects
    }

    /// Runs every node on what its inputs gave.
    fn through(&mut self, sources: Vec<Vec<Item>>, emitted: Option<Vec<Emitted>>) -> Result<(), BatchFailure> {
        let plan = self.plan;
        let mut made: Vec<Vec<Item>> = vec![Vec::new(); plan.nodes.len()];
        for emission in emitted.into_iter().flatten() {
            if let Some(slot) = made.get_mut(emission.node) {
                *slot = emission.items;
            }
        }
        for (index, node) in plan.nodes.iter().enumerate() {
            let gathered: Vec<(usize, Item)> = gather(&node.inputs, &sources, &made);
            if gathered.is_empty() {
                continue;
            }
            let items = gathered.into_iter();
            let result = match &node.kind {
                NodeKind::Join { table, left, function } => {
                    join::run(self, index, *table, *left, *function, items.map(|(_, item)| item).collect())?
                }
                NodeKind::Aggregate { store, functions, emit } => {
                    aggregate::run(self, index, *store, functions, *emit, items.collect())?
                }
                NodeKind::Transform { function } => {
                    let keeps_key = follows_by_key(plan, index);
                    transform::run(self, &node.name, *function, keeps_key, items.map(|(_, item)| item).collect())?
                }
                NodeKind::Sink { .. } => {
                    let Some(Some(topic)) = self.sink_topics.get(index) else { continue };
                    for (_, item) in items {
                        self.check_size(item.origin, topic, &item.record)?;
                        self.outputs.push((item.origin, Output { topic: topic.clone(), record: item.record }));
                    }
                    Vec::new()
                }
            };
            if let Some(slot) = made.get_mut(index) {
                slot.extend(result);
            }
        }
        Ok(())
    }

    /// Refuses a record that no producer would take, before anything of the batch is applied.
    pub(super) fn check_size(&self, origin: usize, topic: &str, record: &Record) -> Result<(), BatchFailure> {
        let size = record.size();
        if size > self.max_record_bytes {
            let failure = RecordFailure::TooLarge { topic: topic.to_owned(), size, limit: self.max_record_bytes };
            return Err(BatchFailure::Record { origin, failure });
        }
        Ok(())
    }

    /// Counts a record that is left out.
    pub(super) fn dropped(&mut self, reason: &'static str) {
        self.effects.tally.drop_one(reason);
    }

    /// Does with a refused record what the function and the topology say.
    pub(super) fn refused(
        &mut self,
        function: FunctionIndex,
        origin: usize,
        refusal: &Refusal,
    ) -> Result<(), BatchFailure> {
        let on_error = match refusal.verdict {
            Verdict::Skip => {
                self.dropped("skipped");
                return Ok(());
            }
            Verdict::Reject => self.functions.get(usize::from(function.0)).map_or(OnError::Fail, |f| f.on_error),
            Verdict::Fail => OnError::Fail,
        };
        match on_error {
            OnError::Fail => {
                let (plugin, version) = self.logic.version(function);
                let name = self.functions.get(usize::from(function.0)).map(|f| f.function.clone()).unwrap_or_default();
                let failure =
                    RecordFailure::Refused { plugin, version, function: name, reason: refusal.reason.clone() };
                Err(BatchFailure::Record { origin, failure })
            }
            OnError::Skip => {
                self.dropped("rejected");
                Ok(())
            }
            OnError::DeadLetter => {
                self.dead_letter(function, origin, &refusal.reason);
                Ok(())
            }
        }
    }

    /// Sends the input record as it was to the dead-letter topic, with where it came from and why as headers.
    pub fn dead_letter(&mut self, function: FunctionIndex, origin: usize, reason: &str) {
        self.dropped("dead-letter");
        let Some(topic) = self.dead_letters else { return };
        let (plugin, version) = self.logic.version(function);
        let name = self.functions.get(usize::from(function.0)).map(|f| f.function.clone()).unwrap_or_default();
        let (from, partition, record) = self.inputs.origin(origin);
        let mut record = record.clone();
        for (name, value) in [
            ("weir.error", reason.to_owned()),
            ("weir.topic", from.to_owned()),
            ("weir.partition", partition.to_string()),
            ("weir.offset", record.offset.to_string()),
            ("weir.plugin", plugin),
            ("weir.plugin.version", version),
            ("weir.function", name),
        ] {
            record.headers.push(Header { name: name.into(), value: Some(Bytes::from(value)) });
        }
        self.outputs.push((origin, Output { topic: topic.clone(), record }));
    }

    /// Entries of the table that a join looks up.
    pub(super) fn rows(&self, table: JoinTable, keys: &[Bytes]) -> Result<Vec<Option<Entry>>, StoreError> {
        match table {
            JoinTable::Store(store) => self.inputs.entries(store, keys),
            JoinTable::Global(index) => self.inputs.global(index, keys),
        }
    }
}

/// What a node's inputs gave, in the order of the batch; ties (one record by two ways) in declared order.
fn gather(inputs: &[NodeInput], sources: &[Vec<Item>], made: &[Vec<Item>]) -> Vec<(usize, Item)> {
    let mut gathered: Vec<(usize, Item)> = Vec::new();
    let mut filled = 0;
    for (index, input) in inputs.iter().enumerate() {
        let items = match input {
            NodeInput::Source(source) => sources.get(*source),
            NodeInput::Node(node) => made.get(*node),
        };
        let Some(items) = items.filter(|items| !items.is_empty()) else { continue };
        filled += 1;
        gathered.extend(items.iter().map(|item| (index, item.clone())));
    }
    if filled > 1 {
        gathered.sort_by_key(|(index, item)| (item.origin, *index));
    }
    gathered
}

/// Whether a join or an aggregate takes a node's output: then its keys must stay.
fn follows_by_key(plan: &SubtopologyPlan, node: usize) -> bool {
    plan.nodes.iter().enumerate().any(|(index, next)| {
        next.inputs.contains(&NodeInput::Node(node))
            && match next.kind {
                NodeKind::Join { .. } | NodeKind::Aggregate { .. } => true,
                NodeKind::Transform { .. } => follows_by_key(plan, index),
                NodeKind::Sink { .. } => false,
            }
    })
}
