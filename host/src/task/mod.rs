//! A stream task: a deterministic state machine over batches of records.
//!
//! It knows no Kafka client, clock, thread or socket. The same input in the same order gives the same output, byte for
//! byte, so that the code below runs in production, in a plugin author's tests and in a simulation.

mod barrier;
mod below;
mod commit_metadata;
mod overlay;
mod partition_group;
mod pending;
mod record_queue;
mod state;
mod stream_task;

pub use barrier::Barrier;
pub use commit_metadata::CommitMetadata;
pub use overlay::Overlay;
pub use partition_group::{PartitionGroup, Picked};
pub use record_queue::RecordQueue;
pub use state::may_follow;
pub use stream_task::{GlobalTables, Options, Step, StreamTask, TaskError, TaskFailure};
