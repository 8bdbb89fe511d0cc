//! One thread's instances, as the data path calls them.

use std::sync::Arc;

use bytes::Bytes;
use wasmtime::Store;

use super::answer::{self, BadAnswer, HeaderNames};
use super::bindings::Exports;
use super::bindings::aggregator_types::Runs;
use super::bindings::transformer_types::Records;
use super::bindings::types::Fields;
use super::description::Kind;
use super::fields;
use super::imports::HostState;
use super::instance::{Failure, Instance};
use super::set::{PluginSet, Resolved};
use crate::model::{CallFailure, CallFailureKind, FoldRun, Folded, FunctionIndex, JoinPair, Logic, Outcome, Record};

/// The plugins of a set in instances of one thread's own, and the buffers that calls are packed in.
///
/// An instance is taken out for a call and put back when the call and the check of its answer succeeded; so one that
/// failed is gone, and the next call starts another.
pub struct ThreadLogic {
    /// Which plugins.
    set: Arc<PluginSet>,
    /// Instances by plugin, where there is one.
    instances: Vec<Option<Box<Instance>>>,
    /// Pairs of a join.
    pairs: Fields,
    /// Runs of a fold.
    runs: Runs,
    /// Records of a transform.
    records: Records,
    /// Header names of transformed records.
    names: HeaderNames,
}

impl ThreadLogic {
    /// No instance yet.
    pub(super) fn new(set: Arc<PluginSet>) -> Self {
        let fields = || Fields { bytes: Vec::new(), ends: Vec::new() };
        let runs = Runs { fields: fields(), counts: Vec::new(), functions: Vec::new(), timestamps: Vec::new() };
        let records = Records { fields: fields(), timestamps: Vec::new(), headers: Vec::new() };
        let instances = (0..set.len()).map(|_| None).collect();
        Self { set, instances, pairs: fields(), runs, records, names: HeaderNames::default() }
    }

    /// The set that these are instances of.
    pub fn set(&self) -> &Arc<PluginSet> {
        &self.set
    }

    /// The resolved function, if it is of the kind that is called.
    fn resolved(set: &PluginSet, function: FunctionIndex, kind: Kind) -> Result<&Resolved, CallFailure> {
        let found = set.resolved(function).filter(|resolved| resolved.kind == kind);
        found.ok_or_else(|| set.call_failure(function, misuse(format!("function {} is no {kind}", function.0))))
    }
}

/// A call that the topology's plan rules out.
fn misuse(reason: String) -> Failure {
    Failure { kind: CallFailureKind::Start, reason }
}

/// Calls a function of `resolved`'s plugin and checks its answer; without both the instance is gone.
fn call<T, U>(
    set: &PluginSet,
    instances: &mut [Option<Box<Instance>>],
    resolved: &Resolved,
    (records, packed): (usize, &Fields),
    call: impl FnOnce(&Exports, &mut Store<HostState>) -> wasmtime::Result<T>,
    check: impl FnOnce(T) -> Result<U, BadAnswer>,
) -> Result<U, Failure> {
    if !fields::fits(packed) {
        let reason =
            format!("the batch has {} bytes; a call carries at most {}", packed.bytes.len(), fields::MAX_BYTES);
        return Err(Failure { kind: CallFailureKind::Memory, reason });
    }
    let (Some(plugin), Some(slot)) = (set.plugin(resolved.plugin), instances.get_mut(resolved.plugin)) else {
        return Err(misuse("there is no such plugin".to_owned()));
    };
    let instance = match slot.take() {
        Some(instance) => instance,
        None => plugin.start()?,
    };
    let (instance, answer) = instance.call(plugin.limits().batch_timeout(records), call)?;
    let checked = check(answer).map_err(Failure::answer)?;
    *slot = Some(instance).filter(|instance| !instance.has_outgrown());
    Ok(checked)
}

impl Logic for ThreadLogic {
    fn join(
        &mut self,
        function: FunctionIndex,
        pairs: &[JoinPair],
    ) -> Result<Vec<Outcome<Option<Bytes>>>, CallFailure> {
        let Self { set, instances, pairs: packed, .. } = self;
        let resolved = Self::resolved(set, function, Kind::Joiner)?;
        fields::clear(packed);
        for JoinPair { key, left, right } in pairs {
            fields::push(packed, key.as_deref());
            fields::push(packed, Some(left));
            fields::push(packed, right.as_deref());
        }
        call(
            set,
            instances,
            resolved,
            (pairs.len(), packed),
            |exports, store| exports.joiner()?.call_join(store, resolved.id, packed),
            |answer| answer::joined(answer, pairs.len()),
        )
        .map_err(|failure| set.call_failure(function, failure))
    }

    fn fold(&mut self, runs: &[FoldRun], every: bool) -> Result<Vec<Folded>, CallFailure> {
        let Self { set, instances, runs: packed, .. } = self;
        let Some(&(first, ..)) = runs.iter().find_map(|run| run.changes.first()) else {
            // Nothing changes anything: every run keeps its state.
            let kept = |run: &FoldRun| if every { Vec::new() } else { vec![run.state.clone()] };
            return Ok(runs.iter().map(|run| Folded { states: kept(run), refused: Vec::new() }).collect());
        };
        let resolved = Self::resolved(set, first, Kind::Aggregator)?;
        pack_runs(set, resolved.plugin, runs, packed)?;
        call(
            set,
            instances,
            resolved,
            (packed.functions.len(), &packed.fields),
            |exports, store| exports.aggregator()?.call_fold(store, every, packed),
            |answer| answer::folded(answer, runs, every),
        )
        .map_err(|failure| set.call_failure(first, failure))
    }

    fn transform(
        &mut self,
        function: FunctionIndex,
        records: &[Record],
    ) -> Result<Vec<Outcome<Vec<Record>>>, CallFailure> {
        let Self { set, instances, records: packed, names, .. } = self;
        let resolved = Self::resolved(set, function, Kind::Transformer)?;
        pack_records(records, packed);
        call(
            set,
            instances,
            resolved,
            (records.len(), &packed.fields),
            |exports, store| exports.transformer()?.call_transform(store, resolved.id, packed),
            |answer| answer::transformed(answer, records, names),
        )
        .map_err(|failure| set.call_failure(function, failure))
    }

    fn state_version(&self, function: FunctionIndex) -> u32 {
        self.set.state_version(function)
    }

    fn version(&self, function: FunctionIndex) -> (String, String) {
        self.set.version(function)
    }
}

/// Packs runs, all of whose functions must be aggregators of `plugin`.
fn pack_runs(set: &PluginSet, plugin: usize, runs: &[FoldRun], packed: &mut Runs) -> Result<(), CallFailure> {
    fields::clear(&mut packed.fields);
    packed.counts.clear();
    packed.functions.clear();
    packed.timestamps.clear();
    for FoldRun { key, state, changes } in runs {
        fields::push(&mut packed.fields, Some(key));
        fields::push(&mut packed.fields, state.as_deref());
        packed.counts.push(u32::try_from(changes.len()).unwrap_or(u32::MAX));
        for (function, value, timestamp) in changes {
            let resolved = ThreadLogic::resolved(set, *function, Kind::Aggregator)?;
            if resolved.plugin != plugin {
                let reason = "one fold has functions of several plugins".to_owned();
                return Err(set.call_failure(*function, misuse(reason)));
            }
            fields::push(&mut packed.fields, Some(value));
            packed.functions.push(resolved.id);
            packed.timestamps.push(*timestamp);
        }
    }
    Ok(())
}

/// Packs records with their headers.
fn pack_records(records: &[Record], packed: &mut Records) {
    fields::clear(&mut packed.fields);
    packed.timestamps.clear();
    packed.headers.clear();
    for Record { key, value, timestamp, headers, .. } in records {
        fields::push(&mut packed.fields, key.as_deref());
        fields::push(&mut packed.fields, value.as_deref());
        for header in headers {
            fields::push(&mut packed.fields, Some(header.name.as_bytes()));
            fields::push(&mut packed.fields, header.value.as_deref());
        }
        packed.timestamps.push(*timestamp);
        packed.headers.push(u32::try_from(headers.len()).unwrap_or(u32::MAX));
    }
}

#[cfg(test)]
mod tests;
