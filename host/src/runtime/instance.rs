//! What all threads of an instance share. Locks are held for single look-ups only.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::config::{Guarantee, OnStop};
use crate::model::{InstanceState, StandbyStatus, StateRead, StoreIndex, TableStatus, TaskId, TaskState, TaskStatus};
use crate::plan::{BarrierPlan, Plan, StoreKind, SubtopologyPlan};
use crate::store::{self, StoreSpec};
use crate::task::{self, Barrier, GlobalTables};
use crate::telemetry::Counters;
use crate::view::Catalog;

use super::Error;
use super::edge::{Clock, Folder, LogRanges, Plugins, Producers, Reader, Source};
use super::event::Mailbox;
use super::memory::MemoryUse;
use super::standby::Standbys;
use super::topics::Topics;

/// Settings of an instance, resolved from the topology file.
#[derive(Clone, Debug)]
pub(super) struct Options {
    /// Guarantee of outputs.
    pub(super) guarantee: Guarantee,
    /// Stream threads.
    pub(super) threads: usize,
    /// Time between commits.
    pub(super) commit_interval: Duration,
    /// Bytes of uncommitted state of a thread that force a commit.
    pub(super) overlay_bytes: usize,
    /// Bytes of fetched records that a partition may hold in its task.
    pub(super) fetch_bytes: usize,
    /// How often the end of a log that is being restored is asked again.
    pub(super) probe_interval: Duration,
    /// How often restored rows are made durable.
    pub(super) persist_interval: Duration,
    /// The barrier.
    pub(super) barrier: BarrierPlan,
    /// Bounds of tasks.
    pub(super) task: task::Options,
    /// Whether a stream partition that was never committed starts at the log's end instead of its begin.
    pub(super) start_at_end: bool,
    /// How long a rebalance waits for threads to commit and close.
    pub(super) close_timeout: Duration,
    /// What a clean stop means to the group.
    pub(super) on_stop: OnStop,
    /// How long a stream thread may stand still before the instance gives up.
    pub(super) max_poll_interval: Duration,
    /// How long the stores of a task that has moved away are kept.
    pub(super) cleanup_delay: Duration,
}

/// An instance's shared parts.
pub(super) struct Instance {
    /// The topology, resolved.
    pub(super) plan: Arc<Plan>,
    /// Settings.
    pub(super) options: Options,
    /// When it started: the clock of progress reports counts from here.
    pub(super) started: Instant,
    /// The clock.
    pub(super) time: Clock,
    /// Makes producers.
    pub(super) producers: Box<dyn Producers>,
    /// The state folder.
    pub(super) folder: Box<dyn Folder>,
    /// The topics, as they were found at the start.
    pub(super) topics: Topics,
    /// The group member.
    pub(super) source: Box<dyn Source>,
    /// The reader of tables and changelogs.
    pub(super) reader: Box<dyn Reader>,
    /// Asks for log ends.
    pub(super) prober: Arc<dyn LogRanges>,
    /// Which stores are open.
    pub(super) catalog: Arc<Catalog>,
    /// What the outside sees.
    pub(super) shared: Arc<Shared>,
    /// What the data path counts.
    pub(super) counters: Arc<Counters>,
    /// The barrier.
    pub(super) barrier: Mutex<Barrier>,
    /// The stream threads' mailboxes.
    pub(super) mailboxes: OnceLock<Vec<Mailbox>>,
    /// Stores of global tables, in the plan's order.
    pub(super) globals: OnceLock<Vec<Arc<store::TaskStores>>>,
    /// Standbys of others' tasks, if there are to be some.
    pub(super) standbys: OnceLock<Standbys>,
    /// Active plugins: for the versions of restored state.
    pub(super) plugins: Mutex<Option<Arc<dyn Plugins>>>,
}

impl Instance {
    /// Looks at the barrier, or changes it.
    pub(super) fn barrier<T>(&self, look: impl FnOnce(&mut Barrier) -> T) -> T {
        let mut barrier = self.barrier.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        look(&mut barrier)
    }

    /// The time.
    pub(super) fn now(&self) -> Instant {
        (self.time)()
    }

    /// Time since the start.
    pub(super) fn clock(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started)
    }

    /// The transactional id of stream thread `index`.
    pub(super) fn transactional_id(&self, index: usize) -> String {
        super::membership::transactional_id(&self.plan.app_id, self.folder.instance_id(), index)
    }

    /// Wakes every stream thread: something that they wait for may have changed.
    pub(super) fn wake_all(&self) {
        for mailbox in self.mailboxes.get().into_iter().flatten() {
            (mailbox.waker)();
        }
    }

    /// Global tables as joins see them.
    pub(super) fn global_tables(&self) -> GlobalTables {
        let globals = self.globals.get().map(Vec::as_slice).unwrap_or_default();
        globals.iter().map(|stores| Arc::clone(stores) as Arc<dyn StateRead + Send + Sync>).collect()
    }

    /// The stores of a task of this part.
    pub(super) fn store_specs(&self, part: &SubtopologyPlan) -> Vec<StoreSpec> {
        part.stores.iter().map(|store| spec(&store.name, store.kind, store.origin.topic())).collect()
    }

    /// The version of state that a store's changelog holds: that of the active plugins.
    pub(super) fn state_version(&self, task: TaskId, store: StoreIndex) -> u32 {
        let function = self.plan.subtopologies.get(task.subtopology as usize).and_then(|part| {
            part.nodes.iter().find_map(|node| match &node.kind {
                crate::plan::NodeKind::Aggregate { store: of, functions, .. } if *of == store => {
                    functions.first().copied()
                }
                _ => None,
            })
        });
        let plugins = self.plugins.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match (function, plugins.as_ref()) {
            (Some(function), Some(set)) => set.state_version(function),
            _ => 0,
        }
    }
}

/// A store as the store module wants it.
pub(super) fn spec(name: &str, kind: StoreKind, topic: &str) -> StoreSpec {
    let kind = match kind {
        StoreKind::RocksDb => store::StoreKind::RocksDb,
        StoreKind::Memory { max_bytes } => store::StoreKind::Memory { max_bytes },
    };
    StoreSpec { name: name.to_owned(), kind, topic: topic.to_owned() }
}

/// What the outside sees of a running instance; written by its threads, read by HTTP.
#[derive(Default)]
pub(super) struct Shared {
    /// Each stream thread's tasks.
    pub(super) tasks: Mutex<Vec<Vec<TaskStatus>>>,
    /// Global tables.
    pub(super) global_tables: Mutex<Vec<TableStatus>>,
    /// What is being done while the instance starts, or what is wrong with it; empty when nothing is.
    waits_for: Mutex<Vec<String>>,
    /// Where it is.
    state: Mutex<InstanceState>,
    /// Why it cannot go on, if a thread has found that out; the supervisor ends it.
    failure: Mutex<Option<Error>>,
    /// Whether the group has given an assignment.
    pub(super) assigned: AtomicBool,
    /// Whether it was asked to stop.
    pub(super) stopping: AtomicBool,
    /// What memory is taken for.
    pub(super) memory: MemoryUse,
    /// A stream thread's trouble with the broker, by thread.
    pub(super) trouble: Mutex<std::collections::BTreeMap<String, String>>,
    /// When each stream thread was heard of last.
    heard: Mutex<Vec<Instant>>,
    /// Standbys, and what is wrong with them, by who says so.
    standbys: Mutex<(Vec<StandbyStatus>, std::collections::BTreeMap<&'static str, String>)>,
}

impl Shared {
    /// Where the instance is, as its supervisor says.
    pub(super) fn state(&self) -> InstanceState {
        *self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Changes where it is.
    pub(super) fn set_state(&self, state: InstanceState) {
        *self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = state;
    }

    /// What it waits for.
    pub(super) fn waits_for(&self) -> Vec<String> {
        let waits = self.waits_for.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let trouble = self.trouble.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        waits.into_iter().chain(trouble.iter().map(|(who, what)| format!("{who}: {what}"))).collect()
    }

    /// Changes what it waits for.
    pub(super) fn set_waits_for(&self, waits_for: Option<String>) {
        *self.waits_for.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = waits_for.into_iter().collect();
    }

    /// Notes a thread's trouble, or that it is over.
    pub(super) fn set_trouble(&self, who: &str, what: Option<String>) {
        let mut trouble = self.trouble.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match what {
            Some(what) => trouble.insert(who.to_owned(), what),
            None => trouble.remove(who),
        };
    }

    /// Hears of a stream thread at `now`: it moves.
    pub(super) fn hear(&self, thread: usize, now: Instant) {
        let mut heard = self.heard.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if heard.len() <= thread {
            heard.resize(thread + 1, now);
        }
        if let Some(slot) = heard.get_mut(thread) {
            *slot = now;
        }
    }

    /// Hears of all stream threads at once: nobody has listened for a while.
    pub(super) fn hear_all(&self, now: Instant) {
        self.heard.lock().unwrap_or_else(std::sync::PoisonError::into_inner).fill(now);
    }

    /// A stream thread that was not heard of for longer than `limit`.
    pub(super) fn stalled(&self, limit: Duration, now: Instant) -> Option<usize> {
        let heard = self.heard.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        heard.iter().position(|at| now.saturating_duration_since(*at) > limit)
    }

    /// Publishes a thread's tasks.
    pub(super) fn publish(&self, thread: usize, tasks: Vec<TaskStatus>) {
        let mut all = self.tasks.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if all.len() <= thread {
            all.resize(thread + 1, Vec::new());
        }
        if let Some(slot) = all.get_mut(thread) {
            *slot = tasks;
        }
    }

    /// All tasks, in order.
    pub(super) fn tasks(&self) -> Vec<TaskStatus> {
        let all = self.tasks.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut tasks: Vec<TaskStatus> = all.iter().flatten().cloned().collect();
        tasks.sort_by(|a, b| a.task.cmp(&b.task));
        tasks
    }

    /// The instance cannot go on: the supervisor ends it with this error. The first one counts.
    pub(super) fn fail(&self, error: Error) {
        let mut failure = self.failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        failure.get_or_insert(error);
    }

    /// Why it cannot go on.
    pub(super) fn take_failure(&self) -> Option<Error> {
        self.failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
    }

    /// Whether a task is being restored, as last published.
    pub(super) fn is_restoring(&self) -> bool {
        let all = self.tasks.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        all.iter().flatten().any(|task| matches!(task.state, TaskState::Created | TaskState::Restoring))
    }

    /// Publishes the standbys.
    pub(super) fn publish_standbys(&self, standbys: Vec<StandbyStatus>) {
        self.standbys.lock().unwrap_or_else(std::sync::PoisonError::into_inner).0 = standbys;
    }

    /// Notes what `who` says is wrong with standbys, or that it is over. It doesn't touch readiness.
    pub(super) fn set_standby_problem(&self, who: &'static str, what: Option<String>) {
        let mut standbys = self.standbys.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match what {
            Some(what) if standbys.1.get(who) == Some(&what) => {}
            Some(what) => {
                tracing::warn!("{who}: {what}");
                standbys.1.insert(who, what);
            }
            None => drop(standbys.1.remove(who)),
        }
    }

    /// The standbys.
    pub(super) fn standbys(&self) -> Vec<StandbyStatus> {
        self.standbys.lock().unwrap_or_else(std::sync::PoisonError::into_inner).0.clone()
    }

    /// What is wrong with them.
    pub(super) fn standby_problems(&self) -> Vec<String> {
        let standbys = self.standbys.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        standbys.1.iter().map(|(who, what)| format!("{who}: {what}")).collect()
    }

    /// Whether it was asked to stop.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }
}
