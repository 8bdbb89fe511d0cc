//! What a batch counts, for the status and the metrics.

use std::collections::BTreeMap;

/// Look-ups of one join.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lookups {
    /// Found a row.
    pub hit: u64,
    /// Found none.
    pub miss: u64,
    /// The record had no key to look up.
    pub null_key: u64,
}

/// Counts of one or more batches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Records left out, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Look-ups, by the join's index in the plan's nodes.
    pub lookups: BTreeMap<usize, Lookups>,
}

impl Tally {
    /// Counts a record that is left out.
    pub fn drop_one(&mut self, reason: &'static str) {
        *self.dropped.entry(reason).or_default() += 1;
    }

    /// The look-ups of a join.
    pub fn of_join(&mut self, node: usize) -> &mut Lookups {
        self.lookups.entry(node).or_default()
    }

    /// Takes the counts of `other` in.
    pub fn add(&mut self, other: &Self) {
        for (reason, count) in &other.dropped {
            *self.dropped.entry(reason).or_default() += count;
        }
        for (node, lookups) in &other.lookups {
            let sum = self.of_join(*node);
            sum.hit += lookups.hit;
            sum.miss += lookups.miss;
            sum.null_key += lookups.null_key;
        }
    }
}
