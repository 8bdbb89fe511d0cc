//! Why an instance cannot start, or ends.

use crate::{kafka, plan, plugin, registry, store};

/// An instance that cannot start, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system gives no thread.
    #[error("cannot start the thread {name}")]
    Thread {
        /// The thread's name.
        name: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A Kafka client failed.
    #[error("{doing}")]
    Kafka {
        /// What was being done.
        doing: String,
        /// What the client said.
        #[source]
        source: kafka::Error,
    },
    /// Topics of the topology that the broker doesn't have.
    #[error("missing on the broker: {}; create them, or correct the names in the topology file", .topics.join(", "))]
    MissingTopics {
        /// Their names.
        topics: Vec<String>,
    },
    /// Partition counts that don't fit.
    #[error(transparent)]
    Copartition(#[from] plan::CopartitionProblems),
    /// An internal topic has another partition count than its inputs.
    #[error("topic {topic} has {found} partitions, {wanted} are needed: {why}")]
    PartitionCount {
        /// The topic.
        topic: String,
        /// What it has.
        found: i32,
        /// What it must have.
        wanted: i32,
        /// Why.
        why: String,
    },
    /// The state folder or a store failed.
    #[error("the state cannot be used")]
    Store(#[from] store::Error),
    /// Plugins cannot run on this machine.
    #[error("plugins cannot run here")]
    Engine(#[from] plugin::Error),
    /// The plugins could not be loaded.
    #[error("the plugins cannot be loaded")]
    Registry(#[from] registry::Error),
    /// A file of a plugin cannot be read.
    #[error("plugin {plugin}: cannot read {file}")]
    PluginFile {
        /// The plugin.
        plugin: String,
        /// The file.
        file: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A global table does not fit, or its partition cannot be read.
    #[error("global table {table}: {reason}")]
    GlobalTable {
        /// The table.
        table: String,
        /// What is wrong.
        reason: String,
    },
    /// A thread panicked: a bug.
    #[error("the thread {name} ended unexpectedly; please report this with the log")]
    Panicked {
        /// The thread's name.
        name: String,
    },
}
