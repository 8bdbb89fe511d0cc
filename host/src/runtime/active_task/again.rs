//! Beginning again, and ending.

use std::sync::Arc;
use std::time::Instant;

use crate::model::{TaskState, TopicPartition};

use super::ActiveTask;
use crate::runtime::edge::Stores;

impl ActiveTask {
    /// Tries again what stopped it, under new plugins.
    pub(in crate::runtime) fn retry(&mut self, now: Instant) {
        if self.state != TaskState::Failed {
            return;
        }
        if let Some(task) = self.task.as_mut().filter(|task| task.failure().is_some()) {
            task.retry();
            self.reason.clear();
            self.to(TaskState::Running);
        } else if std::mem::take(&mut self.stopped_at_commit) {
            self.opened = now;
            self.reason.clear();
            self.to(TaskState::Created);
        }
    }

    /// Stops it for what it wanted to hand on at a commit. It has been rewound: nobody knows which record is to blame.
    pub(in crate::runtime) fn stop_at_commit(&mut self, reason: String) {
        self.stopped_at_commit = true;
        self.fail(reason);
    }

    /// Drops everything since the last commit and begins again from there. Returns the offsets to seek to.
    ///
    /// For others it stays as full as it was: a task that ran keeps nobody at the barrier.
    pub(in crate::runtime) fn rewind(&mut self, now: Instant) -> Vec<(TopicPartition, i64)> {
        if let Some(task) = self.task.take() {
            self.before += task.processed();
        }
        for feed in &mut self.feeds {
            if let Err(reason) = feed.reset(&self.instance) {
                self.fail(reason);
                return Vec::new();
            }
        }
        self.opened = now;
        self.gave_up = false;
        self.reason.clear();
        self.state = TaskState::Created;
        let start = |source: usize| self.starts.get(source).copied();
        self.streams.iter().filter_map(|stream| Some((stream.partition.clone(), start(stream.source)?))).collect()
    }

    /// Closes the task: what was restored is kept, what was not committed is dropped. Returns the stores, for
    /// its return; not those of a task that has failed, which may be what has failed.
    pub(in crate::runtime) fn close(mut self, now: Instant) -> Option<Arc<dyn Stores>> {
        if matches!(self.state, TaskState::Restoring)
            && let Err(reason) = self.persist(now)
        {
            tracing::warn!(task = %self.id, "closing: {reason}");
        }
        for feed in &mut self.feeds {
            self.instance.catalog.close(&feed.name, self.id.partition);
            if let Err(reason) = feed.close(&self.instance) {
                tracing::warn!(task = %self.id, "closing: {reason}");
            }
        }
        // Before the stores: whoever can open these may open the queues, and must find nobody who still empties them.
        self.streams.clear();
        self.instance.barrier(|barrier| barrier.closed(self.id));
        self.instance.wake_all();
        (self.state != TaskState::Failed).then_some(self.stores)
    }
}
