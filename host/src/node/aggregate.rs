//! Cogroup and aggregate: folds each key's changes, of whichever input, into its state.
//!
//! As Kafka Streams' `CogroupedKStream#aggregate`: records without a key or a value are dropped, the state's timestamp
//! is the highest that it has seen, and what is handed on carries that timestamp and the headers of the record that
//! caused it. A fold that ends without a state deletes the entry and hands on a null value.

use hashbrown::HashMap;

use bytes::Bytes;

use crate::model::{Entry, FoldRun, FunctionIndex, Record, StateWrite, StoreIndex};
use crate::plan::Emit;

use super::pass::{Inputs, PendingEmit};
use super::{BatchFailure, Item, Pass};

/// The changes of one key in a batch.
struct Run {
    /// The run as the logic gets it.
    fold: FoldRun,
    /// The item of each change.
    items: Vec<Item>,
}

/// Folds the items (with the input that each came by) in one call.
pub(super) fn run<I: Inputs>(
    pass: &mut Pass<'_, I>,
    node: usize,
    store: StoreIndex,
    functions: &[FunctionIndex],
    emit: Emit,
    items: Vec<(usize, Item)>,
) -> Result<Vec<Item>, BatchFailure> {
    let mut runs = runs(pass, functions, items);
    let Some(first) = runs.first().and_then(|run| run.fold.changes.first()).map(|(function, ..)| *function) else {
        return Ok(Vec::new());
    };
    let keys: Vec<Bytes> = runs.iter().map(|run| run.fold.key.clone()).collect();
    let before = pass.inputs.entries(store, &keys)?;
    for (run, entry) in runs.iter_mut().zip(&before) {
        run.fold.state = entry.as_ref().map(|entry| entry.value.clone());
    }

    let every = emit == Emit::Each;
    let (folds, items): (Vec<FoldRun>, Vec<Vec<Item>>) = runs.into_iter().map(|run| (run.fold, run.items)).unzip();
    let folded = pass.logic.fold(&folds, every).map_err(|failure| BatchFailure::Call { function: first, failure })?;
    let version = pass.logic.state_version(first);

    let mut result: Vec<Item> = Vec::new();
    for (((fold, items), before), mut folded) in folds.into_iter().zip(items).zip(before).zip(folded) {
        let mut timestamp = before.map_or(i64::MIN, |entry| entry.timestamp);
        let mut refused = folded.refused.into_iter().peekable();
        let mut last: Option<Item> = None;
        for (index, (item, (function, ..))) in items.into_iter().zip(&fold.changes).enumerate() {
            if let Some((_, refusal)) = refused.next_if(|(at, _)| *at == index) {
                pass.refused(*function, item.origin, &refusal)?;
                continue;
            }
            timestamp = timestamp.max(item.record.timestamp);
            let mut record = item.record;
            record.timestamp = timestamp;
            record.offset = 0;
            if every {
                record.value = folded.states.get_mut(index).and_then(Option::take);
                result.push(Item { origin: item.origin, record: record.clone() });
                if record.value.is_none() {
                    // A state that begins anew has seen nothing yet.
                    timestamp = i64::MIN;
                }
            }
            last = Some(Item { origin: item.origin, record });
        }
        // Every change was refused: the state is what it was.
        let Some(mut last) = last else { continue };
        if !every {
            last.record.value = folded.states.pop().flatten();
        }
        write(pass, store, version, fold.key, &last)?;
        match emit {
            Emit::Each => {}
            Emit::Batch => result.push(last),
            Emit::Commit => {
                let Record { key: Some(key), headers, .. } = last.record else { continue };
                pass.effects.pending.push(PendingEmit { node, key, headers });
            }
        }
    }
    result.sort_by_key(|item| item.origin);
    Ok(result)
}

/// The batch's changes by key, keys in the order of their first change.
fn runs<I: Inputs>(pass: &mut Pass<'_, I>, functions: &[FunctionIndex], items: Vec<(usize, Item)>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut at: HashMap<Bytes, usize> = HashMap::with_capacity(items.len());
    for (input, item) in items {
        let Some(key) = item.record.key.clone() else {
            pass.dropped("null-key");
            continue;
        };
        let Some(value) = item.record.value.clone() else {
            pass.dropped("null-value");
            continue;
        };
        let Some(function) = functions.get(input) else { continue };
        let index = *at.entry(key.clone()).or_insert_with(|| {
            runs.push(Run { fold: FoldRun { key, state: None, changes: Vec::new() }, items: Vec::new() });
            runs.len() - 1
        });
        if let Some(run) = runs.get_mut(index) {
            run.fold.changes.push((*function, value, item.record.timestamp));
            run.items.push(item);
        }
    }
    runs
}

/// Records the new state; it must also fit into a record of the changelog.
fn write<I: Inputs>(
    pass: &mut Pass<'_, I>,
    store: StoreIndex,
    version: u32,
    key: Bytes,
    last: &Item,
) -> Result<(), BatchFailure> {
    if let Some(plan) = pass.plan.stores.get(usize::from(store.0)) {
        let topic = plan.origin.topic();
        let size = key.len() + last.record.value.as_ref().map_or(0, Bytes::len);
        if size > pass.max_record_bytes {
            let failure =
                super::RecordFailure::TooLarge { topic: topic.to_owned(), size, limit: pass.max_record_bytes };
            return Err(BatchFailure::Record { origin: last.origin, failure });
        }
    }
    let entry = last.record.value.clone().map(|value| Entry { timestamp: last.record.timestamp, version, value });
    pass.effects.writes.push(StateWrite { store, key, entry });
    Ok(())
}
