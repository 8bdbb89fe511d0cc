//! What a task says of itself.

use std::time::Instant;

use crate::model::{PartitionStatus, TaskStatus};
use crate::task::{RecordQueue, StreamTask};

use super::ActiveTask;
use crate::runtime::memory::ThreadMemory;

impl ActiveTask {
    /// What it holds in memory.
    pub(in crate::runtime) fn memory(&self) -> ThreadMemory {
        let queues = self.task.iter().flat_map(|task| task.queues()).map(RecordQueue::bytes).sum::<usize>();
        ThreadMemory {
            overlays: self.overlay_bytes() as u64,
            queues: queues as u64,
            memory_stores: self.stores.memory_bytes(),
        }
    }

    /// What `/v1/status` says of it.
    pub(in crate::runtime) fn status(&self, thread: usize, now: Instant) -> TaskStatus {
        let positions = self.stream_positions();
        let inputs = self
            .streams
            .iter()
            .map(|stream| {
                let position = positions.get(&stream.partition).copied().unwrap_or(0);
                let end = self.instance.prober.end(&stream.partition);
                let queue = self.task.as_ref().and_then(|task| task.queues().get(stream.source));
                PartitionStatus {
                    topic: stream.partition.topic.to_string(),
                    partition: stream.partition.partition,
                    position,
                    end,
                    lag: end.map(|end| (end - position).max(0)),
                    buffered: queue.map_or(0, RecordQueue::len),
                }
            })
            .collect();
        TaskStatus {
            task: self.id.to_string(),
            thread,
            state: self.state,
            reason: self.reason.clone(),
            restore: self.restores(now).collect(),
            inputs,
            processed: self.before + self.task.as_ref().map_or(0, StreamTask::processed),
            dropped: self
                .task
                .iter()
                .flat_map(|task| &task.tally().dropped)
                .map(|(of, n)| ((*of).to_owned(), *n))
                .collect(),
            generation: self.checkpoint.generation,
        }
    }
}
