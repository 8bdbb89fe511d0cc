//! Which store is open where on this instance, and reads across its partitions.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use bytes::Bytes;

use super::QueryError;
use crate::model::{Entry, StateRead as _, StoreIndex, StoreStatus};
use crate::store::TaskStores;

/// The partition under which a global table is kept: it has all of them in one.
const GLOBAL: i32 = -1;

/// Computes the partition of a key among so many.
type PartitionForKey = fn(&[u8], i32) -> i32;

/// The stores of the topology, with those of their partitions that are open here.
pub struct Catalog {
    /// Where the key of a store is, if its producer partitions as Kafka does by default.
    partition_for_key: PartitionForKey,
    /// By name. Held to look up or change what is open, never while a store is read.
    stores: RwLock<BTreeMap<String, Store>>,
}

/// A store of the topology.
#[derive(Clone, Default)]
struct Store {
    /// `table`, `aggregate` or `global-table`.
    kind: String,
    /// How many partitions it has over all instances; 0 for a global table, or as long as it is not known.
    partitions: i32,
    /// Those open here.
    open: BTreeMap<i32, Open>,
}

/// A partition that is open here.
#[derive(Clone)]
struct Open {
    /// The stores of its task.
    stores: Arc<TaskStores>,
    /// Which of them it is.
    index: StoreIndex,
}

/// What a scan found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Entries in key order, over all partitions that are open here.
    pub rows: Vec<(Bytes, Entry)>,
    /// Partitions that are not open here, whose entries are missing.
    pub missing: Vec<i32>,
}

impl Catalog {
    /// An empty catalog. `partition_for_key` computes a key's partition from the number of partitions.
    pub fn new(partition_for_key: PartitionForKey) -> Self {
        Self { partition_for_key, stores: RwLock::default() }
    }

    /// Makes a store known that the topology has; 0 partitions: a global table.
    pub fn declare(&self, store: &str, kind: &str, partitions: i32) {
        self.change(|stores| {
            let declared = stores.entry(store.to_owned()).or_default();
            kind.clone_into(&mut declared.kind);
            declared.partitions = partitions;
        });
    }

    /// A partition is open from now on, and may be read; -1: a global table.
    pub fn open(&self, store: &str, kind: &str, partition: i32, stores: Arc<TaskStores>, index: StoreIndex) {
        self.change(|known| {
            let declared = known.entry(store.to_owned()).or_default();
            kind.clone_into(&mut declared.kind);
            declared.open.insert(partition, Open { stores, index });
        });
    }

    /// A partition is not to be read any more. Readers at work hold its database a moment longer.
    pub fn close(&self, store: &str, partition: i32) {
        let closed = self.change(|known| known.get_mut(store).and_then(|store| store.open.remove(&partition)));
        // Outside the lock: the last holder closes the database.
        drop(closed);
    }

    /// The entry under `key`. The partition that the key belongs to is asked first, then the others that are open here: whoever fills
    /// the topic may partition in another way.
    pub fn get(&self, store: &str, key: &[u8]) -> Result<Option<Entry>, QueryError> {
        let found = self.store(store)?;
        let expected = if found.partitions > 0 { (self.partition_for_key)(key, found.partitions) } else { GLOBAL };
        let first = found.open.get(&expected);
        let others = found.open.iter().filter(|(partition, _)| **partition != expected).map(|(_, open)| open);
        for open in first.into_iter().chain(others) {
            if let Some(entry) = open.stores.get(open.index, key)? {
                return Ok(Some(entry));
            }
        }
        match first {
            Some(_) => Ok(None),
            None => Err(QueryError::NotHere { store: store.to_owned(), partition: expected }),
        }
    }

    /// At most `limit` entries whose keys begin with `prefix`, in key order, from the key `from` (included) on.
    pub fn scan(&self, store: &str, prefix: &[u8], from: Option<&[u8]>, limit: usize) -> Result<Scan, QueryError> {
        let found = self.store(store)?;
        if found.open.is_empty() {
            let partition = if found.partitions > 0 { 0 } else { GLOBAL };
            return Err(QueryError::NotHere { store: store.to_owned(), partition });
        }
        let mut rows = Vec::new();
        for open in found.open.values() {
            let part = open.stores.scan(open.index, from, prefix, limit);
            rows.extend(part.map_err(|error| error.into_store_error(store))?);
            // After each partition, so that no more than two pages are held.
            rows.sort_by(|(a, _), (b, _)| a.cmp(b));
            rows.truncate(limit);
        }
        let missing = (0..found.partitions).filter(|partition| !found.open.contains_key(partition)).collect();
        Ok(Scan { rows, missing })
    }

    /// Number of entries on this instance, and whether it is exact.
    pub fn count(&self, store: &str) -> Result<(u64, bool), QueryError> {
        Ok(count(&self.store(store)?))
    }

    /// All stores of the topology, with what of them is here.
    pub fn list(&self) -> Vec<StoreStatus> {
        let stores = self.read().clone();
        stores
            .into_iter()
            .map(|(name, store)| {
                let (entries, exact) = count(&store);
                let partitions = store.open.keys().copied().filter(|partition| *partition != GLOBAL).collect();
                StoreStatus { store: name, kind: store.kind, partitions, entries, exact }
            })
            .collect()
    }

    /// A store of the topology, as it is open now.
    fn store(&self, name: &str) -> Result<Store, QueryError> {
        let stores = self.read();
        let unknown = || QueryError::UnknownStore { store: name.to_owned(), known: stores.keys().cloned().collect() };
        stores.get(name).cloned().ok_or_else(unknown)
    }

    /// The stores, to read.
    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, Store>> {
        self.stores.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the stores.
    fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<String, Store>) -> T) -> T {
        change(&mut self.stores.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Entries of a store on this instance, and whether their number is exact.
fn count(store: &Store) -> (u64, bool) {
    store
        .open
        .values()
        .map(|open| open.stores.entries(open.index))
        .fold((0, true), |(sum, exact), (entries, known)| (sum.saturating_add(entries), exact && known))
}

#[cfg(test)]
mod tests;
