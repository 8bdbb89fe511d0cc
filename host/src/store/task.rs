//! The stores of one task, in one database.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rocksdb::WriteBatch;

use super::arrange::{Arranged, KEYS, arrange, put};
use super::database::{Database, look};
use super::layout::{self, Number};
use super::memory::{Change, MemoryStore};
use super::{Error, Resources};
use crate::fault;
use crate::model::{Checkpoint, Entry, StateRead, StateWrite, StoreError, StoreIndex};

/// How long opening waits for the last reader of the same database to let go of it.
const READER_WAIT: Duration = Duration::from_secs(10);
/// A database with at most this many entries is counted when asked, which takes milliseconds, instead of estimated.
const COUNT_AT_ONCE: u64 = 10_000;

/// Where a store's entries are read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// Disk.
    RocksDb,
    /// Memory, with a copy on disk for the next start.
    Memory {
        /// Most bytes its rows may take: keys, values and [`super::ROW_OVERHEAD`] a row.
        max_bytes: u64,
    },
}

/// A store that a task has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSpec {
    /// Its name, unique in the task.
    pub name: String,
    /// Where its entries are read from. May change between two starts.
    pub kind: StoreKind,
    /// The topic that fills it. If it changes, the store starts empty, without an offset in the checkpoint.
    pub topic: String,
}

/// All stores of one task: memory stores too, which are written to the same database for the next start.
///
/// One thread writes, any number of threads read. Dropping it closes the database; [`TaskStores::open`] waits for a reader that still
/// holds it.
pub struct TaskStores {
    /// The database.
    database: Database,
    /// The stores as they were asked for.
    specs: Vec<StoreSpec>,
    /// The stores; `StoreIndex` points here.
    stores: Vec<Store>,
    /// What only writing needs. Taken for each write, and shortly to read the checkpoint; there is one writing thread, so nobody waits.
    writer: Mutex<Writer>,
}

/// One store.
struct Store {
    /// Its name.
    name: String,
    /// The prefix of its keys.
    number: Number,
    /// The topic that fills it.
    topic: String,
    /// Its rows, if it is read from memory.
    memory: Option<MemoryStore>,
    /// Its last exact count, with the version of the database it is true of. Held for a look only.
    counted: Mutex<Option<(u64, u64)>>,
}

/// What writing needs.
struct Writer {
    /// The last checkpoint written.
    checkpoint: Checkpoint,
    /// Whether there are rows that were written without the log, and not flushed.
    unlogged: bool,
}

/// Writes, sorted for where they go.
struct Sorted<'s, 'w> {
    /// All of them, for the database.
    batch: WriteBatch,
    /// Those of memory stores, by store.
    memory: BTreeMap<StoreIndex, (&'s MemoryStore, Vec<Change<'w>>)>,
}

impl TaskStores {
    /// Opens the database in `dir`, or makes it, with these stores: others that it has are dropped; new ones, and those filled from
    /// another topic than before, are empty and have no offset in the checkpoint. Memory stores are read from disk.
    ///
    /// Where there is no room on the disk the stores are shut ([`Self::lacks_room`]): only their checkpoint can be read.
    pub fn open(dir: &Path, stores: &[StoreSpec], resources: &Resources) -> Result<Self, Error> {
        Self::open_within(dir, stores, resources, READER_WAIT)
    }

    /// [`Self::open`] with a bound of one's own for the wait.
    pub(super) fn open_within(
        dir: &Path,
        specs: &[StoreSpec],
        resources: &Resources,
        wait: Duration,
    ) -> Result<Self, Error> {
        match Self::open_now(dir, specs, resources, wait) {
            Err(error) if error.is_disk_full() => Self::shut(dir, specs, resources, &error),
            opened => opened,
        }
    }

    /// [`Self::open_within`] where there is room on the disk.
    fn open_now(dir: &Path, specs: &[StoreSpec], resources: &Resources, wait: Duration) -> Result<Self, Error> {
        let database = Database::open(dir, resources, wait)?;
        let arranged = arrange(dir, database.metas(KEYS)?, specs)?;
        let this = Self::new(database, specs, &arranged);
        this.begin(arranged)?;
        Ok(this)
    }

    /// The stores of a database that there is no room to open: all that can be told of them is the checkpoint.
    pub(super) fn shut(dir: &Path, specs: &[StoreSpec], resources: &Resources, error: &Error) -> Result<Self, Error> {
        let arranged = arrange(dir, look(dir, KEYS)?, specs)?;
        Ok(Self::new(Database::shut(dir, resources, error), specs, &arranged))
    }

    /// Stores of a database; those in memory are empty.
    fn new(database: Database, specs: &[StoreSpec], arranged: &Arranged) -> Self {
        let stores = specs.iter().zip(&arranged.numbers).map(|(spec, number)| Store::new(spec, *number)).collect();
        let writer = Mutex::new(Writer { checkpoint: arranged.checkpoint.clone(), unlogged: false });
        Self { database, specs: specs.to_vec(), stores, writer }
    }

    /// Writes what must be there before the stores are used, and fills those in memory.
    fn begin(&self, arranged: Arranged) -> Result<(), Error> {
        if let Some(batch) = arranged.batch {
            fault::point("store.created");
            self.database.write(batch)?;
        }
        self.stores.iter().try_for_each(|store| store.fill(&self.database))
    }

    /// Why nothing can be written: there was no room on the disk. It stays so until [`Self::reopen`].
    pub fn lacks_room(&self) -> Option<String> {
        self.database.lacks_room()
    }

    /// Whether there is room on the disk now, so that [`Self::reopen`] is worth trying.
    pub fn has_room(&self) -> bool {
        self.database.has_room()
    }

    /// Opens the database anew, as it was last written: its checkpoint is older than the last one tried, and what a restore wrote
    /// without making it durable is gone. Readers wait meanwhile.
    pub fn reopen(&self) -> Result<(), Error> {
        let mut writer = self.writer();
        self.database.reopen(READER_WAIT)?;
        let dir = self.database.dir();
        let arranged = arrange(dir, self.database.metas(KEYS)?, &self.specs)?;
        if !arranged.numbers.iter().eq(self.stores.iter().map(|store| &store.number)) {
            return Err(Error::Damaged {
                what: "the list of stores".to_owned(),
                path: dir.to_path_buf(),
                source: None,
            });
        }
        *writer = Writer { checkpoint: arranged.checkpoint.clone(), unlogged: false };
        self.begin(arranged)
    }

    /// The last checkpoint written; empty when the database is new.
    pub fn checkpoint(&self) -> Checkpoint {
        self.writer().checkpoint.clone()
    }

    /// Applies `writes` and sets the checkpoint, all or nothing. Both survive the process once this returns; a power cut may lose
    /// whole commits, the last first.
    ///
    /// With [`Error::Full`] nothing was applied.
    pub fn commit<'a>(
        &self,
        writes: impl IntoIterator<Item = &'a StateWrite>,
        checkpoint: &Checkpoint,
    ) -> Result<(), Error> {
        let mut writer = self.writer();
        let mut sorted = self.sort(writes)?;
        self.settle(&mut writer)?;
        put(&mut sorted.batch, layout::CHECKPOINT_KEY, checkpoint, self.database.dir())?;
        self.database.write(sorted.batch)?;
        writer.checkpoint = checkpoint.clone();
        apply(&sorted.memory);
        Ok(())
    }

    /// Applies `writes` of a restore, quickly: they may be lost with the process, and no checkpoint covers them until
    /// [`Self::persist`] or the next [`Self::commit`], which make them durable first.
    ///
    /// With [`Error::Full`] nothing was applied.
    pub fn restore(&self, writes: &[StateWrite]) -> Result<(), Error> {
        let mut writer = self.writer();
        let sorted = self.sort(writes)?;
        writer.unlogged = true;
        self.database.write_unlogged(sorted.batch)?;
        apply(&sorted.memory);
        Ok(())
    }

    /// Makes restored rows durable, then sets the checkpoint. Writes a file: for every some megabytes, not for every batch.
    pub fn persist(&self, checkpoint: &Checkpoint) -> Result<(), Error> {
        self.commit([], checkpoint)
    }

    /// Drops all entries of a store, and the checkpoint's offsets of its topic with them: its topic is read from the start.
    pub fn clear(&self, store: StoreIndex) -> Result<(), Error> {
        let mut writer = self.writer();
        let store = self.store(store)?;
        self.settle(&mut writer)?;
        let mut checkpoint = writer.checkpoint.clone();
        checkpoint.forget(&store.topic);
        let mut batch = WriteBatch::default();
        let (start, end) = store.number.range();
        batch.delete_range(start, end);
        put(&mut batch, layout::CHECKPOINT_KEY, &checkpoint, self.database.dir())?;
        self.database.write(batch)?;
        writer.checkpoint = checkpoint;
        if let Some(memory) = &store.memory {
            memory.clear();
        }
        Ok(())
    }

    /// At most `limit` entries whose keys begin with `prefix`, in key order, from the key `from` (included) on.
    pub fn scan(
        &self,
        store: StoreIndex,
        from: Option<&[u8]>,
        prefix: &[u8],
        limit: usize,
    ) -> Result<Vec<(Bytes, Entry)>, Error> {
        let store = self.store(store)?;
        if let Some(memory) = &store.memory {
            return Ok(memory.scan(from, prefix, limit));
        }
        let mut found = Vec::new();
        if limit == 0 {
            return Ok(found);
        }
        self.database.each(store.number, from, prefix, |key, value| {
            found.push((Bytes::copy_from_slice(key), self.database.decode(value)?));
            Ok(if found.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        Ok(found)
    }

    /// Number of entries, and whether it is exact: always for a memory store, for a small database, and after [`Self::count_exact`]
    /// until the next write. Else estimated from the sizes of files.
    pub fn entries(&self, index: StoreIndex) -> (u64, bool) {
        let Ok(store) = self.store(index) else { return (0, false) };
        if let Some(memory) = &store.memory {
            return (memory.len(), true);
        }
        if let Some((version, count)) = *store.counted()
            && version == self.database.version()
        {
            return (count, true);
        }
        let keys = self.database.estimated_keys();
        let bytes = self.database.file_bytes(self.stores.iter().map(|store| store.number));
        let total: u64 = bytes.iter().sum();
        if (keys <= COUNT_AT_ONCE || total == 0)
            && let Ok(count) = self.count_exact(index)
        {
            return (count, true);
        }
        let share = bytes.get(usize::from(index.0)).copied().unwrap_or_default();
        let estimate = u128::from(keys) * u128::from(share) / u128::from(total.max(1));
        (u64::try_from(estimate).unwrap_or(u64::MAX), false)
    }

    /// Counts the entries by reading them: about a second for some million.
    pub fn count_exact(&self, store: StoreIndex) -> Result<u64, Error> {
        let store = self.store(store)?;
        if let Some(memory) = &store.memory {
            return Ok(memory.len());
        }
        let version = self.database.version();
        let mut count = 0;
        self.database.each(store.number, None, &[], |_, _| {
            count += 1;
            Ok(ControlFlow::Continue(()))
        })?;
        if version == self.database.version() {
            *store.counted() = Some((version, count));
        }
        Ok(count)
    }

    /// Bytes that the rows of memory stores take.
    pub fn memory_bytes(&self) -> u64 {
        self.stores.iter().filter_map(|store| store.memory.as_ref()).map(MemoryStore::bytes).sum()
    }

    /// Sorts `writes`, and refuses them if a memory store would be too large.
    fn sort<'w>(&self, writes: impl IntoIterator<Item = &'w StateWrite>) -> Result<Sorted<'_, 'w>, Error> {
        let mut sorted = Sorted { batch: WriteBatch::default(), memory: BTreeMap::new() };
        for write in writes {
            let store = self.store(write.store)?;
            let key = store.number.key(&write.key);
            match &write.entry {
                Some(entry) => sorted.batch.put(key, layout::encode(entry)),
                None => sorted.batch.delete(key),
            }
            if let Some(memory) = &store.memory {
                let (_, changes) = sorted.memory.entry(write.store).or_insert_with(|| (memory, Vec::new()));
                changes.push((&write.key, write.entry.as_ref()));
            }
        }
        for (memory, changes) in sorted.memory.values() {
            memory.check(changes)?;
        }
        Ok(sorted)
    }

    /// Makes rows without a log durable. Needed before anything is written to the log: after a crash the log is all that is read
    /// again, and would yield what came later without them.
    fn settle(&self, writer: &mut Writer) -> Result<(), Error> {
        if writer.unlogged {
            self.database.flush()?;
            writer.unlogged = false;
            fault::point("store.flushed");
        }
        Ok(())
    }

    /// The store of this index.
    fn store(&self, index: StoreIndex) -> Result<&Store, Error> {
        self.stores
            .get(usize::from(index.0))
            .ok_or_else(|| Error::NoStore { dir: self.database.dir().to_path_buf(), index: index.0 })
    }

    /// A store's name for an error; the folder, if there is no such store.
    fn name(&self, index: StoreIndex) -> String {
        self.store(index).map_or_else(|_| self.database.dir().display().to_string(), |store| store.name.clone())
    }

    /// What writing needs.
    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StateRead for TaskStores {
    fn get(&self, index: StoreIndex, key: &[u8]) -> Result<Option<Entry>, StoreError> {
        let found = self.store(index).and_then(|store| match &store.memory {
            Some(memory) => Ok(memory.get(key)),
            None => self.database.get(store.number, key),
        });
        found.map_err(|error| error.into_store_error(&self.name(index)))
    }

    fn multi_get(&self, index: StoreIndex, keys: &[Bytes]) -> Result<Vec<Option<Entry>>, StoreError> {
        let found = self.store(index).and_then(|store| match &store.memory {
            Some(memory) => Ok(memory.multi_get(keys)),
            None => self.database.multi_get(store.number, keys),
        });
        found.map_err(|error| error.into_store_error(&self.name(index)))
    }
}

impl fmt::Debug for TaskStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskStores").field("dir", &self.database.dir()).finish_non_exhaustive()
    }
}

impl Store {
    /// The store; one in memory is empty.
    fn new(spec: &StoreSpec, number: Number) -> Self {
        let memory = match spec.kind {
            StoreKind::RocksDb => None,
            StoreKind::Memory { max_bytes } => Some(MemoryStore::new(&spec.name, max_bytes)),
        };
        let (name, topic) = (spec.name.clone(), spec.topic.clone());
        Self { name, number, topic, memory, counted: Mutex::new(None) }
    }

    /// Gives a store in memory the rows that the database has.
    fn fill(&self, database: &Database) -> Result<(), Error> {
        let Some(memory) = &self.memory else { return Ok(()) };
        memory.clear();
        database.each(self.number, None, &[], |key, value| {
            let entry = database.decode(value)?;
            memory.check(&[(key, Some(&entry))])?;
            memory.apply(&[(key, Some(&entry))]);
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Its last exact count.
    fn counted(&self) -> MutexGuard<'_, Option<(u64, u64)>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Applies the changes of memory stores, once the database has them.
fn apply(memory: &BTreeMap<StoreIndex, (&MemoryStore, Vec<Change<'_>>)>) {
    for (store, changes) in memory.values() {
        store.apply(changes);
    }
}
