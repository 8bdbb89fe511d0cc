//! Which store has which number in a database. Pure.
//!
//! By name, so that a topology file in another order finds its stores. With the topic that fills each store, so that no offset of the
//! checkpoint outlives the rows it speaks of: a store that is new, gone or filled from another topic starts without either.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::layout::Number;
use super::task::StoreSpec;

/// The stores of a database, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Numbering(BTreeMap<String, Recorded>);

/// What is recorded of a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Recorded {
    /// Prefix of its keys.
    number: u16,
    /// The topic that fills it.
    topic: String,
}

/// A database's numbering, brought in line with a topology.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Renumbered {
    /// The numbering from now on.
    pub(super) numbering: Numbering,
    /// The number of each store asked for, in that order.
    pub(super) numbers: Vec<Number>,
    /// Numbers whose rows must go.
    pub(super) cleared: Vec<Number>,
    /// Topics whose offsets in the checkpoint are void.
    pub(super) void: BTreeSet<String>,
}

impl Numbering {
    /// Brings the numbering in line with `specs`; `None` if there are more stores than numbers.
    pub(super) fn renumber(&self, specs: &[StoreSpec]) -> Option<Renumbered> {
        let wanted: BTreeMap<&str, &StoreSpec> = specs.iter().map(|spec| (spec.name.as_str(), spec)).collect();
        let mut kept = self.clone();
        let mut cleared = Vec::new();
        let mut void = BTreeSet::new();
        for (name, recorded) in &self.0 {
            if wanted.get(name.as_str()).is_none_or(|spec| spec.topic != recorded.topic) {
                kept.0.remove(name);
                cleared.extend(Number::new(recorded.number));
                void.insert(recorded.topic.clone());
            }
        }
        let mut used: BTreeSet<u16> = kept.0.values().map(|recorded| recorded.number).collect();
        let mut numbers = Vec::with_capacity(specs.len());
        for spec in specs {
            let number = match kept.0.get(&spec.name) {
                Some(recorded) => Number::new(recorded.number)?,
                None => {
                    let number = (1..u16::MAX).find(|number| !used.contains(number)).and_then(Number::new)?;
                    used.insert(number.get());
                    void.insert(spec.topic.clone());
                    let recorded = Recorded { number: number.get(), topic: spec.topic.clone() };
                    kept.0.insert(spec.name.clone(), recorded);
                    number
                }
            };
            numbers.push(number);
        }
        Some(Renumbered { numbering: kept, numbers, cleared, void })
    }
}

#[cfg(test)]
mod tests {
    use super::super::task::StoreKind;
    use super::*;

    /// Specs of stores given as `name:topic`.
    fn specs(stores: &[&str]) -> Vec<StoreSpec> {
        stores
            .iter()
            .map(|store| {
                let (name, topic) = store.split_once(':').unwrap();
                StoreSpec { name: name.to_owned(), kind: StoreKind::RocksDb, topic: topic.to_owned() }
            })
            .collect()
    }

    /// What becomes of the stores `before` when a topology wants `after`: numbers, numbers cleared, topics void.
    fn check(before: &[&str], after: &[&str], numbers: &[u16], cleared: &[u16], void: &[&str]) {
        let old = Numbering::default().renumber(&specs(before)).unwrap();
        assert_eq!(
            old.numbers.iter().map(|n| n.get()).collect::<Vec<_>>(),
            (1..=before.len() as u16).collect::<Vec<_>>()
        );
        let new = old.numbering.renumber(&specs(after)).unwrap();
        assert_eq!(new.numbers.iter().map(|n| n.get()).collect::<Vec<_>>(), numbers, "{before:?} → {after:?}");
        assert_eq!(new.cleared.iter().map(|n| n.get()).collect::<Vec<_>>(), cleared, "{before:?} → {after:?}");
        assert_eq!(new.void.iter().collect::<Vec<_>>(), void, "{before:?} → {after:?}");
        let again = new.numbering.renumber(&specs(after)).unwrap();
        assert_eq!((again.numbers, again.cleared.len(), again.void.len()), (new.numbers, 0, 0));
    }

    #[test]
    fn stores_keep_their_numbers_and_others_start_empty() {
        check(&["a:x", "b:y"], &["a:x", "b:y"], &[1, 2], &[], &[]);
        check(&["a:x", "b:y"], &["b:y", "a:x"], &[2, 1], &[], &[]);
        check(&["a:x", "b:y"], &["b:y"], &[2], &[1], &["x"]);
        check(&["a:x", "b:y"], &["b:y", "c:z"], &[2, 1], &[1], &["x", "z"]);
        check(&["a:x", "b:y"], &["a:x", "b:z"], &[1, 2], &[2], &["y", "z"]);
        check(&["a:x"], &["a:x", "b:y"], &[1, 2], &[], &["y"]);
        check(&[], &["a:x"], &[1], &[], &["x"]);
        check(&["a:x"], &[], &[], &[1], &["x"]);
    }
}
