//! A task as its thread has it: the task, its stores, and the partitions that feed it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crate::kafka::{self, LogRange, PartitionQueue};
use crate::model::{
    Checkpoint, Entry, Generation, Logic, PartitionStatus, Record, StateWrite, StoreIndex, TaskId, TaskState,
    TaskStatus, TopicPartition,
};
use crate::node::Output;
use crate::plan::{BarrierScope, SourceKind, StoreOrigin};
use crate::restore::Progress;
use crate::store::TaskStores;
use crate::task::{RecordQueue, StreamTask, TaskError, may_follow};

use super::event::OpenTask;
use super::instance::Instance;

/// Most records that one fetch takes.
const FETCH_RECORDS: usize = 2000;
/// Rounds of fetches in one restore turn, so that events are not kept waiting.
const RESTORE_ROUNDS: usize = 8;

/// A table or changelog partition that fills a store.
struct Feed {
    /// The store.
    store: StoreIndex,
    /// The store's name.
    name: String,
    /// The table's source; `None`: a changelog.
    source: Option<usize>,
    /// The partition.
    partition: TopicPartition,
    /// Its records; `None`: not opened yet, or (a changelog) read to its end.
    queue: Option<PartitionQueue>,
    /// How far the restore is; `None`: the log's range isn't known yet.
    progress: Option<Progress>,
    /// When its range was asked for last, while the answer matters.
    asked: Option<Instant>,
}

/// A stream partition of the task.
struct Stream {
    /// Index of its source.
    source: usize,
    /// The partition.
    partition: TopicPartition,
    /// Its records.
    queue: PartitionQueue,
}

/// A task of this thread.
pub(super) struct ActiveTask {
    /// Its id.
    pub(super) id: TaskId,
    /// What it shares with the instance.
    instance: Arc<Instance>,
    /// Its stores.
    pub(super) stores: Arc<TaskStores>,
    /// What the stores contain.
    pub(super) checkpoint: Checkpoint,
    /// Where it is.
    state: TaskState,
    /// Why it waits or stopped, for people.
    reason: String,
    /// Tables and changelogs.
    feeds: Vec<Feed>,
    /// Streams.
    streams: Vec<Stream>,
    /// The task, from Running on.
    task: Option<StreamTask>,
    /// Offsets at which streams start, by source.
    starts: Vec<i64>,
    /// It must not process under an older generation.
    generation: Generation,
    /// When it was opened.
    opened: Instant,
    /// When restored rows were made durable last.
    persisted: Instant,
    /// Records processed and dropped in earlier lives of `task`.
    before: u64,
    /// Fetched records on their way.
    buffer: VecDeque<Record>,
}

/// What a turn of a task gave.
pub(super) enum Turn {
    /// Nothing to do now.
    Idle,
    /// Something was done.
    Busy(Vec<Output>),
}

impl ActiveTask {
    /// Opens a task's stores and gives its streams their queues. Returns it with the offsets to assign.
    pub(super) fn open(
        instance: &Arc<Instance>,
        open: OpenTask,
        waker: &kafka::Waker,
        now: Instant,
    ) -> Result<(Self, Vec<(TopicPartition, i64)>), String> {
        let id = open.id;
        let Some(part) = instance.plan.subtopologies.get(id.subtopology as usize) else {
            return Err(format!("the topology has no sub-topology {}", id.subtopology));
        };
        let specs = instance.store_specs(part);
        let stores = TaskStores::open(&instance.state_dir.task_dir(id), &specs, &instance.resources)
            .map_err(|error| super::chain(&error))?;
        let stores = Arc::new(stores);
        let checkpoint = stores.checkpoint();

        let mut starts = vec![0; part.sources.len()];
        let mut streams = Vec::new();
        let mut assigned = Vec::new();
        let mut generation = checkpoint.generation;
        for stream in open.streams {
            // The group's offset decides. The store's copy replaces one that has expired, and checks the other.
            let stored = checkpoint.streams.get(&stream.partition).copied();
            let at = match (stream.committed, stored) {
                (Some(committed), Some(stored)) if stored > committed => {
                    return Err(format!(
                        "the state in {} contains {} up to offset {stored}, but the group {} is committed at \
                         {committed}: records in between would count twice; set the group's offset to {stored}, or \
                         delete the folder and the changelogs to start over",
                        instance.state_dir.task_dir(id).display(),
                        stream.partition,
                        instance.plan.app_id,
                    ));
                }
                (Some(committed), _) => committed,
                (None, Some(stored)) => stored,
                (None, None) => stream.initial,
            };
            if let Some(metadata) = &stream.metadata {
                generation = generation.max(metadata.generation);
            }
            if let Some(start) = starts.get_mut(stream.source) {
                *start = at;
            }
            let queue = instance.source.split(&stream.partition, Arc::clone(waker)).map_err(|e| super::chain(&e))?;
            streams.push(Stream { source: stream.source, partition: stream.partition.clone(), queue });
            assigned.push((stream.partition, at));
        }

        let mut feeds = Vec::new();
        for (index, store) in part.stores.iter().enumerate() {
            let index = StoreIndex(u16::try_from(index).map_err(|_| "too many stores".to_owned())?);
            let source = part.sources.iter().position(|source| source.kind == SourceKind::Table(index));
            let source = match store.origin {
                StoreOrigin::Table { .. } => source,
                StoreOrigin::Changelog { .. } => None,
            };
            feeds.push(Feed {
                store: index,
                name: store.name.clone(),
                source,
                partition: TopicPartition::new(store.origin.topic(), id.partition),
                queue: None,
                progress: None,
                asked: None,
            });
            let kind = if source.is_some() { "table" } else { "aggregate" };
            instance.catalog.open(&store.name, kind, id.partition, Arc::clone(&stores), index);
        }
        instance.barrier(|barrier| barrier.opened(id));
        let task = Self {
            id,
            instance: Arc::clone(instance),
            stores,
            checkpoint,
            state: TaskState::Created,
            reason: String::new(),
            feeds,
            streams,
            task: None,
            starts,
            generation,
            opened: now,
            persisted: now,
            before: 0,
            buffer: VecDeque::new(),
        };
        Ok((task, assigned))
    }

    /// A task that could not be opened; it only tells why.
    pub(super) fn state(&self) -> TaskState {
        self.state
    }

    /// The task, when it runs (or has stopped with a failure).
    pub(super) fn stream_task(&mut self) -> Option<&mut StreamTask> {
        self.task.as_mut()
    }

    /// Does what there is to do for a moment.
    pub(super) fn turn(
        &mut self,
        logic: &mut dyn Logic,
        active: Generation,
        waker: &kafka::Waker,
        ask: &mut dyn FnMut(TaskId, TopicPartition),
        now: Instant,
    ) -> Turn {
        let turn = match self.state {
            TaskState::Created => self.ask_ranges(ask, now).map(|()| Turn::Idle),
            TaskState::Restoring => self.restore(ask, now),
            TaskState::WaitingForPeers => self.wait(active, now),
            TaskState::Running => self.run(logic),
            TaskState::Failed | TaskState::Closed => Ok(Turn::Idle),
        };
        let turn = match turn {
            Ok(turn) => turn,
            Err(reason) => {
                self.fail(reason);
                Turn::Idle
            }
        };
        let _ = waker;
        turn
    }

    /// Stops the task, with the reason; its partitions keep their offsets.
    pub(super) fn fail(&mut self, reason: String) {
        tracing::error!(task = %self.id, "task stopped: {reason}");
        self.reason = reason;
        self.to(TaskState::Failed);
    }

    /// Changes the state.
    fn to(&mut self, state: TaskState) {
        if self.state == state {
            return;
        }
        debug_assert!(may_follow(self.state, state), "{:?} -> {state:?}", self.state);
        tracing::debug!(task = %self.id, from = ?self.state, to = ?state, "state");
        self.state = state;
    }

    /// Asks for the ranges of feeds that aren't restored; again from time to time while they are read.
    fn ask_ranges(&mut self, ask: &mut dyn FnMut(TaskId, TopicPartition), now: Instant) -> Result<(), String> {
        if self.feeds.is_empty() {
            self.to(TaskState::Restoring);
            return Ok(());
        }
        for feed in &mut self.feeds {
            let done = feed.progress.as_ref().is_some_and(Progress::done);
            let due = feed.asked.is_none_or(|asked| now.duration_since(asked) > self.instance.options.probe_interval);
            if !done && due {
                feed.asked = Some(now);
                ask(self.id, feed.partition.clone());
            }
        }
        self.check_timeout(now)
    }

    /// An answer: opens the feed at its checkpoint, or tells its progress where the end is now.
    pub(super) fn log_range(
        &mut self,
        partition: &TopicPartition,
        range: Result<LogRange, String>,
        waker: &kafka::Waker,
        now: Instant,
    ) {
        let range = match range {
            Ok(range) => range,
            Err(error) => {
                self.reason = format!("cannot ask the broker for the end of {partition}: {error}");
                if let Some(feed) = self.feeds.iter_mut().find(|feed| feed.partition == *partition) {
                    // Ask again at the next turn.
                    feed.asked = Some(now);
                }
                return;
            }
        };
        if !matches!(self.state, TaskState::Created | TaskState::Restoring) {
            return;
        }
        let Some(feed) = self.feeds.iter_mut().find(|feed| feed.partition == *partition) else { return };
        if let Some(progress) = &mut feed.progress {
            progress.log_range(range.begin, range.end);
            return;
        }
        let from = self.checkpoint.tables.get(partition).copied();
        let start = match from {
            Some(at) if at >= range.begin && at <= range.end => at,
            Some(at) => {
                tracing::warn!(
                    task = %self.id, %partition, checkpoint = at, begin = range.begin, end = range.end,
                    "the store's checkpoint is outside the log: the store is read anew from the beginning"
                );
                range.begin
            }
            None => range.begin,
        };
        if from != Some(start) {
            if let Err(error) = self.stores.clear(feed.store) {
                let reason = super::chain(&error);
                self.fail(reason);
                return;
            }
            self.checkpoint.tables.remove(partition);
        }
        let mut progress = Progress::new(feed.name.clone(), partition.clone(), start, now);
        progress.log_range(range.begin, range.end);
        match self.instance.reader.open(&[(partition.clone(), start)], waker) {
            Ok(mut queues) => feed.queue = queues.pop(),
            Err(error) => {
                let reason = super::chain(&error);
                self.fail(reason);
                return;
            }
        }
        feed.progress = Some(progress);
        if self.state == TaskState::Created && self.feeds.iter().all(|feed| feed.progress.is_some()) {
            self.reason.clear();
            self.to(TaskState::Restoring);
        }
    }

    /// Whether tables are not waited for.
    fn tables_may_lag(&self) -> bool {
        self.instance.options.barrier.scope == BarrierScope::Off || self.instance.barrier(|barrier| barrier.given_up())
    }

    /// Reads feeds into the stores, until all of them are at their ends.
    fn restore(&mut self, ask: &mut dyn FnMut(TaskId, TopicPartition), now: Instant) -> Result<Turn, String> {
        self.ask_ranges(ask, now)?;
        let lag = self.tables_may_lag();
        let mut busy = false;
        for _ in 0..RESTORE_ROUNDS {
            let mut more = false;
            for index in 0..self.feeds.len() {
                if lag && self.feeds.get(index).is_some_and(|feed| feed.source.is_some()) {
                    continue;
                }
                more |= self.restore_feed(index)?;
            }
            busy |= more;
            if !more {
                break;
            }
        }
        let done = self
            .feeds
            .iter()
            .all(|feed| (lag && feed.source.is_some()) || feed.progress.as_ref().is_some_and(Progress::done));
        if done {
            self.finish_restore(now)?;
            return Ok(Turn::Busy(Vec::new()));
        }
        if now.duration_since(self.persisted) > self.instance.options.persist_interval {
            self.persist(now)?;
        }
        Ok(if busy { Turn::Busy(Vec::new()) } else { Turn::Idle })
    }

    /// Takes what a feed has now into its store. `true`: there may be more at once.
    fn restore_feed(&mut self, index: usize) -> Result<bool, String> {
        let Some(feed) = self.feeds.get_mut(index) else { return Ok(false) };
        let (Some(queue), Some(progress)) = (&mut feed.queue, &mut feed.progress) else { return Ok(false) };
        if progress.done() {
            return Ok(false);
        }
        self.buffer.clear();
        let polled = queue
            .poll(FETCH_RECORDS, self.instance.options.fetch_bytes, &mut self.buffer)
            .map_err(|error| super::chain(&error))?;
        if let Some(last) = self.buffer.back() {
            let position = last.offset + 1;
            let records = self.buffer.len() as u64;
            let store = feed.store;
            let version = self.instance.state_version(self.id, store);
            let writes: Vec<StateWrite> =
                self.buffer.drain(..).filter_map(|record| restored(store, version, record)).collect();
            self.stores.restore(&writes).map_err(|error| super::chain(&error))?;
            progress.applied(position, records);
        }
        if let Some(end) = polled.end {
            progress.end_of_partition(end);
        }
        if progress.done() && feed.source.is_none() {
            // Its own writes come next; nobody else writes it.
            self.instance.reader.close(std::slice::from_ref(&feed.partition)).map_err(|e| super::chain(&e))?;
            feed.queue = None;
        }
        Ok(polled.records > 0)
    }

    /// Makes what was restored durable, with how far it is.
    fn persist(&mut self, now: Instant) -> Result<(), String> {
        for feed in &self.feeds {
            if let Some(progress) = &feed.progress {
                self.checkpoint.tables.insert(feed.partition.clone(), progress.position());
            }
        }
        self.persisted = now;
        self.stores.persist(&self.checkpoint).map_err(|error| super::chain(&error))
    }

    /// The stores are full: from here on rows go through the task.
    fn finish_restore(&mut self, now: Instant) -> Result<(), String> {
        self.persist(now)?;
        self.instance.barrier(|barrier| barrier.full(self.id));
        self.instance.wake_all();
        let records: u64 = self.feeds.iter().filter_map(|f| f.progress.as_ref()).map(Progress::records).sum();
        let seconds = now.duration_since(self.opened).as_secs_f64();
        tracing::info!(task = %self.id, records, seconds, "restored");
        self.to(TaskState::WaitingForPeers);
        Ok(())
    }

    /// Fails the task, or lets everyone go on, when tables are not full in time.
    fn check_timeout(&mut self, now: Instant) -> Result<(), String> {
        let barrier = self.instance.options.barrier;
        let Some(timeout) = barrier.timeout.filter(|timeout| now.duration_since(self.opened) > *timeout) else {
            return Ok(());
        };
        match barrier.on_timeout {
            crate::plan::OnTimeout::Proceed => {
                if self.instance.barrier(crate::task::Barrier::give_up) {
                    tracing::warn!(task = %self.id, ?timeout, "tables are not full in time; going on without");
                }
                Ok(())
            }
            crate::plan::OnTimeout::Fail => {
                let waits: Vec<String> = self
                    .feeds
                    .iter()
                    .filter_map(|feed| feed.progress.as_ref().map(|progress| progress.status(now)))
                    .filter(|status| !status.done)
                    .map(|status| format!("{}: {}", status.store, status.waits_for))
                    .collect();
                Err(format!("tables are not full after {timeout:?} (barrier.timeout): {}", waits.join("; ")))
            }
        }
    }

    /// Runs when the barrier is open and the plugins are new enough.
    fn wait(&mut self, active: Generation, now: Instant) -> Result<Turn, String> {
        if let Some(reason) = self.instance.barrier(|barrier| barrier.waits_for(self.id)) {
            self.reason = reason;
            self.check_timeout(now)?;
            return Ok(Turn::Idle);
        }
        if active < self.generation {
            self.reason = format!(
                "its partitions were processed under plugin generation {}; this instance has {active} and waits",
                self.generation
            );
            return Ok(Turn::Idle);
        }
        let mut positions = self.starts.clone();
        for feed in &self.feeds {
            if let (Some(source), Some(progress)) = (feed.source, &feed.progress)
                && let Some(slot) = positions.get_mut(source)
            {
                *slot = progress.position();
            }
        }
        let stores: Arc<TaskStores> = Arc::clone(&self.stores);
        self.task = StreamTask::new(
            self.id,
            Arc::clone(&self.instance.plan),
            self.instance.options.task,
            stores,
            self.instance.global_tables(),
            &positions,
        );
        self.reason.clear();
        self.to(TaskState::Running);
        self.instance.wake_all();
        Ok(Turn::Busy(Vec::new()))
    }

    /// Fills the queues and takes a step.
    fn run(&mut self, logic: &mut dyn Logic) -> Result<Turn, String> {
        let Some(task) = &mut self.task else { return Ok(Turn::Idle) };
        let quota = self.instance.options.fetch_bytes;
        let mut fetched = 0;
        for feed in &mut self.feeds {
            if let (Some(source), Some(queue)) = (feed.source, &mut feed.queue) {
                let (count, end) = fill(task, source, queue, quota, &mut self.buffer)?;
                fetched += count;
                if let (Some(progress), true) = (&mut feed.progress, count > 0 || end.is_some()) {
                    follow(progress, task.queues().get(source), count);
                }
            }
        }
        for stream in &mut self.streams {
            fetched += fill(task, stream.source, &mut stream.queue, quota, &mut self.buffer)?.0;
        }
        let step = task.step(logic).map_err(|error| super::chain(&error))?;
        if let Some(failure) = task.failure() {
            let reason = failure.to_string();
            self.fail(reason);
            return Ok(Turn::Busy(step.outputs));
        }
        Ok(if fetched == 0 && step.is_idle() { Turn::Idle } else { Turn::Busy(step.outputs) })
    }

    /// Tries again after a failure of a record, under new plugins.
    pub(super) fn retry(&mut self) {
        if self.state == TaskState::Failed
            && let Some(task) = &mut self.task
            && task.failure().is_some()
        {
            task.retry();
            self.reason.clear();
            self.to(TaskState::Running);
        }
    }

    /// Hands on what waits for the commit.
    pub(super) fn emit_pending(&mut self, logic: &mut dyn Logic) -> Result<Vec<Output>, TaskError> {
        self.task.as_mut().map_or(Ok(Vec::new()), |task| task.emit_pending(logic))
    }

    /// Whether a commit would change something.
    pub(super) fn is_dirty(&self) -> bool {
        self.task.as_ref().is_some_and(|task| task.is_dirty() || self.stream_positions() != self.checkpoint.streams)
    }

    /// Bytes of uncommitted state.
    pub(super) fn overlay_bytes(&self) -> usize {
        self.task.as_ref().map_or(0, |task| task.overlay().bytes())
    }

    /// The next offset of each stream partition.
    pub(super) fn stream_positions(&self) -> std::collections::BTreeMap<TopicPartition, i64> {
        let positions = self.task.as_ref().map_or_else(|| self.starts.clone(), StreamTask::positions);
        self.streams
            .iter()
            .filter_map(|stream| Some((stream.partition.clone(), *positions.get(stream.source)?)))
            .collect()
    }

    /// Uncommitted writes, each with the changelog it goes to (none for a table's row).
    pub(super) fn writes(&self) -> impl Iterator<Item = (&StateWrite, Option<&TopicPartition>)> {
        let writes = self.task.as_ref().map(|task| task.overlay().writes()).unwrap_or_default();
        writes.iter().map(|write| (write, self.changelog(write.store)))
    }

    /// The changelog partition of a store, if it has one of its own.
    pub(super) fn changelog(&self, store: StoreIndex) -> Option<&TopicPartition> {
        self.feeds.get(usize::from(store.0)).filter(|feed| feed.source.is_none()).map(|feed| &feed.partition)
    }

    /// The commit went through: applies the overlay to the stores with the checkpoint that belongs to it.
    ///
    /// `changelogs`: the position after this commit's records, for each changelog that has some.
    pub(super) fn committed(
        &mut self,
        changelogs: &[(TopicPartition, i64)],
        commit: &crate::model::CommitId,
        generation: Generation,
    ) -> Result<(), String> {
        self.checkpoint.streams = self.stream_positions();
        let Some(task) = &mut self.task else { return Ok(()) };
        let positions = task.positions();
        for feed in &self.feeds {
            if let Some(position) = feed.source.and_then(|source| positions.get(source)) {
                self.checkpoint.tables.insert(feed.partition.clone(), *position);
            }
        }
        for (partition, position) in changelogs {
            self.checkpoint.tables.insert(partition.clone(), *position);
        }
        self.checkpoint.commit = commit.clone();
        self.checkpoint.generation = generation;
        self.generation = self.generation.max(generation);
        self.stores.commit(task.overlay().writes(), &self.checkpoint).map_err(|error| super::chain(&error))?;
        task.committed();
        Ok(())
    }

    /// Drops everything since the last commit and begins again from there. Returns the offsets to seek to.
    pub(super) fn rewind(&mut self, now: Instant) -> Vec<(TopicPartition, i64)> {
        if let Some(task) = self.task.take() {
            self.before += task.processed();
        }
        let open: Vec<TopicPartition> =
            self.feeds.iter().filter(|feed| feed.queue.is_some()).map(|feed| feed.partition.clone()).collect();
        for feed in &mut self.feeds {
            feed.queue = None;
            feed.progress = None;
            feed.asked = None;
        }
        if let Err(error) = self.instance.reader.close(&open) {
            self.fail(super::chain(&error));
            return Vec::new();
        }
        let mut seek = Vec::new();
        for stream in &self.streams {
            let at = self.checkpoint.streams.get(&stream.partition).copied();
            let start = self.starts.get_mut(stream.source);
            if let Some(start) = start {
                *start = at.unwrap_or(*start);
                seek.push((stream.partition.clone(), *start));
            }
        }
        self.instance.barrier(|barrier| barrier.opened(self.id));
        self.opened = now;
        self.state = TaskState::Created;
        seek
    }

    /// Closes the task: what was restored is kept, what was not committed is dropped.
    pub(super) fn close(mut self, now: Instant) {
        if matches!(self.state, TaskState::Restoring)
            && let Err(reason) = self.persist(now)
        {
            tracing::warn!(task = %self.id, "closing: {reason}");
        }
        let open: Vec<TopicPartition> =
            self.feeds.iter().filter(|feed| feed.queue.is_some()).map(|feed| feed.partition.clone()).collect();
        for feed in &mut self.feeds {
            feed.queue = None;
            self.instance.catalog.close(&feed.name, self.id.partition);
        }
        if let Err(error) = self.instance.reader.close(&open) {
            tracing::warn!(task = %self.id, "closing: {}", super::chain(&error));
        }
        self.instance.barrier(|barrier| barrier.closed(self.id));
        self.instance.wake_all();
    }

    /// What `/v1/status` says of it.
    pub(super) fn status(&self, thread: usize, now: Instant) -> TaskStatus {
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
            restore: self.feeds.iter().filter_map(|f| f.progress.as_ref()).map(|p| p.status(now)).collect(),
            inputs,
            processed: self.before + self.task.as_ref().map_or(0, StreamTask::processed),
            dropped: self.task.as_ref().map(|task| task.dropped().clone()).unwrap_or_default(),
            generation: self.checkpoint.generation,
        }
    }
}

/// Fetches into a source's queue while it is under its quota. Returns how many records came, and the end if it was seen.
fn fill(
    task: &mut StreamTask,
    source: usize,
    from: &mut PartitionQueue,
    quota: usize,
    buffer: &mut VecDeque<Record>,
) -> Result<(usize, Option<i64>), String> {
    let Some(queue) = task.queue_mut(source) else { return Ok((0, None)) };
    if queue.bytes() >= quota {
        return Ok((0, None));
    }
    buffer.clear();
    let polled = from.poll(FETCH_RECORDS, quota - queue.bytes(), buffer).map_err(|error| super::chain(&error))?;
    queue.extend(buffer.drain(..), polled.end);
    Ok((polled.records, polled.end))
}

/// Tells a live table's progress where it is, for the status.
fn follow(progress: &mut Progress, queue: Option<&RecordQueue>, records: usize) {
    if let Some(queue) = queue {
        progress.applied(queue.position(), records as u64);
    }
}

/// A record of a table or a changelog as its store keeps it; one without a key is dropped.
fn restored(store: StoreIndex, version: u32, record: Record) -> Option<StateWrite> {
    let Record { key, value, timestamp, .. } = record;
    Some(StateWrite { store, key: key?, entry: value.map(|value| Entry { timestamp, version, value }) })
}
