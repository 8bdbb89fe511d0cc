//! What the instances of an application tell each other, by a compacted topic: one record an instance, replaced by its next one
//! and removed when it leaves.
//!
//! A thread of its own writes this instance's report and follows those of all. Nothing that must be right rests on it: reports
//! may be late, and those of the dead stay. Errors are told in the status and tried again.

mod members;
mod report;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::kafka::{self, ClientSettings, TopicLog};

use super::Error;

pub(super) use members::Members;
pub(super) use report::Report;

/// The thread's name.
const NAME: &str = "control";
/// How long opening the topic, and an append, may take before it is tried again.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest wait for a record before the thread looks whether there is something to write.
const POLL: Duration = Duration::from_millis(50);
/// Wait after an error.
const BACK_OFF: Duration = Duration::from_secs(1);

/// Told of the members whenever the topic said something new.
pub(super) type OnChange = Box<dyn Fn(&Members) + Send>;
/// Told what is wrong with the topic, or that it is right again.
pub(super) type OnProblem = Box<dyn Fn(Option<String>) + Send>;

/// The way to the control thread.
#[derive(Clone)]
pub(super) struct Control(Arc<Orders>);

/// What the thread is to do.
#[derive(Default)]
struct Orders {
    /// The orders. Locked for a look or a change only.
    state: Mutex<State>,
    /// Told of each change.
    changed: Condvar,
}

/// The orders as they are.
#[derive(Default)]
struct State {
    /// What the topic shall say of this instance.
    report: Option<Report>,
    /// Whether it says so already.
    written: bool,
    /// How to end, once it is to end.
    end: Option<End>,
}

/// How the thread ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The instance has left: its report goes.
    Left,
    /// It may be back before the group misses it: its report stays.
    Stays,
}

impl Orders {
    /// The orders as they are.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The report that the topic doesn't have yet.
    fn unwritten(&self) -> Option<Report> {
        let state = self.state();
        state.report.clone().filter(|_| !state.written)
    }
}

impl Control {
    /// Starts the thread of the instance `instance`.
    pub(super) fn start(
        settings: ClientSettings,
        topic: String,
        instance: String,
        on_change: OnChange,
        on_problem: OnProblem,
    ) -> Result<(Self, JoinHandle<()>), Error> {
        let orders = Arc::new(Orders::default());
        let control = Self(Arc::clone(&orders));
        let (members, news) = (Members::default(), false);
        let follower = Follower { settings, topic, instance, orders, members, news, on_change, on_problem };
        let thread = std::thread::Builder::new().name(NAME.to_owned()).spawn(move || follower.run());
        let thread = thread.map_err(|source| Error::Thread { name: NAME.to_owned(), source })?;
        Ok((control, thread))
    }

    /// Publishes a report in place of the last one; soon, and without waiting.
    pub(super) fn publish(&self, report: Report) {
        let mut state = self.0.state();
        (state.report, state.written) = (Some(report), false);
        drop(state);
        self.0.changed.notify_all();
    }

    /// Ends the thread, after at most one attempt to say so.
    pub(super) fn end(&self, how: End) {
        self.0.state().end = Some(how);
        self.0.changed.notify_all();
    }
}

/// The thread's own.
struct Follower {
    /// Settings of its clients.
    settings: ClientSettings,
    /// The topic.
    topic: String,
    /// This instance's id.
    instance: String,
    /// What it is to do.
    orders: Arc<Orders>,
    /// What the topic says.
    members: Members,
    /// Whether it has said something that nobody was told yet.
    news: bool,
    /// Told of changes.
    on_change: OnChange,
    /// Told of errors.
    on_problem: OnProblem,
}

impl Follower {
    /// Until told to end.
    fn run(mut self) {
        let mut log = None;
        loop {
            let end = self.orders.state().end;
            let done = self.step(&mut log, end);
            if end.is_some() {
                if let Err(error) = done {
                    tracing::warn!("the other instances could not be told of the end: {}", super::chain(&error));
                }
                return;
            }
            match done {
                Ok(()) => (self.on_problem)(None),
                Err(error) => {
                    log = None;
                    (self.on_problem)(Some(format!("topic {}: {}", self.topic, super::chain(&error))));
                    let mut state = self.orders.state();
                    state.written = false;
                    drop(self.orders.changed.wait_timeout_while(state, BACK_OFF, |state| state.end.is_none()));
                }
            }
        }
    }

    /// Writes what is to be written, then reads what is there.
    fn step(&mut self, log: &mut Option<TopicLog>, end: Option<End>) -> Result<(), kafka::Error> {
        if end == Some(End::Stays) {
            return Ok(());
        }
        let log = match log {
            Some(log) => log,
            None => {
                // From its beginning: what was removed meanwhile may have left no trace.
                self.members = Members::default();
                log.insert(TopicLog::open(&self.settings, &self.topic, PATIENCE)?)
            }
        };
        if end.is_some() {
            return log.append(self.instance.as_bytes(), None).map(drop);
        }
        let unwritten = self.orders.unwritten();
        if let Some(report) = unwritten {
            match report.encode() {
                Ok(value) => drop(log.append(self.instance.as_bytes(), Some(&value))?),
                Err(error) => tracing::error!("a report cannot be written: {error}"),
            }
            let mut state = self.orders.state();
            // Unless there is another one already.
            state.written |= state.report.as_ref() == Some(&report);
        }
        let mut wait = POLL;
        while let Some((offset, key, value)) = log.next(wait)? {
            if let Err(error) = self.members.apply(offset, &key, value.as_deref()) {
                tracing::warn!(topic = self.topic, offset, "a record is passed over: {}", super::chain(&error));
            }
            (self.news, wait) = (true, Duration::ZERO);
        }
        if self.news && log.position() >= log.end_at_open() {
            self.news = false;
            (self.on_change)(&self.members);
        }
        Ok(())
    }
}
