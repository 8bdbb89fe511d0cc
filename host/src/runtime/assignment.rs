//! What a rebalance means: partitions become tasks, tasks get threads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::{Duration, Instant};

use crate::fault;
use crate::kafka::{Committed, LogRange, RebalanceListener};
use crate::model::{TaskId, TopicPartition};
use crate::plan::{Plan, SourceKind};
use crate::task::CommitMetadata;

use super::control::Report;
use super::edge::Stores;
use super::event::{Event, Left, OpenTask, Opened, StreamStart};
use super::instance::Instance;

/// How long one question to the broker may take.
const QUESTION: Duration = Duration::from_secs(15);
/// How long to wait before a question is asked again.
const PAUSE: Duration = Duration::from_millis(100);
/// How long threads may take to open their tasks' stores.
const OPEN_TIMEOUT: Duration = Duration::from_secs(120);

/// Turns assignments into tasks. Runs in the thread that polls the source consumer.
#[derive(Default)]
pub(super) struct Assignment {
    /// The instance; it owns the consumer that owns this.
    instance: OnceLock<Weak<Instance>>,
    /// Which thread had each task last: it gets it again. Only the polling thread locks it.
    threads: Mutex<BTreeMap<TaskId, usize>>,
    /// Stores of tasks that were taken away, until the next assignment says who gets them. Only the polling thread locks it.
    stores: Mutex<BTreeMap<TaskId, Arc<dyn Stores>>>,
}

/// What an assignment gives a task.
#[derive(Debug, Default, PartialEq, Eq)]
struct Share {
    /// Its stream partitions, by source.
    streams: Vec<(usize, TopicPartition)>,
    /// Partitions that it needs and that are not ours.
    missing: Vec<String>,
}

impl Assignment {
    /// Tells whose assignments these are; once, before the consumer subscribes.
    pub(super) fn attach(&self, instance: &Arc<Instance>) {
        let _only_once = self.instance.set(Arc::downgrade(instance));
    }

    /// The instance, while it lives.
    fn instance(&self) -> Option<Arc<Instance>> {
        self.instance.get().and_then(Weak::upgrade)
    }

    /// The tasks of the last assignment.
    pub(super) fn tasks(&self) -> BTreeSet<TaskId> {
        self.threads.lock().unwrap_or_else(std::sync::PoisonError::into_inner).keys().copied().collect()
    }

    /// Lets go of the stores that wait for an assignment.
    pub(super) fn close_stores(&self) {
        self.stores().clear();
    }

    /// Keeps the stores of tasks that were taken away: whoever gets such a task back finds them open.
    pub(super) fn keep(&self, stores: Left) {
        self.stores().extend(stores);
    }

    /// Stores that wait for an assignment.
    fn stores(&self) -> MutexGuard<'_, BTreeMap<TaskId, Arc<dyn Stores>>> {
        self.stores.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// What an assignment gives: the tasks that its partitions make, each with its thread.
    pub(super) fn given(&self, instance: &Instance, partitions: &[TopicPartition]) -> Given {
        let tasks = tasks(&instance.plan, partitions);
        let threads = self.threads(tasks.keys().copied(), instance.options.threads);
        let mut stores = std::mem::take(&mut *self.stores());
        // The others' tasks are others' now.
        stores.retain(|id, _| tasks.contains_key(id));
        Given { tasks, threads, stores }
    }

    /// A thread for each task: the one that had it, else the one with the fewest.
    fn threads(&self, tasks: impl Iterator<Item = TaskId>, count: usize) -> BTreeMap<TaskId, usize> {
        let mut last = self.threads.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let chosen = spread(&last, tasks, count);
        *last = chosen.clone();
        chosen
    }
}

/// The tasks of an assignment, and where they go.
pub(super) struct Given {
    /// The tasks.
    tasks: BTreeMap<TaskId, Share>,
    /// The thread of each.
    threads: BTreeMap<TaskId, usize>,
    /// Stores of some of them that are still open since they were here last.
    stores: BTreeMap<TaskId, Arc<dyn Stores>>,
}

impl Given {
    /// All stream partitions.
    pub(super) fn streams(&self) -> Vec<TopicPartition> {
        self.tasks.values().flat_map(|share| &share.streams).map(|(_, partition)| partition.clone()).collect()
    }

    /// What each thread is to open, with where its streams start by what the group has `committed`. From now on all of them are
    /// waited for at the barrier: no thread may find that everything is full while another one is still opening its tasks.
    pub(super) fn opens(mut self, instance: &Instance, committed: Vec<Committed>) -> BTreeMap<usize, Vec<OpenTask>> {
        instance.barrier(|barrier| self.tasks.keys().for_each(|id| barrier.given(*id)));
        let starts: BTreeMap<TopicPartition, Committed> =
            committed.into_iter().map(|of| (of.partition.clone(), of)).collect();
        let mut by_thread: BTreeMap<usize, Vec<OpenTask>> = BTreeMap::new();
        for (id, share) in self.tasks {
            let stores = self.stores.remove(&id);
            let mut open = OpenTask { id, stores, missing: share.missing, streams: Vec::new() };
            for (source, partition) in share.streams {
                let Some(of) = starts.get(&partition) else { continue };
                let initial = if of.offset.is_some() { Some(0) } else { instance.initial_offset(&partition) };
                let Some(initial) = initial else { continue };
                let metadata = CommitMetadata::decode(&of.metadata);
                open.streams.push(StreamStart { source, partition, committed: of.offset, initial, metadata });
            }
            by_thread.entry(self.threads.get(&id).copied().unwrap_or(0)).or_default().push(open);
        }
        by_thread
    }
}

/// The tasks that these partitions make, each with its stream partitions and with what it lacks: a task whose sources don't come
/// together would join with rows that are elsewhere.
fn tasks(plan: &Plan, partitions: &[TopicPartition]) -> BTreeMap<TaskId, Share> {
    let ours: BTreeSet<(&str, i32)> = partitions.iter().map(|of| (&*of.topic, of.partition)).collect();
    let mut tasks: BTreeMap<TaskId, Share> = BTreeMap::new();
    for part in &plan.subtopologies {
        let numbers = part.sources.iter().flat_map(|source| {
            partitions.iter().filter(|partition| *partition.topic == *source.topic).map(|partition| partition.partition)
        });
        for number in numbers.collect::<BTreeSet<i32>>() {
            let share = tasks.entry(TaskId { subtopology: part.index, partition: number }).or_default();
            for (index, source) in part.sources.iter().enumerate() {
                let partition = TopicPartition::new(source.topic.as_str(), number);
                if !ours.contains(&(source.topic.as_str(), number)) {
                    share.missing.push(partition.to_string());
                } else if source.kind == SourceKind::Stream {
                    share.streams.push((index, partition));
                }
            }
        }
    }
    tasks
}

/// Spreads tasks over `count` threads; a task stays where it was while that doesn't overload the thread.
fn spread(
    last: &BTreeMap<TaskId, usize>,
    tasks: impl Iterator<Item = TaskId>,
    count: usize,
) -> BTreeMap<TaskId, usize> {
    let tasks: Vec<TaskId> = tasks.collect();
    let most = tasks.len().div_ceil(count.max(1));
    let mut load = vec![0usize; count.max(1)];
    let mut chosen = BTreeMap::new();
    for task in &tasks {
        if let Some(thread) = last.get(task)
            && let Some(of) = load.get_mut(*thread).filter(|of| **of < most)
        {
            *of += 1;
            chosen.insert(*task, *thread);
        }
    }
    for task in tasks {
        if chosen.contains_key(&task) {
            continue;
        }
        if let Some((thread, of)) = load.iter_mut().enumerate().min_by_key(|(_, of)| **of) {
            *of += 1;
            chosen.insert(task, thread);
        }
    }
    chosen
}

/// Asks the broker again until it answers or the instance stops.
fn persistently<T>(instance: &Instance, what: &str, mut ask: impl FnMut() -> Result<T, String>) -> Option<T> {
    loop {
        match ask() {
            Ok(answer) => {
                instance.shared.set_trouble("rebalance", None);
                return Some(answer);
            }
            Err(error) => {
                let trouble = format!("{what}: {error}");
                tracing::warn!("{trouble}");
                instance.shared.set_trouble("rebalance", Some(trouble));
            }
        }
        if instance.shared.is_stopping() {
            return None;
        }
        // Some errors come at once.
        std::thread::park_timeout(PAUSE);
    }
}

impl RebalanceListener for Assignment {
    fn assigned(&self, partitions: Vec<TopicPartition>) -> Vec<(TopicPartition, i64)> {
        let Some(instance) = self.instance() else { return Vec::new() };
        let given = self.given(&instance, &partitions);
        fault::point("assignment.begun");
        tracing::info!(tasks = given.tasks.keys().map(ToString::to_string).collect::<Vec<_>>().join(" "), "assigned");
        let streams = given.streams();
        let committed = persistently(
            &instance,
            "cannot read the group's committed offsets (some may be part of an open transaction)",
            || instance.source.committed(&streams, QUESTION).map_err(|error| super::chain(&error)),
        );
        let tasks: BTreeSet<TaskId> = given.tasks.keys().copied().collect();
        let by_thread = given.opens(&instance, committed.unwrap_or_default());
        if let Some(standbys) = instance.standbys.get() {
            standbys.owned(tasks.clone());
        }
        let group = instance.source.place();
        let group = group.inspect_err(|error| tracing::error!("no place in the group: {}", super::chain(error))).ok();
        let mut replies = Vec::new();
        for (thread, tasks) in by_thread {
            let (reply, opened) = crossbeam_channel::bounded(1);
            if let Some(mailbox) = instance.mailboxes.get().and_then(|all| all.get(thread)) {
                mailbox.send(Event::Open { tasks, group: group.clone(), opened: reply });
                replies.push(opened);
            }
        }
        let deadline = Instant::now() + OPEN_TIMEOUT;
        let mut assigned: Vec<Opened> = Vec::new();
        for opened in replies {
            match opened.recv_deadline(deadline) {
                Ok(opened) => assigned.extend(opened),
                Err(error) => {
                    tracing::error!("a stream thread did not open its tasks in time: {error}");
                    // Nobody would try again, and others can have them now.
                    instance.shared.fail(super::Error::Unopened { seconds: OPEN_TIMEOUT.as_secs() });
                }
            }
        }
        fault::point("assignment.opened");
        instance.prober.watch(assigned.iter().map(|(partition, _)| partition.clone()).collect());
        if let (Some(standbys), Some(member)) = (instance.standbys.get(), instance.source.member()) {
            standbys.report(Report::new(&member, tasks));
        }
        instance.counters.rebalances.inc();
        instance.shared.assigned.store(true, std::sync::atomic::Ordering::SeqCst);
        assigned
    }

    fn revoked(&self, partitions: Vec<TopicPartition>, lost: bool) {
        let Some(instance) = self.instance() else { return };
        tracing::info!(partitions = partitions.len(), lost, "revoked");
        instance.shared.assigned.store(false, std::sync::atomic::Ordering::SeqCst);
        instance.prober.watch(Vec::new());
        fault::point("revocation.begun");
        let mut waiting = Vec::new();
        for mailbox in instance.mailboxes.get().into_iter().flatten() {
            let (done, closed) = crossbeam_channel::bounded(1);
            mailbox.send(Event::Close { lost, done });
            waiting.push(closed);
        }
        let deadline = Instant::now() + instance.options.close_timeout;
        for closed in waiting {
            match closed.recv_deadline(deadline) {
                Ok(stores) => self.keep(stores),
                Err(error) => tracing::error!("a stream thread did not close its tasks in time: {error}"),
            }
        }
        fault::point("revocation.done");
    }
}

impl Instance {
    /// Where a stream partition that was never committed starts.
    fn initial_offset(&self, partition: &TopicPartition) -> Option<i64> {
        let range = self.log_range(partition)?;
        Some(if self.options.start_at_end { range.end } else { range.begin })
    }

    /// The log's range; asks until the broker answers. `None`: the instance stops. Not for stream threads.
    pub(super) fn log_range(&self, partition: &TopicPartition) -> Option<LogRange> {
        persistently(self, &format!("cannot ask for the log of {partition}"), || {
            let (answer, answered) = crossbeam_channel::bounded(1);
            let answer = move |range| {
                let _gone = answer.send(range);
            };
            self.prober.ask(partition.clone(), Box::new(answer));
            answered.recv_timeout(QUESTION).map_err(|timeout| timeout.to_string())?
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(partitions: std::ops::Range<i32>) -> impl Iterator<Item = TaskId> {
        partitions.map(|partition| TaskId { subtopology: 0, partition })
    }

    #[test]
    fn tasks_are_spread_evenly_and_stay_where_they_were() {
        let first = spread(&BTreeMap::new(), ids(0..8), 4);
        for thread in 0..4 {
            assert_eq!(first.values().filter(|of| **of == thread).count(), 2);
        }
        let fewer = spread(&first, ids(2..6), 4);
        assert!(fewer.iter().all(|(task, thread)| first.get(task) == Some(thread)), "{first:?} {fewer:?}");
        let again = spread(&fewer, ids(0..8), 4);
        assert!(fewer.iter().all(|(task, thread)| again.get(task) == Some(thread)));
        assert_eq!(spread(&BTreeMap::new(), ids(0..3), 1).len(), 3);
    }
}
