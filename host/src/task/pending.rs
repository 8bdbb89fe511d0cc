//! States that aggregates with `emit = "commit"` keep back until the commit.

use std::collections::BTreeMap;

use bytes::Bytes;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry as Slot;

use crate::model::{Header, Headers};
use crate::node::PendingEmit;

/// Bytes that a change takes besides its key and headers: itself, its place by key, an allocation.
const OVERHEAD: usize = size_of::<PendingEmit>() + 128;

/// The last change of each key, by aggregate, in the order of first changes. What it holds grows with the keys that change between two
/// commits, not with the changes.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// By index of the aggregate in the plan's nodes.
    by_node: BTreeMap<usize, Vec<PendingEmit>>,
    /// Where a key's change is.
    places: HashMap<(usize, Bytes), usize>,
    /// Bytes held.
    bytes: usize,
}

impl Pending {
    /// Takes a change over the one of the same key; in memory of its own, as the overlay does.
    pub(super) fn push(&mut self, change: PendingEmit) {
        let PendingEmit { node, key, headers } = change;
        let headers = owned(&headers);
        self.bytes += size(&headers);
        let of_node = self.by_node.entry(node).or_default();
        match self.places.entry((node, key)) {
            Slot::Occupied(place) => {
                if let Some(slot) = of_node.get_mut(*place.get()) {
                    self.bytes -= size(&slot.headers);
                    slot.headers = headers;
                }
            }
            Slot::Vacant(place) => {
                // The key looked up with may be a part of a large buffer.
                let (_, key) = place.into_key();
                let key = Bytes::copy_from_slice(&key);
                self.bytes += key.len() + OVERHEAD;
                self.places.insert((node, key.clone()), of_node.len());
                of_node.push(PendingEmit { node, key, headers });
            }
        }
    }

    /// Whether nothing is kept back.
    pub(super) fn is_empty(&self) -> bool {
        self.by_node.is_empty()
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The changes, by aggregate; nothing is kept back after this.
    pub(super) fn take(&mut self) -> BTreeMap<usize, Vec<PendingEmit>> {
        std::mem::take(self).by_node
    }
}

/// Headers with values of their own.
fn owned(headers: &Headers) -> Headers {
    let own = |header: &Header| Header {
        name: header.name.clone(),
        value: header.value.as_deref().map(Bytes::copy_from_slice),
    };
    headers.iter().map(own).collect()
}

/// Bytes of headers; their names are shared.
fn size(headers: &Headers) -> usize {
    headers.iter().map(|header| size_of::<Header>() + header.value.as_ref().map_or(0, Bytes::len)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change of a key, whose last record had this header.
    fn change(node: usize, key: &Bytes, header: &Bytes) -> PendingEmit {
        let headers = vec![Header { name: "h".into(), value: Some(header.clone()) }];
        PendingEmit { node, key: key.clone(), headers }
    }

    #[test]
    fn the_last_change_of_each_key_is_kept_whatever_came_before() {
        let mut pending = Pending::default();
        let (a, b) = (Bytes::from(vec![b'a'; 9]), Bytes::from(vec![b'b'; 9]));
        for _ in 0..1000 {
            pending.push(change(1, &b, &a));
            pending.push(change(1, &a, &a));
            pending.push(change(0, &a, &b));
        }
        assert!(pending.bytes() < 1500 && pending.bytes() > 3 * OVERHEAD, "{}", pending.bytes());
        pending.push(change(1, &b, &b));
        assert!(a.is_unique() && b.is_unique(), "the buffers that they came in are held");
        let taken: Vec<_> = pending.take().into_values().flatten().collect();
        let taken: Vec<_> =
            taken.iter().map(|one| (one.node, &one.key, one.headers[0].value.as_ref().unwrap())).collect();
        assert_eq!(taken, [(0, &a, &b), (1, &b, &b), (1, &a, &a)]);
        assert!(pending.is_empty() && pending.bytes() == 0);
    }
}
