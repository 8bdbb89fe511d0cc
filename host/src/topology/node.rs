//! What a topology consists of, as the file says it.

use std::fmt;

use serde::Serialize;

use crate::config::{At, ByteSize, Place};

/// A stream, table, join and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name, unique in the file.
    pub name: String,
    /// Where it is declared.
    pub place: Place,
    /// What it is.
    pub kind: NodeKind,
}

/// What a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A topic of events.
    Stream {
        /// The topic.
        topic: At<String>,
    },
    /// A topic of rows, co-partitioned with the streams that are joined with it.
    Table {
        /// The topic.
        topic: At<String>,
        /// Where its rows live.
        store: StoreKind,
    },
    /// A topic of rows that every instance holds whole.
    GlobalTable {
        /// The topic.
        topic: At<String>,
        /// Where its rows live.
        store: StoreKind,
    },
    /// Records of a node, each with the row of its key.
    Join {
        /// What is joined.
        left: At<String>,
        /// The table or global table.
        table: At<String>,
        /// Whether a record without a row goes on (left join) or is dropped (inner join).
        keeps_unmatched: bool,
        /// The joiner.
        function: Use,
    },
    /// One state a key, made of all inputs' records.
    Aggregate {
        /// What goes into it, each with its aggregator; at least one.
        inputs: Vec<Input>,
        /// Which states it hands on.
        emit: Emit,
        /// Where the states live.
        store: StoreKind,
    },
    /// Records made of records.
    Transform {
        /// What is transformed.
        from: At<String>,
        /// The transformer.
        function: Use,
    },
    /// A topic that is written.
    Sink {
        /// What is written.
        from: At<String>,
        /// The topic.
        topic: At<String>,
    },
}

/// An input of an aggregate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// What feeds the aggregate.
    pub from: At<String>,
    /// The aggregator for these records.
    pub function: Use,
}

/// One use of a plugin's function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// Where it stands.
    pub place: Place,
    /// The plugin's name in the file.
    pub plugin: String,
    /// The function's name in the plugin.
    pub function: String,
    /// What to do with a record it rejects.
    pub on_error: OnError,
}

/// A query route answered by a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Its name, unique among views.
    pub name: String,
    /// Where it is declared.
    pub place: Place,
    /// HTTP path, matched exactly.
    pub route: At<String>,
    /// The function that answers.
    pub function: Use,
    /// Stores it may read: tables, global tables, aggregates.
    pub stores: Vec<At<String>>,
}

/// Where entries live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreKind {
    /// On disk (default).
    #[default]
    RocksDb,
    /// In memory, with a copy on disk for the next start; refuses to grow over its bound in bytes.
    Memory {
        /// Most bytes that a partition's store may hold: keys, values and the bookkeeping of each row.
        max_bytes: u64,
    },
}

impl fmt::Display for StoreKind {
    /// `rocksdb`, or `memory (256 MiB)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RocksDb => f.write_str("rocksdb"),
            Self::Memory { max_bytes } => write!(f, "memory ({})", ByteSize(*max_bytes)),
        }
    }
}

/// What to do with a record that a function rejects, or that makes it fail when alone in a fresh instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnError {
    /// Stop the task before the record (default).
    #[default]
    Fail,
    /// Leave the record out; counted and logged.
    Skip,
    /// Send it to the dead-letter topic with its origin and the error as headers.
    #[serde(rename = "dlq")]
    DeadLetter,
}

impl fmt::Display for OnError {
    /// As in the topology file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fail => "fail",
            Self::Skip => "skip",
            Self::DeadLetter => "dlq",
        })
    }
}

/// Which states an aggregate hands on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Emit {
    /// Every update.
    Each,
    /// The last of each key in a batch (default).
    #[default]
    Batch,
    /// The last of each key in a commit.
    Commit,
}

impl fmt::Display for Emit {
    /// As in the topology file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Each => "each",
            Self::Batch => "batch",
            Self::Commit => "commit",
        })
    }
}

impl Node {
    /// How messages call it: `[joins.mit-mietobjekt]`.
    pub(crate) fn label(&self) -> String {
        format!("[{}.{}]", self.kind.section(), self.name)
    }

    /// The nodes whose records it takes, in order.
    pub(crate) fn inputs(&self) -> Vec<&At<String>> {
        match &self.kind {
            NodeKind::Stream { .. } | NodeKind::Table { .. } | NodeKind::GlobalTable { .. } => Vec::new(),
            NodeKind::Join { left, .. } => vec![left],
            NodeKind::Aggregate { inputs, .. } => inputs.iter().map(|input| &input.from).collect(),
            NodeKind::Transform { from, .. } | NodeKind::Sink { from, .. } => vec![from],
        }
    }

    /// Its uses of functions, in order.
    pub(crate) fn uses(&self) -> Vec<&Use> {
        match &self.kind {
            NodeKind::Join { function, .. } | NodeKind::Transform { function, .. } => vec![function],
            NodeKind::Aggregate { inputs, .. } => inputs.iter().map(|input| &input.function).collect(),
            NodeKind::Stream { .. } | NodeKind::Table { .. } | NodeKind::GlobalTable { .. } | NodeKind::Sink { .. } => {
                Vec::new()
            }
        }
    }

    /// The topic it reads.
    pub(crate) fn source_topic(&self) -> Option<&At<String>> {
        match &self.kind {
            NodeKind::Stream { topic } | NodeKind::Table { topic, .. } | NodeKind::GlobalTable { topic, .. } => {
                Some(topic)
            }
            _ => None,
        }
    }

    /// The store it fills, which has its name.
    pub(crate) fn store(&self) -> Option<StoreKind> {
        match &self.kind {
            NodeKind::Table { store, .. } | NodeKind::GlobalTable { store, .. } | NodeKind::Aggregate { store, .. } => {
                Some(*store)
            }
            _ => None,
        }
    }

    /// Whether it hands on records that another node can take. A table's rows are looked up, not handed on.
    pub(crate) fn hands_on_records(&self) -> bool {
        matches!(
            self.kind,
            NodeKind::Stream { .. } | NodeKind::Join { .. } | NodeKind::Aggregate { .. } | NodeKind::Transform { .. }
        )
    }
}

impl NodeKind {
    /// The section that declares it.
    pub(crate) fn section(&self) -> &'static str {
        match self {
            Self::Stream { .. } => "streams",
            Self::Table { .. } => "tables",
            Self::GlobalTable { .. } => "global_tables",
            Self::Join { .. } => "joins",
            Self::Aggregate { .. } => "aggregates",
            Self::Transform { .. } => "transforms",
            Self::Sink { .. } => "sinks",
        }
    }

    /// In words: `a stream`.
    pub(crate) fn in_words(&self) -> &'static str {
        match self {
            Self::Stream { .. } => "a stream",
            Self::Table { .. } => "a table",
            Self::GlobalTable { .. } => "a global table",
            Self::Join { .. } => "a join",
            Self::Aggregate { .. } => "an aggregate",
            Self::Transform { .. } => "a transform",
            Self::Sink { .. } => "a sink",
        }
    }
}
