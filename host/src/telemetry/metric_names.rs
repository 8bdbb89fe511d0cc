//! The names of all metrics: `weir_<noun>_<unit>`, with `_total` exactly where a number never falls.

/// A metric's name and what it means.
#[derive(Clone, Copy, Debug)]
pub(super) struct Metric {
    /// As Prometheus shows it.
    pub(super) name: &'static str,
    /// One sentence.
    pub(super) help: &'static str,
}

/// Shorthand for the list below.
const fn metric(name: &'static str, help: &'static str) -> Metric {
    Metric { name, help }
}

/// The program.
pub(super) const BUILD_INFO: Metric = metric("weir_build_info", "Version of the program; always 1.");
/// Instance state.
pub(super) const STATE: Metric = metric("weir_state", "1 for the state the instance is in, 0 for the others.");
/// Readiness.
pub(super) const READY: Metric = metric("weir_ready", "1 when /readyz answers 200.");
/// Plugin generation.
pub(super) const GENERATION: Metric =
    metric("weir_plugin_generation", "Generation of the plugins that are active here.");
/// Tasks.
pub(super) const TASKS: Metric = metric("weir_tasks", "Tasks of this instance by state.");
/// Barrier.
pub(super) const BARRIER_OPEN: Metric =
    metric("weir_barrier_open", "1 when no task waits for its tables and every global table is restored.");
/// Restored so far.
pub(super) const RESTORE_RECORDS: Metric =
    metric("weir_restore_records_total", "Records of tables and changelogs applied while restoring.");
/// Left to restore.
pub(super) const RESTORE_REMAINING: Metric =
    metric("weir_restore_remaining_records", "Offsets left until the store is restored.");
/// Time left.
pub(super) const RESTORE_SECONDS_LEFT: Metric =
    metric("weir_restore_left_seconds", "Time left until the store is restored, at the present rate.");
/// Standbys.
pub(super) const STANDBYS: Metric = metric("weir_standby_tasks", "Tasks of other instances whose state is kept here.");
/// Applied to standbys.
pub(super) const STANDBY_RECORDS: Metric =
    metric("weir_standby_records_total", "Records of tables and changelogs applied to standbys.");
/// Standbys' lag.
pub(super) const STANDBY_LAG: Metric =
    metric("weir_standby_lag_records", "Offsets that standbys are behind their tables and changelogs, by store.");
/// Lag.
pub(super) const SOURCE_LAG: Metric = metric("weir_source_lag_records", "Records not yet processed, by input topic.");
/// Buffered.
pub(super) const SOURCE_BUFFERED: Metric =
    metric("weir_source_buffered_records", "Records buffered in tasks, by input topic.");
/// Processed.
pub(super) const RECORDS_PROCESSED: Metric = metric("weir_records_processed_total", "Stream records processed.");
/// Dropped.
pub(super) const RECORDS_DROPPED: Metric = metric("weir_records_dropped_total", "Stream records left out, by reason.");
/// Dead letters.
pub(super) const DEAD_LETTERS: Metric =
    metric("weir_dead_letters_records_total", "Records sent to a dead-letter topic.");
/// Join look-ups.
pub(super) const JOIN_LOOKUPS: Metric = metric("weir_join_lookups_total", "Look-ups of joins, by result.");
/// Entries.
pub(super) const STORE_ENTRIES: Metric =
    metric("weir_store_entries", "Entries on this instance (RocksDB: an estimate).");
/// Partitions.
pub(super) const STORE_PARTITIONS: Metric =
    metric("weir_store_partitions", "Partitions of the store that are open here.");
/// Commits.
pub(super) const COMMIT_DURATION: Metric =
    metric("weir_commit_duration_seconds", "Time of each successful commit of a stream thread.");
/// Failed commits.
pub(super) const COMMIT_FAILURES: Metric =
    metric("weir_commit_failures_total", "Commits given up or of unknown outcome, by outcome.");
/// Memory of parts.
pub(super) const MEMORY_USED: Metric =
    metric("weir_memory_used_bytes", "Memory that each part takes now; parts that count what they take.");
/// Bounds of parts.
pub(super) const MEMORY_LIMIT: Metric =
    metric("weir_memory_limit_bytes", "Memory that each part may take; all: state.memory.");
/// Memory of the process.
pub(super) const MEMORY_RESIDENT: Metric =
    metric("weir_memory_resident_bytes", "Memory that the process takes now, as the system sees it.");
/// Rebalances.
pub(super) const REBALANCES: Metric = metric("weir_rebalances_total", "Assignments that the group gave this instance.");
/// Active plugin.
pub(super) const PLUGIN_INFO: Metric = metric("weir_plugin_info", "Active version of each plugin; always 1.");
/// Call durations.
pub(super) const PLUGIN_CALL_DURATION: Metric =
    metric("weir_plugin_call_duration_seconds", "Time of each plugin call, failed ones included, by operation.");
/// Records in calls.
pub(super) const PLUGIN_RECORDS: Metric = metric("weir_plugin_records_total", "Records in plugin calls, by operation.");
/// Failed calls.
pub(super) const PLUGIN_FAILURES: Metric =
    metric("weir_plugin_failures_total", "Plugin calls that failed as a whole, by kind.");
/// Swaps.
pub(super) const PLUGIN_SWAPS: Metric =
    metric("weir_plugin_swaps_total", "Plugin sets that took over from another one here.");

/// All of them.
#[cfg(test)]
pub(super) const ALL: [Metric; 31] = [
    BUILD_INFO,
    STATE,
    READY,
    GENERATION,
    TASKS,
    BARRIER_OPEN,
    RESTORE_RECORDS,
    RESTORE_REMAINING,
    RESTORE_SECONDS_LEFT,
    STANDBYS,
    STANDBY_RECORDS,
    STANDBY_LAG,
    SOURCE_LAG,
    SOURCE_BUFFERED,
    RECORDS_PROCESSED,
    RECORDS_DROPPED,
    DEAD_LETTERS,
    JOIN_LOOKUPS,
    STORE_ENTRIES,
    STORE_PARTITIONS,
    COMMIT_DURATION,
    COMMIT_FAILURES,
    MEMORY_USED,
    MEMORY_LIMIT,
    MEMORY_RESIDENT,
    REBALANCES,
    PLUGIN_INFO,
    PLUGIN_CALL_DURATION,
    PLUGIN_RECORDS,
    PLUGIN_FAILURES,
    PLUGIN_SWAPS,
];
