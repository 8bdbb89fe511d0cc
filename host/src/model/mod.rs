//! The words of the data path: no I/O, no other module of ours.
//!
//! Everything that crosses a boundary between modules is one of these types, so that a task runs the same in production,
//! in the plugin author's tests and in a simulation.

mod checkpoint;
mod ids;
mod logic;
mod record;
mod state;
mod status;

pub use checkpoint::{Checkpoint, CommitId};
pub use ids::{FunctionIndex, Generation, StoreIndex, TaskId, TopicId, TopicPartition};
pub use logic::{CallFailure, CallFailureKind, FoldRun, Folded, JoinPair, Logic, Outcome, Refusal, Verdict};
pub use record::{Header, Headers, Record};
pub use state::{Entry, StateRead, StateWrite, StoreError};
pub use status::{
    Check, InstanceState, InstanceStatus, MemoryPartStatus, MemoryStatus, PartitionStatus, PluginStatus, RestoreStatus,
    StandbyPartition, StandbyStatus, StoreStatus, TableStatus, TaskState, TaskStatus,
};
