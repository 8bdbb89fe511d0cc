//! A store that is read from memory, and never takes more of it than it may.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use bytes::Bytes;

use super::Error;
use crate::model::Entry;

/// Bytes that a row takes besides its key and value: its slot in the tree, two allocations, a reference count.
pub const ROW_OVERHEAD: u64 = 160;

/// A change of one row: its key, and its new entry or none.
pub(super) type Change<'a> = (&'a [u8], Option<&'a Entry>);

/// Rows in key order, with their bytes. One thread writes, any number reads.
#[derive(Debug)]
pub(super) struct MemoryStore {
    /// The store's name, for errors.
    name: String,
    /// Most bytes the rows may take.
    limit: u64,
    /// The rows. A reader holds it for one look-up or one page of a scan, the writer for one batch.
    rows: RwLock<Rows>,
}

/// The rows and what they take.
#[derive(Debug, Default)]
struct Rows {
    /// By key. A tree and no hash table: scans come for free, and it never doubles to grow.
    by_key: BTreeMap<Box<[u8]>, Entry>,
    /// Sum of [`row_bytes`] of all rows.
    bytes: u64,
}

impl MemoryStore {
    /// An empty store.
    pub(super) fn new(name: &str, limit: u64) -> Self {
        Self { name: name.to_owned(), limit, rows: RwLock::default() }
    }

    /// The entry under `key`.
    pub(super) fn get(&self, key: &[u8]) -> Option<Entry> {
        self.read().by_key.get(key).cloned()
    }

    /// The entries under `keys`, in their order.
    pub(super) fn multi_get(&self, keys: &[Bytes]) -> Vec<Option<Entry>> {
        let rows = self.read();
        keys.iter().map(|key| rows.by_key.get(key.as_ref()).cloned()).collect()
    }

    /// At most `limit` entries whose keys begin with `prefix`, from the key `from` on.
    pub(super) fn scan(&self, from: Option<&[u8]>, prefix: &[u8], limit: usize) -> Vec<(Bytes, Entry)> {
        let start = from.map_or(prefix, |from| from.max(prefix));
        let rows = self.read();
        rows.by_key
            .range::<[u8], _>((Bound::Included(start), Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix))
            .take(limit)
            .map(|(key, entry)| (Bytes::copy_from_slice(key), entry.clone()))
            .collect()
    }

    /// Number of rows.
    pub(super) fn len(&self) -> u64 {
        self.read().by_key.len() as u64
    }

    /// Bytes that the rows take.
    pub(super) fn bytes(&self) -> u64 {
        self.read().bytes
    }

    /// Refuses `changes` if the rows would take more than they may once all are applied.
    pub(super) fn check(&self, changes: &[Change<'_>]) -> Result<(), Error> {
        let rows = self.read();
        let added: u64 = changes.iter().map(|(key, entry)| entry.map_or(0, |entry| row_bytes(key, entry))).sum();
        if rows.bytes.saturating_add(added) <= self.limit {
            return Ok(());
        }
        // The last change of a key counts.
        let last: HashMap<&[u8], Option<&Entry>> = changes.iter().copied().collect();
        let mut wanted = rows.bytes;
        for (key, entry) in last {
            let before = rows.by_key.get(key).map_or(0, |old| row_bytes(key, old));
            let after = entry.map_or(0, |entry| row_bytes(key, entry));
            wanted = wanted.saturating_add(after).saturating_sub(before);
        }
        if wanted <= self.limit {
            return Ok(());
        }
        Err(Error::Full {
            store: self.name.clone(),
            rows: rows.by_key.len() as u64,
            bytes: rows.bytes,
            wanted,
            limit: self.limit,
        })
    }

    /// Applies `changes`, which [`Self::check`] let pass.
    pub(super) fn apply(&self, changes: &[Change<'_>]) {
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        for (key, entry) in changes {
            match entry {
                Some(entry) => rows.insert(key, entry),
                None => rows.remove(key),
            }
        }
    }

    /// Drops all rows.
    pub(super) fn clear(&self) {
        *self.rows.write().unwrap_or_else(PoisonError::into_inner) = Rows::default();
    }

    /// The rows, to read.
    fn read(&self) -> RwLockReadGuard<'_, Rows> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rows {
    /// Sets a row, in memory of its own: the bytes given may be a small part of a large buffer.
    fn insert(&mut self, key: &[u8], entry: &Entry) {
        let own = Entry { value: Bytes::copy_from_slice(&entry.value), ..*entry };
        self.bytes += row_bytes(key, entry);
        let old = match self.by_key.get_mut(key) {
            Some(slot) => Some(std::mem::replace(slot, own)),
            None => self.by_key.insert(key.into(), own),
        };
        self.bytes -= old.map_or(0, |old| row_bytes(key, &old));
    }

    /// Removes a row.
    fn remove(&mut self, key: &[u8]) {
        if let Some(old) = self.by_key.remove(key) {
            self.bytes -= row_bytes(key, &old);
        }
    }
}

/// Bytes that a row takes.
fn row_bytes(key: &[u8], entry: &Entry) -> u64 {
    key.len() as u64 + entry.value.len() as u64 + ROW_OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry with this value.
    fn entry(value: &str) -> Entry {
        Entry { timestamp: 1, version: 0, value: Bytes::copy_from_slice(value.as_bytes()) }
    }

    #[test]
    fn bytes_are_exact_through_inserts_updates_and_removals() {
        let store = MemoryStore::new("s", u64::MAX);
        let (short, long) = (entry("1234"), entry("123456789"));
        store.apply(&[(b"a", Some(&short)), (b"bb", Some(&short))]);
        assert_eq!(store.bytes(), 2 * ROW_OVERHEAD + 5 + 6);
        store.apply(&[(b"a", Some(&long)), (b"bb", None), (b"never there", None)]);
        assert_eq!((store.len(), store.bytes()), (1, ROW_OVERHEAD + 10));
        store.apply(&[(b"a", Some(&short))]);
        assert_eq!(store.bytes(), ROW_OVERHEAD + 5);
        store.clear();
        assert_eq!((store.len(), store.bytes()), (0, 0));
    }

    #[test]
    fn a_batch_is_judged_by_what_it_leaves() {
        let limit = 2 * ROW_OVERHEAD + 10;
        let store = MemoryStore::new("s", limit);
        let row = entry("1234");
        let fill: [Change<'_>; 2] = [(b"a", Some(&row)), (b"b", Some(&row))];
        store.check(&fill).unwrap();
        store.apply(&fill);
        assert_eq!(store.bytes(), limit);
        store.check(&[(b"c", Some(&row)), (b"a", None)]).unwrap();
        store.check(&[(b"c", Some(&row)), (b"c", None)]).unwrap();
        store.check(&[(b"a", Some(&row)), (b"b", Some(&row)), (b"a", Some(&row))]).unwrap();
        let error = store.check(&[(b"a", None), (b"a", Some(&entry("12345")))]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "store s is full: 2 rows take 330 bytes, the next change makes it 331, and 330 are allowed; \
             raise the store's bound, or keep it on disk"
        );
    }

    #[test]
    fn rows_do_not_hold_the_buffers_they_came_from() {
        let store = MemoryStore::new("s", u64::MAX);
        let buffer = Bytes::from(vec![7; 1 << 16]);
        store.apply(&[(&buffer[..2], Some(&Entry { timestamp: 0, version: 0, value: buffer.slice(..4) }))]);
        assert!(buffer.is_unique());
        let first = store.get(&[7, 7]).unwrap();
        assert_eq!(first.value, Bytes::from_static(&[7; 4]));
    }

    #[test]
    fn scans_begin_and_end_where_asked() {
        let store = MemoryStore::new("s", u64::MAX);
        let row = entry("v");
        store.apply(&["a", "ba", "bb", "bc", "c"].map(|key| (key.as_bytes(), Some(&row))));
        let keys = |from: Option<&str>, prefix: &str, limit| {
            let found = store.scan(from.map(str::as_bytes), prefix.as_bytes(), limit);
            found.iter().map(|(key, _)| String::from_utf8_lossy(key).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(keys(None, "", 9), ["a", "ba", "bb", "bc", "c"]);
        assert_eq!(keys(None, "b", 2), ["ba", "bb"]);
        assert_eq!(keys(Some("bb"), "b", 9), ["bb", "bc"]);
        assert_eq!(keys(Some("a"), "b", 9), ["ba", "bb", "bc"]);
        assert_eq!(keys(Some("c"), "b", 9), [""; 0]);
        assert_eq!(keys(None, "x", 9), [""; 0]);
    }
}
