//! Stream–table join.
//!
//! As Kafka Streams' `KStream#leftJoin` and `#join` with a `KTable`: a record without a value is dropped (there is
//! nothing to join), a record without a key is dropped by an inner join and finds no row in a left join (KIP-962), the
//! joined record keeps the stream record's key, timestamp and headers.

use hashbrown::HashMap;

use bytes::Bytes;

use crate::model::{FunctionIndex, JoinPair};
use crate::plan::JoinTable;

use super::pass::Inputs;
use super::{BatchFailure, Item, Pass};

/// Joins the items with their rows; one look-up a key, one call a batch.
pub(super) fn run<I: Inputs>(
    pass: &mut Pass<'_, I>,
    node: usize,
    table: JoinTable,
    left: bool,
    function: FunctionIndex,
    items: Vec<Item>,
) -> Result<Vec<Item>, BatchFailure> {
    let mut kept = Vec::with_capacity(items.len());
    for item in items {
        if item.record.value.is_none() {
            pass.dropped("null-value");
        } else if item.record.key.is_none() && !left {
            pass.dropped("null-key");
        } else {
            kept.push(item);
        }
    }

    let mut keys: Vec<Bytes> = Vec::with_capacity(kept.len());
    let mut at: HashMap<&Bytes, usize> = HashMap::with_capacity(kept.len());
    for key in kept.iter().filter_map(|item| item.record.key.as_ref()) {
        at.entry(key).or_insert_with(|| {
            keys.push(key.clone());
            keys.len() - 1
        });
    }
    let rows = pass.rows(table, &keys)?;

    let mut pairs = Vec::with_capacity(kept.len());
    let mut joined = Vec::with_capacity(kept.len());
    for item in &kept {
        let row =
            item.record.key.as_ref().and_then(|key| at.get(key)).and_then(|at| rows.get(*at)).and_then(Option::as_ref);
        let right = row.map(|entry| entry.value.clone());
        let lookups = pass.effects.tally.of_join(node);
        match (&right, &item.record.key) {
            (Some(_), _) => lookups.hit += 1,
            (None, Some(_)) => lookups.miss += 1,
            (None, None) => lookups.null_key += 1,
        }
        if right.is_none() && !left {
            pass.dropped("no-row");
            continue;
        }
        let Some(value) = item.record.value.clone() else { continue };
        pairs.push(JoinPair { key: item.record.key.clone(), left: value, right });
        joined.push(Item { origin: item.origin, record: item.record.clone() });
    }
    if pairs.is_empty() {
        return Ok(Vec::new());
    }
    let outcomes = pass.logic.join(function, &pairs).map_err(|failure| BatchFailure::Call { function, failure })?;
    let mut result = Vec::with_capacity(joined.len());
    for (mut item, outcome) in joined.into_iter().zip(outcomes) {
        match outcome {
            Ok(value) => {
                item.record.value = value;
                result.push(item);
            }
            Err(refusal) => pass.refused(function, item.origin, &refusal)?,
        }
    }
    Ok(result)
}
