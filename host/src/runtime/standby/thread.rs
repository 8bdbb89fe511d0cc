//! The thread that keeps standbys.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use crate::kafka::Waker;
use crate::model::{Record, StandbyStatus, TaskId};
use crate::runtime::Error;
use crate::runtime::instance::{Instance, Shared};
use crate::runtime::wake::Waiting;

use super::Command;
use super::task::StandbyTask;

/// The thread's name.
pub(super) const NAME: &str = "standby";
/// How long an idle thread sleeps at most: commands and records wake it.
const IDLE: Duration = Duration::from_millis(250);
/// How often statuses are published.
const PUBLISH: Duration = Duration::from_millis(250);
/// How long a standby that failed is left alone.
const RETRY: Duration = Duration::from_secs(5);

/// Starts the thread.
pub(super) fn start(
    instance: Arc<Instance>,
    commands: Receiver<Command>,
    waiting: Waiting,
    waker: Waker,
) -> Result<JoinHandle<()>, Error> {
    let standby = StandbyThread {
        instance,
        commands,
        waker,
        wanted: BTreeSet::new(),
        owned: BTreeSet::new(),
        tasks: BTreeMap::new(),
        failed: BTreeMap::new(),
        buffer: VecDeque::new(),
        next_publish: Instant::now(),
    };
    let thread = std::thread::Builder::new().name(NAME.to_owned()).spawn(move || standby.run(&waiting));
    thread.map_err(|source| Error::Thread { name: NAME.to_owned(), source })
}

/// The thread's own.
struct StandbyThread {
    /// Shared parts.
    instance: Arc<Instance>,
    /// What it is told.
    commands: Receiver<Command>,
    /// Wakes it.
    waker: Waker,
    /// What it is to follow.
    wanted: BTreeSet<TaskId>,
    /// What it must not: the stream threads have these.
    owned: BTreeSet<TaskId>,
    /// What it follows.
    tasks: BTreeMap<TaskId, StandbyTask>,
    /// What failed, why, and when it is tried again.
    failed: BTreeMap<TaskId, (String, Instant)>,
    /// Fetched records on their way.
    buffer: VecDeque<Record>,
    /// When to publish next.
    next_publish: Instant,
}

impl StandbyThread {
    /// Until the instance stops.
    fn run(mut self, waiting: &Waiting) {
        let _ended = EndNotice(Arc::clone(&self.instance.shared));
        loop {
            while let Ok(command) = self.commands.try_recv() {
                self.command(command);
            }
            let now = Instant::now();
            if self.instance.shared.is_stopping() {
                self.keep(&BTreeSet::new(), now);
                self.publish(now);
                return;
            }
            let busy = self.open_one(now) | self.turn(now);
            if now >= self.next_publish {
                self.publish(now);
            }
            if !busy {
                waiting.wait_until(now + IDLE);
            }
        }
    }

    /// Does what it was told.
    fn command(&mut self, command: Command) {
        let now = Instant::now();
        match command {
            Command::Owned { tasks, closed } => {
                self.owned = tasks;
                self.keep_wanted(now);
                let _gone = closed.send(());
            }
            Command::Wanted(wanted) => {
                self.wanted = wanted;
                self.keep_wanted(now);
            }
        }
        self.next_publish = now;
    }

    /// Closes what isn't to be followed (any more).
    fn keep_wanted(&mut self, now: Instant) {
        let wanted = &self.wanted - &self.owned;
        self.keep(&wanted, now);
    }

    /// Closes all but these.
    fn keep(&mut self, tasks: &BTreeSet<TaskId>, now: Instant) {
        self.failed.retain(|task, _| tasks.contains(task));
        for (id, task) in std::mem::take(&mut self.tasks) {
            if tasks.contains(&id) {
                self.tasks.insert(id, task);
            } else {
                tracing::info!(task = %id, "no longer a standby");
                task.close(&self.instance, now);
            }
        }
    }

    /// Opens one of those that aren't open: no more, so that commands aren't kept waiting. Returns whether it tried.
    fn open_one(&mut self, now: Instant) -> bool {
        let due = |id: &TaskId| self.failed.get(id).is_none_or(|(_, again)| now >= *again);
        let missing = self.wanted.difference(&self.owned).find(|id| !self.tasks.contains_key(id) && due(id)).copied();
        let Some(id) = missing else { return false };
        let Some(part) = self.instance.plan.subtopologies.get(id.subtopology as usize) else { return false };
        match StandbyTask::open(&self.instance, id, part, now) {
            Ok(task) => {
                tracing::info!(task = %id, "standby");
                self.tasks.insert(id, task);
            }
            Err(reason) => self.fail(id, reason),
        }
        true
    }

    /// A turn of every task. Those that run here are restored first: as long as one is, standbys wait.
    fn turn(&mut self, now: Instant) -> bool {
        let goes_on = !self.instance.shared.is_restoring();
        let mut busy = false;
        let mut failed = Vec::new();
        for (id, task) in &mut self.tasks {
            match task.turn(&self.instance, &self.waker, &mut self.buffer, goes_on, now) {
                Ok(moved) => {
                    busy |= moved;
                    if task.is_following() {
                        self.failed.remove(id);
                    }
                }
                Err(reason) => failed.push((*id, reason)),
            }
        }
        for (id, reason) in failed {
            if let Some(task) = self.tasks.remove(&id) {
                task.close(&self.instance, now);
            }
            self.fail(id, reason);
        }
        busy
    }

    /// Leaves a task alone for a while.
    fn fail(&mut self, id: TaskId, reason: String) {
        tracing::warn!(task = %id, "standby: {reason}; trying again in {} s", RETRY.as_secs());
        self.failed.insert(id, (reason, Instant::now() + RETRY));
    }

    /// Publishes the status.
    fn publish(&mut self, now: Instant) {
        self.next_publish = now + PUBLISH;
        let status = |id: &TaskId| {
            let unopened = || StandbyStatus { task: id.to_string(), ..StandbyStatus::default() };
            let status = self.tasks.get(id).map_or_else(unopened, StandbyTask::status);
            let reason = self.failed.get(id).map(|(reason, _)| reason.clone()).unwrap_or_default();
            StandbyStatus { reason, ..status }
        };
        let all: BTreeSet<TaskId> = self.tasks.keys().chain(self.failed.keys()).copied().collect();
        self.instance.shared.publish_standbys(all.iter().map(status).collect());
    }
}

/// Tells when the thread ends though the instance goes on.
struct EndNotice(Arc<Shared>);

impl Drop for EndNotice {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.publish_standbys(Vec::new());
            self.0.set_standby_problem(NAME, Some("ended unexpectedly; please report this with the log".to_owned()));
        }
    }
}
