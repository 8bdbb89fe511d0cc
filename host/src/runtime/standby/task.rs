//! A standby: the stores of a task that runs elsewhere, kept up to date from its changelogs and tables.
//!
//! It reads committed records from its stores' checkpoint on, as a restore does, and writes them as a restore does; but it never
//! ends. It knows no stream offsets: those that its checkpoint has from a time when the task ran here stay as they are, and are
//! marked as older than the state as soon as a changelog's record is applied.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use crate::kafka::{LogRange, Waker};
use crate::model::{Checkpoint, Record, StandbyPartition, StandbyStatus, StoreIndex, TaskId, TopicPartition};
use crate::plan::{SourceKind, SubtopologyPlan};
use crate::runtime::edge::Stores;
use crate::runtime::feed::Feed;
use crate::runtime::instance::Instance;
use crate::store::{StoreKind, StoreSpec};

/// How often the ends of its logs are asked for.
const ASK: Duration = Duration::from_secs(3);

/// The stores of a task that runs elsewhere.
pub(super) struct StandbyTask {
    /// The task.
    id: TaskId,
    /// Its stores here.
    stores: Arc<dyn Stores>,
    /// What they contain.
    checkpoint: Checkpoint,
    /// What fills them.
    tails: Vec<Tail>,
    /// Records applied.
    records: u64,
    /// Whether some of them aren't durable.
    dirty: bool,
    /// When they were made durable last.
    persisted: Instant,
}

/// A partition that is followed.
struct Tail {
    /// It, as in a restore.
    feed: Feed,
    /// Its log's end when last asked.
    end: Option<i64>,
    /// An answer that is still to come.
    answer: Option<Receiver<Result<LogRange, String>>>,
    /// When to ask next.
    ask_at: Instant,
}

impl StandbyTask {
    /// Opens the task's stores.
    ///
    /// Those that are read from memory stay on disk: nobody reads them here.
    pub(super) fn open(instance: &Instance, id: TaskId, part: &SubtopologyPlan, now: Instant) -> Result<Self, String> {
        let specs: Vec<StoreSpec> =
            instance.store_specs(part).into_iter().map(|spec| StoreSpec { kind: StoreKind::RocksDb, ..spec }).collect();
        let stores = instance.folder.open(id, &specs).map_err(|error| crate::runtime::chain(&error))?;
        let mut checkpoint = stores.checkpoint();
        if checkpoint.is_foreign(id.partition) {
            tracing::warn!(task = %id, "the task's folder holds the state of another partition: it is read anew");
            checkpoint = Checkpoint::default();
            for (index, _) in (0..).map(StoreIndex).zip(&part.stores) {
                stores.clear(index).map_err(|error| crate::runtime::chain(&error))?;
            }
        }
        let tails = (0..).map(StoreIndex).zip(&part.stores).map(|(index, store)| {
            let source = part.sources.iter().position(|source| source.kind == SourceKind::Table(index));
            let partition = TopicPartition::new(store.origin.topic(), id.partition);
            let feed = Feed::new(index, store.name.clone(), source, partition, 0);
            Tail { feed, end: None, answer: None, ask_at: now }
        });
        Ok(Self { id, checkpoint, stores, tails: tails.collect(), records: 0, dirty: false, persisted: now })
    }

    /// Takes what is there now, unless others go first. Returns whether there was something.
    pub(super) fn turn(
        &mut self,
        instance: &Instance,
        waker: &Waker,
        buffer: &mut VecDeque<Record>,
        goes_on: bool,
        now: Instant,
    ) -> Result<bool, String> {
        let mut busy = false;
        for tail in &mut self.tails {
            tail.look(instance, self.stores.as_ref(), &mut self.checkpoint, waker, now)?;
            if !goes_on || tail.feed.queue.is_none() {
                continue;
            }
            if tail.feed.is_changelog() {
                tail.feed.version = instance.state_version(self.id, tail.feed.store);
            }
            let before = tail.feed.position();
            let records = tail.feed.take(instance, self.stores.as_ref(), buffer)?;
            self.checkpoint.ahead |= records > 0 && tail.feed.is_changelog();
            self.dirty |= tail.feed.position() != before;
            self.records += records as u64;
            instance.counters.standby.add(records as u64);
            busy |= records > 0;
        }
        if self.dirty && now.duration_since(self.persisted) > instance.options.persist_interval {
            self.persist(now)?;
        }
        Ok(busy)
    }

    /// Makes what was applied durable, with how far that is.
    fn persist(&mut self, now: Instant) -> Result<(), String> {
        for tail in &self.tails {
            if let Some(position) = tail.feed.position() {
                self.checkpoint.tables.insert(tail.feed.partition.clone(), position);
            }
        }
        self.persisted = now;
        self.stores.persist(&self.checkpoint).map_err(|error| crate::runtime::chain(&error))?;
        self.dirty = false;
        Ok(())
    }

    /// Stops following, and leaves the stores to whoever opens them next.
    pub(super) fn close(mut self, instance: &Instance, now: Instant) {
        let mut closed = if self.dirty { self.persist(now) } else { Ok(()) };
        for tail in &mut self.tails {
            closed = closed.and(tail.feed.close(instance));
        }
        if let Err(reason) = closed {
            tracing::warn!(task = %self.id, "closing a standby: {reason}");
        }
    }

    /// Whether all its partitions are being followed.
    pub(super) fn is_following(&self) -> bool {
        self.tails.iter().all(|tail| tail.feed.queue.is_some())
    }

    /// What to say of it.
    pub(super) fn status(&self) -> StandbyStatus {
        let partition = |tail: &Tail| {
            let position = tail.feed.position()?;
            Some(StandbyPartition {
                store: tail.feed.name.clone(),
                topic: tail.feed.partition.topic.to_string(),
                position,
                end: tail.end,
                lag: tail.end.map(|end| (end - position).max(0)),
            })
        };
        let partitions: Vec<StandbyPartition> = self.tails.iter().filter_map(partition).collect();
        StandbyStatus {
            task: self.id.to_string(),
            lag: partitions.iter().map(|of| of.lag).sum::<Option<i64>>().filter(|_| self.is_following()),
            partitions,
            records: self.records,
            reason: String::new(),
        }
    }
}

impl Tail {
    /// Asks for the log's range from time to time, and opens the partition with the first answer.
    fn look(
        &mut self,
        instance: &Instance,
        stores: &dyn Stores,
        checkpoint: &mut Checkpoint,
        waker: &Waker,
        now: Instant,
    ) -> Result<(), String> {
        if let Some(answer) = &self.answer {
            let range = match answer.try_recv() {
                Ok(range) => range,
                Err(crossbeam_channel::TryRecvError::Empty) => return Ok(()),
                Err(gone @ crossbeam_channel::TryRecvError::Disconnected) => Err(gone.to_string()),
            };
            (self.answer, self.ask_at) = (None, now + ASK);
            let cannot = |error| format!("cannot ask the broker for the end of {}: {error}", self.feed.partition);
            let range = range.map_err(cannot)?;
            self.end = Some(range.end);
            if self.feed.progress.is_none() {
                self.feed.open(instance, stores, checkpoint, range, waker, now)?;
            }
        }
        if now >= self.ask_at && self.answer.is_none() {
            let (sender, answer) = crossbeam_channel::bounded(1);
            let waker = Arc::clone(waker);
            let tell = move |range| {
                let _gone = sender.send(range);
                waker();
            };
            instance.prober.ask(self.feed.partition.clone(), Box::new(tell));
            self.answer = Some(answer);
        }
        Ok(())
    }
}
