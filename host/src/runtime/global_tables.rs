//! Tables that every instance reads whole: their own thread fills them, and keeps them up to date.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::kafka::LogRange;
use crate::model::{Checkpoint, Entry, Record, StateWrite, StoreIndex, TableStatus, TopicPartition};
use crate::plan::GlobalTablePlan;
use crate::restore::Progress;
use crate::store::{Resources, StateDir, TaskStores};

use super::Error;
use super::edge::Queue;
use super::instance::Instance;
use super::memory::{GLOBAL_TABLES, ThreadMemory};

/// The one store of a global table's database.
const ROWS: StoreIndex = StoreIndex(0);
/// Most records that one fetch takes.
const FETCH_RECORDS: usize = 2000;
/// How long an idle thread sleeps at most.
const IDLE: Duration = Duration::from_millis(250);
/// How often statuses are published.
const PUBLISH: Duration = Duration::from_millis(250);
/// How often it is looked whether there is room on the disk again.
const LOOK: Duration = Duration::from_secs(1);

/// Opens the stores of all global tables, before anything is read.
pub(super) fn open(
    instance: &Instance,
    state_dir: &StateDir,
    resources: &Resources,
) -> Result<Vec<Arc<TaskStores>>, Error> {
    let mut opened = Vec::new();
    for table in &instance.plan.global_tables {
        let spec = super::instance::spec(&table.name, table.kind, &table.topic);
        let dir = state_dir.global_dir(&table.name);
        let stores = Arc::new(TaskStores::open(&dir, &[spec], resources)?);
        instance.catalog.open(&table.name, "global-table", -1, Arc::clone(&stores), ROWS);
        opened.push(stores);
    }
    Ok(opened)
}

/// Starts the thread. `partitions`: how many each table's topic has, in the plan's order.
pub(super) fn start(
    instance: Arc<Instance>,
    stores: Vec<Arc<TaskStores>>,
    partitions: &[i32],
) -> Result<JoinHandle<Result<(), Error>>, Error> {
    let now = Instant::now();
    let tables: Vec<Table> = instance
        .plan
        .global_tables
        .iter()
        .zip(stores)
        .zip(partitions)
        .map(|((plan, stores), partitions)| Table {
            checkpoint: stores.checkpoint(),
            plan: plan.clone(),
            stores,
            feeds: (0..*partitions)
                .map(|partition| Feed {
                    partition: TopicPartition::new(plan.topic.as_str(), partition),
                    queue: None,
                    progress: None,
                })
                .collect(),
            restored: false,
            persisted: now,
            full: None,
            next_look: now,
        })
        .collect();
    let name = "global-tables".to_owned();
    std::thread::Builder::new()
        .name(name.clone())
        .spawn(move || run(&instance, tables))
        .map_err(|source| Error::Thread { name, source })
}

/// A partition of a table's topic.
struct Feed {
    /// The partition.
    partition: TopicPartition,
    /// Its records.
    queue: Option<Box<dyn Queue>>,
    /// How far its restore is.
    progress: Option<Progress>,
}

/// A global table.
struct Table {
    /// What it is.
    plan: GlobalTablePlan,
    /// Its rows.
    stores: Arc<TaskStores>,
    /// What they contain.
    checkpoint: Checkpoint,
    /// Its partitions.
    feeds: Vec<Feed>,
    /// Whether all of them were read to their ends.
    restored: bool,
    /// When restored rows were made durable last.
    persisted: Instant,
    /// Why it is not kept up to date: there is no room on the disk.
    full: Option<String>,
    /// When to look next whether there is.
    next_look: Instant,
}

/// Until the instance stops.
fn run(instance: &Instance, mut tables: Vec<Table>) -> Result<(), Error> {
    let (waiting, waker) = super::wake::pair();
    for table in &mut tables {
        match table.stores.lacks_room() {
            Some(reason) => table.stop(instance, reason)?,
            None => table.open(instance, &waker)?,
        }
    }
    let mut next_publish = Instant::now();
    let mut next_probe = Instant::now() + instance.options.probe_interval;
    let mut buffer = VecDeque::new();
    let mut open = tables.is_empty();
    loop {
        let now = Instant::now();
        let mut busy = false;
        for table in &mut tables {
            busy |= table.turn_or_wait(instance, &waker, &mut buffer, now)?;
        }
        if !open && tables.iter().all(|table| table.restored) {
            open = true;
            instance.barrier(crate::task::Barrier::globals_full);
            instance.wake_all();
        }
        if now >= next_probe && !open {
            next_probe = now + instance.options.probe_interval;
            for table in &mut tables {
                table.probe(instance);
            }
        }
        if now >= next_publish || !busy {
            next_publish = now + PUBLISH;
            publish(instance, &tables, now);
        }
        if instance.shared.is_stopping() {
            for table in &mut tables {
                table.close(now)?;
            }
            return Ok(());
        }
        if !busy {
            waiting.wait_until(now + IDLE);
        }
    }
}

/// Publishes the tables' status.
fn publish(instance: &Instance, tables: &[Table], now: Instant) {
    let memory_stores = tables.iter().map(|table| table.stores.memory_bytes()).sum();
    instance.shared.memory.tell(GLOBAL_TABLES, ThreadMemory { memory_stores, ..ThreadMemory::default() });
    let statuses = tables.iter().map(|table| table.status(instance.clock(now))).collect();
    *instance.shared.global_tables.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = statuses;
}

impl Table {
    /// An error of this table.
    fn error(&self, error: &(dyn std::error::Error + 'static)) -> Error {
        Error::GlobalTable { table: self.plan.name.clone(), reason: super::chain(error) }
    }

    /// Opens all partitions: where the checkpoint says, if it says so of each; else from the beginning.
    fn open(&mut self, instance: &Instance, waker: &crate::kafka::Waker) -> Result<(), Error> {
        let mut ranges: Vec<LogRange> = Vec::new();
        for feed in &self.feeds {
            let Some(range) = instance.log_range(&feed.partition) else { return Ok(()) };
            ranges.push(range);
        }
        let resumes = self.feeds.iter().zip(&ranges).all(|(feed, range)| {
            self.checkpoint.tables.get(&feed.partition).is_some_and(|at| *at >= range.begin && *at <= range.end)
        });
        let recreated = self.checkpoint.recreated(&self.plan.topic, instance.topics.id(&self.plan.topic)).cloned();
        if let Some(before) = &recreated {
            tracing::warn!(table = self.plan.name, %before, "the topic was deleted and made anew: the table is read anew");
        }
        if !resumes || recreated.is_some() {
            if recreated.is_none() && !self.checkpoint.tables.is_empty() {
                tracing::warn!(table = self.plan.name, "the checkpoint doesn't fit the topic: the table is read anew");
            }
            self.stores.clear(ROWS).map_err(|error| self.error(&error))?;
            self.checkpoint = Checkpoint::default();
        }
        self.feeds.iter().for_each(|feed| instance.topics.note(&feed.partition, &mut self.checkpoint));
        let now = instance.clock(Instant::now());
        let mut starts = Vec::new();
        for (feed, range) in self.feeds.iter_mut().zip(&ranges) {
            let start = self.checkpoint.tables.get(&feed.partition).copied().unwrap_or(range.begin);
            let mut progress = Progress::new(&self.plan.name, feed.partition.clone(), start, now);
            progress.log_range(range.begin, range.end);
            feed.progress = Some(progress);
            starts.push((feed.partition.clone(), start));
        }
        let queues = instance.reader.open(&starts, waker).map_err(|error| self.error(&error))?;
        for (feed, queue) in self.feeds.iter_mut().zip(queues) {
            feed.queue = Some(queue);
        }
        Ok(())
    }

    /// A turn; while there is no room on the disk, a look whether there is some again.
    fn turn_or_wait(
        &mut self,
        instance: &Instance,
        waker: &crate::kafka::Waker,
        buffer: &mut VecDeque<Record>,
        now: Instant,
    ) -> Result<bool, Error> {
        if self.full.is_none() {
            let turn = self.turn(instance, buffer, now);
            return match self.stores.lacks_room() {
                Some(reason) => self.stop(instance, reason).map(|()| false),
                None => turn,
            };
        }
        if now < self.next_look {
            return Ok(false);
        }
        self.next_look = now + LOOK;
        if !self.stores.has_room() {
            return Ok(false);
        }
        if let Err(error) = self.stores.reopen() {
            let reason = self.stores.lacks_room().ok_or_else(|| self.error(&error))?;
            self.full = Some(reason);
            return Ok(false);
        }
        tracing::info!(table = self.plan.name, "there is room on the disk again: going on from the last checkpoint");
        self.full = None;
        self.restored = false;
        self.persisted = now;
        self.checkpoint = self.stores.checkpoint();
        self.open(instance, waker).map(|()| true)
    }

    /// Stops reading until there is room on the disk. Its rows stay as they are.
    fn stop(&mut self, instance: &Instance, reason: String) -> Result<(), Error> {
        tracing::error!(table = self.plan.name, "global table stopped: {reason}");
        self.full = Some(reason);
        let mut open = Vec::new();
        for feed in &mut self.feeds {
            open.extend(feed.queue.take().map(|_| feed.partition.clone()));
        }
        instance.reader.close(&open).map_err(|error| self.error(&error))
    }

    /// Takes what is there; durable at once when the table is restored, in bulk before.
    fn turn(&mut self, instance: &Instance, buffer: &mut VecDeque<Record>, now: Instant) -> Result<bool, Error> {
        let mut busy = false;
        for index in 0..self.feeds.len() {
            let Some(feed) = self.feeds.get_mut(index) else { continue };
            let (Some(queue), Some(progress)) = (&mut feed.queue, &mut feed.progress) else { continue };
            buffer.clear();
            let polled = queue.poll(FETCH_RECORDS, instance.options.fetch_bytes, buffer);
            let polled = match polled {
                Ok(polled) => polled,
                Err(error) => return Err(self.error(&error)),
            };
            if let Some(last) = buffer.back() {
                let (position, count) = (last.offset + 1, buffer.len() as u64);
                let writes: Vec<StateWrite> = buffer.drain(..).filter_map(row).collect();
                progress.applied(position, count);
                busy = true;
                let written = if self.restored {
                    self.checkpoint.tables.insert(feed.partition.clone(), position);
                    self.stores.commit(&writes, &self.checkpoint)
                } else {
                    self.stores.restore(&writes)
                };
                written.map_err(|error| self.error(&error))?;
            }
            if let Some(end) = polled.end
                && let Some(progress) = self.feeds.get_mut(index).and_then(|feed| feed.progress.as_mut())
            {
                progress.end_of_partition(end);
            }
        }
        let full = self.feeds.iter().all(|feed| feed.progress.as_ref().is_some_and(Progress::done));
        if !self.restored && full {
            self.persist(now)?;
            self.restored = true;
            tracing::info!(table = self.plan.name, rows = self.stores.entries(ROWS).0, "restored");
        } else if !self.restored && now.duration_since(self.persisted) > instance.options.persist_interval {
            self.persist(now)?;
        }
        Ok(busy)
    }

    /// Asks again where the logs end, while that matters.
    fn probe(&mut self, instance: &Instance) {
        for feed in &mut self.feeds {
            if let Some(progress) = feed.progress.as_mut().filter(|progress| !progress.done())
                && let Some(range) = instance.log_range(&feed.partition)
            {
                progress.log_range(range.begin, range.end);
            }
        }
    }

    /// Makes rows durable, with how far they are.
    fn persist(&mut self, now: Instant) -> Result<(), Error> {
        for feed in &self.feeds {
            if let Some(progress) = &feed.progress {
                self.checkpoint.tables.insert(feed.partition.clone(), progress.position());
            }
        }
        self.persisted = now;
        self.stores.persist(&self.checkpoint).map_err(|error| self.error(&error))
    }

    /// Leaves the table as it is, for the next start.
    fn close(&mut self, now: Instant) -> Result<(), Error> {
        for feed in &mut self.feeds {
            feed.queue = None;
        }
        if self.full.is_some() { Ok(()) } else { self.persist(now) }
    }

    /// What `/v1/status` says of it.
    fn status(&self, now: Duration) -> TableStatus {
        TableStatus {
            table: self.plan.name.clone(),
            rows: self.stores.entries(ROWS).0,
            restored: self.restored && self.full.is_none(),
            restore: self.feeds.iter().filter_map(|f| f.progress.as_ref()).map(|p| p.status(now)).collect(),
            error: self.full.clone(),
        }
    }
}

/// A record as the table keeps it; one without a key is dropped, as Kafka Streams does.
fn row(record: Record) -> Option<StateWrite> {
    let Record { key, value, timestamp, .. } = record;
    Some(StateWrite { store: ROWS, key: key?, entry: value.map(|value| Entry { timestamp, version: 0, value }) })
}
