//! Why an instance cannot start, or ends.

use std::path::PathBuf;

use crate::model::TopicId;
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
    /// `state.memory` is less than the topology needs.
    #[error(transparent)]
    Memory(#[from] plan::TooLittleMemory),
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
    /// An input is another topic than the one whose offsets are committed.
    #[error(
        "the input topic {topic} was deleted and made anew (its id was {before} and is {now}): the offsets that are committed for \
         it, and what the state contains of it, are the old topic's. Stop all instances. To go on with the state, set the group's \
         offsets of this topic (kafka-consumer-groups --reset-offsets) and delete the state folders, which are restored from the \
         changelogs; to start over, delete the internal topics too, or use another app.id"
    )]
    RecreatedInput {
        /// The topic.
        topic: String,
        /// Its id when the offsets were committed.
        before: TopicId,
        /// Its id now.
        now: TopicId,
    },
    /// A table or changelog was replaced under a running instance.
    #[error(
        "the topic {topic} was deleted and made anew while its rows were in use (its id was {before} and is {now}); start again: \
         its stores are then read anew from its start"
    )]
    RecreatedWhileInUse {
        /// The topic.
        topic: String,
        /// Its id at the start.
        before: TopicId,
        /// Its id now.
        now: TopicId,
    },
    /// A stream thread hangs.
    #[error(
        "{name} has not moved for {seconds} s (kafka.\"max.poll.interval.ms\"): it waits for the disk, the broker or a lock; this \
         instance leaves its tasks to others. Start it again"
    )]
    Stalled {
        /// The thread.
        name: String,
        /// For how long it may stand still.
        seconds: u64,
    },
    /// A stream thread has not taken its tasks.
    #[error(
        "a stream thread has not opened its tasks within {seconds} s: it waits for the disk or the broker; this instance leaves \
         them to others. Start it again"
    )]
    Unopened {
        /// How long that was waited for.
        seconds: u64,
    },
    /// A topic got partitions while the instance runs.
    #[error(
        "the topic {topic} has {now} partitions now, and had {before} when this instance started: keys go to other partitions \
         than their state. Start again: what has no state goes on, what has some says what does not fit"
    )]
    PartitionsChanged {
        /// The topic.
        topic: String,
        /// What it had.
        before: i32,
        /// What it has.
        now: i32,
    },
    /// Another process has taken this instance's place in the group.
    #[error(
        "another process has joined the group under this instance's id ({instance}) and has taken its place: the state folder {} was \
         cloned, or is used from two machines. Stop one of the two; if this folder is the clone, delete weir.json in it, and it \
         gets an id of its own (its state is kept)", dir.display()
    )]
    Fenced {
        /// The id.
        instance: String,
        /// The state folder.
        dir: PathBuf,
        /// What the client said.
        #[source]
        source: kafka::Error,
    },
    /// A thread panicked: a bug.
    #[error("the thread {name} ended unexpectedly; please report this with the log")]
    Panicked {
        /// The thread's name.
        name: String,
    },
}
