//! The state folder of an instance.
//!
//! ```text
//! state/
//!   lock              held by the process that works here; its pid
//!   weir.json         format, application, instance id, what the instance has left in the cluster
//!   0_7/              stores of task 0_7, named as Kafka Streams names them
//!   global/orders/    a global table
//!   plugins/          compiled and downloaded plugins
//! ```

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions, TryLockError, create_dir_all, read_dir, remove_dir_all};
use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::database::Database;
use super::identity::{Home, Identity};
use super::{Error, Resources};
use crate::model::TaskId;

/// Name of the file that is locked.
const LOCK: &str = "lock";

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

impl StateDir {
    /// Locks the folder, making it if it is not there, and checks that it is ours to use.
    pub fn open(dir: &Path, app_id: &str) -> Result<Self, Error> {
        create_dir_all(dir).map_err(Error::folder("create", dir))?;
        let lock = lock(dir)?;
        let marked = lock.metadata().map_err(Error::folder("read", &dir.join(LOCK)))?;
        let identity = Identity::open(dir, app_id, Home::of(&marked))?;
        let instance = identity.instance.clone();
        Ok(Self { dir: dir.to_path_buf(), instance, identity: Mutex::new(identity), _lock: lock })
    }

    /// The instance's id: a random UUID, made with the folder. A copy of the folder has another one.
    pub fn instance_id(&self) -> &str {
        &self.instance
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// The transactional ids that are recorded, in order.
    pub fn transactional_ids(&self) -> Vec<String> {
        self.identity().transactional_ids.iter().cloned().collect()
    }

    /// Records a transactional id, durably: call it before a producer uses the id. Recording it again does nothing.
    pub fn record_transactional_id(&self, id: &str) -> Result<(), Error> {
        self.change(|identity| identity.transactional_ids.insert(id.to_owned()))
    }

    /// Takes transactional ids from the record: no transaction of theirs is open, and nobody will begin another.
    pub fn forget_transactional_ids(&self, ids: &[String]) -> Result<(), Error> {
        self.change(|identity| ids.iter().fold(false, |any, id| identity.transactional_ids.remove(id) | any))
    }

    /// The topics that the group member of this instance was last subscribed to; none, if it never was one.
    pub fn subscription(&self) -> Option<BTreeSet<String>> {
        self.identity().subscription.clone()
    }

    /// Records what the group member is subscribed to, durably: call it before the member joins.
    pub fn record_subscription(&self, topics: &BTreeSet<String>) -> Result<(), Error> {
        self.change(|identity| identity.subscription.replace(topics.clone()).as_ref() != Some(topics))
    }

    /// The tasks whose stores have folders here.
    pub fn task_folders(&self) -> Result<Vec<TaskId>, Error> {
        let mut tasks = Vec::new();
        for entry in read_dir(&self.dir).map_err(Error::folder("read", &self.dir))? {
            let entry = entry.map_err(Error::folder("read", &self.dir))?;
            tasks.extend(entry.file_name().to_str().and_then(TaskId::parse));
        }
        Ok(tasks)
    }

    /// Deletes the stores of a task, with their folder. `false`: they are open, and stay.
    pub fn remove_task(&self, task: TaskId, resources: &Resources) -> Result<bool, Error> {
        let dir = self.task_dir(task);
        if !Database::destroy(&dir, resources)? {
            return Ok(false);
        }
        match remove_dir_all(&dir) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::folder("delete", &dir)(error)),
            _ => Ok(true),
        }
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

    /// Changes what `weir.json` says, durably, unless `change` says that it is so already.
    fn change(&self, change: impl FnOnce(&mut Identity) -> bool) -> Result<(), Error> {
        let mut identity = self.identity();
        let mut next = identity.clone();
        if change(&mut next) {
            next.write(&self.dir)?;
            *identity = next;
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use std::fs::{copy, write};

    use uuid::Uuid;

    use super::super::TaskStores;
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
        let topics = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        assert_eq!(first.subscription(), None);
        first.record_subscription(&topics).unwrap();
        drop(first);
        let second = StateDir::open(&dir, "app").unwrap();
        assert_eq!(second.instance_id(), id);
        assert_eq!(second.transactional_ids(), ["app-1", "app-2"]);
        assert_eq!(second.subscription(), Some(topics));
        second.forget_transactional_ids(&["app-2".to_owned(), "app-3".to_owned()]).unwrap();
        drop(second);
        assert_eq!(StateDir::open(&dir, "app").unwrap().transactional_ids(), ["app-1"]);
    }

    #[test]
    fn a_copied_folder_is_another_instance_and_a_moved_one_is_not() {
        let root = tempfile::tempdir().unwrap();
        let [original, moved, copied] = ["original", "moved", "copied"].map(|name| root.path().join(name));
        let first = StateDir::open(&original, "app").unwrap();
        first.record_transactional_id("app-0").unwrap();
        let id = first.instance_id().to_owned();
        drop(first);
        std::fs::rename(&original, &moved).unwrap();
        assert_eq!(StateDir::open(&moved, "app").unwrap().instance_id(), id);
        create_dir_all(&copied).unwrap();
        for file in ["lock", "weir.json"] {
            copy(moved.join(file), copied.join(file)).unwrap();
        }
        let copy = StateDir::open(&copied, "app").unwrap();
        assert_ne!(copy.instance_id(), id);
        assert_eq!(copy.transactional_ids(), [""; 0]);
        assert_eq!(StateDir::open(&moved, "app").unwrap().instance_id(), id);
    }

    #[test]
    fn stores_are_deleted_unless_they_are_open() {
        let root = tempfile::tempdir().unwrap();
        let state = StateDir::open(root.path(), "app").unwrap();
        let resources = Resources::new(1 << 20, 1);
        let [one, two] = [3, 4].map(|partition| TaskId { subtopology: 0, partition });
        let stores = TaskStores::open(&state.task_dir(one), &[], &resources).unwrap();
        drop(TaskStores::open(&state.task_dir(two), &[], &resources).unwrap());
        create_dir_all(state.plugin_dir()).unwrap();
        let mut found = state.task_folders().unwrap();
        found.sort();
        assert_eq!(found, [one, two]);
        assert!(!state.remove_task(one, &resources).unwrap());
        assert!(state.remove_task(two, &resources).unwrap());
        assert_eq!(state.task_folders().unwrap(), [one]);
        drop(stores);
        assert!(state.remove_task(one, &resources).unwrap());
        assert_eq!(state.task_folders().unwrap(), []);
        assert!(state.remove_task(one, &resources).unwrap(), "nothing is there: nothing to do");
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
