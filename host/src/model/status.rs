//! What the host says of itself: the data of `/v1/status`, `/readyz` and `/metrics`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Generation;

/// Where the instance is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InstanceState {
    /// Connecting, checking topics, loading plugins.
    #[default]
    Starting,
    /// Waiting for the group's first assignment, or for the next in a rebalance.
    Rebalancing,
    /// Tables and changelogs are being read.
    Restoring,
    /// Every task runs.
    Running,
    /// A task has stopped with an error; the others run.
    Failed,
    /// Asked to stop; committing and leaving.
    Stopping,
}

/// Where a task is (`task::state` has the transitions).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskState {
    /// Opened, nothing read.
    Created,
    /// Reads its tables and changelogs.
    Restoring,
    /// Its own tables are full; it waits for others (barrier scope) or for a plugin generation.
    WaitingForPeers,
    /// Processes stream records.
    Running,
    /// Stopped before a record, with an error.
    Failed,
    /// Closed.
    Closed,
}

/// One input partition of a running task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionStatus {
    /// The topic.
    pub topic: String,
    /// Its partition.
    pub partition: i32,
    /// Next offset to process.
    pub position: i64,
    /// Log end when last asked; absent before the first answer.
    pub end: Option<i64>,
    /// Records between the two.
    pub lag: Option<i64>,
    /// Records buffered in the task.
    pub buffered: usize,
}

/// A partition of a table or changelog that is read into a store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RestoreStatus {
    /// The store it fills.
    pub store: String,
    /// The topic read.
    pub topic: String,
    /// Its partition.
    pub partition: i32,
    /// Where the read began: the checkpoint, or the log's begin.
    pub start: i64,
    /// What must be applied before the restore is done; absent before the broker answered.
    pub end: Option<i64>,
    /// Everything below is applied.
    pub position: i64,
    /// Records applied since the start of the restore.
    pub records: u64,
    /// Records a second, since the start.
    pub rate: f64,
    /// Seconds left at that rate.
    pub seconds_left: Option<f64>,
    /// Whether everything below the end is applied.
    pub done: bool,
    /// What it waits for, for people; empty when done.
    pub waits_for: String,
}

/// A task of this instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskStatus {
    /// `0_7`.
    pub task: String,
    /// Index of the stream thread that owns it.
    pub thread: usize,
    /// Its state.
    pub state: TaskState,
    /// Why it stopped or waits; empty otherwise.
    pub reason: String,
    /// Tables and changelogs, with their restore.
    pub restore: Vec<RestoreStatus>,
    /// Input streams.
    pub inputs: Vec<PartitionStatus>,
    /// Records processed since the task was opened.
    pub processed: u64,
    /// Records dropped as Kafka Streams drops them (null key or value), by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Plugin generation it processes under.
    pub generation: Generation,
}

/// A task of another instance whose state is kept up to date here, for the case that it comes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandbyStatus {
    /// `0_7`.
    pub task: String,
    /// The partitions that fill its stores, once they are open.
    pub partitions: Vec<StandbyPartition>,
    /// Offsets that all of them are behind; absent until all ends are known.
    pub lag: Option<i64>,
    /// Records applied since it was opened.
    pub records: u64,
    /// Why it isn't followed at the moment; empty otherwise.
    pub reason: String,
}

/// A table or changelog partition that a standby follows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandbyPartition {
    /// The store it fills.
    pub store: String,
    /// The topic read.
    pub topic: String,
    /// Everything below is applied.
    pub position: i64,
    /// Log end when last asked; absent before the first answer.
    pub end: Option<i64>,
    /// Offsets between the two.
    pub lag: Option<i64>,
}

/// A global table of this instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TableStatus {
    /// The table's name.
    pub table: String,
    /// Rows in the store now.
    pub rows: u64,
    /// Whether every partition is restored.
    pub restored: bool,
    /// Its partitions.
    pub restore: Vec<RestoreStatus>,
    /// What is wrong, if anything.
    pub error: Option<String>,
}

/// A plugin as it is active here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginStatus {
    /// Name in the topology.
    pub plugin: String,
    /// sha256 of the active bytes, in hex.
    pub digest: String,
    /// Version that the plugin gives itself.
    pub version: String,
    /// Generation of its activation.
    pub generation: Generation,
    /// Digest of the file that the topology names, when it differs from the active one.
    pub file_digest: Option<String>,
    /// Digest of the version that a rollback activates.
    pub previous: Option<String>,
}

/// A store of this instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStatus {
    /// The store's name.
    pub store: String,
    /// `table`, `aggregate` or `global-table`.
    pub kind: String,
    /// Partitions open on this instance.
    pub partitions: Vec<i32>,
    /// Entries on this instance (an estimate where `exact` is false).
    pub entries: u64,
    /// Whether `entries` is exact.
    pub exact: bool,
}

/// Memory of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryStatus {
    /// `state.memory`: what all of it may take; 0 while the instance starts.
    pub limit: u64,
    /// What the process takes now, as the system sees it; absent where it doesn't tell.
    pub resident: Option<u64>,
    /// The parts that count what they take.
    pub parts: Vec<MemoryPartStatus>,
}

/// A part of the memory of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryPartStatus {
    /// `stores`, `memory-stores`, `overlays` (uncommitted state), `queues` (fetched records in tasks) or `plugins`.
    pub part: String,
    /// Bytes that it takes now.
    pub used: u64,
    /// Bytes that it may take.
    pub limit: u64,
}

/// One condition of readiness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Short name, as in `/readyz?verbose`.
    pub name: String,
    /// Whether it holds.
    pub ok: bool,
    /// What it waits for, or what holds, for people.
    pub detail: String,
}

/// The whole instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InstanceStatus {
    /// Where it is.
    pub state: InstanceState,
    /// `app.id`.
    pub app: String,
    /// This instance's id, kept in the state folder.
    pub instance: String,
    /// `exactly-once` or `at-least-once`.
    pub guarantee: String,
    /// Plugin generation that is active here.
    pub generation: Generation,
    /// What the instance waits for, for people; empty when it runs.
    pub waits_for: Vec<String>,
    /// Its tasks.
    pub tasks: Vec<TaskStatus>,
    /// Tasks of others whose state is kept here.
    pub standbys: Vec<StandbyStatus>,
    /// What keeps standbys from being agreed on or followed, for people. Nothing else depends on it.
    pub standby_problems: Vec<String>,
    /// Global tables.
    pub global_tables: Vec<TableStatus>,
    /// Active plugins.
    pub plugins: Vec<PluginStatus>,
    /// Stores.
    pub stores: Vec<StoreStatus>,
    /// Memory.
    #[serde(default)]
    pub memory: MemoryStatus,
}
