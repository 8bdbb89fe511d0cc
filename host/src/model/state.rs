//! State of a task as its nodes see it.

use bytes::Bytes;

use super::StoreIndex;

/// One entry of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Record timestamp of the last change, in milliseconds since the epoch.
    pub timestamp: i64,
    /// Version of the state's type as the plugin declares it; 0 for a table's row.
    pub version: u32,
    /// The value's bytes.
    pub value: Bytes,
}

impl Entry {
    /// Bytes that count against quotas.
    pub fn size(&self) -> usize {
        self.value.len() + size_of::<i64>() + size_of::<u32>()
    }
}

/// One change of a store: a new entry, or its removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateWrite {
    /// Which of the task's stores.
    pub store: StoreIndex,
    /// The entry's key.
    pub key: Bytes,
    /// The new entry; `None` removes it.
    pub entry: Option<Entry>,
}

/// A state store that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("store {store}: {reason}")]
pub struct StoreError {
    /// The store's name, or the folder where none is known.
    pub store: String,
    /// What the store said.
    pub reason: String,
}

/// Committed state of a task, as its nodes read it below the overlay.
pub trait StateRead {
    /// The entry under `key` of `store`.
    fn get(&self, store: StoreIndex, key: &[u8]) -> Result<Option<Entry>, StoreError>;

    /// The entries under `keys`, in their order. Cheaper than one `get` each where the store can batch.
    fn multi_get(&self, store: StoreIndex, keys: &[Bytes]) -> Result<Vec<Option<Entry>>, StoreError> {
        keys.iter().map(|key| self.get(store, key)).collect()
    }
}
