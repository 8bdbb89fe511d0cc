//! What the host asks of a topology's logic. Plugins implement it; native stand-ins do in tests.
//!
//! Calls carry batches. How records are cut into batches never changes a result.

use std::fmt;

use bytes::Bytes;

use super::{FunctionIndex, Record};

/// A stream record and the table row it found.
#[derive(Clone, Debug)]
pub struct JoinPair {
    /// Key of the stream record, `None` for null.
    pub key: Option<Bytes>,
    /// Value of the stream record.
    pub left: Bytes,
    /// The row, if there is one.
    pub right: Option<Bytes>,
}

/// Changes to the state of one key, in order.
#[derive(Clone, Debug)]
pub struct FoldRun {
    /// The key.
    pub key: Bytes,
    /// Its state before, if it has one.
    pub state: Option<Bytes>,
    /// Function, value and record timestamp of each change; at least one.
    pub changes: Vec<(FunctionIndex, Bytes, i64)>,
}

/// What became of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folded {
    /// With `every`: the state after each change. Else one element: the state after all. `None`: no state (any more).
    pub states: Vec<Option<Bytes>>,
    /// Changes that were not applied: index in the run, and why.
    pub refused: Vec<(usize, Refusal)>,
}

/// What a function wants done with a record that it did not process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Leave it out; counted, nothing else.
    Skip,
    /// It is bad: the function's `on_error` decides.
    Reject,
    /// The function cannot go on: the task stops before the record.
    Fail,
}

/// A record that a function did not process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What to do with it.
    pub verdict: Verdict,
    /// The function's words; empty for a skip.
    pub reason: String,
}

/// A result per record: what the function made of it, or why it made nothing.
pub type Outcome<T> = Result<T, Refusal>;

/// The kind of a call that failed as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFailureKind {
    /// The guest trapped (a panic, an out-of-bounds access, a stack overflow).
    Trap,
    /// It used more CPU time than it may.
    Timeout,
    /// It wanted more memory than it may.
    Memory,
    /// Its answer breaks the interface (wrong counts, bad offsets, invalid UTF-8, too large).
    Answer,
    /// It could not be started anew.
    Start,
}

/// A call that failed as a whole: the instance is gone, the next call gets a fresh one.
#[derive(Clone, Debug, thiserror::Error)]
#[error("plugin {plugin} {version}, function {function}: {kind}: {reason}")]
pub struct CallFailure {
    /// The plugin's name.
    pub plugin: String,
    /// Short digest of the version that ran.
    pub version: String,
    /// The function's name (`fold` runs may span several: the first).
    pub function: String,
    /// What happened.
    pub kind: CallFailureKind,
    /// In words: the panic's message and place, the limit and what was asked for.
    pub reason: String,
}

impl fmt::Display for CallFailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Trap => "trap",
            Self::Timeout => "time-out",
            Self::Memory => "memory limit",
            Self::Answer => "bad answer",
            Self::Start => "start failed",
        })
    }
}

/// The logic of a topology, as one stream thread has it: all active plugins, each in an instance of this thread's own.
pub trait Logic {
    /// Joins pairs; one outcome a pair, in order. `Ok(None)` is null.
    fn join(&mut self, function: FunctionIndex, pairs: &[JoinPair])
    -> Result<Vec<Outcome<Option<Bytes>>>, CallFailure>;

    /// Folds runs, all of functions of one plugin; one answer a run, in order.
    fn fold(&mut self, runs: &[FoldRun], every: bool) -> Result<Vec<Folded>, CallFailure>;

    /// Transforms records; for each, in order, the records made of it.
    fn transform(
        &mut self,
        function: FunctionIndex,
        records: &[Record],
    ) -> Result<Vec<Outcome<Vec<Record>>>, CallFailure>;

    /// Version of the state type that `function` (an aggregator) keeps.
    fn state_version(&self, function: FunctionIndex) -> u32;

    /// Plugin name and short digest of the version behind `function`: for errors and dead letters.
    fn version(&self, function: FunctionIndex) -> (String, String);
}
