//! What the nodes of a batch look up: uncommitted state over committed state, global tables, and the batch itself.

use std::sync::Arc;

use bytes::Bytes;

use crate::model::{Entry, Record, StateRead, StoreError, StoreIndex};
use crate::node::Inputs;

use super::{GlobalTables, Overlay, Picked};

/// What a batch's nodes look up: the overlay over the stores.
pub(super) struct Below<'a> {
    /// Uncommitted state.
    pub(super) overlay: &'a Overlay,
    /// Committed state.
    pub(super) stores: &'a (dyn StateRead + Send + Sync),
    /// Global tables.
    pub(super) globals: &'a GlobalTables,
    /// Topic of each source.
    pub(super) topics: &'a [Arc<str>],
    /// The task's partition.
    pub(super) partition: i32,
    /// The batch.
    pub(super) batch: &'a [Picked],
}

impl Inputs for Below<'_> {
    fn entries(&self, store: StoreIndex, keys: &[Bytes]) -> Result<Vec<Option<Entry>>, StoreError> {
        let mut found: Vec<Option<Entry>> = vec![None; keys.len()];
        let mut missing: Vec<Bytes> = Vec::with_capacity(keys.len());
        let mut places: Vec<usize> = Vec::with_capacity(keys.len());
        for (at, (key, slot)) in keys.iter().zip(&mut found).enumerate() {
            match self.overlay.get(store, key) {
                Some(entry) => *slot = entry.cloned(),
                None => {
                    missing.push(key.clone());
                    places.push(at);
                }
            }
        }
        if !missing.is_empty() {
            let entries = self.stores.multi_get(store, &missing)?;
            for (at, entry) in places.into_iter().zip(entries) {
                if let Some(slot) = found.get_mut(at) {
                    *slot = entry;
                }
            }
        }
        Ok(found)
    }

    fn global(&self, table: usize, keys: &[Bytes]) -> Result<Vec<Option<Entry>>, StoreError> {
        match self.globals.get(table) {
            Some(rows) => rows.multi_get(StoreIndex(0), keys),
            None => Err(StoreError { store: format!("global table {table}"), reason: "not open".to_owned() }),
        }
    }

    fn origin(&self, origin: usize) -> (&str, i32, &Record) {
        static NONE: Record = Record { key: None, value: None, timestamp: 0, offset: 0, headers: Vec::new() };
        match self.batch.get(origin) {
            Some(picked) => {
                let topic = self.topics.get(picked.source).map_or("", |topic| topic.as_ref());
                (topic, self.partition, &picked.record)
            }
            None => ("", self.partition, &NONE),
        }
    }
}
