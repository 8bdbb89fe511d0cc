//! Why a record was not processed, and what is to become of it.

use std::fmt;

use crate::bindings::types;

/// What a function wants done with a record that it did not process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Leave the record out, without an error: it is counted, nothing else.
    Skip,
    /// The record is bad: the topology's `on_error` decides.
    Reject,
    /// The function cannot go on, whatever the record: the task stops before it.
    Fail,
}

/// A record that was not processed: what is to become of it, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is to become of the record.
    pub verdict: Verdict,
    /// For the error message; empty for a skip.
    pub reason: String,
}

impl Refusal {
    /// Leaves the record out: it is counted, nothing else.
    pub fn skip() -> Self {
        Self { verdict: Verdict::Skip, reason: String::new() }
    }

    /// The record is bad: the topology's `on_error` decides whether the task stops, or it is skipped or put aside.
    pub fn reject(reason: impl Into<String>) -> Self {
        Self { verdict: Verdict::Reject, reason: reason.into() }
    }

    /// The function cannot go on, whatever the record: the task stops before it.
    pub fn fail(reason: impl Into<String>) -> Self {
        Self { verdict: Verdict::Fail, reason: reason.into() }
    }

    /// The refusal of record `index` of a call, as the host takes it.
    pub(crate) fn at(self, index: u32) -> types::Refusal {
        let verdict = match self.verdict {
            Verdict::Skip => types::Verdict::Skip,
            Verdict::Reject => types::Verdict::Reject,
            Verdict::Fail => types::Verdict::Fail,
        };
        types::Refusal { index, verdict, reason: self.reason }
    }

    /// The refusal that [`Refusal::at`] made.
    pub(crate) fn of(refusal: types::Refusal) -> Self {
        let verdict = match refusal.verdict {
            types::Verdict::Skip => Verdict::Skip,
            types::Verdict::Reject => Verdict::Reject,
            types::Verdict::Fail => Verdict::Fail,
        };
        Self { verdict, reason: refusal.reason }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.verdict {
            Verdict::Skip => f.write_str("skipped"),
            Verdict::Reject => write!(f, "rejected: {}", self.reason),
            Verdict::Fail => write!(f, "failed: {}", self.reason),
        }
    }
}

impl std::error::Error for Refusal {}
