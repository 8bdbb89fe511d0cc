//! Why a batch did not go through.

use crate::model::{CallFailure, FunctionIndex, StoreError};

/// A batch that yields nothing; its task decides what to try next.
#[derive(Debug, thiserror::Error)]
pub enum BatchFailure {
    /// One record stops the batch; those before it may go on without it.
    #[error("record {origin} of the batch")]
    Record {
        /// Index of the record in the batch.
        origin: usize,
        /// What is wrong with it.
        #[source]
        failure: RecordFailure,
    },
    /// A call failed as a whole: any of the records may be the cause.
    #[error("a call failed")]
    Call {
        /// The function that was called (of a fold: one of them).
        function: FunctionIndex,
        /// How it failed.
        #[source]
        failure: CallFailure,
    },
    /// State could not be read.
    #[error("state could not be read")]
    Store(#[from] StoreError),
}

/// What is wrong with a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordFailure {
    /// The function refused it, and the topology says that this stops the task.
    #[error("plugin {plugin} {version}, function {function}: {reason}")]
    Refused {
        /// The plugin's name.
        plugin: String,
        /// Short digest of the version that ran.
        version: String,
        /// The function's name.
        function: String,
        /// The function's words.
        reason: String,
    },
    /// The call fails whenever the record is in it, also alone in a fresh instance.
    #[error("{0}")]
    Call(String),
    /// The state that it needs cannot be read.
    #[error(transparent)]
    State(StoreError),
    /// What was made of it is larger than a record may be.
    #[error("the record for topic {topic} would have {size} bytes, the limit is {limit} (kafka.\"message.max.bytes\")")]
    TooLarge {
        /// The topic that it was for.
        topic: String,
        /// Bytes of key, value and headers.
        size: usize,
        /// Most bytes that a record may have.
        limit: usize,
    },
    /// A transformer changed the key of a record that goes on into a join or an aggregate.
    #[error(
        "transform {node} changed the record's key, but a join or an aggregate follows, which needs the key that the \
         record was partitioned by; write it to a topic with the new key and read that"
    )]
    KeyChanged {
        /// The transform's name in the topology file.
        node: String,
    },
}
