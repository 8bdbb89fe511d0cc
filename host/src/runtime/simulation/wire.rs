//! How a process has effects: each may be its last, and between any two of them others may act.

use std::any::Any;
use std::panic::resume_unwind;
use std::sync::{Arc, Weak};

use super::scheduler::Simulation;
use super::world::World;

/// Why a process's code does not return: the process is dead.
pub(super) struct Death;

/// A process's connection to the world, in one of its lives.
#[derive(Clone)]
pub(super) struct Wire {
    /// The simulation.
    simulation: Weak<Simulation>,
    /// The process.
    pub(super) process: usize,
    /// Its life.
    pub(super) life: u64,
}

impl Wire {
    /// The connection of this life of a process.
    pub(super) fn new(simulation: &Arc<Simulation>, process: usize, life: u64) -> Self {
        Self { simulation: Arc::downgrade(simulation), process, life }
    }

    /// The simulation; without one there is no one left to die for.
    fn simulation(&self) -> Arc<Simulation> {
        self.simulation.upgrade().unwrap_or_else(|| die())
    }

    /// Whether this life has not ended.
    fn lives(&self, world: &World) -> bool {
        let process = &world.processes[self.process];
        process.alive && process.life == self.life
    }

    /// Looks at the world, or changes what only this process knows.
    pub(super) fn look<T>(&self, look: impl FnOnce(&mut World) -> T) -> T {
        let simulation = self.simulation();
        let mut world = simulation.world();
        if !self.lives(&world) {
            drop(world);
            die();
        }
        look(&mut world)
    }

    /// Has an effect, unless the process dies before. Others may act first.
    pub(super) fn effect<T>(&self, what: &'static str, effect: impl FnOnce(&mut World) -> T) -> T {
        let simulation = self.simulation();
        {
            let mut world = simulation.world();
            if !self.lives(&world) || world.dies_now(self.process) {
                drop(world);
                die();
            }
        }
        simulation.preempt(self.process);
        let mut world = simulation.world();
        if !self.lives(&world) {
            drop(world);
            die();
        }
        world.tell(|| format!("  {}: {what}", self.process));
        effect(&mut world)
    }
}

/// Leaves the code of a dead process. No panic: nothing is printed.
fn die() -> ! {
    resume_unwind(Box::new(Death) as Box<dyn Any + Send>)
}
