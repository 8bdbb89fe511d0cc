//! The outside's view of a running instance: status, queries, deployment, stop.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;

use crate::config::Guarantee;
use crate::model::{Check, Generation, InstanceState, InstanceStatus, TaskState};
use crate::plugin::ViewPool;
use crate::registry::Registry;
use crate::telemetry::Counters;
use crate::view::Catalog;

use super::Error;
use super::activation::Activation;
use super::instance::Shared;

/// An instance. Cheap to share; everything it tells is a snapshot.
pub struct Handle {
    /// `app.id`.
    pub(super) app: String,
    /// Id of this instance, kept in the state folder.
    pub(super) instance: String,
    /// Guarantee of outputs.
    pub(super) guarantee: Guarantee,
    /// The topology, for `/v1/topology`.
    pub(super) topology: serde_json::Value,
    /// Stores that are open.
    pub(super) catalog: Arc<Catalog>,
    /// What the threads publish.
    pub(super) shared: Arc<Shared>,
    /// What the data path counts.
    pub(super) counters: Arc<Counters>,
    /// Active plugins.
    pub(super) activation: Arc<Activation>,
    /// Versions of plugins, once the registry is read.
    pub(super) registry: Arc<OnceLock<Arc<Registry>>>,
    /// The supervisor, until it is waited for.
    pub(super) supervisor: Mutex<Option<JoinHandle<Result<(), Error>>>>,
}

impl Handle {
    /// Everything about the instance.
    pub fn status(&self) -> InstanceStatus {
        let tasks = self.shared.tasks();
        let global_tables = self.shared.global_tables.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let state = match self.shared.state() {
            InstanceState::Running if tasks.iter().any(|task| task.state == TaskState::Failed) => InstanceState::Failed,
            InstanceState::Running if !self.shared.assigned.load(Ordering::SeqCst) => InstanceState::Rebalancing,
            InstanceState::Running
                if tasks.iter().any(|task| task.state != TaskState::Running)
                    || global_tables.iter().any(|table| !table.restored) =>
            {
                InstanceState::Restoring
            }
            state => state,
        };
        InstanceStatus {
            state,
            app: self.app.clone(),
            instance: self.instance.clone(),
            guarantee: self.guarantee.to_string(),
            generation: self.registry.get().map_or_else(Generation::default, |registry| registry.generation()),
            waits_for: self.waits_for(),
            tasks,
            standbys: self.shared.standbys(),
            standby_problems: self.shared.standby_problems(),
            global_tables,
            plugins: self.registry.get().map(|registry| registry.list()).unwrap_or_default(),
            stores: self.catalog.list(),
            memory: self.shared.memory.status(),
        }
    }

    /// What the instance waits for, and which plugins don't run here.
    fn waits_for(&self) -> Vec<String> {
        let mut waits = self.shared.waits_for();
        for problem in self.registry.get().iter().flat_map(|registry| registry.problems()) {
            if !waits.iter().any(|wait| wait.contains(&problem)) {
                waits.push(problem);
            }
        }
        waits
    }

    /// The conditions of readiness, each with what it waits for. Ready: all hold.
    pub fn readiness(&self) -> Vec<Check> {
        let status = self.status();
        let check = |name: &str, ok: bool, detail: String| Check { name: name.to_owned(), ok, detail };
        let mut checks = Vec::new();
        let running = !matches!(status.state, InstanceState::Starting | InstanceState::Stopping);
        let state = if status.waits_for.is_empty() {
            format!("{:?}", status.state).to_lowercase()
        } else {
            status.waits_for.join("; ")
        };
        checks.push(check("instance", running && status.waits_for.is_empty(), state));
        let assigned = self.shared.assigned.load(Ordering::SeqCst);
        let detail = if assigned { format!("{} tasks", status.tasks.len()) } else { "waits for the group".to_owned() };
        checks.push(check("assignment", assigned, detail));
        for task in &status.tasks {
            let ok = task.state == TaskState::Running;
            let waits: Vec<String> = task
                .restore
                .iter()
                .filter(|restore| !restore.done)
                .map(|restore| format!("{} {}", restore.store, restore.waits_for))
                .collect();
            let state = format!("{:?}", task.state).to_lowercase();
            let detail = match (ok, task.reason.is_empty(), waits.is_empty()) {
                (true, ..) => "running".to_owned(),
                (false, false, _) => format!("{state}: {}", task.reason),
                (false, true, false) => format!("{state}: {}", waits.join("; ")),
                (false, true, true) => state,
            };
            checks.push(check(&format!("task-{}", task.task), ok, detail));
        }
        for table in &status.global_tables {
            let waits: Vec<&str> = table.restore.iter().filter(|of| !of.done).map(|of| of.waits_for.as_str()).collect();
            let detail = match &table.error {
                Some(error) => error.clone(),
                None if table.restored => format!("{} rows", table.rows),
                None => waits.join("; "),
            };
            checks.push(check(&format!("table-{}", table.table), table.restored, detail));
        }
        checks
    }

    /// The topology and its plan.
    pub fn topology(&self) -> serde_json::Value {
        self.topology.clone()
    }

    /// Stores that are open here.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// What the data path counts.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Plugin versions; `None` while the instance starts.
    pub fn registry(&self) -> Option<Arc<Registry>> {
        self.registry.get().cloned()
    }

    /// The pool that answers views; `None` while the instance starts.
    pub fn views(&self) -> Option<Arc<ViewPool>> {
        self.activation.views()
    }

    /// Asks the instance to stop: commit, flush, leave the group. `wait` returns when it has.
    pub fn stop(&self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.set_state(InstanceState::Stopping);
    }

    /// Whether the instance has ended.
    pub fn is_finished(&self) -> bool {
        let supervisor = self.supervisor.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        supervisor.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until the instance has ended, by itself or because it was told to. Only the first caller gets the reason.
    pub fn wait(&self) -> Result<(), Error> {
        let supervisor = self.supervisor.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        match supervisor.map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(_panic)) => Err(Error::Panicked { name: "supervisor".to_owned() }),
        }
    }
}
