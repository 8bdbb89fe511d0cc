//! Aggregators: records of one key become that key's state.

use crate::bindings::aggregator::exports::weir::plugin::aggregator::{Folded, Runs};
use crate::bindings::types;
use crate::flat::{Reader, Writer, broken};
use crate::{Decode, Encode, Refusal};

/// A type of state that aggregators keep, one value a key.
///
/// For most types `Form` is [`Json<Self>`](crate::Json); a form that borrows from the bytes saves the copies.
pub trait State: Send + Sync + 'static {
    /// Its name in the plugin.
    const NAME: &'static str;
    /// Raised only when old or new code cannot read the other's bytes.
    const VERSION: u32;
    /// How it is read, changed and written. The default is the state of a key that has none yet. A written state must
    /// read back as the same state.
    type Form<'a>: Clone + Default + Decode<'a> + Encode;

    /// Whether a state counts as none: the host then removes it, and the next change starts from the default.
    fn is_gone(_state: &Self::Form<'_>) -> bool {
        false
    }
}

/// Applies one record to the state of its key.
///
/// All aggregators of one state type are functions of one aggregate, and a run of records of one key may mix them.
pub trait Aggregator: Send + Sync + 'static {
    /// What the topology file calls it, after the plugin's name and a dot: lower case, digits, `_` and `-`.
    const NAME: &'static str;
    /// One sentence for people.
    const DOC: &'static str;
    /// The key; never null.
    type Key<'a>: Decode<'a>;
    /// The record's value.
    type Value<'a>: Decode<'a>;
    /// The state that it changes.
    type State: State;

    /// Applies one record. A refusal leaves the state as it was before, whatever was changed by then.
    fn apply<'a>(
        &self,
        key: Self::Key<'a>,
        state: &mut <Self::State as State>::Form<'a>,
        value: Self::Value<'a>,
        timestamp: i64,
    ) -> Result<(), Refusal>;
}

/// What an aggregator did with a change.
pub enum Applied {
    /// The state has it.
    Accepted,
    /// It was refused before the state was touched.
    Unread(Refusal),
    /// It was refused, and the state may be half changed.
    Refused(Refusal),
}

/// An aggregator over fields that are not decoded yet.
pub trait Apply<S: State>: Send + Sync {
    /// Decodes key and value and applies the change.
    fn apply_fields<'a>(
        &self,
        key: &'a [u8],
        state: &mut S::Form<'a>,
        value: Option<&'a [u8]>,
        timestamp: i64,
    ) -> Applied;
}

impl<A: Aggregator> Apply<A::State> for A {
    fn apply_fields<'a>(
        &self,
        key: &'a [u8],
        state: &mut <A::State as State>::Form<'a>,
        value: Option<&'a [u8]>,
        timestamp: i64,
    ) -> Applied {
        let key = match A::Key::decode(Some(key)) {
            Ok(key) => key,
            Err(error) => return Applied::Unread(Refusal::reject(format!("the key cannot be read: {error}"))),
        };
        let value = match A::Value::decode(value) {
            Ok(value) => value,
            Err(error) => return Applied::Unread(Refusal::reject(format!("the value cannot be read: {error}"))),
        };
        match self.apply(key, state, value, timestamp) {
            Ok(()) => Applied::Accepted,
            Err(refusal) => Applied::Refused(refusal),
        }
    }
}

/// All functions of one state type.
pub(crate) struct Aggregate<S: State> {
    /// The id of the first function; the others follow.
    pub(crate) first: u32,
    /// The functions.
    pub(crate) functions: Vec<Box<dyn Apply<S>>>,
}

/// An aggregate whatever its state type.
pub(crate) trait FoldRun: Send + Sync {
    /// Whether the function is one of its own.
    fn has(&self, function: u32) -> bool;

    /// Applies a run's changes and appends its states and refusals.
    fn fold(&self, run: Run<'_>, every: bool, answer: &mut Answer);
}

/// The changes to one key's state.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    /// The key.
    key: &'a [u8],
    /// Its state before.
    state: Option<&'a [u8]>,
    /// The changes' values; more may follow that are not the run's.
    values: Reader<'a>,
    /// The changes' functions.
    functions: &'a [u32],
    /// The changes' timestamps.
    timestamps: &'a [i64],
    /// Index of the first change in the whole call.
    first: u32,
}

/// The answer to a call, as it grows.
#[derive(Default)]
pub(crate) struct Answer {
    /// The states.
    states: Writer,
    /// The refused changes.
    refused: Vec<types::Refusal>,
}

impl<S: State> FoldRun for Aggregate<S> {
    fn has(&self, function: u32) -> bool {
        function.checked_sub(self.first).is_some_and(|index| (index as usize) < self.functions.len())
    }

    fn fold(&self, run: Run<'_>, every: bool, answer: &mut Answer) {
        let Run { key, state: before, mut values, functions, timestamps, first } = run;
        let mut fold = match Fold::<S>::start(before) {
            Ok(fold) => fold,
            Err(reason) => return answer.refuse_all(&run, every, &reason),
        };
        let refused_before = answer.refused.len();
        // The last state that was replayed: the next replay starts there. None yet: from the state before the run.
        let mut kept: Option<Kept<'_, S>> = None;
        for ((&function, &timestamp), index) in functions.iter().zip(timestamps).zip(first..) {
            let applied = self.function(function).apply_fields(key, &mut fold.state, values.field(), timestamp);
            let mut spoilt = None;
            match applied {
                Applied::Accepted => fold.accepted(),
                Applied::Unread(refusal) => answer.refused.push(refusal.at(index)),
                Applied::Refused(refusal) => spoilt = Some(refusal),
            }
            if every && spoilt.is_none() {
                spoilt = fold.write(before, &mut answer.states).err();
            }
            if let Some(refusal) = spoilt {
                let earlier = answer.refused.get(refused_before..).unwrap_or_default();
                fold = self.replay(&run, kept.take(), index, earlier);
                kept = Some(Kept { fold: fold.clone(), values, next: index + 1 });
                answer.refused.push(refusal.at(index));
                if every && let Err(refusal) = fold.write(before, &mut answer.states) {
                    unlike(&refusal);
                }
            }
        }
        if !every && fold.write(before, &mut answer.states).is_err() {
            // Some change made the state one that cannot be written. Writing it after each tells which.
            answer.refused.truncate(refused_before);
            let mut each = Answer::default();
            self.fold(run, true, &mut each);
            answer.refused.append(&mut each.refused);
            let states = each.states.finish();
            let mut states = Reader::new(&states);
            states.skip(states.len().saturating_sub(1));
            answer.states.field(states.field());
        }
    }
}

impl<S: State> Aggregate<S> {
    /// The function with that id.
    fn function(&self, id: u32) -> &dyn Apply<S> {
        let function = id.checked_sub(self.first).and_then(|index| self.functions.get(index as usize));
        function.unwrap_or_else(|| broken("a run whose functions keep different states")).as_ref()
    }

    /// The state after the accepted ones of the run's changes before `index`. `refused` are the run's refusals so far.
    fn replay<'a>(
        &self,
        run: &Run<'a>,
        kept: Option<Kept<'a, S>>,
        index: u32,
        refused: &[types::Refusal],
    ) -> Fold<'a, S> {
        let Kept { mut fold, mut values, next } = kept.unwrap_or_else(|| {
            let fold = Fold::start(run.state).unwrap_or_else(|reason| unlike(&Refusal::fail(reason)));
            Kept { fold, values: run.values, next: run.first }
        });
        let changes = run.functions.iter().zip(run.timestamps).zip(run.first..);
        for ((&function, &timestamp), at) in changes.skip((next - run.first) as usize).take((index - next) as usize) {
            let value = values.field();
            if refused.binary_search_by_key(&at, |refusal| refusal.index).is_ok() {
                continue;
            }
            match self.function(function).apply_fields(run.key, &mut fold.state, value, timestamp) {
                Applied::Accepted => fold.accepted(),
                Applied::Unread(refusal) | Applied::Refused(refusal) => unlike(&refusal),
            }
        }
        fold
    }
}

/// Stops the instance: with the same state and changes, an aggregator did not do again what it had done.
#[cold]
#[expect(clippy::panic, reason = "whatever the answer, the state would be wrong")]
fn unlike(refusal: &Refusal) -> ! {
    panic!("an aggregator did not do the same with the same state and changes ({refusal})")
}

/// A state in the middle of a run, and where the run was then.
struct Kept<'a, S: State> {
    /// The state.
    fold: Fold<'a, S>,
    /// The values of the changes that come next.
    values: Reader<'a>,
    /// Index of the change that comes next.
    next: u32,
}

/// The state of a key in the course of a run.
struct Fold<'a, S: State> {
    /// The state.
    state: S::Form<'a>,
    /// Whether the key has one.
    present: bool,
    /// Whether a change was accepted; if not, the bytes before are the bytes after.
    changed: bool,
}

impl<S: State> Clone for Fold<'_, S> {
    fn clone(&self) -> Self {
        Self { state: self.state.clone(), present: self.present, changed: self.changed }
    }
}

impl<'a, S: State> Fold<'a, S> {
    /// Decodes the state before a run.
    fn start(before: Option<&'a [u8]>) -> Result<Self, String> {
        let state = match before {
            None => S::Form::default(),
            Some(_) => S::Form::decode(before)
                .map_err(|error| format!("the state {} (version {}) cannot be read: {error}", S::NAME, S::VERSION))?,
        };
        Ok(Self { state, present: before.is_some(), changed: false })
    }

    /// Notes that a change was accepted.
    fn accepted(&mut self) {
        self.changed = true;
        self.present = !S::is_gone(&self.state);
        if !self.present {
            self.state = S::Form::default();
        }
    }

    /// Writes the state as the next field.
    fn write(&self, before: Option<&[u8]>, into: &mut Writer) -> Result<(), Refusal> {
        match (self.changed, self.present) {
            (false, _) => into.field(before),
            (true, false) => into.field(None),
            (true, true) => into.encode(&self.state).map_err(|error| {
                Refusal::reject(format!("the state {} could not be written after it: {error}", S::NAME))
            })?,
        }
        Ok(())
    }
}

impl Answer {
    /// The run's state cannot be read: none of its changes is applied.
    fn refuse_all(&mut self, run: &Run<'_>, every: bool, reason: &str) {
        for index in (run.first..).take(run.functions.len()) {
            self.refused.push(Refusal::fail(reason).at(index));
            if every {
                self.states.field(run.state);
            }
        }
        if !every {
            self.states.field(run.state);
        }
    }
}

/// Answers the interface's `fold`.
pub(crate) fn fold_batch(aggregates: &[Box<dyn FoldRun>], every: bool, runs: &Runs) -> Folded {
    let changes = runs.functions.len();
    if runs.timestamps.len() != changes {
        broken("functions and timestamps of different length");
    }
    let states = if every { changes } else { runs.counts.len() };
    let mut answer =
        Answer { states: Writer::with_capacity(runs.fields.bytes.len() + 64 * states, states), refused: Vec::new() };
    let mut fields = Reader::new(&runs.fields);
    let (mut functions, mut timestamps) = (runs.functions.as_slice(), runs.timestamps.as_slice());
    let mut first = 0;
    for &count in &runs.counts {
        let key = fields.field().unwrap_or_else(|| broken("a run without a key"));
        let state = fields.field();
        let count_here = count as usize;
        let (Some((run_functions, later_functions)), Some((run_timestamps, later_timestamps))) =
            (functions.split_at_checked(count_here), timestamps.split_at_checked(count_here))
        else {
            broken("fewer changes than its counts say")
        };
        let run = Run { key, state, values: fields, functions: run_functions, timestamps: run_timestamps, first };
        let aggregate = run_functions.first().and_then(|id| aggregates.iter().find(|aggregate| aggregate.has(*id)));
        aggregate.unwrap_or_else(|| broken("a run whose first function is no aggregator")).fold(
            run,
            every,
            &mut answer,
        );
        fields.skip(count_here);
        (functions, timestamps) = (later_functions, later_timestamps);
        first += count;
    }
    if !fields.is_empty() || !functions.is_empty() {
        broken("more fields than its counts say");
    }
    Folded { states: answer.states.finish(), refused: answer.refused }
}

#[cfg(test)]
mod tests;
