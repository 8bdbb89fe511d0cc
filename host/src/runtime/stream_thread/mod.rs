//! A stream thread: owns tasks, fetches, processes, commits. Nothing else touches its tasks.

mod recovery;
mod status;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use crate::fault;
use crate::kafka;
use crate::model::{TaskId, TaskState, TaskStatus, TopicPartition};

use super::active_task::{ActiveTask, Turn};
use super::committer::{Attempt, Committer};
use super::edge::{Place, Plugins};
use super::event::{Event, Left, Mailbox, OpenTask, Opened};
use super::instance::Instance;
use super::metered::Metered;

/// How long an idle thread sleeps at most: events and records wake it.
const IDLE: Duration = Duration::from_millis(200);
/// How often the thread's tasks are published for `/v1/status`.
const PUBLISH: Duration = Duration::from_millis(250);
/// Pause between attempts to reach the transaction coordinator.
const RECONNECT: Duration = Duration::from_secs(1);

/// Starts thread `index`; `mailbox` is its other end.
pub(super) fn start(
    instance: Arc<Instance>,
    index: usize,
    plugins: Arc<dyn Plugins>,
) -> Result<(Mailbox, JoinHandle<()>), super::Error> {
    let name = format!("stream-{index}");
    let (waiting, waker) = super::wake::pair();
    let (mailbox, events) = Mailbox::new(Arc::clone(&waker));
    let stream_thread = StreamThread::new(instance, index, plugins, waker)?;
    let thread = std::thread::Builder::new()
        .name(name.clone())
        .spawn(move || stream_thread.run(&events, &waiting))
        .map_err(|source| super::Error::Thread { name, source })?;
    Ok((mailbox, thread))
}

/// The thread's own.
pub(super) struct StreamThread {
    /// For messages.
    name: String,
    /// Its number.
    index: usize,
    /// Shared parts.
    instance: Arc<Instance>,
    /// Its tasks.
    tasks: BTreeMap<TaskId, ActiveTask>,
    /// Tasks that could not be opened, with the reason.
    unopened: Vec<TaskStatus>,
    /// Its producers.
    committer: Committer,
    /// Active plugins.
    plugins: Arc<dyn Plugins>,
    /// Their instances of this thread.
    logic: Metered,
    /// Plugins to swap to at the next commit.
    next_plugins: Option<Arc<dyn Plugins>>,
    /// A commit whose outcome must be found out before anything else is processed.
    unresolved: Option<Attempt>,
    /// Where streams must be set back to before anything else is processed.
    seek: Vec<(TopicPartition, i64)>,
    /// How often that was tried.
    seeks: usize,
    /// The member's place in the group that gave the tasks.
    group: Option<Place>,
    /// When to try to connect next.
    next_connect: Instant,
    /// When to commit next.
    next_commit: Instant,
    /// When to publish next.
    next_publish: Instant,
    /// Wakes this thread.
    waker: kafka::Waker,
}

/// What comes after a step of a thread.
pub(super) enum Next {
    /// Another one, at once.
    Again,
    /// Another one, then or when it is woken.
    Wait(Instant),
    /// Nothing.
    End,
}

impl StreamThread {
    /// A thread without tasks, whose producer is not connected yet.
    pub(super) fn new(
        instance: Arc<Instance>,
        index: usize,
        plugins: Arc<dyn Plugins>,
        waker: kafka::Waker,
    ) -> Result<Self, super::Error> {
        let committer = Committer::new(Arc::clone(&instance), index)?;
        let logic = Arc::clone(&plugins).logic();
        let now = instance.now();
        Ok(Self {
            name: format!("stream thread {index}"),
            index,
            logic: Metered::new(logic, &instance.plan.functions, &instance.counters),
            instance,
            tasks: BTreeMap::new(),
            unopened: Vec::new(),
            committer,
            plugins,
            next_plugins: None,
            unresolved: None,
            seek: Vec::new(),
            seeks: 0,
            group: None,
            next_connect: now,
            next_commit: now,
            next_publish: now,
            waker,
        })
    }

    /// Until told to stop.
    fn run(mut self, events: &Receiver<Event>, waiting: &super::wake::Waiting) {
        loop {
            match self.step(events) {
                Next::Again => {}
                Next::Wait(until) => waiting.wait_until(until),
                Next::End => return,
            }
        }
    }

    /// Does what it was told, then one turn of its tasks, then what is due.
    pub(super) fn step(&mut self, events: &Receiver<Event>) -> Next {
        while let Ok(event) = events.try_recv() {
            if matches!(event, Event::Stop) {
                self.close_all(true);
                return Next::End;
            }
            self.event(event);
        }
        let now = self.instance.now();
        let ready = self.connected(now);
        let mut busy = false;
        if ready {
            busy = self.turn(now);
            self.committer.poll();
            let due = now >= self.next_commit || self.next_plugins.is_some() || self.overlay_is_full();
            if due && self.unresolved.is_none() {
                self.commit_and_swap(now);
            }
        }
        if now >= self.next_publish {
            self.publish(now);
        }
        if busy {
            return Next::Again;
        }
        let dirty = self.tasks.values().any(ActiveTask::is_dirty);
        let until = if dirty && ready { self.next_commit } else { now + IDLE };
        Next::Wait(until.min(now + IDLE))
    }

    /// Does what it was told.
    fn event(&mut self, event: Event) {
        let now = self.instance.now();
        match event {
            Event::Open { tasks, group, opened } => {
                self.group = group;
                let ids: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
                if opened.send(tasks.into_iter().flat_map(|task| self.open(task, now)).collect()).is_err() {
                    // The assignment went on without them: nothing would ever come.
                    self.close_all(true);
                    ids.into_iter().for_each(|id| self.unopened(id, "it was not opened in time".to_owned()));
                }
            }
            Event::Close { lost, done } => {
                let _late = done.send(self.close_all(lost));
            }
            Event::LogRange { task, partition, asked, range } => {
                if let Some(task) = self.tasks.get_mut(&task) {
                    task.log_range(&partition, asked, range, &self.waker, now);
                }
            }
            Event::Swap(plugins) => {
                self.next_plugins = Some(plugins);
                if self.tasks.is_empty() {
                    self.swap();
                }
            }
            Event::Stop => {}
        }
        self.next_publish = now;
    }

    /// Opens a task; one that cannot be opened is shown as failed.
    fn open(&mut self, open: OpenTask, now: Instant) -> Vec<Opened> {
        let id = open.id;
        match ActiveTask::open(&self.instance, open, &self.waker, now) {
            Ok((task, assigned)) => {
                self.tasks.insert(id, task);
                fault::point("assignment.task-opened");
                assigned
            }
            Err(reason) => {
                self.unopened(id, reason);
                Vec::new()
            }
        }
    }

    /// Commits, unless the partitions are lost, and closes all tasks. Returns their stores.
    fn close_all(&mut self, lost: bool) -> Left {
        let now = self.instance.now();
        if !lost && self.unresolved.is_none() && self.committer.is_ready() {
            self.commit(now);
            fault::point("close.committed");
        }
        if self.unresolved.take().is_some() || lost || self.committer.has_unsent() {
            // What is open, or on its way, belongs to tasks that are gone.
            if self.tasks.is_empty() { self.committer.disconnect() } else { self.committer.abandon() }
        }
        let mut stores = Vec::new();
        for (id, task) in std::mem::take(&mut self.tasks) {
            stores.extend(task.close(now).map(|left| (id, left)));
            fault::point("close.task-closed");
        }
        self.seek.clear();
        self.group = None;
        self.unopened.clear();
        self.publish(now);
        stores
    }

    /// Whether tasks may go on: a producer works, the last commit's outcome is known, and streams are where they must be.
    /// Tries to get there, from time to time.
    ///
    /// Also without tasks: the producer ends what the thread has left open, here or in an earlier run, and the group tells no
    /// offsets as long as they are part of that.
    fn connected(&mut self, now: Instant) -> bool {
        if self.committer.is_ready() && self.unresolved.is_none() && self.seek.is_empty() {
            return !self.tasks.is_empty();
        }
        if self.tasks.is_empty() && self.instance.shared.is_stopping() {
            return false;
        }
        if now < self.next_connect {
            // Stores are filled in the meantime.
            self.turn_restoring(now);
            return false;
        }
        let result = if self.committer.is_ready() { Ok(()) } else { self.committer.connect() };
        let result = result.and_then(|()| self.resolve()).and_then(|()| self.seek());
        match result {
            Ok(()) => {
                self.instance.shared.set_trouble(&self.name, None);
                !self.tasks.is_empty()
            }
            Err(error) => {
                let trouble = crate::runtime::chain(&error);
                tracing::warn!("{}: cannot begin transactions: {trouble}", self.name);
                self.instance.shared.set_trouble(&self.name, Some(trouble));
                self.next_connect = self.instance.now() + RECONNECT;
                false
            }
        }
    }

    /// A turn of every task; their outputs are sent.
    fn turn(&mut self, now: Instant) -> bool {
        let mut busy = false;
        let generation = self.plugins.generation();
        let mut failed = None;
        for task in self.tasks.values_mut() {
            let mut ask = asker(&self.instance, self.index);
            match task.turn(&mut self.logic, generation, &mut ask, now) {
                Turn::Idle => {}
                Turn::Rewound(streams) => {
                    busy = true;
                    self.seek.extend(streams);
                }
                Turn::Busy(outputs) => {
                    busy = true;
                    if let Err(error) = self.committer.send(outputs) {
                        failed = Some(error);
                        break;
                    }
                }
            }
        }
        if let Some(error) = failed {
            self.broken("cannot send outputs", &error);
        }
        busy
    }

    /// A turn of the tasks that don't process yet: that needs no producer.
    fn turn_restoring(&mut self, now: Instant) {
        let generation = self.plugins.generation();
        for task in self.tasks.values_mut() {
            if matches!(task.state(), TaskState::Created | TaskState::Restoring) {
                let mut ask = asker(&self.instance, self.index);
                task.turn(&mut self.logic, generation, &mut ask, now);
            }
        }
    }

    /// Whether uncommitted state has reached its bound.
    fn overlay_is_full(&self) -> bool {
        let bytes: usize = self.tasks.values().map(ActiveTask::overlay_bytes).sum();
        bytes > self.instance.options.overlay_bytes
    }

    /// Commits what there is; then, between two batches, goes on with other plugins if some are waiting.
    fn commit_and_swap(&mut self, now: Instant) {
        self.next_commit = now + self.instance.options.commit_interval;
        if self.commit(now) {
            self.swap();
        }
    }

    /// Goes on with the plugins that wait, if some do.
    fn swap(&mut self) {
        let Some(plugins) = self.next_plugins.take() else { return };
        fault::point("swap.committed");
        tracing::info!("{}: plugins of generation {}", self.name, plugins.generation());
        self.instance.counters.swaps.inc();
        self.logic = Metered::new(Arc::clone(&plugins).logic(), &self.instance.plan.functions, &self.instance.counters);
        self.plugins = plugins;
        let now = self.instance.now();
        for task in self.tasks.values_mut() {
            task.retry(now);
        }
        fault::point("swap.done");
    }

    /// Commits what there is. `false`: it failed, and what became of it isn't known.
    fn commit(&mut self, now: Instant) -> bool {
        if !self.tasks.values().any(ActiveTask::is_dirty) {
            return true;
        }
        let mut outputs = Vec::new();
        let mut refused = None;
        for (id, task) in &mut self.tasks {
            match task.emit_pending(&mut self.logic) {
                Ok(emitted) => outputs.extend(emitted),
                Err(error) => {
                    refused = Some((*id, crate::runtime::chain(&error)));
                    break;
                }
            }
        }
        if let Some((id, reason)) = refused {
            // What the transaction has of the thread's outputs so far is void, too.
            self.committer.disconnect();
            self.rewind();
            if let Some(task) = self.tasks.get_mut(&id) {
                task.stop_at_commit(reason);
            }
            return false;
        }
        if let Err(error) = self.committer.send(outputs) {
            self.broken("cannot send outputs", &error);
            return false;
        }
        match self.committer.commit(&self.tasks, self.group.as_ref(), self.plugins.generation()) {
            Ok((commit, positions)) => {
                self.apply(&commit, &positions);
                let elapsed = self.instance.now().saturating_duration_since(now);
                self.instance.counters.commits.durations.observe(elapsed);
                true
            }
            Err(failed) => {
                let (error, attempt) = *failed;
                self.instance.counters.commits.unknown.inc();
                self.unresolved = Some(attempt);
                self.next_connect = self.instance.now();
                self.tell("the commit failed", &error);
                false
            }
        }
    }

    /// The producer can't go on: what was sent since the last commit is void.
    fn broken(&mut self, doing: &str, error: &kafka::Error) {
        self.tell(doing, error);
        self.committer.disconnect();
        self.rewind();
    }

    /// Applies a commit that went through to the stores.
    fn apply(&mut self, commit: &crate::model::CommitId, positions: &super::committer::Positions) {
        let generation = self.plugins.generation();
        for (number, (id, changelogs)) in positions.iter().enumerate() {
            let Some(task) = self.tasks.get_mut(id) else { continue };
            if number > 0 {
                fault::point("commit.between-stores");
            }
            if let Err(reason) = task.committed(changelogs, commit, generation) {
                // The state is in the changelog; what is local is older, and stays usable.
                task.fail(reason);
            }
        }
        fault::point("commit.applied");
    }
}

/// A way to ask for a log's range; the answer comes as an event of this thread.
fn asker(instance: &Arc<Instance>, thread: usize) -> impl FnMut(TaskId, TopicPartition, Instant) {
    let mailbox = instance.mailboxes.get().and_then(|all| all.get(thread)).cloned();
    let prober = Arc::clone(&instance.prober);
    move |task, partition, asked| {
        if let Some(mailbox) = mailbox.clone() {
            let of = partition.clone();
            let answer = move |range| {
                mailbox.send(Event::LogRange { task, partition, asked, range });
            };
            prober.ask(of, Box::new(answer));
        }
    }
}
