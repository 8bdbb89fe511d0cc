//! What can go wrong with state.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::room;
use crate::model::StoreError;

/// State that cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process works in the state folder.
    #[error(
        "state folder {} is in use by {}; stop it, or give this instance a state.dir of its own", dir.display(),
        process(*pid)
    )]
    Locked {
        /// The state folder.
        dir: PathBuf,
        /// That process, if it could be read.
        pid: Option<u32>,
    },
    /// The state folder, or something in it, cannot be read or written.
    #[error("cannot {action} {}; state.dir must be a folder that this user may write", path.display())]
    Folder {
        /// What was tried: `create`, `lock` …
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A later version of Weir wrote the state.
    #[error(
        "{} has format {found}, this version of Weir knows {known}; use the later version, or another state.dir", path.display()
    )]
    Newer {
        /// Where the format was found.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The latest format known.
        known: u32,
    },
    /// The state folder belongs to another application.
    #[error(
        "state folder {} belongs to the application '{found}', not to '{wanted}'; give each app.id a state.dir of its own", dir.display()
    )]
    OtherApp {
        /// The state folder.
        dir: PathBuf,
        /// `app.id` found there.
        found: String,
        /// `app.id` of this instance.
        wanted: String,
    },
    /// Something that Weir wrote cannot be understood any more.
    #[error("{what} in {} is damaged; delete that folder to restore its contents from Kafka", path.display())]
    Damaged {
        /// What it is: `the checkpoint` …
        what: String,
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it, where a parser said.
        source: Option<serde_json::Error>,
    },
    /// There is no room on the disk for what was to be written. Nothing of it counts as written.
    #[error("disk full: cannot {action} {}, where {} free", path.display(), free_words(*free))]
    DiskFull {
        /// What was tried: `write`, `flush` …
        action: &'static str,
        /// The database's folder, or the file.
        path: PathBuf,
        /// Bytes that were free then, if that could be told.
        free: Option<u64>,
        /// What the system said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The database is closed, since there was no room on its disk.
    #[error("the state in {} is closed until there is room on the disk", dir.display())]
    Shut {
        /// The database's folder.
        dir: PathBuf,
    },
    /// RocksDB failed: a broken disk, a damaged file.
    #[error("cannot {action} the state in {}", dir.display())]
    Disk {
        /// What was tried: `open`, `write` …
        action: &'static str,
        /// The database's folder.
        dir: PathBuf,
        /// What RocksDB said.
        source: rocksdb::Error,
    },
    /// RocksDB finds that its files are not what it wrote.
    #[error(
        "the state in {} is damaged, which is the disk's doing or somebody's; delete that folder to restore its contents from Kafka", dir.display()
    )]
    Corrupt {
        /// The database's folder.
        dir: PathBuf,
        /// What RocksDB said.
        source: rocksdb::Error,
    },
    /// The database is still open elsewhere in this process, longer than any reader should hold it.
    #[error("the state in {} is still open elsewhere after {waited_ms} ms", dir.display())]
    InUse {
        /// The database's folder.
        dir: PathBuf,
        /// How long opening it was tried.
        waited_ms: u128,
    },
    /// A store in memory would grow over its bound. Nothing of the batch was written.
    #[error(
        "store {store} is full: {rows} rows take {bytes} bytes, the next change makes it {wanted}, and {limit} are allowed; \
         raise the store's bound, or keep it on disk"
    )]
    Full {
        /// The store.
        store: String,
        /// Rows it holds.
        rows: u64,
        /// Bytes they take.
        bytes: u64,
        /// Bytes they would take.
        wanted: u64,
        /// Most bytes they may take.
        limit: u64,
    },
    /// The topology has more stores than a database can number.
    #[error("the task in {} has too many stores", dir.display())]
    TooManyStores {
        /// The database's folder.
        dir: PathBuf,
    },
    /// The task has no store of that index.
    #[error("the task in {} has no store number {index}", dir.display())]
    NoStore {
        /// The database's folder.
        dir: PathBuf,
        /// The index asked for.
        index: u16,
    },
}

impl Error {
    /// A function that makes a [`Error::Folder`] of a system's error.
    pub(super) fn folder(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| {
            if !room::is_lacking(&source) {
                return Self::Folder { action, path: path.to_path_buf(), source };
            }
            Self::DiskFull { action, path: path.to_path_buf(), free: room::free(path), source: source.into() }
        }
    }

    /// A function that makes a [`Error::Disk`] or a [`Error::Corrupt`] of RocksDB's error.
    pub(super) fn disk(action: &'static str, dir: &Path) -> impl FnOnce(rocksdb::Error) -> Self {
        move |source| {
            if room::is_lacking_in(&source) {
                let (path, free) = (dir.to_path_buf(), room::free(dir));
                return Self::DiskFull { action, path, free, source: source.into() };
            }
            match source.kind() {
                rocksdb::ErrorKind::Corruption => Self::Corrupt { dir: dir.to_path_buf(), source },
                _ => Self::Disk { action, dir: dir.to_path_buf(), source },
            }
        }
    }

    /// Whether it is for lack of room on the disk: it is no more once there is some.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::DiskFull { .. })
    }

    /// As nodes see it: with everything that lies behind it in the text.
    pub fn into_store_error(self, store: &str) -> StoreError {
        StoreError { store: store.to_owned(), reason: self.whole() }
    }

    /// The error and all that lies behind it, in one line.
    pub(super) fn whole(&self) -> String {
        let mut reason = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            // Writing to a string cannot fail.
            let _ = write!(reason, ": {cause}");
            source = cause.source();
        }
        reason
    }
}

/// What is free, in words.
fn free_words(free: Option<u64>) -> String {
    free.map_or_else(
        || "nobody knows how much is".to_owned(),
        |bytes| format!("{} MiB ({bytes} bytes) are", bytes >> 20),
    )
}

/// The process that holds a lock, in words.
fn process(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}
