//! Deletes the stores of tasks that have moved to other instances, once they have been gone for a while.
//!
//! Until then a task that comes back resumes from where it was. Bounded: what a folder can hold beyond the tasks that are here now is
//! what has left within one delay. Runs in the thread that opens and closes tasks by way of rebalances, so nothing is opened
//! meanwhile; and stores that are open, for a query say, are left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::model::TaskId;
use crate::store::{Resources, StateDir};

/// How often it looks at most.
const SHORTEST: Duration = Duration::from_millis(250);
/// How often it looks at least.
const LONGEST: Duration = Duration::from_secs(60);

/// Which tasks' folders are here without their tasks, and since when.
pub(super) struct Cleanup {
    /// How long they are kept.
    delay: Duration,
    /// Since when they are alone.
    alone: BTreeMap<TaskId, Instant>,
    /// When to look next.
    next: Instant,
}

impl Cleanup {
    /// Keeps folders for `delay`.
    pub(super) fn new(delay: Duration, now: Instant) -> Self {
        Self { delay, alone: BTreeMap::new(), next: now }
    }

    /// Looks, from time to time, and deletes what has been alone long enough. `ours`: the tasks that are here.
    pub(super) fn turn(
        &mut self,
        dir: &StateDir,
        resources: &Resources,
        ours: impl FnOnce() -> BTreeSet<TaskId>,
        now: Instant,
    ) {
        if now < self.next {
            return;
        }
        self.next = now + (self.delay / 4).clamp(SHORTEST, LONGEST);
        let folders = match dir.task_folders() {
            Ok(folders) => folders,
            Err(error) => {
                tracing::warn!("cannot look for stores of tasks that have moved: {}", super::chain(&error));
                return;
            }
        };
        for task in self.due(&folders, &ours(), now) {
            match dir.remove_task(task, resources) {
                Ok(true) => {
                    tracing::info!(%task, after = ?self.delay, "the task is another instance's: its stores here are deleted");
                }
                Ok(false) => {}
                Err(error) => tracing::warn!(%task, "cannot delete its stores: {}", super::chain(&error)),
            }
        }
    }

    /// The tasks among `folders` that have been alone for the delay, now that `ours` are here.
    fn due(&mut self, folders: &[TaskId], ours: &BTreeSet<TaskId>, now: Instant) -> Vec<TaskId> {
        let before = std::mem::take(&mut self.alone);
        let alone = folders.iter().filter(|task| !ours.contains(task));
        self.alone = alone.map(|task| (*task, before.get(task).copied().unwrap_or(now))).collect();
        let due = self.alone.iter().filter(|(_, since)| now.saturating_duration_since(**since) >= self.delay);
        due.map(|(task, _)| *task).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Task 0_`partition`.
    fn task(partition: i32) -> TaskId {
        TaskId { subtopology: 0, partition }
    }

    #[test]
    fn a_folder_is_kept_for_the_delay_and_anew_after_each_return() {
        let (start, delay) = (Instant::now(), Duration::from_secs(600));
        let mut cleanup = Cleanup::new(delay, start);
        let mut due = |folders: &[i32], ours: &[i32], seconds: u64| {
            let folders: Vec<TaskId> = folders.iter().copied().map(task).collect();
            let ours = ours.iter().copied().map(task).collect();
            let due = cleanup.due(&folders, &ours, start + Duration::from_secs(seconds));
            due.into_iter().map(|task| task.partition).collect::<Vec<_>>()
        };
        assert_eq!(due(&[0, 1, 2], &[0], 0), [0; 0]);
        assert_eq!(due(&[0, 1, 2], &[0], 599), [0; 0]);
        // 2 comes back for a while.
        assert_eq!(due(&[0, 1, 2], &[0, 2], 600), [1]);
        assert_eq!(due(&[0, 2], &[0], 700), [0; 0]);
        assert_eq!(due(&[0, 2], &[], 1299), [0; 0]);
        assert_eq!(due(&[0, 2], &[], 1300), [2]);
        assert_eq!(due(&[0], &[], 1899), [0]);
    }

    #[test]
    fn it_looks_and_deletes() {
        let root = tempfile::tempdir().unwrap();
        let dir = StateDir::open(root.path(), "app").unwrap();
        let resources = Resources::new(1 << 20, 1);
        for partition in 0..3 {
            drop(crate::store::TaskStores::open(&dir.task_dir(task(partition)), &[], &resources).unwrap());
        }
        let start = Instant::now();
        let mut cleanup = Cleanup::new(Duration::from_secs(1), start);
        cleanup.turn(&dir, &resources, || BTreeSet::from([task(1)]), start);
        cleanup.turn(&dir, &resources, || unreachable!("it is too early to look again"), start + SHORTEST / 2);
        assert_eq!(dir.task_folders().unwrap().len(), 3);
        cleanup.turn(&dir, &resources, || BTreeSet::from([task(1)]), start + Duration::from_secs(1));
        assert_eq!(dir.task_folders().unwrap(), [task(1)]);
    }
}
