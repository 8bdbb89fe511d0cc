//! A task's part in its thread's commits.

use std::collections::BTreeMap;

use crate::model::{CommitId, Generation, Logic, StateWrite, StoreIndex, TopicPartition};
use crate::node::Output;
use crate::task::{StreamTask, TaskError};

use super::ActiveTask;

impl ActiveTask {
    /// Hands on what waits for the commit.
    pub(in crate::runtime) fn emit_pending(&mut self, logic: &mut dyn Logic) -> Result<Vec<Output>, TaskError> {
        self.task.as_mut().map_or(Ok(Vec::new()), |task| task.emit_pending(logic))
    }

    /// Whether the thread's commits concern it. Not as long as it isn't checked that the group has no offsets for it and the state
    /// knows of none: with a commit the group would have some, and nothing would keep the next member from counting again.
    pub(in crate::runtime) fn takes_part(&self) -> bool {
        !self.uncommitted
    }

    /// Whether a commit would change something.
    pub(in crate::runtime) fn is_dirty(&self) -> bool {
        if !self.takes_part() {
            return false;
        }
        let behind = || self.checkpoint.ahead || self.stream_positions() != self.checkpoint.streams;
        self.task.as_ref().is_some_and(|task| task.is_dirty() || behind())
    }

    /// Bytes of uncommitted state.
    pub(in crate::runtime) fn overlay_bytes(&self) -> usize {
        self.task.as_ref().map_or(0, StreamTask::uncommitted_bytes)
    }

    /// Whether the partition is one of its streams.
    pub(in crate::runtime) fn reads(&self, partition: &TopicPartition) -> bool {
        self.streams.iter().any(|stream| stream.partition == *partition)
    }

    /// The next offset of each stream partition.
    pub(in crate::runtime) fn stream_positions(&self) -> BTreeMap<TopicPartition, i64> {
        let positions = self.task.as_ref().map_or_else(|| self.starts.clone(), StreamTask::positions);
        self.streams
            .iter()
            .filter_map(|stream| Some((stream.partition.clone(), *positions.get(stream.source)?)))
            .collect()
    }

    /// Uncommitted writes, each with the changelog it goes to (none for a table's row).
    pub(in crate::runtime) fn writes(&self) -> impl Iterator<Item = (&StateWrite, Option<&TopicPartition>)> {
        let writes = self.task.as_ref().map(|task| task.overlay().writes()).unwrap_or_default();
        writes.iter().map(|write| (write, self.changelog(write.store)))
    }

    /// The changelog partition of a store, if it has one of its own.
    pub(in crate::runtime) fn changelog(&self, store: StoreIndex) -> Option<&TopicPartition> {
        self.feeds.get(usize::from(store.0)).filter(|feed| feed.is_changelog()).map(|feed| &feed.partition)
    }

    /// The generation to leave with a commit under plugins of `active`: a task that doesn't run under them keeps its own.
    pub(in crate::runtime) fn committed_generation(&self, active: Generation) -> Generation {
        if self.task.is_some() { self.generation.max(active) } else { self.generation }
    }

    /// The commit went through: applies the overlay to the stores with the checkpoint that belongs to it.
    ///
    /// `changelogs`: the position after this commit's records, for each changelog that has some. On an error the stores are
    /// at the commit before, and the task is at an end: only a restore brings them forward.
    pub(in crate::runtime) fn committed(
        &mut self,
        changelogs: &[(TopicPartition, i64)],
        commit: &CommitId,
        generation: Generation,
    ) -> Result<(), String> {
        let generation = self.committed_generation(generation);
        let mut checkpoint = self.checkpoint.clone();
        checkpoint.streams = self.stream_positions();
        for stream in &mut self.streams {
            if let (Some(start), Some(at)) =
                (self.starts.get_mut(stream.source), checkpoint.streams.get(&stream.partition))
            {
                *start = *at;
                stream.committed = Some(*at);
            }
        }
        let Some(task) = &mut self.task else { return Ok(()) };
        let positions = task.positions();
        for feed in &self.feeds {
            if let Some(position) = feed.source.and_then(|source| positions.get(source)) {
                checkpoint.tables.insert(feed.partition.clone(), *position);
            }
        }
        for (partition, position) in changelogs {
            checkpoint.tables.insert(partition.clone(), *position);
        }
        checkpoint.ahead = false;
        checkpoint.commit = commit.clone();
        checkpoint.generation = generation;
        self.generation = generation;
        if let Err(error) = self.stores.commit(task.overlay().writes(), &checkpoint) {
            self.before += task.processed();
            self.task = None;
            return Err(crate::runtime::chain(&error));
        }
        self.checkpoint = checkpoint;
        task.committed();
        Ok(())
    }
}
