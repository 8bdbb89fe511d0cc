//! A checked topology, resolved: what each task consists of. Pure; partition counts come in as arguments.
//!
//! Indices instead of names wherever the data path looks something up.

mod copartition;
mod describe;
mod description;
mod memory;
mod resolve;
mod tasks;
mod topics;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::model::{FunctionIndex, StoreIndex};

pub use copartition::{CopartitionProblem, CopartitionProblems};
pub use describe::{describe, describe_json};
pub use memory::{MemoryPart, MemoryPlan, TooLittleMemory, VIEW_INSTANCES};
pub use tasks::tasks;
pub use topics::{InternalTopic, control_topic, internal_topics, registry_topic};

// What the file says in words that need no resolving.
pub use crate::config::{BarrierOptions as BarrierPlan, BarrierScope, OnTimeout, TimePolicy};
pub use crate::topology::{Emit, OnError, StoreKind};

/// The whole topology, resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// `app.id`: consumer group, and prefix of internal topics.
    pub app_id: String,
    /// Connected parts; tasks are these times their partitions.
    pub subtopologies: Vec<SubtopologyPlan>,
    /// Tables that every instance reads whole.
    pub global_tables: Vec<GlobalTablePlan>,
    /// Functions in use; `FunctionIndex` points here.
    pub functions: Vec<FunctionUse>,
    /// Query routes answered by plugins.
    pub views: Vec<ViewPlan>,
    /// Topic of dead letters, where a function has `on_error = "dlq"`.
    pub dead_letters: Option<String>,
    /// Losses of instances that standbys are kept for.
    pub standby: usize,
}

/// A plugin function that the topology uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionUse {
    /// Plugin's name in the topology file.
    pub plugin: String,
    /// Function's name in the plugin.
    pub function: String,
    /// What the topology uses it as.
    pub kind: FunctionKind,
    /// What to do with a record it rejects.
    pub on_error: OnError,
}

/// Kind of a plugin function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FunctionKind {
    /// Joins a stream record with a row.
    Joiner,
    /// Folds records into a state.
    Aggregator,
    /// Makes records of a record.
    Transformer,
    /// Answers a query route.
    View,
}

/// A connected part of the topology.
#[derive(Clone, Debug, PartialEq)]
pub struct SubtopologyPlan {
    /// Its index; first half of a task's id.
    pub index: u32,
    /// Inputs in declared order: ties of timestamps are broken by it.
    pub sources: Vec<SourcePlan>,
    /// Stores; `StoreIndex` points here.
    pub stores: Vec<StorePlan>,
    /// Nodes, each after all that feed it.
    pub nodes: Vec<NodePlan>,
    /// Which row a record sees.
    pub time: TimePolicy,
}

/// An input topic of a sub-topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePlan {
    /// Name in the topology file.
    pub name: String,
    /// Kafka topic.
    pub topic: String,
    /// Stream, or table with the store it fills.
    pub kind: SourceKind,
}

/// Whether a source's records are events or rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// Events; read from the group's committed offsets.
    Stream,
    /// Rows of this store; read from the store's checkpoint.
    Table(StoreIndex),
}

/// A store of a sub-topology (one of each a task).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorePlan {
    /// Store name, unique in the topology.
    pub name: String,
    /// Where its entries live.
    pub kind: StoreKind,
    /// What fills and restores it.
    pub origin: StoreOrigin,
}

/// What fills a store, and what it is restored from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreOrigin {
    /// The table's own topic.
    Table {
        /// That topic.
        topic: String,
    },
    /// An aggregate; `topic` is its changelog, `<app.id>-<store>-changelog`.
    Changelog {
        /// That topic.
        topic: String,
    },
}

impl StoreOrigin {
    /// What it is called for people: `table` or `aggregate`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Table { .. } => "table",
            Self::Changelog { .. } => "aggregate",
        }
    }

    /// The topic that the store is restored from.
    pub fn topic(&self) -> &str {
        match self {
            Self::Table { topic } | Self::Changelog { topic } => topic,
        }
    }
}

/// A node of a sub-topology.
#[derive(Clone, Debug, PartialEq)]
pub struct NodePlan {
    /// Name in the topology file.
    pub name: String,
    /// What feeds it.
    pub inputs: Vec<NodeInput>,
    /// What it does.
    pub kind: NodeKind,
}

/// What feeds a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeInput {
    /// A stream, by index in `sources`.
    Source(usize),
    /// Another node's output, by index in `nodes`; always a lower one.
    Node(usize),
}

/// What a node does.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeKind {
    /// Joins its one input with a table.
    Join {
        /// The table looked up.
        table: JoinTable,
        /// Left join: a record that finds no row goes on without one. Inner: it is dropped.
        left: bool,
        /// The joiner.
        function: FunctionIndex,
    },
    /// Cogroups its inputs into one state a key.
    Aggregate {
        /// The store of the state.
        store: StoreIndex,
        /// The aggregator of each input, as `inputs` has them.
        functions: Vec<FunctionIndex>,
        /// Which states it hands on.
        emit: Emit,
    },
    /// Makes records of each record of its one input.
    Transform {
        /// The transformer.
        function: FunctionIndex,
    },
    /// Writes its one input to a topic.
    Sink {
        /// The topic.
        topic: String,
    },
}

/// The table of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinTable {
    /// A co-partitioned table's store.
    Store(StoreIndex),
    /// A global table, by index in `global_tables`.
    Global(usize),
}

/// A table that every instance reads whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobalTablePlan {
    /// Name in the topology file, and of its store.
    pub name: String,
    /// Kafka topic.
    pub topic: String,
    /// Where its rows live; the bound of a memory store is for the whole table.
    pub kind: StoreKind,
}

/// A query route answered by a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewPlan {
    /// Name in the topology file.
    pub name: String,
    /// HTTP path, matched exactly.
    pub route: String,
    /// Function that answers.
    pub function: FunctionIndex,
    /// Stores it may read.
    pub stores: Vec<String>,
}
