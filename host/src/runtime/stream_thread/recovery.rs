//! After a commit that failed: what became of it, and back to the last one that went through.

use std::time::Duration;

use super::StreamThread;
use crate::fault;
use crate::kafka;
use crate::model::{TaskState, TopicPartition};
use crate::task::CommitMetadata;

/// How long a question about committed offsets may take.
const COMMITTED_TIMEOUT: Duration = Duration::from_secs(10);

/// Attempts to set a stream back, before its task stops.
const SEEKS: usize = 5;
/// How long setting streams back may take.
const SEEK_TIMEOUT: Duration = Duration::from_secs(5);

impl StreamThread {
    /// Finds out what became of the last commit, by what the group has.
    pub(super) fn resolve(&mut self) -> Result<(), kafka::Error> {
        let Some(attempt) = &self.unresolved else { return Ok(()) };
        fault::point("recovery.asking");
        let took_part = |id| attempt.positions.as_ref().is_none_or(|positions| positions.contains_key(id));
        let tasks = self.tasks.iter().filter(|(id, _)| took_part(id));
        let partitions: Vec<TopicPartition> = tasks.flat_map(|(_, task)| task.stream_positions().into_keys()).collect();
        let committed = self.instance.source.committed(&partitions, COMMITTED_TIMEOUT)?;
        let went_through = !committed.is_empty()
            && committed
                .iter()
                .all(|of| CommitMetadata::decode(&of.metadata).is_some_and(|found| found.commit == attempt.commit));
        let positions = attempt.positions.clone().filter(|_| went_through);
        let commit = attempt.commit.clone();
        self.unresolved = None;
        match positions {
            Some(positions) => {
                tracing::info!("{}: the last commit went through", self.name);
                self.apply(&commit, &positions);
            }
            None => {
                tracing::warn!("{}: the last commit did not go through; its records are processed again", self.name);
                self.instance.counters.commits.failed.inc();
                self.rewind();
            }
        }
        fault::point("recovery.resolved");
        Ok(())
    }

    /// Goes back to the last commit, with all tasks; their streams follow before anything is processed.
    pub(super) fn rewind(&mut self) {
        let now = self.instance.now();
        self.seek.clear();
        self.seeks = 0;
        for task in self.tasks.values_mut() {
            if !matches!(task.state(), TaskState::Failed) || task.stream_task().is_some() {
                self.seek.extend(task.rewind(now));
            }
        }
        self.next_connect = now;
    }

    /// Sets streams back. One that cannot be set back is not being read: its task stops, and the others go on.
    pub(super) fn seek(&mut self) -> Result<(), kafka::Error> {
        if self.seek.is_empty() {
            return Ok(());
        }
        let mut refused = self.instance.source.seek(&self.seek, SEEK_TIMEOUT)?;
        self.seek.retain(|(partition, _)| refused.iter().any(|(of, _)| of == partition));
        self.seeks += 1;
        if self.seeks < SEEKS && !refused.is_empty() {
            return Err(refused.swap_remove(0).1);
        }
        for (partition, error) in refused {
            let reason = format!("{partition} is not being read: {}", crate::runtime::chain(&error));
            for task in self.tasks.values_mut().filter(|task| task.reads(&partition)) {
                task.fail(reason.clone());
            }
        }
        self.seek.clear();
        self.seeks = 0;
        fault::point("recovery.sought");
        Ok(())
    }
}
