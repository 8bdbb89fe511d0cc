//! What happens without anyone asking for it: rebalances, time-outs, late requests, deaths, compaction.

use std::collections::BTreeSet;
use std::time::Duration;

use super::cluster::Heartbeat;
use super::coverage::Seen;
use super::logic::{CHANGELOG, TABLE};
use super::scenario;
use super::world::{Process, World};
use crate::model::TopicPartition;

/// The world's own affairs, once a step.
pub(super) fn step(world: &mut World) {
    let (now, partitions) = (world.now, world.scenario.partitions);
    for process in 0..world.processes.len() {
        goes_on(world, process);
    }
    let processes = world.processes.iter().enumerate();
    let awake = processes.filter(|(_, process)| process.alive && now >= process.paused_until);
    let awake: BTreeSet<(usize, u64)> = awake.map(|(index, process)| (index, process.life)).collect();
    world.cluster.group.step(&awake, partitions, now);
    for _ in 0..world.cluster.coordinator.step(now) {
        world.saw(Seen::TransactionTimedOut);
    }
    if world.calm || world.random.chance(30) {
        world.carry(None);
    }
    if world.random.chance(15) {
        late_end(world);
    }
    if world.random.chance(if world.calm { 60 } else { 12 }) {
        arrive(world);
    }
    if world.random.chance(if world.calm { 60 } else { 3 }) {
        end_open(world);
    }
    if !world.calm && world.random.chance(7) {
        strike(world);
    }
}

/// A process whose pause is over goes on; as a zombie, if the group has.
pub(super) fn goes_on(world: &mut World, index: usize) {
    let process = &mut world.processes[index];
    if process.paused_until.is_zero() || world.now < process.paused_until {
        return;
    }
    process.paused_until = Duration::ZERO;
    let is_zombie =
        process.place.is_some_and(|place| world.cluster.group.heartbeat(place.member) == Heartbeat::Unknown);
    if is_zombie {
        world.saw(Seen::Zombie);
        world.tell(|| format!("{index} goes on as a zombie"));
    }
}

/// A request to end a transaction arrives that its producer has given up.
fn late_end(world: &mut World) {
    let Some(identity) = world.cluster.late_ends.pop() else { return };
    let is_open = world.cluster.coordinator.is_open(&identity);
    let took_effect = is_open && world.cluster.coordinator.end(&identity, true).is_ok();
    world.saw(if took_effect { Seen::LateEndTookEffect } else { Seen::LateEndRefused });
    world.tell(|| format!("a late end of {identity:?}: {took_effect}"));
    if took_effect && let Some(of_end) = world.unknown.get_mut(&identity.id) {
        *of_end = true;
    }
}

/// A record arrives.
fn arrive(world: &mut World) {
    if world.scenario.later.is_empty() {
        return;
    }
    world.saw(Seen::LiveInput);
    let (partition, record) = world.scenario.later.remove(0);
    scenario::append(&mut world.random, &mut world.cluster, &partition, vec![record]);
    world.wake(&partition);
}

/// A transaction of whoever fills a table ends.
fn end_open(world: &mut World) {
    let Some((partition, producer, commit)) = world.scenario.open.pop() else { return };
    world.tell(|| format!("the rows at the end of {partition} are committed: {commit}"));
    world.cluster.log(&partition).end_transaction(producer, commit);
    world.wake(&partition);
}

/// Something strikes.
fn strike(world: &mut World) {
    let index = world.random.below(world.processes.len());
    let some = |world: &mut World, low, high| Duration::from_millis(world.random.between(low, high) as u64);
    match world.random.below(100) {
        0..40 => {
            let effects = world.random.between(0, 30);
            if world.processes[index].alive {
                world.processes[index].crash_in.get_or_insert(effects);
                world.tell(|| format!("{index} dies after {effects} effects"));
            }
        }
        40..55 => {
            let pause = some(world, 100, 1500);
            world.processes[index].paused_until = world.now + pause;
            world.tell(|| format!("{index} stands still for {pause:?}"));
        }
        55..65 => world.processes[index].stopping = world.processes[index].alive,
        65..73 => world.unavailable_until = world.now + some(world, 20, 300),
        _ => compact(world),
    }
}

/// A changelog or a table is compacted; perhaps what is empty at its beginning is cut off.
fn compact(world: &mut World) {
    let topic = if world.random.chance(70) { CHANGELOG } else { TABLE };
    let partition = TopicPartition::new(topic, world.random.below(2) as i32);
    let World { cluster, random, .. } = world;
    let log = cluster.log(&partition);
    let below = random.below(usize::try_from(log.end).unwrap_or(0) + 1) as i64;
    log.compact(below);
    if random.chance(30) {
        log.advance_begin(below);
    }
    world.saw(Seen::Compacted);
    world.tell(|| format!("{partition} is compacted below {below}"));
}

/// A process has stopped cleanly; it starts again, unless it is the end.
pub(super) fn stopped(world: &mut World, index: usize) {
    world.saw(Seen::CleanStop);
    let starts_at = world.now + Duration::from_millis(world.random.between(0, 500) as u64);
    world.forget(index);
    let process = &mut world.processes[index];
    let mut disk = std::mem::take(&mut process.disk);
    disk.close();
    let (life, stopping) = (process.life + 1, world.calm && process.stopping);
    *process = Process { life, starts_at, disk, stopping, ..Process::default() };
    world.tell(|| format!("{index} has stopped"));
}
