//! State on disk and in memory: the state folder, and one RocksDB for each task.
//!
//! Promises:
//! - A commit is one atomic batch: the rows of all stores of a task and the checkpoint that describes them. After a crash a task's
//!   stores are at one of its commits, never between two.
//! - A checkpoint never covers rows that are not durable, although a restore writes its rows without a log.
//! - Two processes never use one state folder.
//! - A write that finds no room on the disk changes nothing, and nothing is written after it until the database was opened anew.
//!
//! Bounded by: one number of bytes for the caches and write buffers of all databases of the process ([`Resources`]), and a number of
//! bytes for each store that is kept in memory.
//!
//! All stores of a task share one column family, with the store's number as the prefix of its keys. A column family has write buffers
//! and files of its own, which pays only where options differ; ours don't, and a host may well hold 24 stores times 8 tasks. One
//! column family also makes a commit, and the flush before a checkpoint, atomic without further means.

mod arrange;
mod database;
mod dir;
mod error;
mod identity;
mod layout;
mod memory;
mod numbering;
mod resources;
mod room;
mod task;

pub use dir::StateDir;
pub use error::Error;
pub use memory::ROW_OVERHEAD;
pub use resources::Resources;
pub use task::{StoreKind, StoreSpec, TaskStores};

#[cfg(test)]
mod tests;
