//! Counters that the data path increments.
//!
//! They belong to the process, not to a task: a task that moves to another instance takes nothing with it, so that no
//! counter ever falls. Each is an atomic number of its own; names are looked up once, when a task is built.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::model::CallFailureKind;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn inc(&self) {
        self.add(1);
    }

    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Upper bounds of the buckets of [`Durations`], in microseconds: 100 µs to 10 s.
const BOUNDS_MICROS: [u64; 14] =
    [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 2_500_000, 10_000_000];

/// How often something was done and how long it took: a histogram with fixed bounds.
#[derive(Debug, Default)]
pub struct Durations {
    /// Observations in each bucket, not cumulated; those over the last bound are only in `count`.
    buckets: [Counter; BOUNDS_MICROS.len()],
    /// All observations.
    count: Counter,
    /// Their sum.
    micros: Counter,
}

impl Durations {
    /// Counts one that took `elapsed`.
    pub fn observe(&self, elapsed: Duration) {
        let micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        if let Some((_, bucket)) = BOUNDS_MICROS.iter().zip(&self.buckets).find(|(bound, _)| micros <= **bound) {
            bucket.inc();
        }
        self.count.inc();
        self.micros.add(micros);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.count.get()
    }

    /// Seconds of all together.
    pub fn seconds(&self) -> f64 {
        seconds(self.micros.get())
    }

    /// Upper bound in seconds and count of each bucket, the last one without a bound.
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        let mut buckets: Vec<(f64, u64)> =
            BOUNDS_MICROS.iter().zip(&self.buckets).map(|(bound, count)| (seconds(*bound), count.get())).collect();
        // The counters are read one after the other, so the total may be behind the buckets for a moment.
        let bounded: u64 = buckets.iter().map(|(_, count)| count).sum();
        buckets.push((f64::INFINITY, self.count.get().saturating_sub(bounded)));
        buckets
    }
}

/// Microseconds as seconds.
fn seconds(micros: u64) -> f64 {
    Duration::from_micros(micros).as_secs_f64()
}

/// Records that a task left out, by reason.
#[derive(Debug, Default)]
pub struct DropCounters {
    /// The key was null where one is needed.
    pub null_key: Counter,
    /// The value was null where one is needed.
    pub null_value: Counter,
    /// An inner join found no row.
    pub no_row: Counter,
    /// A function said to skip it.
    pub skipped: Counter,
    /// A function refused it or failed over it, and `on_error` says to skip.
    pub refused: Counter,
}

/// Look-ups of one join.
#[derive(Debug, Default)]
pub struct JoinCounters {
    /// Found a row.
    pub hit: Counter,
    /// Found none.
    pub miss: Counter,
    /// The record had no key to look up.
    pub null_key: Counter,
}

/// Commits of all stream threads.
#[derive(Debug, Default)]
pub struct CommitCounters {
    /// How long each took that succeeded.
    pub durations: Durations,
    /// Commits that were given up and whose records are processed again.
    pub failed: Counter,
    /// Commits whose outcome had to be asked for.
    pub unknown: Counter,
}

/// What a plugin was called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A batch of joins.
    Join,
    /// A batch of folds.
    Fold,
    /// A batch of transformations.
    Transform,
    /// One request to a view.
    View,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Join, Self::Fold, Self::Transform, Self::View];

    /// As in the label `op`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Join => "join",
            Self::Fold => "fold",
            Self::Transform => "transform",
            Self::View => "view",
        }
    }
}

/// Calls of one operation.
#[derive(Debug, Default)]
struct CallCounters {
    /// How long the calls took, failed ones included.
    durations: Durations,
    /// Records (or requests) in them.
    records: Counter,
}

/// Calls of one plugin, over all its versions and instances.
#[derive(Debug, Default)]
pub struct PluginCounters {
    /// [`Operation::Join`].
    join: CallCounters,
    /// [`Operation::Fold`].
    fold: CallCounters,
    /// [`Operation::Transform`].
    transform: CallCounters,
    /// [`Operation::View`].
    view: CallCounters,
    /// [`CallFailureKind::Trap`].
    trap: Counter,
    /// [`CallFailureKind::Timeout`].
    timeout: Counter,
    /// [`CallFailureKind::Memory`].
    memory: Counter,
    /// [`CallFailureKind::Answer`].
    answer: Counter,
    /// [`CallFailureKind::Start`].
    start: Counter,
}

impl PluginCounters {
    /// Every kind of failure, with its label.
    pub const FAILURES: [(CallFailureKind, &'static str); 5] = [
        (CallFailureKind::Trap, "trap"),
        (CallFailureKind::Timeout, "timeout"),
        (CallFailureKind::Memory, "memory"),
        (CallFailureKind::Answer, "answer"),
        (CallFailureKind::Start, "start"),
    ];

    /// The counters of one operation.
    fn of(&self, operation: Operation) -> &CallCounters {
        match operation {
            Operation::Join => &self.join,
            Operation::Fold => &self.fold,
            Operation::Transform => &self.transform,
            Operation::View => &self.view,
        }
    }

    /// Counts a call with `records` records, whatever came of it.
    pub fn called(&self, operation: Operation, records: usize, elapsed: Duration) {
        let calls = self.of(operation);
        calls.durations.observe(elapsed);
        calls.records.add(u64::try_from(records).unwrap_or(u64::MAX));
    }

    /// How often `operation` was called, and how long it took.
    pub fn durations(&self, operation: Operation) -> &Durations {
        &self.of(operation).durations
    }

    /// Records in the calls of `operation`.
    pub fn records(&self, operation: Operation) -> u64 {
        self.of(operation).records.get()
    }

    /// Calls that failed as a whole in this way.
    pub fn failures(&self, kind: CallFailureKind) -> &Counter {
        match kind {
            CallFailureKind::Trap => &self.trap,
            CallFailureKind::Timeout => &self.timeout,
            CallFailureKind::Memory => &self.memory,
            CallFailureKind::Answer => &self.answer,
            CallFailureKind::Start => &self.start,
        }
    }
}

/// All counters of the process.
#[derive(Debug, Default)]
pub struct Counters {
    /// Stream records processed.
    pub processed: Counter,
    /// Records of tables and changelogs applied while restoring.
    pub restored: Counter,
    /// Records of tables and changelogs applied to standbys.
    pub standby: Counter,
    /// Records left out.
    pub dropped: DropCounters,
    /// Records sent to a dead-letter topic.
    pub dead_letters: Counter,
    /// Commits.
    pub commits: CommitCounters,
    /// Assignments that the group gave us.
    pub rebalances: Counter,
    /// Plugin sets that took over from another one here.
    pub swaps: Counter,
    /// By name of the join.
    joins: BTreeMap<String, Arc<JoinCounters>>,
    /// By name of the plugin.
    plugins: BTreeMap<String, Arc<PluginCounters>>,
}

impl Counters {
    /// Counters of a topology with these joins and plugins.
    pub fn new(
        joins: impl IntoIterator<Item = impl Into<String>>,
        plugins: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            joins: joins.into_iter().map(|name| (name.into(), Arc::default())).collect(),
            plugins: plugins.into_iter().map(|name| (name.into(), Arc::default())).collect(),
            ..Self::default()
        }
    }

    /// The counters of a join; keep them, this is a look-up. A name that is not in the topology counts into nothing.
    pub fn join(&self, name: &str) -> Arc<JoinCounters> {
        self.joins.get(name).cloned().unwrap_or_default()
    }

    /// The counters of a plugin; keep them, this is a look-up. A name that is not in the topology counts into nothing.
    pub fn plugin(&self, name: &str) -> Arc<PluginCounters> {
        self.plugins.get(name).cloned().unwrap_or_default()
    }

    /// All joins by name.
    pub fn joins(&self) -> impl Iterator<Item = (&str, &JoinCounters)> {
        self.joins.iter().map(|(name, counters)| (name.as_str(), counters.as_ref()))
    }

    /// All plugins by name.
    pub fn plugins(&self) -> impl Iterator<Item = (&str, &PluginCounters)> {
        self.plugins.iter().map(|(name, counters)| (name.as_str(), counters.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_falls_into_the_first_bucket_that_holds_it() {
        let durations = Durations::default();
        for micros in [0, 100, 101, 10_000_000, 10_000_001] {
            durations.observe(Duration::from_micros(micros));
        }
        let filled: Vec<(f64, u64)> = durations.buckets().into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [(0.0001, 2), (0.00025, 1), (10.0, 1), (f64::INFINITY, 1)]);
        assert_eq!(durations.count(), 5);
        assert!((durations.seconds() - 20.000_202).abs() < 1e-9);
    }

    #[test]
    fn what_is_looked_up_once_counts_into_the_same_place() {
        let counters = Counters::new(["j"], ["p"]);
        counters.join("j").miss.add(3);
        counters.plugin("p").failures(CallFailureKind::Trap).inc();
        assert_eq!(counters.join("j").miss.get(), 3);
        assert_eq!(counters.plugin("p").failures(CallFailureKind::Trap).get(), 1);
    }
}
