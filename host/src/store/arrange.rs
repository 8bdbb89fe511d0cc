//! What a database says of itself when it is opened, brought in line with the stores that a topology wants.

use std::path::Path;

use rocksdb::WriteBatch;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Error;
use super::layout::{self, Number};
use super::numbering::Numbering;
use super::task::StoreSpec;
use crate::model::Checkpoint;

/// Keys of what a database says of itself: its format, its stores, its checkpoint.
pub(super) const KEYS: [&[u8]; 3] = [layout::FORMAT_KEY, layout::TABLES_KEY, layout::CHECKPOINT_KEY];

/// A database's stores as they are wanted.
pub(super) struct Arranged {
    /// Number of each store wanted, in that order.
    pub(super) numbers: Vec<Number>,
    /// The checkpoint, without offsets of stores that start anew.
    pub(super) checkpoint: Checkpoint,
    /// What must be written before the stores are used, if they have changed.
    pub(super) batch: Option<WriteBatch>,
}

/// Arranges the stores of the database in `dir`, which says `found` under [`KEYS`].
pub(super) fn arrange(dir: &Path, found: [Option<Vec<u8>>; 3], specs: &[StoreSpec]) -> Result<Arranged, Error> {
    let [format, tables, checkpoint] = found;
    check_format(dir, format)?;
    let mut checkpoint: Checkpoint = read(dir, checkpoint, "the checkpoint")?.unwrap_or_default();
    let numbering: Option<Numbering> = read(dir, tables, "the list of stores")?;
    let known = numbering.clone().unwrap_or_default();
    let now = known.renumber(specs).ok_or_else(|| Error::TooManyStores { dir: dir.to_path_buf() })?;
    if numbering.as_ref() == Some(&now.numbering) {
        return Ok(Arranged { numbers: now.numbers, checkpoint, batch: None });
    }
    let mut batch = WriteBatch::default();
    batch.put(layout::FORMAT_KEY, layout::FORMAT.to_string());
    put(&mut batch, layout::TABLES_KEY, &now.numbering, dir)?;
    for number in &now.cleared {
        let (start, end) = number.range();
        batch.delete_range(start, end);
    }
    for topic in &now.void {
        checkpoint.forget(topic);
    }
    put(&mut batch, layout::CHECKPOINT_KEY, &checkpoint, dir)?;
    Ok(Arranged { numbers: now.numbers, checkpoint, batch: Some(batch) })
}

/// Refuses a database of a later format.
fn check_format(dir: &Path, format: Option<Vec<u8>>) -> Result<(), Error> {
    let Some(found) = read::<u32>(dir, format, "the format version")? else { return Ok(()) };
    if found > layout::FORMAT {
        return Err(Error::Newer { path: dir.to_path_buf(), found, known: layout::FORMAT });
    }
    Ok(())
}

/// What the database keeps, from JSON.
fn read<T: DeserializeOwned>(dir: &Path, json: Option<Vec<u8>>, what: &str) -> Result<Option<T>, Error> {
    let Some(json) = json else { return Ok(None) };
    serde_json::from_slice(&json).map(Some).map_err(|source| damaged(dir, what, source))
}

/// Adds what the database keeps under `key` to `batch`, as JSON.
pub(super) fn put<T: Serialize>(batch: &mut WriteBatch, key: &[u8], value: &T, dir: &Path) -> Result<(), Error> {
    let json = serde_json::to_vec(value).map_err(|source| damaged(dir, "the checkpoint", source))?;
    batch.put(key, json);
    Ok(())
}

/// The error for something that is not the JSON it should be.
fn damaged(dir: &Path, what: &str, source: serde_json::Error) -> Error {
    Error::Damaged { what: what.to_owned(), path: dir.to_path_buf(), source: Some(source) }
}
