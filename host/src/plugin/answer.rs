//! What a guest answered to a hot call, checked completely before the host uses any of it. Pure.

use std::sync::Arc;

use bytes::Bytes;

use super::bindings::aggregator_types::Folded as FoldedAnswer;
use super::bindings::joiner_types::Joined;
use super::bindings::transformer_types::{Records, Transformed};
use super::bindings::types;
use super::fields::{BadFields, FieldsIter};
use super::imports::truncated;
use crate::model::{FoldRun, Folded, Header, Outcome, Record, Refusal, Verdict};

/// Longest reason of a refusal taken over, in bytes: it goes into headers of dead letters.
const MAX_REASON: usize = 4000;
/// Header names kept for reuse: a plugin writes the same few on every record.
const MAX_NAMES: usize = 16;

/// What is wrong with an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadAnswer {
    /// Values or states.
    #[error("its answer's fields are wrong: {0}")]
    Fields(#[from] BadFields),
    /// Refusals out of order or of records that were not there.
    #[error("it refuses record {index} of a call with {records}: indices must rise and exist")]
    Refused {
        /// The index refused.
        index: u32,
        /// Records of the call.
        records: usize,
    },
    /// A refused pair with a value.
    #[error("it refuses record {index}, yet answers a value for it")]
    ValueOfRefused {
        /// Which record.
        index: usize,
    },
    /// Lists of records of different lengths.
    #[error("it answers {timestamps} timestamps, {headers} header counts and {origins} origins: one of each a record")]
    Records {
        /// Timestamps.
        timestamps: usize,
        /// Header counts.
        headers: usize,
        /// Origins.
        origins: usize,
    },
    /// Origins out of order, of records that were not there, or refused.
    #[error("record {record} of its answer says it was made of record {origin}, which {what}")]
    Origin {
        /// Which record of the answer.
        record: usize,
        /// Its origin.
        origin: u32,
        /// What is wrong with that.
        what: &'static str,
    },
    /// A header without a name, or whose name isn't UTF-8.
    #[error("record {record} of its answer has a header whose name {what}")]
    HeaderName {
        /// Which record of the answer.
        record: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A time before 1970 that the origin doesn't have.
    #[error("record {record} of its answer has timestamp {timestamp}")]
    Timestamp {
        /// Which record of the answer.
        record: usize,
        /// Its timestamp.
        timestamp: i64,
    },
}

/// Checked refusals, in order of their records.
struct Refusals {
    /// What is left.
    left: std::iter::Peekable<std::vec::IntoIter<types::Refusal>>,
}

impl Refusals {
    /// Checks that the indices rise and are below `records`.
    fn check(refused: Vec<types::Refusal>, records: usize) -> Result<Self, BadAnswer> {
        let mut after = None;
        for &types::Refusal { index, .. } in &refused {
            let exists = usize::try_from(index).is_ok_and(|index| index < records);
            if !exists || after.is_some_and(|after| after >= index) {
                return Err(BadAnswer::Refused { index, records });
            }
            after = Some(index);
        }
        Ok(Self { left: refused.into_iter().peekable() })
    }

    /// The refusal of record `index`, if it is refused. To be asked in order.
    fn of(&mut self, index: usize) -> Option<Refusal> {
        let refusal = self.left.next_if(|refusal| usize::try_from(refusal.index) == Ok(index))?;
        let verdict = match refusal.verdict {
            types::Verdict::Skip => Verdict::Skip,
            types::Verdict::Reject => Verdict::Reject,
            types::Verdict::Fail => Verdict::Fail,
        };
        Some(Refusal { verdict, reason: truncated(refusal.reason, MAX_REASON) })
    }
}

/// Answers of `join`: one outcome a pair.
pub(super) fn joined(answer: Joined, pairs: usize) -> Result<Vec<Outcome<Option<Bytes>>>, BadAnswer> {
    let mut refusals = Refusals::check(answer.refused, pairs)?;
    let values = FieldsIter::check(answer.values, pairs)?;
    let mut outcomes = Vec::with_capacity(pairs);
    for (index, value) in values.enumerate() {
        outcomes.push(match refusals.of(index) {
            None => Ok(value),
            Some(_) if value.is_some() => return Err(BadAnswer::ValueOfRefused { index }),
            Some(refusal) => Err(refusal),
        });
    }
    Ok(outcomes)
}

/// Answers of `fold`: one a run.
pub(super) fn folded(answer: FoldedAnswer, runs: &[FoldRun], every: bool) -> Result<Vec<Folded>, BadAnswer> {
    let changes = runs.iter().map(|run| run.changes.len()).sum();
    let mut refusals = Refusals::check(answer.refused, changes)?;
    let mut states = FieldsIter::check(answer.states, if every { changes } else { runs.len() })?;
    let mut first = 0;
    let mut folded = Vec::with_capacity(runs.len());
    for run in runs {
        let own = run.changes.len();
        let states: Vec<Option<Bytes>> = states.by_ref().take(if every { own } else { 1 }).collect();
        let refused = (0..own).filter_map(|at| refusals.of(first + at).map(|refusal| (at, refusal))).collect();
        folded.push(Folded { states, refused });
        first += own;
    }
    Ok(folded)
}

/// Answers of `transform`: for each record those made of it.
pub(super) fn transformed(
    answer: Transformed,
    origins: &[Record],
    names: &mut HeaderNames,
) -> Result<Vec<Outcome<Vec<Record>>>, BadAnswer> {
    let Transformed { records: Records { fields, timestamps, headers }, origins: made_of, refused } = answer;
    let made = timestamps.len();
    if headers.len() != made || made_of.len() != made {
        return Err(BadAnswer::Records { timestamps: made, headers: headers.len(), origins: made_of.len() });
    }
    let mut refusals = Refusals::check(refused, origins.len())?;
    let mut outcomes: Vec<Outcome<Vec<Record>>> =
        (0..origins.len()).map(|index| refusals.of(index).map_or_else(|| Ok(Vec::new()), Err)).collect();

    // Counted in 64 bits: each header count is any 32-bit number.
    let wanted: u64 = headers.iter().map(|&count| 2 + 2 * u64::from(count)).sum();
    let mut fields = FieldsIter::check(fields, usize::try_from(wanted).unwrap_or(usize::MAX))?;
    let mut last = 0;
    for (record, ((&origin, timestamp), &headers)) in made_of.iter().zip(timestamps).zip(&headers).enumerate() {
        let bad_origin = |what| BadAnswer::Origin { record, origin, what };
        if origin < last {
            return Err(bad_origin("is before that of the record before"));
        }
        last = origin;
        let index = usize::try_from(origin).unwrap_or(usize::MAX);
        let (Some(source), Some(outcome)) = (origins.get(index), outcomes.get_mut(index)) else {
            return Err(bad_origin("the call did not have"));
        };
        let Ok(outputs) = outcome else { return Err(bad_origin("it refuses")) };
        // A record without a timestamp may keep none.
        if timestamp < 0 && timestamp != source.timestamp {
            return Err(BadAnswer::Timestamp { record, timestamp });
        }
        let (key, value) = (fields.next().flatten(), fields.next().flatten());
        // Bounded by the fields, of which there are two a header.
        let mut own = Vec::with_capacity(usize::try_from(headers).unwrap_or_default());
        for _ in 0..headers {
            let name = fields.next().flatten();
            let name = name.ok_or(BadAnswer::HeaderName { record, what: "is absent" })?;
            let name = names.get(&name).ok_or(BadAnswer::HeaderName { record, what: "is not UTF-8" })?;
            own.push(Header { name, value: fields.next().flatten() });
        }
        outputs.push(Record { key, value, timestamp, offset: 0, headers: own });
    }
    Ok(outcomes)
}

/// Header names seen lately, so that the same name isn't allocated for each record.
#[derive(Debug, Default)]
pub(super) struct HeaderNames {
    /// The names; replaced as a whole when full.
    seen: Vec<Arc<str>>,
}

impl HeaderNames {
    /// The name in `bytes`, if it is UTF-8.
    fn get(&mut self, bytes: &[u8]) -> Option<Arc<str>> {
        if let Some(name) = self.seen.iter().find(|name| name.as_bytes() == bytes) {
            return Some(Arc::clone(name));
        }
        let name: Arc<str> = Arc::from(std::str::from_utf8(bytes).ok()?);
        if self.seen.len() == MAX_NAMES {
            self.seen.clear();
        }
        self.seen.push(Arc::clone(&name));
        Some(name)
    }
}

#[cfg(test)]
mod tests;
