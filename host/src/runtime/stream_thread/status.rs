//! What a stream thread says of itself and its tasks.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::kafka;
use crate::model::{Generation, TaskId, TaskState, TaskStatus};

use super::{ActiveTask, PUBLISH, StreamThread};
use crate::runtime::memory::ThreadMemory;

impl StreamThread {
    /// Notes that a task is not open.
    pub(super) fn unopened(&mut self, id: TaskId, reason: String) {
        tracing::error!(task = %id, "cannot open the task: {reason}");
        self.instance.barrier(|barrier| barrier.closed(id));
        self.instance.wake_all();
        self.unopened.push(TaskStatus {
            task: id.to_string(),
            thread: self.index,
            state: TaskState::Failed,
            reason,
            restore: Vec::new(),
            inputs: Vec::new(),
            processed: 0,
            dropped: BTreeMap::new(),
            generation: Generation::default(),
        });
    }

    /// Says what is wrong, in the log and in the status.
    pub(super) fn tell(&self, doing: &str, error: &kafka::Error) {
        let trouble = format!("{doing}: {}", crate::runtime::chain(error));
        tracing::warn!("{}: {trouble}", self.name);
        self.instance.shared.set_trouble(&self.name, Some(trouble));
    }

    /// Publishes the tasks' status.
    pub(super) fn publish(&mut self, now: Instant) {
        self.next_publish = now + PUBLISH;
        let memory = self.tasks.values().map(ActiveTask::memory).fold(ThreadMemory::default(), ThreadMemory::plus);
        self.instance.shared.memory.tell(self.index, memory);
        let mut tasks: Vec<TaskStatus> = self.tasks.values().map(|task| task.status(self.index, now)).collect();
        tasks.extend(self.unopened.iter().cloned());
        self.instance.shared.publish(self.index, tasks);
        self.instance.shared.hear(self.index, now);
    }
}
