//! What a sub-topology does with a batch: each kind of node in a file, pure but for the calls of the logic.
//!
//! A batch is moved through the nodes as a whole, each node once, in the plan's order. The result is that of taking its
//! records one by one: rows don't change within a batch, a key's changes are folded in the order of the records they
//! stem from, and outputs leave in that order too. Nothing is applied here: a batch yields [`Effects`], which its task
//! applies all together or, when a record stops it, not at all.

mod aggregate;
mod failure;
mod join;
mod pass;
mod tally;
mod transform;

pub use failure::{BatchFailure, RecordFailure};
pub use pass::{Effects, Emitted, Inputs, Output, Pass, PendingEmit};
pub use tally::{Lookups, Tally};

/// A record on its way through the nodes of a batch.
#[derive(Clone, Debug)]
pub struct Item {
    /// Index in the batch of the input record that it stems from.
    pub origin: usize,
    /// The record as the last node left it.
    pub record: crate::model::Record,
}
