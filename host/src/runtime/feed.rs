//! A table or changelog partition that fills a store of a task.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::fault;
use crate::kafka::{LogRange, Waker};
use crate::model::{Checkpoint, Entry, Record, RestoreStatus, StateWrite, StoreIndex, TopicPartition};
use crate::restore::Progress;
use crate::task::RecordQueue;

use super::edge::{Queue, Stores};
use super::instance::Instance;

/// Most records that one fetch takes.
pub(super) const FETCH_RECORDS: usize = 2000;

/// A partition that fills a store, and how far it is.
pub(super) struct Feed {
    /// The store.
    pub(super) store: StoreIndex,
    /// The store's name.
    pub(super) name: String,
    /// The table's source; `None`: a changelog.
    pub(super) source: Option<usize>,
    /// The partition.
    pub(super) partition: TopicPartition,
    /// Version of the state that a changelog's records are.
    pub(super) version: u32,
    /// Its records; `None`: not opened yet, or (a changelog) read to its end.
    pub(super) queue: Option<Box<dyn Queue>>,
    /// How far the restore is; `None`: the log's range isn't known yet.
    pub(super) progress: Option<Progress>,
    /// When its range was asked for last.
    asked: Option<Instant>,
    /// Whether the answer to that is still to come: there is one question at a time.
    waiting: bool,
    /// Rows of a live table that wait in the task's queue.
    queued: usize,
}

impl Feed {
    /// A feed that isn't open yet.
    pub(super) fn new(
        store: StoreIndex,
        name: String,
        source: Option<usize>,
        partition: TopicPartition,
        version: u32,
    ) -> Self {
        Self {
            store,
            name,
            source,
            partition,
            version,
            queue: None,
            progress: None,
            asked: None,
            waiting: false,
            queued: 0,
        }
    }

    /// Whether it feeds a store from the store's own changelog.
    pub(super) fn is_changelog(&self) -> bool {
        self.source.is_none()
    }

    /// Whether everything below its end is applied.
    pub(super) fn is_done(&self) -> bool {
        self.progress.as_ref().is_some_and(Progress::done)
    }

    /// Whether its range must be asked for (again) now.
    pub(super) fn asks(&mut self, now: Instant, interval: Duration) -> bool {
        let late = self.asked.is_none_or(|asked| now.duration_since(asked) > interval);
        let due = !self.is_done() && !self.waiting && late;
        if due {
            (self.asked, self.waiting) = (Some(now), true);
        }
        due
    }

    /// Whether an answer is the one to its last question, and no answer of an earlier life: the log may have grown since.
    pub(super) fn is_answered(&mut self, asked: Instant) -> bool {
        let mine = self.waiting && self.asked == Some(asked);
        self.waiting &= !mine;
        mine
    }

    /// Opens it where the store's checkpoint says; from the beginning, with an empty store, if the log doesn't hold that.
    pub(super) fn open(
        &mut self,
        instance: &Instance,
        stores: &dyn Stores,
        checkpoint: &mut Checkpoint,
        range: LogRange,
        waker: &Waker,
        now: Instant,
    ) -> Result<(), String> {
        let topic = &*self.partition.topic;
        let from = checkpoint.tables.get(&self.partition).copied();
        let recreated = checkpoint.recreated(topic, instance.topics.id(topic)).cloned();
        let start =
            from.filter(|at| *at >= range.begin && *at <= range.end && recreated.is_none()).unwrap_or(range.begin);
        if from != Some(start) || recreated.is_some() {
            if let Some(id) = recreated {
                tracing::warn!(
                    partition = %self.partition, before = %id,
                    "the topic was deleted and made anew: the store {} is read anew from its beginning", self.name
                );
            } else if let Some(at) = from {
                tracing::warn!(
                    partition = %self.partition, checkpoint = at, begin = range.begin, end = range.end,
                    "the checkpoint is outside the log: the store {} is read anew from the beginning", self.name
                );
            }
            stores.clear(self.store).map_err(|error| super::chain(&error))?;
            checkpoint.forget(topic);
            fault::point("restore.cleared");
        }
        instance.topics.note(&self.partition, checkpoint);
        let mut progress = Progress::new(&self.name, self.partition.clone(), start, instance.clock(now));
        progress.log_range(range.begin, range.end);
        let mut queues =
            instance.reader.open(&[(self.partition.clone(), start)], waker).map_err(|error| super::chain(&error))?;
        self.queue = queues.pop();
        self.progress = Some(progress);
        fault::point("restore.opened");
        Ok(())
    }

    /// Takes what is there now into the store. Returns how many records that were.
    pub(super) fn restore(
        &mut self,
        instance: &Instance,
        stores: &dyn Stores,
        buffer: &mut VecDeque<Record>,
    ) -> Result<usize, String> {
        if self.is_done() {
            return Ok(0);
        }
        let records = self.take(instance, stores, buffer)?;
        instance.counters.restored.add(records as u64);
        if self.is_done() && self.is_changelog() {
            // Its own writes come next; nobody else writes it.
            self.close(instance)?;
        }
        Ok(records)
    }

    /// Takes what is there now into the store, also beyond the end that a restore waits for. Returns how many records that were.
    pub(super) fn take(
        &mut self,
        instance: &Instance,
        stores: &dyn Stores,
        buffer: &mut VecDeque<Record>,
    ) -> Result<usize, String> {
        let (Some(queue), Some(progress)) = (&mut self.queue, &mut self.progress) else { return Ok(0) };
        buffer.clear();
        let polled =
            queue.poll(FETCH_RECORDS, instance.options.fetch_bytes, buffer).map_err(|error| super::chain(&error))?;
        if let Some(last) = buffer.back() {
            let (position, records) = (last.offset + 1, buffer.len() as u64);
            let (store, version) = (self.store, self.version);
            let writes: Vec<StateWrite> =
                buffer.drain(..).filter_map(|record| restored(store, version, record)).collect();
            stores.restore(&writes).map_err(|error| super::chain(&error))?;
            progress.applied(position, records);
            fault::point("restore.batch");
        }
        if let Some(end) = polled.end {
            progress.end_of_partition(end);
        }
        Ok(polled.records)
    }

    /// Stops reading.
    pub(super) fn close(&mut self, instance: &Instance) -> Result<(), String> {
        if self.queue.take().is_none() {
            return Ok(());
        }
        instance.reader.close(std::slice::from_ref(&self.partition)).map_err(|error| super::chain(&error))
    }

    /// Stops reading, and forgets how far it was.
    pub(super) fn reset(&mut self, instance: &Instance) -> Result<(), String> {
        self.progress = None;
        (self.asked, self.waiting, self.queued) = (None, false, 0);
        self.close(instance)
    }

    /// A live table's rows were fetched, and wait in the task's queue.
    pub(super) fn fetched(&mut self, records: usize) {
        self.queued += records;
    }

    /// Tells a live table's progress where the task is, for the status: what it has left in its queue is not applied.
    pub(super) fn follow(&mut self, queue: &RecordQueue) {
        let applied = self.queued.saturating_sub(queue.len());
        self.queued = queue.len();
        if let Some(progress) = &mut self.progress {
            progress.applied(queue.position(), applied as u64);
        }
    }

    /// Where a checkpoint may say that its store is.
    pub(super) fn position(&self) -> Option<i64> {
        self.progress.as_ref().map(Progress::position)
    }

    /// The end that its reader has reached, if all below is applied: no event tells it again.
    pub(super) fn end(&self) -> Option<i64> {
        let progress = self.progress.as_ref()?;
        progress.reader_end().filter(|end| *end == progress.position())
    }

    /// Records that its restore has applied.
    pub(super) fn records(&self) -> u64 {
        self.progress.as_ref().map_or(0, Progress::records)
    }

    /// What to say of it, at `now` on the instance's clock.
    pub(super) fn status(&self, now: Duration) -> Option<RestoreStatus> {
        self.progress.as_ref().map(|progress| progress.status(now))
    }
}

/// A record of a table or a changelog as its store keeps it; one without a key is dropped.
fn restored(store: StoreIndex, version: u32, record: Record) -> Option<StateWrite> {
    let Record { key, value, timestamp, .. } = record;
    Some(StateWrite { store, key: key?, entry: value.map(|value| Entry { timestamp, version, value }) })
}
