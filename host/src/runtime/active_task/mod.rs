//! A task as its thread has it: the task, its stores, and the partitions that feed it.

mod again;
mod commit;
mod current;
mod patience;
mod room;
mod starts;
mod status;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crate::fault;
use crate::kafka::{self, LogRange};
use crate::model::{Checkpoint, Generation, Logic, Record, StoreIndex, TaskId, TaskState, TopicPartition};
use crate::node::Output;
use crate::plan::{SourceKind, StoreOrigin};
use crate::restore::Progress;
use crate::store;
use crate::task::{StreamTask, may_follow};

use crate::runtime::edge::{Queue, Stores};
use crate::runtime::event::OpenTask;
use crate::runtime::feed::{FETCH_RECORDS, Feed};
use crate::runtime::instance::Instance;
use crate::runtime::metered;

/// Rounds of fetches in one restore turn, so that events are not kept waiting.
const RESTORE_ROUNDS: usize = 8;

/// A stream partition of the task.
struct Stream {
    /// Index of its source.
    source: usize,
    /// The partition.
    partition: TopicPartition,
    /// What the group has committed for it, as far as this task knows.
    committed: Option<i64>,
    /// Its records.
    queue: Box<dyn Queue>,
}

/// A task of this thread.
pub(in crate::runtime) struct ActiveTask {
    /// Its id.
    pub(in crate::runtime) id: TaskId,
    /// What it shares with the instance.
    instance: Arc<Instance>,
    /// Its stores.
    pub(in crate::runtime) stores: Arc<dyn Stores>,
    /// What the stores contain.
    pub(in crate::runtime) checkpoint: Checkpoint,
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
    /// What the group has committed for streams, by source: there they start, and start again.
    starts: Vec<i64>,
    /// When it was opened, the group had committed nothing for any of its streams; until that is checked.
    uncommitted: bool,
    /// With `on_timeout = "proceed"`: the time for its tables is over, and it goes on without. Only it: others, and later ones, have their
    /// own time.
    gave_up: bool,
    /// It was stopped by what it handed on at a commit.
    stopped_at_commit: bool,
    /// It must not process under an older generation.
    generation: Generation,
    /// When it was opened.
    opened: Instant,
    /// When restored rows were made durable last.
    persisted: Instant,
    /// When to look next whether there is room on the disk.
    next_look: Instant,
    /// When to ask again whether the group has gone on.
    next_question: Instant,
    /// Records processed and dropped in earlier lives of `task`.
    before: u64,
    /// Fetched records on their way.
    buffer: VecDeque<Record>,
}

/// What a turn of a task gave.
pub(in crate::runtime) enum Turn {
    /// Nothing to do now.
    Idle,
    /// Something was done.
    Busy(Vec<Output>),
    /// It has begun again from its last checkpoint: its streams must be set back to these offsets.
    Rewound(Vec<(TopicPartition, i64)>),
}

impl ActiveTask {
    /// Opens a task's stores and gives its streams their queues. Returns it with the offsets to assign.
    pub(in crate::runtime) fn open(
        instance: &Arc<Instance>,
        open: OpenTask,
        waker: &kafka::Waker,
        now: Instant,
    ) -> Result<(Self, Vec<(TopicPartition, i64)>), String> {
        let id = open.id;
        let Some(part) = instance.plan.subtopologies.get(id.subtopology as usize) else {
            return Err(format!("the topology has no sub-topology {}", id.subtopology));
        };
        if !open.missing.is_empty() {
            return Err(format!(
                "the group has not given {} to this instance, which has the task's other partitions: do all instances run \
                 the same topology?",
                open.missing.join(", ")
            ));
        }
        let specs = instance.store_specs(part);
        let stores = match open.stores {
            Some(stores) => stores,
            None => instance.folder.open(id, &specs).map_err(|error| {
                let reason = crate::runtime::chain(&error);
                if matches!(error, store::Error::InUse { .. }) {
                    // It would be free by and by, and nobody would try again: others can have the task now.
                    instance.shared.fail(crate::runtime::Error::Store(error));
                }
                reason
            })?,
        };
        let mut checkpoint = stores.checkpoint();
        if checkpoint.is_foreign(id.partition) {
            tracing::warn!(task = %id, "the task's folder holds the state of another partition: it is read anew");
            checkpoint = Checkpoint::default();
            for index in 0..specs.len() {
                let index = StoreIndex(u16::try_from(index).unwrap_or(u16::MAX));
                stores.clear(index).map_err(|error| crate::runtime::chain(&error))?;
            }
        }

        let mut starts = vec![0; part.sources.len()];
        let mut streams = Vec::new();
        let mut assigned = Vec::new();
        let mut generation = checkpoint.generation;
        let uncommitted = open.streams.iter().all(|stream| stream.committed.is_none());
        for stream in open.streams {
            if let Err(error) = instance.topics.check_input(&stream.partition, &checkpoint, stream.metadata.as_ref()) {
                let reason = crate::runtime::chain(&error);
                instance.shared.fail(error);
                return Err(reason);
            }
            instance.topics.note(&stream.partition, &mut checkpoint);
            // The group's offset decides. The store's copy replaces one that has expired, and checks the other.
            let at = starts::of(&stream, &checkpoint, |partition, wrong| {
                format!("the state in {} contains {partition} {wrong}", instance.folder.path(id).display())
            })?;
            if let Some(metadata) = &stream.metadata {
                generation = generation.max(metadata.generation);
            }
            if let Some(start) = starts.get_mut(stream.source) {
                *start = at;
            }
            let queue = instance.source.split(&stream.partition, waker).map_err(|e| crate::runtime::chain(&e))?;
            let (source, partition) = (stream.source, stream.partition.clone());
            streams.push(Stream { source, partition, committed: stream.committed, queue });
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
            let partition = TopicPartition::new(store.origin.topic(), id.partition);
            let version = if source.is_some() { 0 } else { instance.state_version(id, index) };
            feeds.push(Feed::new(index, store.name.clone(), source, partition, version));
            Arc::clone(&stores).show(&instance.catalog, store, id.partition, index);
        }
        instance.barrier(|barrier| barrier.opened(id));
        let mut task = Self {
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
            uncommitted,
            gave_up: false,
            stopped_at_commit: false,
            generation,
            opened: now,
            persisted: now,
            next_look: now,
            next_question: now,
            before: 0,
            buffer: VecDeque::new(),
        };
        if let Some(reason) = task.stores.lacks_room() {
            task.fail(reason);
        }
        Ok((task, assigned))
    }

    /// Where it is.
    pub(in crate::runtime) fn state(&self) -> TaskState {
        self.state
    }

    /// The task, when it runs (or has stopped with a failure).
    pub(in crate::runtime) fn stream_task(&mut self) -> Option<&mut StreamTask> {
        self.task.as_mut()
    }

    /// Does what there is to do for a moment.
    pub(in crate::runtime) fn turn(
        &mut self,
        logic: &mut dyn Logic,
        active: Generation,
        ask: &mut dyn FnMut(TaskId, TopicPartition, Instant),
        now: Instant,
    ) -> Turn {
        let turn = match self.state {
            TaskState::Created => self.ask_ranges(ask, now).map(|()| Turn::Idle),
            TaskState::Restoring => self.restore(ask, now),
            TaskState::WaitingForPeers => self.wait(active, now),
            TaskState::Running => self.run(logic),
            TaskState::Failed if self.stores.lacks_room().is_some() => Ok(self.wait_for_room(now)),
            TaskState::Failed | TaskState::Closed => Ok(Turn::Idle),
        };
        turn.unwrap_or_else(|reason| {
            self.fail(reason);
            Turn::Idle
        })
    }

    /// Stops the task, with the reason; its partitions keep their offsets.
    pub(in crate::runtime) fn fail(&mut self, reason: String) {
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
    fn ask_ranges(&mut self, ask: &mut dyn FnMut(TaskId, TopicPartition, Instant), now: Instant) -> Result<(), String> {
        if self.feeds.is_empty() {
            self.to(TaskState::Restoring);
            return Ok(());
        }
        for feed in &mut self.feeds {
            if feed.asks(now, self.instance.options.probe_interval) {
                ask(self.id, feed.partition.clone(), now);
            }
        }
        self.check_timeout(now)
    }

    /// An answer: opens the feed at its checkpoint, or tells its progress where the end is now.
    pub(in crate::runtime) fn log_range(
        &mut self,
        partition: &TopicPartition,
        asked: Instant,
        range: Result<LogRange, String>,
        waker: &kafka::Waker,
        now: Instant,
    ) {
        let Some(feed) = self.feeds.iter_mut().find(|feed| feed.partition == *partition) else { return };
        if !feed.is_answered(asked) || !matches!(self.state, TaskState::Created | TaskState::Restoring) {
            return;
        }
        let opened = match (range, &mut feed.progress) {
            (Ok(range), Some(progress)) => {
                progress.log_range(range.begin, range.end);
                Ok(())
            }
            (Ok(range), None) => {
                feed.open(&self.instance, self.stores.as_ref(), &mut self.checkpoint, range, waker, now)
            }
            (Err(error), _) => {
                self.reason = format!("cannot ask the broker for the end of {partition}: {error}");
                return;
            }
        };
        if let Err(reason) = opened {
            self.fail(reason);
            return;
        }
        if self.state == TaskState::Created && self.feeds.iter().all(|feed| feed.progress.is_some()) {
            self.reason.clear();
            self.to(TaskState::Restoring);
        }
    }

    /// Reads feeds into the stores, until all of them are at their ends.
    fn restore(&mut self, ask: &mut dyn FnMut(TaskId, TopicPartition, Instant), now: Instant) -> Result<Turn, String> {
        self.ask_ranges(ask, now)?;
        let lag = self.tables_may_lag();
        let mut busy = false;
        for _ in 0..RESTORE_ROUNDS {
            let mut more = false;
            for feed in self.feeds.iter_mut().filter(|feed| feed.is_changelog() || !lag) {
                more |= feed.restore(&self.instance, self.stores.as_ref(), &mut self.buffer)? > 0;
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
            if !self.is_current(now) {
                return Ok(Turn::Idle);
            }
            self.finish_restore(now)?;
            return Ok(Turn::Busy(Vec::new()));
        }
        if now.duration_since(self.persisted) > self.instance.options.persist_interval {
            self.persist(now)?;
        }
        Ok(if busy { Turn::Busy(Vec::new()) } else { Turn::Idle })
    }

    /// How far each feed is.
    fn restores(&self, now: Instant) -> impl Iterator<Item = crate::model::RestoreStatus> {
        let now = self.instance.clock(now);
        self.feeds.iter().filter_map(move |feed| feed.status(now))
    }

    /// Makes what was restored durable, with how far it is.
    fn persist(&mut self, now: Instant) -> Result<(), String> {
        for feed in &self.feeds {
            if let Some(position) = feed.position() {
                self.checkpoint.tables.insert(feed.partition.clone(), position);
            }
            self.checkpoint.ahead |= feed.is_changelog() && feed.records() > 0;
        }
        self.persisted = now;
        fault::point("restore.persisting");
        self.stores.persist(&self.checkpoint).map_err(|error| crate::runtime::chain(&error))?;
        fault::point("restore.persisted");
        Ok(())
    }

    /// The stores are full: from here on rows go through the task.
    fn finish_restore(&mut self, now: Instant) -> Result<(), String> {
        self.check_uncommitted()?;
        // Once is enough. What it would find after a rewind is what others have committed that took the task over.
        self.uncommitted = false;
        self.persist(now)?;
        self.instance.barrier(|barrier| barrier.full(self.id));
        self.instance.wake_all();
        let records: u64 = self.restores(now).map(|restore| restore.records).sum();
        let seconds = now.duration_since(self.opened).as_secs_f64();
        tracing::info!(task = %self.id, records, seconds, "restored");
        self.to(TaskState::WaitingForPeers);
        fault::point("restore.finished");
        Ok(())
    }

    /// State without the offsets that belong to it would count records again.
    fn check_uncommitted(&self) -> Result<(), String> {
        let ahead = self.checkpoint.ahead;
        let state = self.feeds.iter().find(|feed| feed.is_changelog() && (ahead || feed.records() > 0));
        match (state, self.streams.first()) {
            (Some(feed), Some(stream)) if self.uncommitted => Err(format!(
                "{} holds state that only the group's offsets belong to, but the group {} has none for {} any more: records \
                 would count twice; set the group's offsets, or delete the folder and the changelogs to start over",
                feed.partition, self.instance.plan.app_id, stream.partition,
            )),
            _ => Ok(()),
        }
    }

    /// Runs when the barrier is open and the plugins are new enough.
    fn wait(&mut self, active: Generation, now: Instant) -> Result<Turn, String> {
        let waits_for = self.instance.barrier(|barrier| barrier.waits_for(self.id));
        if let Some(reason) = waits_for.filter(|_| !self.gave_up) {
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
            if let (Some(source), Some(position)) = (feed.source, feed.position())
                && let Some(slot) = positions.get_mut(source)
            {
                *slot = position;
            }
        }
        self.task = StreamTask::new(
            self.id,
            Arc::clone(&self.instance.plan),
            self.instance.options.task,
            Arc::clone(&self.stores) as _,
            self.instance.global_tables(),
            &positions,
        );
        for feed in &self.feeds {
            let queue = feed.source.and_then(|source| self.task.as_mut()?.queue_mut(source));
            if let (Some(queue), Some(end)) = (queue, feed.end()) {
                queue.extend([], Some(end));
            }
        }
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
                let count = fill(task, source, queue.as_mut(), quota, &mut self.buffer)?;
                feed.fetched(count);
                fetched += count;
            }
        }
        for stream in &mut self.streams {
            fetched += fill(task, stream.source, stream.queue.as_mut(), quota, &mut self.buffer)?;
        }
        let step = task.step(logic);
        for feed in &mut self.feeds {
            if let Some(queue) = feed.source.and_then(|source| task.queues().get(source)) {
                feed.follow(queue);
            }
        }
        metered::count(&self.instance.counters, task.part(), step.records, &step.tally);
        if let Some(failure) = task.failure() {
            let reason = failure.to_string();
            self.fail(reason);
            return Ok(Turn::Busy(step.outputs));
        }
        Ok(if fetched == 0 && step.is_idle() { Turn::Idle } else { Turn::Busy(step.outputs) })
    }
}

/// Fetches into a source's queue while it is under its quota. Returns how many records came.
fn fill(
    task: &mut StreamTask,
    source: usize,
    from: &mut dyn Queue,
    quota: usize,
    buffer: &mut VecDeque<Record>,
) -> Result<usize, String> {
    let Some(queue) = task.queue_mut(source) else { return Ok(0) };
    if queue.bytes() >= quota {
        return Ok(0);
    }
    buffer.clear();
    let polled =
        from.poll(FETCH_RECORDS, quota - queue.bytes(), buffer).map_err(|error| crate::runtime::chain(&error))?;
    queue.extend(buffer.drain(..), polled.end);
    Ok(polled.records)
}
