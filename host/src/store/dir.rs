//! The state folder of an instance.
//!
//! ```text
//! state/
//!   lock              held by the process that works here; its pid
//!   weir.json         format, application, instance id, transactional ids
//!   0_7/              stores of task 0_7, named as Kafka Streams names them
//!   global/orders/    a global table
//!   plugins/          compiled and downloaded plugins
//! ```

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions, TryLockError, create_dir_all, read, rename};
use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Error;
use crate::model::TaskId;

/// Version of the folder's layout.
const FORMAT: u32 = 1;
/// Name of the file that is locked.
const LOCK: &str = "lock";
/// Name of the file that says whose folder it is.
const IDENTITY: &str = "weir.json";

/// The state folder, locked for as long as this lives.
#[derive(Debug)]
pub struct StateDir {
    /// The folder.
    dir: PathBuf,
    /// This instance's id.
    instance: String,
    /// What `weir.json` says. Held while the file is written: a few times in an instance's life.
    identity: Mutex<Identity>,
    /// The locked file; closing it frees the folder.
    _lock: File,
}

/// What `weir.json` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    /// Version of the folder's layout.
    format: u32,
    /// `app.id`.
    app: String,
    /// Random id of the instance, made once.
    instance: String,
    /// Every transactional id that a producer of this instance ever had.
    transactional_ids: BTreeSet<String>,
}

/// The part of `weir.json` that every version has.
#[derive(Deserialize)]
struct Format {
    /// Version of the folder's layout.
    format: u32,
}

impl StateDir {
    /// Locks the folder, making it if it is not there, and checks that it is ours to use.
    pub fn open(dir: &Path, app_id: &str) -> Result<Self, Error> {
        create_dir_all(dir).map_err(Error::folder("create", dir))?;
        let lock = lock(dir)?;
        let identity = match read_identity(dir)? {
            Some(identity) => identity,
            None => {
                let identity = Identity {
                    format: FORMAT,
                    app: app_id.to_owned(),
                    instance: Uuid::new_v4().to_string(),
                    transactional_ids: BTreeSet::new(),
                };
                write_identity(dir, &identity)?;
                identity
            }
        };
        if identity.app != app_id {
            let (found, wanted) = (identity.app, app_id.to_owned());
            return Err(Error::OtherApp { dir: dir.to_path_buf(), found, wanted });
        }
        let instance = identity.instance.clone();
        Ok(Self { dir: dir.to_path_buf(), instance, identity: Mutex::new(identity), _lock: lock })
    }

    /// The instance's id: a random UUID, made with the folder.
    pub fn instance_id(&self) -> &str {
        &self.instance
    }

    /// Every transactional id recorded so far, in order.
    pub fn transactional_ids(&self) -> Vec<String> {
        self.identity().transactional_ids.iter().cloned().collect()
    }

    /// Records a transactional id, durably: call it before a producer uses the id. Recording it again does nothing.
    pub fn record_transactional_id(&self, id: &str) -> Result<(), Error> {
        let mut identity = self.identity();
        if identity.transactional_ids.contains(id) {
            return Ok(());
        }
        let mut next = identity.clone();
        next.transactional_ids.insert(id.to_owned());
        write_identity(&self.dir, &next)?;
        *identity = next;
        Ok(())
    }

    /// The folder of a task's stores.
    pub fn task_dir(&self, task: TaskId) -> PathBuf {
        self.dir.join(task.to_string())
    }

    /// The folder of a global table.
    pub fn global_dir(&self, table: &str) -> PathBuf {
        self.dir.join("global").join(table)
    }

    /// The folder for plugins.
    pub fn plugin_dir(&self) -> PathBuf {
        self.dir.join("plugins")
    }

    /// What `weir.json` says.
    fn identity(&self) -> MutexGuard<'_, Identity> {
        self.identity.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Locks the folder and leaves our pid for whoever finds it locked.
fn lock(dir: &Path) -> Result<File, Error> {
    let path = dir.join(LOCK);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(Error::folder("write", &path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            // Whoever holds it may be writing its pid just now: then it stays unknown.
            let pid = file.read_to_string(&mut pid).ok().and_then(|_| pid.trim().parse().ok());
            return Err(Error::Locked { dir: dir.to_path_buf(), pid });
        }
        Err(TryLockError::Error(source)) => return Err(Error::folder("lock", &path)(source)),
    }
    let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
    written.map_err(Error::folder("write", &path))?;
    Ok(file)
}

/// Reads `weir.json`, if it is there.
fn read_identity(dir: &Path) -> Result<Option<Identity>, Error> {
    let file = dir.join(IDENTITY);
    let json = match read(&file) {
        Ok(json) => json,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::folder("read", &file)(error)),
    };
    let damaged = |source| damaged(dir, source);
    // The format first: a later version may have changed everything else.
    let Format { format } = serde_json::from_slice(&json).map_err(damaged)?;
    if format > FORMAT {
        return Err(Error::Newer { path: file, found: format, known: FORMAT });
    }
    serde_json::from_slice(&json).map(Some).map_err(damaged)
}

/// Writes `weir.json`: a reader, and a start after a power cut, finds the old one or the new one, whole.
fn write_identity(dir: &Path, identity: &Identity) -> Result<(), Error> {
    let (file, draft) = (dir.join(IDENTITY), dir.join(format!("{IDENTITY}.new")));
    let mut json = serde_json::to_vec_pretty(identity).map_err(|source| damaged(dir, source))?;
    json.push(b'\n');
    let written = File::create(&draft)
        .and_then(|mut new| new.write_all(&json).and_then(|()| new.sync_all()))
        .and_then(|()| rename(&draft, &file))
        .and_then(|()| File::open(dir)?.sync_all());
    written.map_err(Error::folder("write", &file))
}

/// The error for a `weir.json` that is not what it should be.
fn damaged(dir: &Path, source: serde_json::Error) -> Error {
    Error::Damaged { what: IDENTITY.to_owned(), path: dir.to_path_buf(), source: Some(source) }
}

#[cfg(test)]
mod tests {
    use std::fs::write;

    use super::*;

    #[test]
    fn it_keeps_its_id_and_what_was_recorded() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("not/there/yet");
        let first = StateDir::open(&dir, "app").unwrap();
        let id = first.instance_id().to_owned();
        assert_eq!(Uuid::parse_str(&id).unwrap().get_version_num(), 4);
        assert_eq!(first.transactional_ids(), [""; 0]);
        for id in ["app-2", "app-1", "app-2"] {
            first.record_transactional_id(id).unwrap();
        }
        drop(first);
        let second = StateDir::open(&dir, "app").unwrap();
        assert_eq!(second.instance_id(), id);
        assert_eq!(second.transactional_ids(), ["app-1", "app-2"]);
    }

    #[test]
    fn folders_are_named_as_in_kafka_streams() {
        let root = tempfile::tempdir().unwrap();
        let state = StateDir::open(root.path(), "app").unwrap();
        assert_eq!(state.task_dir(TaskId { subtopology: 0, partition: 7 }), root.path().join("0_7"));
        assert_eq!(state.global_dir("orders"), root.path().join("global/orders"));
        assert_eq!(state.plugin_dir(), root.path().join("plugins"));
    }

    #[test]
    fn a_second_opener_learns_who_holds_it() {
        let root = tempfile::tempdir().unwrap();
        let first = StateDir::open(root.path(), "app").unwrap();
        let error = StateDir::open(root.path(), "app").unwrap_err();
        let us = std::process::id();
        assert_eq!(
            error.to_string(),
            format!(
                "state folder {} is in use by process {us}; stop it, or give this instance a state.dir of its own",
                root.path().display()
            )
        );
        write(root.path().join(LOCK), "?").unwrap();
        let error = StateDir::open(root.path(), "app").unwrap_err();
        assert!(error.to_string().contains("in use by another process;"), "{error}");
        drop(first);
        StateDir::open(root.path(), "app").unwrap();
    }

    #[test]
    fn a_folder_of_another_application_is_refused() {
        let root = tempfile::tempdir().unwrap();
        drop(StateDir::open(root.path(), "one").unwrap());
        let error = StateDir::open(root.path(), "two").unwrap_err();
        assert!(error.to_string().contains("belongs to the application 'one', not to 'two'"), "{error}");
    }

    #[test]
    fn a_later_format_is_refused_whatever_else_it_says() {
        let root = tempfile::tempdir().unwrap();
        write(root.path().join(IDENTITY), r#"{"format": 2, "all": "new"}"#).unwrap();
        let error = StateDir::open(root.path(), "app").unwrap_err();
        assert!(error.to_string().contains("weir.json has format 2, this version of Weir knows 1"), "{error}");
    }

    #[test]
    fn a_damaged_file_is_named() {
        for content in ["", "{", r#"{"format": 1}"#] {
            let root = tempfile::tempdir().unwrap();
            write(root.path().join(IDENTITY), content).unwrap();
            let error = StateDir::open(root.path(), "app").unwrap_err();
            assert!(matches!(error, Error::Damaged { .. }), "{error}");
            assert!(error.to_string().starts_with("weir.json in "), "{error}");
        }
    }

    #[test]
    fn a_draft_left_by_a_crash_is_no_obstacle() {
        let root = tempfile::tempdir().unwrap();
        write(root.path().join("weir.json.new"), "{\"form").unwrap();
        StateDir::open(root.path(), "app").unwrap().record_transactional_id("a").unwrap();
        assert_eq!(StateDir::open(root.path(), "app").unwrap().transactional_ids(), ["a"]);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        write(&file, "").unwrap();
        for dir in [file.clone(), file.join("below")] {
            let error = StateDir::open(&dir, "app").unwrap_err();
            assert!(matches!(error, Error::Folder { action: "create", .. }), "{error}");
            assert!(error.to_string().contains(&dir.display().to_string()), "{error}");
        }
        // A folder where a file should be: writing fails for root too.
        let dir = root.path().join("dir");
        create_dir_all(dir.join(LOCK)).unwrap();
        let error = StateDir::open(&dir, "app").unwrap_err();
        assert!(matches!(error, Error::Folder { action: "write", .. }), "{error}");
    }
}
