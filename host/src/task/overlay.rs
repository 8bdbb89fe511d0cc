//! The uncommitted writes of a task. Reads look here first, then in the stores.

use hashbrown::HashMap;

use bytes::Bytes;

use crate::model::{Entry, StateWrite, StoreIndex};

/// One mechanism for cache, coalescing, changelog and transaction: the last write of each key since the last commit,
/// in the order in which keys were first written.
#[derive(Debug, Default)]
pub struct Overlay {
    /// What is written at the next commit, one a key.
    writes: Vec<StateWrite>,
    /// Where a key's write is, by store.
    at: Vec<HashMap<Bytes, usize>>,
    /// Bytes of keys and entries.
    bytes: usize,
}

impl Overlay {
    /// An empty overlay over `stores` stores.
    pub fn new(stores: usize) -> Self {
        Self { at: vec![HashMap::new(); stores], ..Self::default() }
    }

    /// The write of a key, if there is one since the last commit: `Some(None)` is a removal.
    pub fn get(&self, store: StoreIndex, key: &[u8]) -> Option<Option<&Entry>> {
        let at = *self.at.get(usize::from(store.0))?.get(key)?;
        self.writes.get(at).map(|write| write.entry.as_ref())
    }

    /// Takes a write over what was there, in memory of its own: what it came in may be a small part of a large fetch or answer,
    /// which would be held until the commit.
    pub fn apply(&mut self, write: StateWrite) {
        let Some(keys) = self.at.get_mut(usize::from(write.store.0)) else { return };
        let StateWrite { store, key, entry } = write;
        let entry = entry.map(|entry| Entry { value: Bytes::copy_from_slice(&entry.value), ..entry });
        if let Some(&at) = keys.get(&key) {
            if let Some(slot) = self.writes.get_mut(at) {
                self.bytes -= size(slot);
                slot.entry = entry;
                self.bytes += size(slot);
            }
        } else {
            let write = StateWrite { store, key: Bytes::copy_from_slice(&key), entry };
            self.bytes += size(&write);
            keys.insert(write.key.clone(), self.writes.len());
            self.writes.push(write);
        }
    }

    /// What the next commit writes.
    pub fn writes(&self) -> &[StateWrite] {
        &self.writes
    }

    /// Bytes held; a commit is due when they pass the task's bound.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets all writes: they are committed.
    pub fn clear(&mut self) {
        self.writes.clear();
        self.at.iter_mut().for_each(HashMap::clear);
        self.bytes = 0;
    }
}

/// Bytes that a write takes besides itself: its place by key, two allocations with their counts of references.
const OVERHEAD: usize = 160;

/// Bytes that a write counts for.
fn size(write: &StateWrite) -> usize {
    write.key.len() + write.entry.as_ref().map_or(0, Entry::size) + size_of::<StateWrite>() + OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(store: u16, key: &str, value: Option<&str>) -> StateWrite {
        let entry = value.map(|v| Entry { timestamp: 1, version: 0, value: Bytes::from(v.to_owned()) });
        StateWrite { store: StoreIndex(store), key: Bytes::from(key.to_owned()), entry }
    }

    #[test]
    fn keeps_the_last_write_of_a_key_in_the_order_of_first_writes() {
        let mut overlay = Overlay::new(2);
        overlay.apply(write(0, "b", Some("1")));
        overlay.apply(write(1, "b", Some("other")));
        overlay.apply(write(0, "a", Some("2")));
        overlay.apply(write(0, "b", None));
        assert_eq!(overlay.writes(), [write(0, "b", None), write(1, "b", Some("other")), write(0, "a", Some("2"))]);
        assert_eq!(overlay.get(StoreIndex(0), b"b"), Some(None), "a removal hides what lies below");
        assert_eq!(overlay.get(StoreIndex(0), b"c"), None);
        let bytes: usize = overlay.writes().iter().map(size).sum();
        assert_eq!(overlay.bytes(), bytes, "bytes are those of the last writes");
        overlay.clear();
        assert_eq!((overlay.bytes(), overlay.writes().len(), overlay.get(StoreIndex(0), b"b")), (0, 0, None));
    }

    #[test]
    fn it_does_not_hold_the_buffers_that_writes_came_in() {
        let mut overlay = Overlay::new(1);
        for last in [1, 2] {
            let buffer = Bytes::from(vec![last; 1 << 16]);
            let entry = Entry { timestamp: 0, version: 0, value: buffer.slice(2..4) };
            overlay.apply(StateWrite { store: StoreIndex(0), key: buffer.slice(..1), entry: Some(entry.clone()) });
            overlay.apply(StateWrite { store: StoreIndex(0), key: Bytes::from_static(b"k"), entry: Some(entry) });
            assert!(buffer.is_unique());
            assert_eq!(overlay.get(StoreIndex(0), b"k").unwrap().unwrap().value, buffer.slice(..2));
        }
        assert_eq!(overlay.writes().len(), 3);
    }
}
