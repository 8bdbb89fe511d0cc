//! A deterministic simulation of the engine: its own code, on one thread, in a world that a seed determines.
//!
//! ```text
//!   scheduler: which actor acts; between two effects of its step perhaps another ─┐
//!     process: a member (rebalances), stream threads (the engine's `step`)        │ effects,
//!       edge: sources, producers, stores, as the engine has them                  │ each perhaps the last
//!         wire ───────────────────────────────────────────────────────────────────┘
//!   world: cluster (logs, group, coordinator), disks, time, chance
//!   chaos: deaths, pauses, time-outs, late requests, compaction
//!   check: outputs, changelogs and stores against the reference
//! ```
//!
//! What is the engine's: stream threads, tasks, feeds, the committer, assignments; `task`, `node`, `restore`. What stands for it: the
//! member for librdkafka and the supervisor; the edge for Kafka's clients and RocksDB. A seed plays a time of chaos, then comes to its
//! end in calm, where everything must have been processed; then the processes stop, and what they leave is compared.
//!
//! `WEIR_SIMULATION_SEED=n` plays one seed and tells what happens; `WEIR_SIMULATION_SEEDS=n` plays so many.

mod chaos;
mod check;
mod cluster;
mod coverage;
mod disk;
mod edge;
mod fault;
mod logic;
mod process;
mod random;
mod reference;
mod scenario;
mod scheduler;
mod tests;
mod wire;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use cluster::Cluster;
use coverage::{Coverage, Seen};
use fault::Fault;
use logic::{A, B};
use random::Random;
use scenario::Scenario;
use scheduler::Simulation;
use world::{Process, World};

use crate::model::TopicPartition;

/// Steps that the time of calm may take.
const CALM: usize = 6000;

/// Plays a seed. `Err`: what is wrong.
fn play(seed: u64, fault: Option<Fault>, verbose: bool) -> (Coverage, Result<(), String>) {
    let mut random = Random::new(seed);
    let mut cluster = Cluster::default();
    let scenario = Scenario::new(&mut random, &mut cluster);
    let processes = (0..scenario.processes).map(|_| Process::default()).collect();
    let simulation = Simulation::new(World {
        now: Duration::ZERO,
        beginning: Instant::now(),
        random,
        scenario,
        cluster,
        processes,
        seen: Coverage::default(),
        fault,
        calm: false,
        violation: None,
        unavailable_until: Duration::ZERO,
        unknown: BTreeMap::new(),
        late_keys: BTreeSet::new(),
        verbose,
    });
    let exactly_once = simulation.world().scenario.exactly_once;
    simulation.world().saw(if exactly_once { Seen::ExactlyOnce } else { Seen::AtLeastOnce });
    let result = run(&simulation);
    simulation.end();
    let seen = simulation.world().seen.clone();
    (seen, result)
}

/// Chaos, calm, the end, the comparison.
fn run(simulation: &std::sync::Arc<Simulation>) -> Result<(), String> {
    let chaos = simulation.world().scenario.chaos;
    for _ in 0..chaos {
        simulation.step();
        violation(simulation)?;
    }
    calm(&mut simulation.world());
    let mut is_done = false;
    for step in 0..CALM {
        simulation.step();
        violation(simulation)?;
        if step % 8 == 0 && is_processed(&mut simulation.world()) && simulation.is_settled() {
            is_done = true;
            break;
        }
    }
    if !is_done {
        return Err("it does not come to its end".to_owned());
    }
    simulation.world().tell(|| "everything is processed".to_owned());
    simulation.world().processes.iter_mut().for_each(|process| process.stopping = true);
    for _ in 0..CALM {
        simulation.step();
        violation(simulation)?;
        if simulation.world().processes.iter().all(|process| !process.alive)
            && simulation.world().cluster.coordinator.is_idle()
        {
            return check::check(&mut simulation.world());
        }
    }
    Err("the processes don't stop".to_owned())
}

/// What must never be, and was.
fn violation(simulation: &Simulation) -> Result<(), String> {
    simulation.world().violation.take().map_or(Ok(()), Err)
}

/// No more chaos.
fn calm(world: &mut World) {
    world.calm = true;
    world.unavailable_until = Duration::ZERO;
    for process in &mut world.processes {
        process.crash_in = None;
        process.paused_until = Duration::ZERO;
        process.stopping = false;
    }
    world.tell(|| "calm".to_owned());
}

/// Whether all streams are committed to their ends, and nothing is under way.
fn is_processed(world: &mut World) -> bool {
    let World { cluster, scenario, unknown, processes, .. } = world;
    let is_idle = cluster.coordinator.is_idle() && cluster.late_ends.is_empty() && cluster.group.is_stable();
    let are_members = processes.iter().all(|process| process.place.is_some_and(|place| cluster.group.has(place)));
    let all_came = scenario.later.is_empty() && scenario.open.is_empty();
    if !is_idle || !are_members || !all_came || !unknown.is_empty() {
        return false;
    }
    (0..scenario.partitions).flat_map(|partition| [A, B].map(|topic| TopicPartition::new(topic, partition))).all(|of| {
        let end = cluster.log(&of).end;
        matches!(cluster.group.committed(&of), Ok(Some((at, _))) if at == end)
    })
}
