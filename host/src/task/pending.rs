//! States that aggregates with `emit = "commit"` keep back until the commit.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry as Slot;

use crate::node::PendingEmit;

/// The last change of each key, by aggregate (index in the plan's nodes), in the order of first changes.
pub(super) fn last_of_each(pending: Vec<PendingEmit>) -> BTreeMap<usize, Vec<PendingEmit>> {
    let mut places = HashMap::new();
    let mut by_node: BTreeMap<usize, Vec<PendingEmit>> = BTreeMap::new();
    for one in pending {
        let of_node = by_node.entry(one.node).or_default();
        match places.entry((one.node, one.key.clone())) {
            Slot::Occupied(place) => {
                if let Some(slot) = of_node.get_mut(*place.get()) {
                    *slot = one;
                }
            }
            Slot::Vacant(place) => {
                place.insert(of_node.len());
                of_node.push(one);
            }
        }
    }
    by_node
}
