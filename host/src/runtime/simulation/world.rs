//! Everything that is not the engine: the cluster, the processes' disks and connections, time, chance.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::cluster::{Cluster, MemberPlace};
use super::coverage::{Coverage, Seen};
use super::disk::Disk;
use super::fault::Fault;
use super::logic::CHANGELOG;
use super::random::Random;
use super::scenario::Scenario;
use crate::kafka::Waker;
use crate::model::TopicPartition;

/// The world of one seed.
pub(super) struct World {
    /// Time since the beginning.
    pub(super) now: Duration,
    /// The beginning, as the engine's clock has it: what is shown are differences only.
    pub(super) beginning: Instant,
    /// Chance.
    pub(super) random: Random,
    /// What is played.
    pub(super) scenario: Scenario,
    /// Kafka.
    pub(super) cluster: Cluster,
    /// The processes.
    pub(super) processes: Vec<Process>,
    /// What was seen.
    pub(super) seen: Coverage,
    /// The fault in the engine.
    pub(super) fault: Option<Fault>,
    /// No more chaos: everything that is under way must come to its end.
    pub(super) calm: bool,
    /// What must never be, and was.
    pub(super) violation: Option<String>,
    /// Until when the coordinators cannot be reached.
    pub(super) unavailable_until: Duration,
    /// Ends of transactions whose answer was lost, by transactional id: whether they took effect.
    pub(super) unknown: BTreeMap<String, bool>,
    /// Keys whose outputs came from a process that had lost them: what is last there is anyone's guess under at-least-once.
    pub(super) late_keys: BTreeSet<Bytes>,
    /// Whether to tell what happens.
    pub(super) verbose: bool,
}

/// A process, seen from outside.
#[derive(Default)]
pub(super) struct Process {
    /// Which of its lives it is in: what an earlier one does has no effect.
    pub(super) life: u64,
    /// Whether it runs.
    pub(super) alive: bool,
    /// When it starts (again).
    pub(super) starts_at: Duration,
    /// Until when it stands still.
    pub(super) paused_until: Duration,
    /// Effects until it dies.
    pub(super) crash_in: Option<usize>,
    /// It was told to stop.
    pub(super) stopping: bool,
    /// Its disk.
    pub(super) disk: Disk,
    /// Streams, by partition.
    pub(super) streams: BTreeMap<TopicPartition, Fetcher>,
    /// Tables and changelogs, by partition.
    pub(super) tables: BTreeMap<TopicPartition, Fetcher>,
    /// Its place in the group, as of its assignment.
    pub(super) place: Option<MemberPlace>,
    /// It knows that what it has is lost.
    pub(super) lost: bool,
    /// Threads whose present step began when it knew.
    pub(super) told: BTreeSet<usize>,
    /// Where its last effect stood in a commit.
    pub(super) stage: Stage,
}

/// Where in a commit a process is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// In none.
    #[default]
    Elsewhere,
    /// Its transaction is being filled or ended.
    Committing,
    /// Its transaction is committed, and no store has it.
    Committed,
    /// Some store has it.
    Storing,
}

/// A partition that is being read.
pub(super) struct Fetcher {
    /// Tells it from an earlier one of the same partition.
    pub(super) id: u64,
    /// The next offset; `None`: not assigned yet.
    pub(super) position: Option<i64>,
    /// The end that was told last.
    pub(super) told: Option<i64>,
    /// The offset after the last record that was delivered.
    pub(super) after_last: i64,
    /// Wakes who reads.
    pub(super) waker: Waker,
}

impl Process {
    /// Whether it is time for it to start.
    pub(super) fn starts(&self, now: Duration) -> bool {
        !self.alive && !self.stopping && now >= self.starts_at
    }
}

impl World {
    /// The engine's time.
    pub(super) fn instant(&self) -> Instant {
        self.beginning + self.now
    }

    /// Notes that it happened.
    pub(super) fn saw(&mut self, what: Seen) {
        self.seen.saw(what);
    }

    /// Tells what happens, when someone listens.
    pub(super) fn tell(&self, what: impl FnOnce() -> String) {
        if self.verbose {
            eprintln!("{:>6} {}", self.now.as_millis(), what());
        }
    }

    /// Something happened that must never happen.
    pub(super) fn violated(&mut self, what: impl Into<String>) {
        let what = what.into();
        self.tell(|| format!("VIOLATION {what}"));
        self.violation.get_or_insert(what);
    }

    /// True so many times of a hundred, in the time of chaos.
    pub(super) fn mishap(&mut self, percent: usize) -> bool {
        !self.calm && self.random.chance(percent)
    }

    /// Whether the coordinators cannot be reached now.
    pub(super) fn is_unavailable(&self) -> bool {
        self.now < self.unavailable_until
    }

    /// Someone waits for an answer that doesn't come in time.
    pub(super) fn wait(&mut self) {
        self.now += Duration::from_millis(100);
    }

    /// A partition has news: whoever reads it is woken.
    pub(super) fn wake(&self, partition: &TopicPartition) {
        for process in &self.processes {
            for fetcher in process.streams.get(partition).into_iter().chain(process.tables.get(partition)) {
                (fetcher.waker)();
            }
        }
    }

    /// Carries out ends of transactions: one step of one, or all of `only`.
    pub(super) fn carry(&mut self, only: Option<&str>) {
        for partition in self.cluster.carry(only) {
            self.wake(&partition);
        }
    }

    /// Whether the process counts down to its death, and this effect is no more.
    pub(super) fn dies_now(&mut self, process: usize) -> bool {
        let Some(left) = &mut self.processes[process].crash_in else { return false };
        if *left > 0 {
            *left -= 1;
            return false;
        }
        self.kill(process);
        true
    }

    /// A process is gone, and with it who wanted to know what became of its transactions.
    pub(super) fn forget(&mut self, index: usize) {
        let ids = format!("app-p{index}-");
        self.unknown.retain(|id, _| !id.starts_with(&ids));
    }

    /// A process dies.
    pub(super) fn kill(&mut self, index: usize) {
        let downtime = Duration::from_millis(self.random.between(0, 900) as u64);
        let loses_folder = self.mishap(15);
        let restores = self.processes[index].tables.keys().any(|partition| *partition.topic == *CHANGELOG);
        self.forget(index);
        let process = &mut self.processes[index];
        let stage = process.stage;
        let lost = process.disk.crash(&mut self.random);
        let disk = if loses_folder { Disk::default() } else { std::mem::take(&mut process.disk) };
        *process = Process { life: process.life + 1, starts_at: self.now + downtime, disk, ..Process::default() };
        self.saw(match stage {
            Stage::Committing => Seen::CrashInCommit,
            Stage::Committed => Seen::CrashBeforeStores,
            Stage::Storing => Seen::CrashBetweenStores,
            Stage::Elsewhere if restores => Seen::CrashInRestore,
            Stage::Elsewhere => Seen::Crash,
        });
        if lost > 0 {
            self.saw(Seen::UnloggedRowsLost);
        }
        if loses_folder {
            self.saw(Seen::FolderLost);
        }
        self.tell(|| format!("process {index} dies {stage:?}, loses {lost} unlogged rows, its folder: {loses_folder}"));
    }
}
