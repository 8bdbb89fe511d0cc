//! Deliberate faults, to see that the simulation finds them.
//!
//! Each is made where the engine meets its edge, so that the engine does what it would do with the fault in it: what it asks for comes
//! too early, too late, wrongly or not at all.

/// A deliberate fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Stores get a commit, with its checkpoint, before the transaction is committed.
    CheckpointBeforeTransaction,
    /// Input offsets are committed before the changelog is.
    OffsetsBeforeState,
    /// The end of a log is taken to be the offset after its last record: a marker there is never passed.
    MarkerNotPassed,
    /// The end of a log is taken to be its very end although a transaction is open below: its records are skipped.
    OpenTransactionSkipped,
    /// Partitions that are lost are treated as if they were given back.
    LostAsRevoked,
    /// Offsets are committed under whatever generation the group has.
    NoGeneration,
    /// Producers are not initialised: nothing of a predecessor is ended or fenced.
    NoInit,
    /// Rows of a restore are not made durable before a checkpoint covers them.
    UnsettledCheckpoint,
}
