//! A process: a group member and stream threads, which run the engine's code one step at a time.
//!
//! The member stands for librdkafka and the supervisor's thread: it serves rebalances with what the engine's assignment says, and hands
//! tasks to the threads' mailboxes as the engine does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crossbeam_channel::{Receiver, TryRecvError};

use super::cluster::{Heartbeat, MemberId};
use super::coverage::Seen;
use super::edge::{SimulatedFolder, SimulatedLogRanges, SimulatedProducers, SimulatedReader, SimulatedSource};
use super::fault::Fault;
use super::logic::{A, B, CHANGELOG, NativePlugins, TABLE};
use super::scheduler::Simulation;
use super::wire::Wire;
use crate::config::{Guarantee, OnStop};
use crate::kafka::{Waker, partition_for_key};
use crate::model::{TaskState, TopicPartition};
use crate::plan::{BarrierPlan, BarrierScope, OnTimeout, Plan};
use crate::runtime::assignment::{Assignment, Given};
use crate::runtime::edge::Plugins;
use crate::runtime::event::{Event, Left, Mailbox, Opened};
use crate::runtime::instance::{Instance, Options, Shared};
use crate::runtime::stream_thread::{Next, StreamThread};
use crate::runtime::topics::Topics;
use crate::task::{self, Barrier};
use crate::telemetry::Counters;
use crate::view::Catalog;

/// How often a member looks after its group.
const HEARTBEAT: Duration = Duration::from_millis(15);

/// What runs on a thread of a process.
pub(super) enum Actor {
    /// The group member.
    Member(Box<Member>),
    /// A stream thread.
    Thread(Box<Thread>),
}

/// What an actor's turn ended with.
pub(super) enum Turn {
    /// Go on when woken, or then.
    Until(Duration),
    /// It has ended.
    Ended,
}

/// A stream thread.
pub(super) struct Thread {
    /// Its process.
    pub(super) wire: Wire,
    /// The instance, for its status.
    instance: Arc<Instance>,
    /// The engine's.
    thread: StreamThread,
    /// Its mailbox's other end.
    events: Receiver<Event>,
    /// Its number.
    index: usize,
}

/// A group member.
pub(super) struct Member {
    /// Its process.
    pub(super) wire: Wire,
    /// The instance.
    instance: Arc<Instance>,
    /// The engine's.
    assignment: Assignment,
    /// The threads' mailboxes.
    mailboxes: Vec<Mailbox>,
    /// Its id in the group, once it has joined.
    id: Option<MemberId>,
    /// The last generation served.
    served: u32,
    /// What it is at.
    phase: Phase,
}

/// What a member is at.
enum Phase {
    /// It joins.
    Joining,
    /// It waits for the generation to be formed.
    Waiting,
    /// It asks for the offsets of what it was given.
    Fetching(Option<Given>),
    /// Threads open their tasks.
    Opening(Vec<Receiver<Vec<Opened>>>, Vec<Opened>),
    /// Tasks run.
    Running,
    /// Threads close their tasks; the partitions are lost, or the member leaves.
    Closing(Vec<Receiver<Left>>, After),
}

/// What comes after closing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    /// Joining again.
    Rejoin,
    /// Joining as someone new.
    JoinAnew,
    /// The end.
    Leave,
}

/// The options of an instance.
fn options(simulation: &Simulation) -> Options {
    let world = simulation.world();
    let scenario = &world.scenario;
    Options {
        guarantee: if scenario.exactly_once { Guarantee::ExactlyOnce } else { Guarantee::AtLeastOnce },
        threads: scenario.threads,
        commit_interval: scenario.commit_interval,
        overlay_bytes: 1 << 20,
        fetch_bytes: 1 << 20,
        probe_interval: Duration::from_millis(60),
        persist_interval: scenario.persist_interval,
        barrier: BarrierPlan { scope: BarrierScope::Instance, timeout: None, on_timeout: OnTimeout::Fail },
        task: task::Options { batch: scenario.batch, ..task::Options::default() },
        start_at_end: false,
        close_timeout: Duration::from_secs(12),
        cleanup_delay: Duration::from_secs(600),
        on_stop: OnStop::Leave,
        max_poll_interval: Duration::MAX,
    }
}

/// Starts a process: the member first, then its threads. `wakers`: of the threads.
pub(super) fn start(
    simulation: &Arc<Simulation>,
    plan: &Arc<Plan>,
    wire: &Wire,
    rung: &[Arc<AtomicBool>],
) -> Result<Vec<Actor>, crate::runtime::Error> {
    let (id, beginning) = wire.look(|world| {
        let number = world.random.next();
        let (life, disk) = (wire.life, &mut world.processes[wire.process].disk);
        if disk.id.is_empty() {
            disk.id = format!("p{}-{life}-{number}", wire.process);
        }
        (disk.id.clone(), world.instant())
    });
    let clock = wire.clone();
    let instance = Arc::new(Instance {
        plan: Arc::clone(plan),
        options: options(simulation),
        started: beginning,
        time: Box::new(move || clock.look(|world| world.instant())),
        topics: Topics::default(),
        producers: Box::new(SimulatedProducers(wire.clone())),
        folder: Box::new(SimulatedFolder { wire: wire.clone(), id }),
        source: Box::new(SimulatedSource(wire.clone())),
        reader: Box::new(SimulatedReader(wire.clone())),
        prober: Arc::new(SimulatedLogRanges(wire.clone())),
        catalog: Arc::new(Catalog::new(partition_for_key)),
        shared: Arc::new(Shared::default()),
        counters: Arc::new(Counters::new(["joined"], ["native"])),
        barrier: Mutex::new(Barrier::new(BarrierScope::Instance, true)),
        mailboxes: OnceLock::new(),
        globals: OnceLock::new(),
        standbys: OnceLock::new(),
        plugins: Mutex::new(Some(Arc::new(NativePlugins) as Arc<dyn Plugins>)),
    });
    let mut threads = Vec::new();
    let mut mailboxes = Vec::new();
    for (index, rung) in rung.iter().enumerate().skip(1) {
        let waker = waker(rung);
        let (mailbox, events) = Mailbox::new(Arc::clone(&waker));
        let thread = StreamThread::new(Arc::clone(&instance), index - 1, Arc::new(NativePlugins), waker)?;
        mailboxes.push(mailbox);
        threads.push(Thread { wire: wire.clone(), instance: Arc::clone(&instance), thread, events, index: index - 1 });
    }
    let _only_once = instance.mailboxes.set(mailboxes.clone());
    let member = Member {
        wire: wire.clone(),
        instance,
        assignment: Assignment::default(),
        mailboxes,
        id: None,
        served: 0,
        phase: Phase::Joining,
    };
    let mut actors = vec![Actor::Member(Box::new(member))];
    actors.extend(threads.into_iter().map(|thread| Actor::Thread(Box::new(thread))));
    Ok(actors)
}

/// Wakes an actor.
fn waker(rung: &Arc<AtomicBool>) -> Waker {
    let rung = Arc::clone(rung);
    Arc::new(move || rung.store(true, Ordering::Relaxed))
}

impl Actor {
    /// Its process.
    pub(super) fn wire(&self) -> &Wire {
        match self {
            Self::Member(member) => &member.wire,
            Self::Thread(thread) => &thread.wire,
        }
    }

    /// One step.
    pub(super) fn turn(&mut self) -> Turn {
        match self {
            Self::Member(member) => member.turn(),
            Self::Thread(thread) => thread.turn(),
        }
    }
}

impl Thread {
    /// One step of the engine.
    fn turn(&mut self) -> Turn {
        self.wire.look(|world| {
            let process = &mut world.processes[self.wire.process];
            if process.lost {
                process.told.insert(self.index)
            } else {
                process.told.remove(&self.index)
            };
        });
        let next = self.thread.step(&self.events);
        self.look_for_failures();
        let until = match next {
            Next::Again => return Turn::Until(Duration::ZERO),
            Next::Wait(until) => until,
            Next::End => return Turn::Ended,
        };
        Turn::Until(self.wire.look(|world| until.saturating_duration_since(world.beginning)))
    }

    /// No task may stop, but for a log that was cut off below its reader: then someone starts the process again.
    fn look_for_failures(&self) {
        let tasks = self.instance.shared.tasks.lock().unwrap();
        let failed = tasks.iter().flatten().find(|task| task.state == TaskState::Failed);
        let Some(reason) = failed.map(|task| task.reason.clone()) else { return };
        drop(tasks);
        self.wire.look(|world| {
            if reason.contains("is not in the log") {
                world.kill(self.wire.process);
            } else {
                world.violated(format!("a task stopped: {reason}"));
            }
        });
    }
}

impl Member {
    /// Serves the group.
    fn turn(&mut self) -> Turn {
        match std::mem::replace(&mut self.phase, Phase::Joining) {
            Phase::Joining => self.join(),
            Phase::Waiting => self.wait(),
            Phase::Fetching(given) => self.fetch(given),
            Phase::Opening(replies, opened) => self.open(replies, opened),
            Phase::Running => self.run(),
            Phase::Closing(done, after) => {
                if let Some(ended) = self.close(done, after) {
                    return ended;
                }
            }
        }
        Turn::Until(self.wire.look(|world| world.now) + HEARTBEAT)
    }

    /// Whether the process was told to stop.
    fn stops(&self) -> bool {
        self.wire.look(|world| world.processes[self.wire.process].stopping)
    }

    /// Joins the group.
    fn join(&mut self) {
        if self.stops() {
            self.phase = self.take_away(After::Leave);
            return;
        }
        let (id, life) = (self.id, (self.wire.process, self.wire.life));
        self.id = Some(self.wire.effect("joins the group", |world| {
            let now = world.now;
            world.cluster.group.join(id, life, now)
        }));
        self.phase = Phase::Waiting;
    }

    /// What the group says now.
    fn heartbeat(&self) -> Heartbeat {
        self.wire.look(|world| self.id.map_or(Heartbeat::Unknown, |id| world.cluster.group.heartbeat(id)))
    }

    /// Waits until the generation is formed.
    fn wait(&mut self) {
        match self.heartbeat() {
            Heartbeat::Unknown => self.id = None,
            Heartbeat::Rejoin => {}
            Heartbeat::Fine => {
                let given = self.wire.look(|world| {
                    let (place, partitions) = world.cluster.group.given(self.id?)?;
                    let process = &mut world.processes[self.wire.process];
                    (process.place, process.lost) = (Some(place), false);
                    world.tell(|| {
                        format!("{} is given {partitions:?} in generation {}", self.wire.process, place.generation)
                    });
                    Some((place, partitions))
                });
                let Some((place, partitions)) = given.filter(|(place, _)| place.generation != self.served) else {
                    self.phase = Phase::Waiting;
                    return;
                };
                self.served = place.generation;
                let of = |topic: &str| partitions.iter().map(|it| TopicPartition::new(topic, *it)).collect::<Vec<_>>();
                let partitions = [of(A), of(B), of(TABLE)].concat();
                self.phase = Phase::Fetching(Some(self.assignment.given(&self.instance, &partitions)));
            }
        }
    }

    /// Asks for committed offsets, again and again; then hands the tasks to their threads.
    fn fetch(&mut self, given: Option<Given>) {
        let Some(given) = given else { return };
        match self.instance.source.committed(&given.streams(), HEARTBEAT) {
            Err(_) => self.phase = Phase::Fetching(Some(given)),
            Ok(committed) => {
                let by_thread = given.opens(&self.instance, committed);
                let group = self.instance.source.place().ok();
                let mut replies = Vec::new();
                for (thread, tasks) in by_thread {
                    let (reply, opened) = crossbeam_channel::bounded(1);
                    self.mailboxes[thread].send(Event::Open { tasks, group: group.clone(), opened: reply });
                    replies.push(opened);
                }
                self.phase = Phase::Opening(replies, Vec::new());
            }
        }
    }

    /// Waits until the threads have opened their tasks; then the partitions are assigned.
    fn open(&mut self, mut replies: Vec<Receiver<Vec<Opened>>>, mut opened: Vec<Opened>) {
        replies.retain(|reply| match reply.try_recv() {
            Ok(some) => {
                opened.extend(some);
                false
            }
            Err(TryRecvError::Empty) => true,
            Err(TryRecvError::Disconnected) => false,
        });
        if !replies.is_empty() {
            self.phase = Phase::Opening(replies, opened);
            return;
        }
        self.wire.look(|world| {
            for (partition, offset) in &opened {
                if let Some(fetcher) = world.processes[self.wire.process].streams.get_mut(partition) {
                    (fetcher.position, fetcher.after_last) = (Some(*offset), *offset);
                    (fetcher.waker)();
                }
            }
        });
        self.phase = Phase::Running;
    }

    /// Looks whether a rebalance begins, or the group has gone on.
    fn run(&mut self) {
        self.phase = match self.heartbeat() {
            _ if self.stops() => self.take_away(After::Leave),
            Heartbeat::Fine => Phase::Running,
            Heartbeat::Rejoin => self.take_away(After::Rejoin),
            Heartbeat::Unknown => self.take_away(After::JoinAnew),
        };
    }

    /// Takes all tasks away from the threads.
    fn take_away(&mut self, after: After) -> Phase {
        let is_lost = after == After::JoinAnew;
        let lost = self.wire.look(|world| {
            world.saw(if is_lost { Seen::Lost } else { Seen::Revoked });
            world.tell(|| format!("{} gives back, lost: {is_lost}", self.wire.process));
            let process = &mut world.processes[self.wire.process];
            process.lost = is_lost;
            if process.tables.keys().any(|partition| *partition.topic == *CHANGELOG) {
                world.saw(Seen::RebalanceInRestore);
            }
            is_lost && world.fault != Some(Fault::LostAsRevoked)
        });
        let close = |mailbox: &Mailbox| {
            let (done, closed) = crossbeam_channel::bounded(1);
            mailbox.send(Event::Close { lost, done });
            closed
        };
        Phase::Closing(self.mailboxes.iter().map(close).collect(), after)
    }

    /// Waits until the threads have closed their tasks.
    fn close(&mut self, mut done: Vec<Receiver<Left>>, after: After) -> Option<Turn> {
        done.retain(|done| match done.try_recv() {
            Ok(stores) => {
                self.assignment.keep(stores);
                false
            }
            Err(error) => error == TryRecvError::Empty,
        });
        if !done.is_empty() {
            self.phase = Phase::Closing(done, after);
            return None;
        }
        let id = self.id;
        self.wire.look(|world| world.processes[self.wire.process].streams.clear());
        if after == After::Leave {
            self.assignment.close_stores();
            self.wire.effect("leaves the group", |world| {
                let now = world.now;
                if let Some(id) = id {
                    world.cluster.group.leave(id, now);
                }
            });
            for mailbox in &self.mailboxes {
                mailbox.send(Event::Stop);
            }
            return Some(Turn::Ended);
        }
        if after == After::JoinAnew {
            self.id = None;
        }
        None
    }

    /// Whether its tasks run, in the present generation.
    pub(super) fn is_settled(&self) -> bool {
        let tasks = self.instance.shared.tasks.lock().unwrap();
        matches!(self.phase, Phase::Running) && tasks.iter().flatten().all(|task| task.state == TaskState::Running)
    }
}
