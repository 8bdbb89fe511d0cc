//! One RocksDB: the only place that reads and writes it.
//!
//! When there is no room on the disk, RocksDB refuses all further writes, and half a record may lie at the end of its log. So nothing
//! is written to it any more: [`Database::reopen`] closes it and opens it again, which reads what was written before, whole.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock};
use std::thread::sleep;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rocksdb::{DB, ErrorKind, Range, ReadOptions, WriteBatch, properties};

use super::layout::{self, Number};
use super::resources::Resources;
use super::{Error, room};
use crate::model::Entry;

/// How often opening is tried again while the database is still open elsewhere.
const RETRY: Duration = Duration::from_millis(10);

/// A database.
pub(super) struct Database {
    /// It; none while it is shut. Reading and writing share it; only reopening waits for all of them to end, and lets none begin.
    db: RwLock<Option<DB>>,
    /// Why nothing may be written, once a write has found no room. Held for a look only.
    full: Mutex<Option<String>>,
    /// Its folder.
    dir: PathBuf,
    /// What it shares with others.
    resources: Resources,
}

impl Database {
    /// Opens the database in `dir`, or makes it. Waits at most `wait` for someone else to close it.
    pub(super) fn open(dir: &Path, resources: &Resources, wait: Duration) -> Result<Self, Error> {
        let db = open(dir, resources, wait)?;
        Ok(Self {
            db: RwLock::new(Some(db)),
            full: Mutex::default(),
            dir: dir.to_path_buf(),
            resources: resources.clone(),
        })
    }

    /// The database in `dir`, which there is no room to open, as `error` says: it is shut until [`Self::reopen`].
    pub(super) fn shut(dir: &Path, resources: &Resources, error: &Error) -> Self {
        let full = Mutex::new(Some(error.whole()));
        Self { db: RwLock::new(None), full, dir: dir.to_path_buf(), resources: resources.clone() }
    }

    /// Closes it, and opens it again as it was last written. If that fails it stays shut.
    pub(super) fn reopen(&self, wait: Duration) -> Result<(), Error> {
        let mut db = self.db.write().unwrap_or_else(PoisonError::into_inner);
        *db = None;
        *db = Some(open(&self.dir, &self.resources, wait).inspect_err(|error| self.note(error))?);
        *self.full() = None;
        Ok(())
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

    /// Why nothing may be written: there was no room on the disk.
    pub(super) fn lacks_room(&self) -> Option<String> {
        self.full().clone()
    }

    /// Whether there is room on its disk now.
    pub(super) fn has_room(&self) -> bool {
        room::is_enough(room::free(&self.dir))
    }

    /// Works with RocksDB.
    fn with<T>(&self, work: impl FnOnce(&DB) -> Result<T, Error>) -> Result<T, Error> {
        match &*self.db.read().unwrap_or_else(PoisonError::into_inner) {
            Some(db) => work(db),
            None => Err(Error::Shut { dir: self.dir.clone() }),
        }
    }

    /// Writes with RocksDB, as long as there was room for everything before.
    fn change(&self, action: &'static str, work: impl FnOnce(&DB) -> Result<(), rocksdb::Error>) -> Result<(), Error> {
        if self.lacks_room().is_some() {
            return Err(Error::Shut { dir: self.dir.clone() });
        }
        self.with(|db| work(db).map_err(Error::disk(action, &self.dir))).inspect_err(|error| self.note(error))
    }

    /// Remembers that there was no room, if `error` says so.
    fn note(&self, error: &Error) {
        if error.is_disk_full() {
            *self.full() = Some(error.whole());
        }
    }

    /// Why nothing may be written.
    fn full(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.full.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the database keeps under some keys about itself.
    pub(super) fn metas<const N: usize>(&self, keys: [&[u8]; N]) -> Result<[Option<Vec<u8>>; N], Error> {
        self.with(|db| metas(db, keys, &self.dir))
    }

    /// An entry.
    pub(super) fn get(&self, number: Number, key: &[u8]) -> Result<Option<Entry>, Error> {
        self.with(|db| {
            let found = db.get_pinned(number.key(key)).map_err(Error::disk("read", &self.dir))?;
            found.map(|value| self.decode(&value)).transpose()
        })
    }

    /// The entries under `keys`, in their order.
    pub(super) fn multi_get(&self, number: Number, keys: &[Bytes]) -> Result<Vec<Option<Entry>>, Error> {
        let full: Vec<Vec<u8>> = keys.iter().map(|key| number.key(key)).collect();
        self.with(|db| {
            let Some(family) = db.cf_handle(rocksdb::DEFAULT_COLUMN_FAMILY_NAME) else {
                return Err(Error::Shut { dir: self.dir.clone() });
            };
            let found = db.batched_multi_get_cf(&family, full.iter(), false);
            found
                .into_iter()
                .map(|value| {
                    let value = value.map_err(Error::disk("read", &self.dir))?;
                    value.map(|value| self.decode(&value)).transpose()
                })
                .collect()
        })
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
        self.with(|db| {
            let mut entries = db.raw_iterator_opt(options);
            entries.seek_to_first();
            while let Some((full, value)) = entries.item() {
                let key = layout::entry_key(full).unwrap_or_default();
                if visit(key, value)?.is_break() {
                    return Ok(());
                }
                entries.next();
            }
            entries.status().map_err(Error::disk("read", &self.dir))
        })
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
        self.change("write", |db| db.write(batch))
    }

    /// Writes a batch without the log: it survives the process once [`Self::flush`] returns.
    pub(super) fn write_unlogged(&self, batch: WriteBatch) -> Result<(), Error> {
        self.change("write", |db| db.write_without_wal(batch))
    }

    /// Makes everything written durable.
    pub(super) fn flush(&self) -> Result<(), Error> {
        self.change("flush", DB::flush)
    }

    /// Number of the last change; equal numbers, equal contents.
    pub(super) fn version(&self) -> u64 {
        self.with(|db| Ok(db.latest_sequence_number())).unwrap_or_default()
    }

    /// About how many keys all stores have together.
    pub(super) fn estimated_keys(&self) -> u64 {
        let keys = self.with(|db| Ok(db.property_int_value(properties::ESTIMATE_NUM_KEYS).ok().flatten()));
        keys.ok().flatten().unwrap_or_default()
    }

    /// About how many bytes each store has in files.
    pub(super) fn file_bytes(&self, numbers: impl Iterator<Item = Number>) -> Vec<u64> {
        let bounds: Vec<_> = numbers.map(Number::range).collect();
        let ranges: Vec<_> = bounds.iter().map(|(start, end)| Range::new(start, end)).collect();
        self.with(|db| Ok(db.get_approximate_sizes(&ranges))).unwrap_or_default()
    }
}

/// What the database in `dir` keeps under `keys` about itself, read without writing anything; nothing if there is no database.
pub(super) fn look<const N: usize>(dir: &Path, keys: [&[u8]; N]) -> Result<[Option<Vec<u8>>; N], Error> {
    // RocksDB writes this file last when it makes a database.
    if !dir.join("CURRENT").exists() {
        return Ok([const { None }; N]);
    }
    let db = DB::open_for_read_only(&rocksdb::Options::default(), dir, false).map_err(Error::disk("read", dir))?;
    metas(&db, keys, dir)
}

/// What `db`, in `dir`, keeps under `keys`.
fn metas<const N: usize>(db: &DB, keys: [&[u8]; N], dir: &Path) -> Result<[Option<Vec<u8>>; N], Error> {
    let mut found = [const { None }; N];
    for (key, slot) in keys.into_iter().zip(&mut found) {
        *slot = db.get(key).map_err(Error::disk("read", dir))?;
    }
    Ok(found)
}

/// Opens RocksDB in `dir`. Waits at most `wait` for someone else to close it.
fn open(dir: &Path, resources: &Resources, wait: Duration) -> Result<DB, Error> {
    std::fs::create_dir_all(dir).map_err(Error::folder("create", dir))?;
    let options = resources.options();
    let since = Instant::now();
    loop {
        // The column family is named so that it has a handle, which batched reads need.
        match DB::open_cf_with_opts(&options, dir, [(rocksdb::DEFAULT_COLUMN_FAMILY_NAME, options.clone())]) {
            Ok(db) => return Ok(db),
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

/// Whether opening failed because the database is open already, here or in another process.
fn is_in_use(error: &rocksdb::Error) -> bool {
    let text = error.as_ref();
    error.kind() == ErrorKind::IOError
        && (text.contains("lock hold by current process") || text.contains("While lock file"))
}
