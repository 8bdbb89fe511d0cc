//! Filters, maps, headers: none, one or more records out of one.

use crate::model::{FunctionIndex, Record};

use super::pass::Inputs;
use super::{BatchFailure, Item, Pass, RecordFailure};

/// Transforms the items in one call. `keeps_key`: a join or an aggregate follows, so keys must stay as they are.
pub(super) fn run<I: Inputs>(
    pass: &mut Pass<'_, I>,
    node: &str,
    function: FunctionIndex,
    keeps_key: bool,
    items: Vec<Item>,
) -> Result<Vec<Item>, BatchFailure> {
    let (origins, records): (Vec<usize>, Vec<Record>) =
        items.into_iter().map(|item| (item.origin, item.record)).unzip();
    let outcomes =
        pass.logic.transform(function, &records).map_err(|failure| BatchFailure::Call { function, failure })?;
    let mut result = Vec::with_capacity(records.len());
    for ((origin, record), outcome) in origins.into_iter().zip(&records).zip(outcomes) {
        match outcome {
            Ok(made) => {
                if keeps_key && made.iter().any(|one| one.key != record.key) {
                    let failure = RecordFailure::KeyChanged { node: node.to_owned() };
                    return Err(BatchFailure::Record { origin, failure });
                }
                result.extend(made.into_iter().map(|record| Item { origin, record }));
            }
            Err(refusal) => pass.refused(function, origin, &refusal)?,
        }
    }
    Ok(result)
}
