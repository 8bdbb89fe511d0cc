//! Logic in plain Rust, in the place of plugins.

use bytes::Bytes;

use crate::model::{
    CallFailure, CallFailureKind, FoldRun, Folded, FunctionIndex, JoinPair, Logic, Outcome, Record, Refusal, Verdict,
};

/// Joins one pair.
type Join = Box<dyn FnMut(&JoinPair) -> Outcome<Option<Bytes>> + Send>;
/// Applies one change: state, value, record timestamp.
type Fold = Box<dyn FnMut(Option<&Bytes>, &Bytes, i64) -> Outcome<Option<Bytes>> + Send>;
/// Transforms one record.
type Transform = Box<dyn FnMut(&Record) -> Outcome<Vec<Record>> + Send>;

/// One function, for one record at a time.
pub enum NativeFunction {
    /// A joiner.
    Join(Join),
    /// An aggregator.
    Fold(Fold),
    /// A transformer.
    Transform(Transform),
}

/// Functions by their index in the plan.
#[derive(Default)]
pub struct NativeLogic {
    /// The functions.
    functions: Vec<NativeFunction>,
    /// Values that make a whole call fail, as a trap in a plugin does.
    trap: Option<Bytes>,
    /// Calls so far.
    calls: u64,
}

impl NativeLogic {
    /// Logic of these functions, in the order of the plan.
    pub fn new(functions: Vec<NativeFunction>) -> Self {
        Self { functions, ..Self::default() }
    }

    /// Fails every call that has this value in it.
    #[must_use]
    pub fn trapping_on(mut self, value: impl Into<Bytes>) -> Self {
        self.trap = Some(value.into());
        self
    }

    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Counts a call, and fails it when one of `values` is the one that traps.
    fn call<'a>(&mut self, mut values: impl Iterator<Item = &'a Bytes>) -> Result<(), CallFailure> {
        self.calls += 1;
        if let Some(trap) = &self.trap
            && values.any(|value| value == trap)
        {
            return Err(failure("trapped, as told"));
        }
        Ok(())
    }
}

/// A failed call.
fn failure(reason: &str) -> CallFailure {
    CallFailure {
        plugin: "native".to_owned(),
        version: "0".to_owned(),
        function: "function".to_owned(),
        kind: CallFailureKind::Trap,
        reason: reason.to_owned(),
    }
}

/// What a function of another kind answers.
fn wrong_kind() -> Refusal {
    Refusal { verdict: Verdict::Fail, reason: "the function is of another kind".to_owned() }
}

impl Logic for NativeLogic {
    fn join(
        &mut self,
        function: FunctionIndex,
        pairs: &[JoinPair],
    ) -> Result<Vec<Outcome<Option<Bytes>>>, CallFailure> {
        self.call(pairs.iter().map(|pair| &pair.left))?;
        let function = self.functions.get_mut(usize::from(function.0));
        let Some(NativeFunction::Join(join)) = function else {
            return Ok(pairs.iter().map(|_| Err(wrong_kind())).collect());
        };
        Ok(pairs.iter().map(join).collect())
    }

    fn fold(&mut self, runs: &[FoldRun], every: bool) -> Result<Vec<Folded>, CallFailure> {
        self.call(runs.iter().flat_map(|run| run.changes.iter().map(|(_, value, _)| value)))?;
        let mut result = Vec::with_capacity(runs.len());
        for run in runs {
            let mut state = run.state.clone();
            let mut folded = Folded { states: Vec::new(), refused: Vec::new() };
            for (index, (function, value, timestamp)) in run.changes.iter().enumerate() {
                let outcome = match self.functions.get_mut(usize::from(function.0)) {
                    Some(NativeFunction::Fold(fold)) => fold(state.as_ref(), value, *timestamp),
                    _ => Err(wrong_kind()),
                };
                match outcome {
                    Ok(next) => state = next,
                    Err(refusal) => folded.refused.push((index, refusal)),
                }
                if every {
                    folded.states.push(state.clone());
                }
            }
            if !every {
                folded.states.push(state);
            }
            result.push(folded);
        }
        Ok(result)
    }

    fn transform(
        &mut self,
        function: FunctionIndex,
        records: &[Record],
    ) -> Result<Vec<Outcome<Vec<Record>>>, CallFailure> {
        self.call(records.iter().filter_map(|record| record.value.as_ref()))?;
        let function = self.functions.get_mut(usize::from(function.0));
        let Some(NativeFunction::Transform(transform)) = function else {
            return Ok(records.iter().map(|_| Err(wrong_kind())).collect());
        };
        Ok(records.iter().map(transform).collect())
    }

    fn state_version(&self, _function: FunctionIndex) -> u32 {
        1
    }

    fn version(&self, _function: FunctionIndex) -> (String, String) {
        ("native".to_owned(), "0".to_owned())
    }
}
