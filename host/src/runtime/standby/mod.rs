//! Standbys: this instance keeps the state of tasks that other instances run, where the group will give these tasks if an
//! instance is lost. A failover then goes on from here instead of restoring.
//!
//! ```text
//!   assignment ─ report ─▶ control topic ─▶ members ─▶ placement ─▶ Wanted ─┐
//!   assignment ─ Owned (waits until these are closed) ──────────────────────┤
//!                                                                           ▼
//!   standby thread: fetch ─▶ stores of the tasks that are wanted and not owned
//! ```
//!
//! A standby is a cache: which of them there are may be wrong for a while and costs at most a restore, and how far it is its
//! stores' own checkpoint says, which decides when the task opens them. It never joins, processes, or writes to a changelog. Its
//! errors are told in the status and tried again; they never stop anything.

mod placement;
mod task;
mod thread;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};

use crate::kafka::{ClientSettings, Waker};
use crate::model::TaskId;
use crate::plan::{self, Plan};

use super::Error;
use super::control::{Control, End, Members, Report};
use super::instance::Instance;
use super::wake::Waiting;

use placement::Placement;

/// Commands that may wait for the thread; senders of more wait.
const COMMANDS: usize = 64;
/// How long an assignment waits for standbys to be closed: as long as opening their stores would wait for that on its own.
const CLOSE: Duration = Duration::from_secs(10);
/// Who tells problems of the agreement.
const CONTROL: &str = "control";

/// What the standby thread is told. One closed set.
enum Command {
    /// The group has given these tasks to this instance.
    Owned {
        /// The tasks.
        tasks: BTreeSet<TaskId>,
        /// Told when none of them is open here any more.
        closed: Sender<()>,
    },
    /// These are to be followed, unless they are owned.
    Wanted(BTreeSet<TaskId>),
}

/// The way to the standby thread and to the others' reports.
pub(super) struct Standbys {
    /// Where commands go.
    commands: Sender<Command>,
    /// Wakes the thread.
    waker: Waker,
    /// This instance's report.
    control: Control,
    /// What is followed, or shall be. Held for a look or a change only.
    tasks: Arc<Mutex<BTreeSet<TaskId>>>,
}

/// The threads, to be waited for.
pub(super) type Threads = Vec<JoinHandle<()>>;

impl Standbys {
    /// Starts the threads, if the topology wants standbys of tasks that keep state. `counts`: partitions of each topic.
    pub(super) fn start(
        instance: &Arc<Instance>,
        settings: &ClientSettings,
        counts: &BTreeMap<String, i32>,
    ) -> Result<Threads, Error> {
        let tasks: BTreeSet<TaskId> = plan::tasks(&instance.plan, counts)?.into_iter().collect();
        if instance.plan.standby == 0 || tasks.is_empty() {
            return Ok(Vec::new());
        }
        let (commands, received): (_, Receiver<Command>) = crossbeam_channel::bounded(COMMANDS);
        let (waiting, waker): (Waiting, Waker) = super::wake::pair();
        let followed = Arc::new(Mutex::new(BTreeSet::new()));
        let agreement = Agreement {
            instance: Arc::clone(instance),
            followed: Arc::clone(&followed),
            partitions: partitions(&tasks),
            tasks,
            commands: commands.clone(),
            waker: Arc::clone(&waker),
        };
        let shared = Arc::clone(&instance.shared);
        let (control, follower) = Control::start(
            settings.clone(),
            plan::control_topic(&instance.plan.app_id).name,
            instance.folder.instance_id().to_owned(),
            Box::new(move |members| agreement.apply(members)),
            Box::new(move |problem| shared.set_standby_problem(CONTROL, problem)),
        )?;
        let thread = match thread::start(Arc::clone(instance), received, waiting, Arc::clone(&waker)) {
            Ok(thread) => thread,
            Err(error) => {
                control.end(End::Stays);
                return Err(error);
            }
        };
        let _only_once = instance.standbys.set(Self { commands, waker, control, tasks: followed });
        Ok(vec![follower, thread])
    }

    /// The group has given these tasks to this instance: returns once none of their stores is open here, or the time is up.
    pub(super) fn owned(&self, tasks: BTreeSet<TaskId>) {
        let (closed, done) = crossbeam_channel::bounded(1);
        let until = Instant::now() + CLOSE;
        let sent = self.commands.send_deadline(Command::Owned { tasks, closed }, until);
        (self.waker)();
        if sent.is_ok()
            && let Err(crossbeam_channel::RecvTimeoutError::Timeout) = done.recv_deadline(until)
        {
            tracing::error!("the standbys of tasks that are now active were not closed in time");
        }
    }

    /// Tells the other instances what the group has given to this one.
    pub(super) fn report(&self, report: Report) {
        self.control.publish(report);
    }

    /// The tasks that this instance keeps the state of, or is about to: their folders are in use also while they are closed.
    pub(super) fn tasks(&self) -> BTreeSet<TaskId> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the agreement. The standby thread ends with the instance.
    pub(super) fn end(&self, how: End) {
        self.control.end(how);
        (self.waker)();
    }
}

/// How many tasks each sub-topology has.
fn partitions(tasks: &BTreeSet<TaskId>) -> BTreeMap<u32, i32> {
    let mut partitions = BTreeMap::new();
    for task in tasks {
        *partitions.entry(task.subtopology).or_default() += 1;
    }
    partitions
}

/// What the members' reports mean for this instance.
struct Agreement {
    /// The instance.
    instance: Arc<Instance>,
    /// All tasks.
    tasks: BTreeSet<TaskId>,
    /// How many each sub-topology has.
    partitions: BTreeMap<u32, i32>,
    /// What is to be followed, for whoever looks.
    followed: Arc<Mutex<BTreeSet<TaskId>>>,
    /// The standby thread's commands.
    commands: Sender<Command>,
    /// Wakes it.
    waker: Waker,
}

impl Agreement {
    /// Works out anew what is to be followed, if that can be said by now, and tells the thread.
    fn apply(&self, members: &Members) {
        let own = self.instance.folder.instance_id();
        let Some(members) = members.with(own, &self.tasks) else { return };
        let Some(place) = members.iter().position(|(instance, _)| *instance == own) else { return };
        let placement = Placement { partitions: &self.partitions, members: members.len() };
        let differs = members.iter().enumerate().any(|(place, (_, report))| placement.owned(place) != report.tasks());
        // By racks, or in a group of static and other members, or of instances with different topologies.
        let problem = "the group's assignment is not that of ranges in the members' order: a lost instance's tasks may go \
                       where there is no standby of them, and are restored there";
        self.instance.shared.set_standby_problem(thread::NAME, differs.then(|| problem.to_owned()));
        let wanted = placement.standbys(place, self.instance.plan.standby);
        let wanted: BTreeSet<TaskId> =
            wanted.into_iter().filter(|task| keeps_state(&self.instance.plan, *task)).collect();
        self.followed.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&wanted);
        let _ended = self.commands.send(Command::Wanted(wanted));
        (self.waker)();
    }
}

/// Whether a task has stores.
fn keeps_state(plan: &Plan, task: TaskId) -> bool {
    plan.subtopologies.get(task.subtopology as usize).is_some_and(|part| !part.stores.is_empty())
}
