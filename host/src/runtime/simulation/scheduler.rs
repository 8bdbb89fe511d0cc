//! Who acts when: one actor at a time, chosen by chance, and between two effects of one step perhaps others.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::chaos;
use super::coverage::Seen;
use super::logic;
use super::process::{self, Actor, Turn};
use super::wire::{Death, Wire};
use super::world::{Stage, World};
use crate::plan::Plan;

/// How far others may get into each other's steps.
const DEPTH: usize = 2;

/// A world and the actors in it.
pub(super) struct Simulation {
    /// The world; locked for single effects only.
    world: Mutex<World>,
    /// The actors' places: each process's member, then its threads.
    places: Vec<Place>,
    /// How many steps are under way, one within another.
    depth: AtomicUsize,
    /// The plan.
    plan: Arc<Plan>,
}

/// An actor's place.
struct Place {
    /// The actor, while its process lives; locked while it acts.
    actor: Mutex<Option<Actor>>,
    /// Whether it was woken.
    rung: Arc<AtomicBool>,
    /// Until when it sleeps, in milliseconds.
    until: AtomicU64,
}

impl Simulation {
    /// All processes start.
    pub(super) fn new(world: World) -> Arc<Self> {
        let count = world.scenario.processes * (world.scenario.threads + 1);
        let place = || Place { actor: Mutex::default(), rung: Arc::default(), until: AtomicU64::new(0) };
        let places = (0..count).map(|_| place()).collect();
        Arc::new(Self { world: Mutex::new(world), places, depth: AtomicUsize::new(0), plan: Arc::new(logic::plan()) })
    }

    /// The world.
    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The places of a process.
    fn places_of(&self, process: usize) -> &[Place] {
        let each = self.places.len() / self.world().scenario.processes;
        &self.places[process * each..(process + 1) * each]
    }

    /// Perhaps others act now, between two effects of `process`: a little, or, while it stands still, for long.
    pub(super) fn preempt(self: &Arc<Self>, process: usize) {
        let depth = self.depth.load(Ordering::Relaxed);
        if depth > DEPTH {
            return;
        }
        let (steps, until) = {
            let mut world = self.world();
            if !world.mishap(4) {
                return;
            }
            world.saw(Seen::Preempted);
            if depth <= 1 && world.random.chance(12) {
                let pause = world.random.between(200, 1500) as u64;
                let until = world.now + Duration::from_millis(pause);
                world.processes[process].paused_until = until;
                world.tell(|| format!("  {process} stands still for {pause}"));
                (300, Some(until))
            } else {
                (world.random.between(1, 6), None)
            }
        };
        for _ in 0..steps {
            if until.is_some_and(|until| self.world().now >= until) {
                break;
            }
            self.step();
        }
        chaos::goes_on(&mut self.world(), process);
    }

    /// One step: the world's own affairs, then an actor's.
    pub(super) fn step(self: &Arc<Self>) {
        let (now, first, starting) = {
            let mut world = self.world();
            let passed = Duration::from_millis(world.random.below(4) as u64);
            world.now += passed;
            chaos::step(&mut world);
            let starting = world.processes.iter().position(|process| process.starts(world.now));
            (world.now, world.random.below(self.places.len()), starting)
        };
        if let Some(process) = starting {
            self.start(process);
        }
        for index in 0..self.places.len() {
            if self.act((first + index) % self.places.len(), now) {
                return;
            }
        }
        // All sleep: so does the world.
        self.world().now += Duration::from_millis(20);
    }

    /// Starts a process whose time has come, when nothing is left of its last life.
    fn start(self: &Arc<Self>, index: usize) {
        let life = self.world().processes[index].life;
        self.bury(index);
        let places = self.places_of(index);
        if !places.iter().all(|place| place.actor.try_lock().is_ok_and(|actor| actor.is_none())) {
            return;
        }
        self.world().processes[index].alive = true;
        let wire = Wire::new(self, index, life);
        let rung: Vec<Arc<AtomicBool>> = places.iter().map(|place| Arc::clone(&place.rung)).collect();
        let started = catch_unwind(AssertUnwindSafe(|| process::start(self, &self.plan, &wire, &rung)));
        match started {
            Ok(Ok(actors)) => {
                for (place, actor) in places.iter().zip(actors) {
                    *place.actor.lock().unwrap() = Some(actor);
                    place.until.store(0, Ordering::Relaxed);
                }
            }
            Ok(Err(error)) => self.world().violated(format!("a process does not start: {error}")),
            Err(death) => self.mourn(index, death.as_ref()),
        }
    }

    /// A turn of an actor, if it is one's turn. `false`: it is dead, stands still, sleeps or acts already.
    fn act(self: &Arc<Self>, index: usize, now: Duration) -> bool {
        let place = &self.places[index];
        let is_awake = millis(now) >= place.until.load(Ordering::Relaxed) || place.rung.load(Ordering::Relaxed);
        if !is_awake {
            return false;
        }
        let Ok(mut actor) = place.actor.try_lock() else { return false };
        let Some(acting) = actor.as_mut() else { return false };
        let process = acting.wire().process;
        if now < self.world().processes[process].paused_until {
            return false;
        }
        place.rung.store(false, Ordering::Relaxed);
        self.depth.fetch_add(1, Ordering::Relaxed);
        let turn = catch_unwind(AssertUnwindSafe(|| acting.turn()));
        self.depth.fetch_sub(1, Ordering::Relaxed);
        match turn {
            Ok(Turn::Until(until)) => place.until.store(millis(until), Ordering::Relaxed),
            Ok(Turn::Ended) => *actor = None,
            Err(death) => {
                *actor = None;
                self.mourn(process, death.as_ref());
            }
        }
        let ended = actor.is_none();
        drop(actor);
        if ended {
            self.bury(process);
        }
        self.world().processes[process].stage = Stage::Elsewhere;
        true
    }

    /// An actor did not return: its process died, or the engine has a bug.
    fn mourn(&self, process: usize, death: &(dyn std::any::Any + Send)) {
        if death.is::<Death>() {
            return;
        }
        let text = death.downcast_ref::<String>().cloned();
        let text = text.or_else(|| death.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        self.world().violated(format!("process {process} panicked: {}", text.unwrap_or_default()));
    }

    /// Takes away the actors of a process that is dead, or has ended.
    fn bury(&self, process: usize) {
        let (alive, life) = {
            let world = self.world();
            (world.processes[process].alive, world.processes[process].life)
        };
        let mut left = 0;
        for place in self.places_of(process) {
            let Ok(mut actor) = place.actor.try_lock() else {
                left += 1;
                continue;
            };
            if actor.as_ref().is_some_and(|actor| !alive || actor.wire().life != life) {
                *actor = None;
            }
            left += usize::from(actor.is_some());
        }
        if alive && left == 0 {
            chaos::stopped(&mut self.world(), process);
        }
    }

    /// Whether all processes' tasks run.
    pub(super) fn is_settled(&self) -> bool {
        let settled = |place: &Place| match place.actor.lock().unwrap().as_ref() {
            Some(Actor::Member(member)) => Some(member.is_settled()),
            _ => None,
        };
        let members: Vec<bool> = self.places.iter().filter_map(settled).collect();
        let processes = self.world().scenario.processes;
        members.len() == processes && members.into_iter().all(|settled| settled)
    }

    /// Ends what is left, so that nothing refers to the simulation any more.
    pub(super) fn end(&self) {
        for place in &self.places {
            *place.actor.lock().unwrap() = None;
        }
    }
}

/// A time in milliseconds.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
