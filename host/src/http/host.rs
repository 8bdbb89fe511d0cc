//! What the server asks of the engine: the only seam between the two.

use std::sync::Arc;

use crate::model::{CallFailure, Check, Entry, InstanceStatus};
use crate::plan::ViewPlan;
use crate::plugin::{ViewRequest, ViewResponse};
use crate::registry::{self, Activation, Transition};
use crate::telemetry::Counters;
use crate::view::{QueryError, Scan};

/// A running instance, as the server sees it. All calls may block for a moment, none for long, except `answer`,
/// `deploy` and `rollback`.
pub trait Host: Send + Sync + 'static {
    /// Everything about the instance.
    fn status(&self) -> InstanceStatus;

    /// The conditions of readiness; ready is: all hold.
    fn readiness(&self) -> Vec<Check>;

    /// The topology, as a document.
    fn topology(&self) -> serde_json::Value;

    /// What the data path counts.
    fn counters(&self) -> Arc<Counters>;

    /// The entry under `key` of a store.
    fn get(&self, store: &str, key: &[u8]) -> Result<Option<Entry>, QueryError>;

    /// Up to `limit` entries of the partitions here, in the order of their keys: those that begin with `prefix`, from
    /// `from` on (inclusive).
    fn scan(&self, store: &str, prefix: &[u8], from: Option<&[u8]>, limit: usize) -> Result<Scan, QueryError>;

    /// What a store still has to read before its answers hold, if anything.
    fn restoring(&self, store: &str) -> Option<String> {
        still_restoring(&self.status(), store)
    }

    /// Answers a request to a view. Takes as long as the plugin does.
    fn answer(&self, view: &ViewPlan, request: ViewRequest) -> Result<ViewResponse, ViewError>;

    /// What happened to a plugin, in the registry's order.
    fn history(&self, plugin: &str) -> Result<Vec<Transition>, DeployError>;

    /// Checks a version and makes it the active one. Takes as long as the checks and the compiler do.
    fn deploy(&self, plugin: &str, bytes: &[u8], message: &str, now_ms: i64) -> Result<Activation, DeployError>;

    /// Makes the previous version the active one.
    fn rollback(&self, plugin: &str, now_ms: i64) -> Result<Activation, DeployError>;
}

/// Why a view did not answer.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// No plugin is active yet.
    #[error("no plugin is active yet; /readyz says what the instance waits for")]
    NotReady,
    /// The plugin failed over the request.
    #[error("the view's plugin failed")]
    Call(#[from] CallFailure),
}

/// Why a plugin was not changed. The active version serves on.
#[derive(Debug, thiserror::Error)]
pub enum DeployError {
    /// The registry is not read yet.
    #[error("the registry has not been read yet; /readyz says what the instance waits for")]
    NotReady,
    /// The registry said no, or failed.
    #[error(transparent)]
    Registry(#[from] registry::Error),
}

/// What `store` still has to read before its answers hold, if anything; of all partitions here.
pub fn still_restoring(status: &InstanceStatus, store: &str) -> Option<String> {
    let tasks = status.tasks.iter().flat_map(|task| &task.restore);
    let parts = tasks.chain(status.global_tables.iter().flat_map(|table| &table.restore));
    let open: Vec<_> = parts.filter(|part| part.store == store && !part.done).collect();
    let waiting = open.first()?;
    Some(match open.iter().map(|part| part.end.map(|end| (end - part.position).max(0))).sum::<Option<i64>>() {
        Some(left) => format!("{left} offsets left in {} partitions", open.len()),
        None => format!("the end of topic '{}' is not known yet", waiting.topic),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{RestoreStatus, TableStatus};

    #[test]
    fn a_store_is_restoring_as_long_as_one_of_its_partitions_is() {
        let part = |store: &str, end, position, done| RestoreStatus {
            store: store.to_owned(),
            topic: "t".to_owned(),
            end,
            position,
            done,
            ..RestoreStatus::default()
        };
        let status = |parts| InstanceStatus {
            global_tables: vec![TableStatus { restore: parts, ..TableStatus::default() }],
            ..InstanceStatus::default()
        };
        let open = part("s", Some(10), 4, false);
        let says = |parts| still_restoring(&status(parts), "s");
        assert_eq!(says(vec![]), None);
        assert_eq!(says(vec![part("s", Some(10), 10, true), part("other", Some(9), 0, false)]), None);
        assert_eq!(says(vec![open.clone(), open.clone()]).unwrap(), "12 offsets left in 2 partitions");
        assert_eq!(says(vec![open, part("s", None, 0, false)]).unwrap(), "the end of topic 't' is not known yet");
    }
}
