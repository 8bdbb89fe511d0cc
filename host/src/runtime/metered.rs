//! Counts for the metrics: what tasks did, and what calls of plugins cost.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use crate::model::{CallFailure, FoldRun, Folded, FunctionIndex, JoinPair, Logic, Outcome, Record};
use crate::node::Tally;
use crate::plan::{FunctionUse, SubtopologyPlan};
use crate::telemetry::{Counters, Operation, PluginCounters};

/// A thread's plugins, with their calls counted: two looks at the clock a batch.
pub(super) struct Metered {
    /// The plugins.
    logic: Box<dyn Logic + Send>,
    /// The counters of each function's plugin.
    counters: Vec<Arc<PluginCounters>>,
}

impl Metered {
    /// Counts the calls of `logic`.
    pub(super) fn new(logic: Box<dyn Logic + Send>, functions: &[FunctionUse], counters: &Counters) -> Self {
        let counters = functions.iter().map(|function| counters.plugin(&function.plugin)).collect();
        Self { logic, counters }
    }

    /// Makes a call and counts it.
    fn call<T>(
        &mut self,
        operation: Operation,
        function: FunctionIndex,
        records: usize,
        call: impl FnOnce(&mut dyn Logic) -> Result<T, CallFailure>,
    ) -> Result<T, CallFailure> {
        let start = Instant::now();
        let result = call(self.logic.as_mut());
        if let Some(counters) = self.counters.get(usize::from(function.0)) {
            counters.called(operation, records, start.elapsed());
            if let Err(failure) = &result {
                counters.failures(failure.kind).inc();
            }
        }
        result
    }
}

impl Logic for Metered {
    fn join(
        &mut self,
        function: FunctionIndex,
        pairs: &[JoinPair],
    ) -> Result<Vec<Outcome<Option<Bytes>>>, CallFailure> {
        self.call(Operation::Join, function, pairs.len(), |logic| logic.join(function, pairs))
    }

    fn fold(&mut self, runs: &[FoldRun], every: bool) -> Result<Vec<Folded>, CallFailure> {
        let first = runs.first().and_then(|run| run.changes.first()).map(|(function, ..)| *function);
        let Some(function) = first else { return Ok(Vec::new()) };
        let records = runs.iter().map(|run| run.changes.len()).sum();
        self.call(Operation::Fold, function, records, |logic| logic.fold(runs, every))
    }

    fn transform(
        &mut self,
        function: FunctionIndex,
        records: &[Record],
    ) -> Result<Vec<Outcome<Vec<Record>>>, CallFailure> {
        self.call(Operation::Transform, function, records.len(), |logic| logic.transform(function, records))
    }

    fn state_version(&self, function: FunctionIndex) -> u32 {
        self.logic.state_version(function)
    }

    fn version(&self, function: FunctionIndex) -> (String, String) {
        self.logic.version(function)
    }
}

/// Counts what a step of a task did.
pub(super) fn count(counters: &Counters, part: Option<&SubtopologyPlan>, records: usize, tally: &Tally) {
    counters.processed.add(records as u64);
    let dropped = &counters.dropped;
    for (reason, count) in &tally.dropped {
        match *reason {
            "null-key" | "table-null-key" => dropped.null_key.add(*count),
            "null-value" => dropped.null_value.add(*count),
            "no-row" => dropped.no_row.add(*count),
            "skipped" => dropped.skipped.add(*count),
            "dead-letter" => counters.dead_letters.add(*count),
            _ => dropped.refused.add(*count),
        }
    }
    for (node, lookups) in &tally.lookups {
        let Some(node) = part.and_then(|part| part.nodes.get(*node)) else { continue };
        let join = counters.join(&node.name);
        join.hit.add(lookups.hit);
        join.miss.add(lookups.miss);
        join.null_key.add(lookups.null_key);
    }
}
