//! A checked topology, resolved: what each task consists of. Pure; partition counts come in as arguments.
//!
//! Indices instead of names wherever the data path looks something up.

use std::time::Duration;

use crate::model::{FunctionIndex, StoreIndex};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

/// What to do with a record that a function rejects, or that makes it fail when alone in a fresh instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Stop the task before the record (default).
    #[default]
    Fail,
    /// Leave the record out; counted and logged.
    Skip,
    /// Send it to the dead-letter topic with its origin and the error as headers.
    DeadLetter,
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

/// Where entries live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreKind {
    /// On disk (default).
    #[default]
    RocksDb,
    /// In memory, with a copy on disk for the next start; refuses to grow over its bound in bytes.
    Memory {
        /// Most bytes of keys and values a partition's store may hold.
        max_bytes: u64,
    },
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
    /// The topic that the store is restored from.
    pub fn topic(&self) -> &str {
        match self {
            Self::Table { topic } | Self::Changelog { topic } => topic,
        }
    }
}

/// Which row of a table a stream record sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimePolicy {
    /// Tables first: rows that are queued when a batch is formed are applied before it (default).
    #[default]
    Latest,
    /// Lowest timestamp first over all inputs, as Kafka Streams does it.
    Timestamp,
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

/// Which states an aggregate hands on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Emit {
    /// Every update.
    Each,
    /// The last of each key in a batch (default).
    #[default]
    Batch,
    /// The last of each key in a commit.
    Commit,
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

/// When tables count as full, and who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierPlan {
    /// Who waits for whom.
    pub scope: BarrierScope,
    /// How long to wait at most; `None`: as long as it takes (default).
    pub timeout: Option<Duration>,
    /// What then.
    pub on_timeout: OnTimeout,
}

/// Who waits for whom at start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BarrierScope {
    /// Nobody waits for tables (aggregates are restored all the same).
    Off,
    /// A task waits for its own tables (default).
    #[default]
    Task,
    /// Every task waits for the tables of all tasks of this instance.
    Instance,
}

/// What happens when tables are not full in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnTimeout {
    /// The task fails, naming what it waits for (default).
    #[default]
    Fail,
    /// The task goes on with what is there, with a warning.
    Proceed,
}
