//! One RocksDB: the only place that reads and writes it.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rocksdb::{DB, ErrorKind, Range, ReadOptions, WriteBatch, properties};

use super::Error;
use super::layout::{self, Number};
use super::resources::Resources;
use crate::model::Entry;

/// How often opening is tried again while the database is still open elsewhere.
const RETRY: Duration = Duration::from_millis(10);

/// An open database.
pub(super) struct Database {
    /// It.
    db: DB,
    /// Its folder.
    dir: PathBuf,
}

impl Database {
    /// Opens the database in `dir`, or makes it. Waits at most `wait` for someone else to close it.
    pub(super) fn open(dir: &Path, resources: &Resources, wait: Duration) -> Result<Self, Error> {
        let options = resources.options();
        let since = Instant::now();
        loop {
            // The column family is named so that it has a handle, which batched reads need.
            match DB::open_cf_with_opts(&options, dir, [(rocksdb::DEFAULT_COLUMN_FAMILY_NAME, options.clone())]) {
                Ok(db) => return Ok(Self { db, dir: dir.to_path_buf() }),
                Err(error) if is_in_use(&error) => {
                    if since.elapsed() >= wait {
                        return Err(Error::InUse { dir: dir.to_path_buf(), waited_ms: since.elapsed().as_millis() });
                    }
                    sleep(RETRY);
                }
                Err(error) => return Err(Error::disk("open", dir)(error)),
            }
        }
    }

    /// Deletes the database in `dir`, if there is one. `false`: it is open, and stays.
    pub(super) fn destroy(dir: &Path, resources: &Resources) -> Result<bool, Error> {
        if !dir.exists() {
            return Ok(true);
        }
        match DB::destroy(&resources.options(), dir) {
            Ok(()) => Ok(true),
            Err(error) if is_in_use(&error) => Ok(false),
            Err(error) => Err(Error::disk("delete", dir)(error)),
        }
    }

    /// Its folder.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Bytes that the database keeps about itself.
    pub(super) fn meta(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.db.get(key).map_err(Error::disk("read", &self.dir))
    }

    /// An entry.
    pub(super) fn get(&self, number: Number, key: &[u8]) -> Result<Option<Entry>, Error> {
        let found = self.db.get_pinned(number.key(key)).map_err(Error::disk("read", &self.dir))?;
        found.map(|value| self.decode(&value)).transpose()
    }

    /// The entries under `keys`, in their order.
    pub(super) fn multi_get(&self, number: Number, keys: &[Bytes]) -> Result<Vec<Option<Entry>>, Error> {
        let Some(family) = self.db.cf_handle(rocksdb::DEFAULT_COLUMN_FAMILY_NAME) else {
            return keys.iter().map(|key| self.get(number, key)).collect();
        };
        let full: Vec<Vec<u8>> = keys.iter().map(|key| number.key(key)).collect();
        let found = self.db.batched_multi_get_cf(&family, full.iter(), false);
        found
            .into_iter()
            .map(|value| {
                let value = value.map_err(Error::disk("read", &self.dir))?;
                value.map(|value| self.decode(&value)).transpose()
            })
            .collect()
    }

    /// Visits the entries whose keys begin with `prefix`, in order, from the key `from` on, until told to stop. Leaves the cache to
    /// others' reads.
    pub(super) fn each(
        &self,
        number: Number,
        from: Option<&[u8]>,
        prefix: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        let mut options = ReadOptions::default();
        options.fill_cache(false);
        options.set_iterate_lower_bound(number.key(from.map_or(prefix, |from| from.max(prefix))));
        options.set_iterate_upper_bound(number.behind(prefix));
        let mut entries = self.db.raw_iterator_opt(options);
        entries.seek_to_first();
        while let Some((full, value)) = entries.item() {
            let key = layout::entry_key(full).unwrap_or_default();
            if visit(key, value)?.is_break() {
                return Ok(());
            }
            entries.next();
        }
        entries.status().map_err(Error::disk("read", &self.dir))
    }

    /// The entry in a value.
    pub(super) fn decode(&self, value: &[u8]) -> Result<Entry, Error> {
        layout::decode(value).ok_or_else(|| Error::Damaged {
            what: "an entry".to_owned(),
            path: self.dir.clone(),
            source: None,
        })
    }

    /// Writes a batch with the log: it survives the process as soon as this returns.
    pub(super) fn write(&self, batch: WriteBatch) -> Result<(), Error> {
        self.db.write(batch).map_err(Error::disk("write", &self.dir))
    }

    /// Writes a batch without the log: it survives the process once [`Self::flush`] returns.
    pub(super) fn write_unlogged(&self, batch: WriteBatch) -> Result<(), Error> {
        self.db.write_without_wal(batch).map_err(Error::disk("write", &self.dir))
    }

    /// Makes everything written durable.
    pub(super) fn flush(&self) -> Result<(), Error> {
        self.db.flush().map_err(Error::disk("flush", &self.dir))
    }

    /// Number of the last change; equal numbers, equal contents.
    pub(super) fn version(&self) -> u64 {
        self.db.latest_sequence_number()
    }

    /// About how many keys all stores have together.
    pub(super) fn estimated_keys(&self) -> u64 {
        self.db.property_int_value(properties::ESTIMATE_NUM_KEYS).ok().flatten().unwrap_or_default()
    }

    /// About how many bytes each store has in files.
    pub(super) fn file_bytes(&self, numbers: impl Iterator<Item = Number>) -> Vec<u64> {
        let bounds: Vec<_> = numbers.map(Number::range).collect();
        let ranges: Vec<_> = bounds.iter().map(|(start, end)| Range::new(start, end)).collect();
        self.db.get_approximate_sizes(&ranges)
    }
}

/// Whether opening failed because the database is open already, here or in another process.
fn is_in_use(error: &rocksdb::Error) -> bool {
    let text = error.as_ref();
    error.kind() == ErrorKind::IOError
        && (text.contains("lock hold by current process") || text.contains("While lock file"))
}
