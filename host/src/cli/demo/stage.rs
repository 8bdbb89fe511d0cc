//! The instance that the server shows while the demo goes on.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::bail;

use super::Interrupted;
use crate::cli::serve::Engine;
use crate::http::{DeployError, Host, ViewError};
use crate::model::{Check, Entry, InstanceState, InstanceStatus, TaskState};
use crate::plan::ViewPlan;
use crate::plugin::{ViewRequest, ViewResponse};
use crate::registry::{Activation, Transition};
use crate::runtime::{self, Cluster, Handle};
use crate::telemetry::Counters;
use crate::topology::Topology;
use crate::view::{QueryError, Scan};

/// What happens on a stage; runs in the thread that waits for its end.
type Story = Box<dyn FnOnce(&Stage) -> anyhow::Result<()> + Send>;

/// At most one instance at a time. As an engine it is the whole demo: it ends with its story.
pub(super) struct Stage {
    /// What is still to be played. The lock is held for a moment only.
    story: Mutex<Option<Story>>,
    /// What is on it. The lock is held for a moment only.
    scene: Mutex<Scene>,
    /// Wakes who pauses.
    changed: Condvar,
    /// Counters while no instance is there.
    counters: Arc<Counters>,
}

/// What is on a stage.
#[derive(Default)]
struct Scene {
    /// The instance.
    instance: Option<Arc<Handle>>,
    /// Whether the demo was asked to stop.
    stopped: bool,
}

impl Stage {
    /// A stage for this story.
    pub(super) fn new(story: impl FnOnce(&Self) -> anyhow::Result<()> + Send + 'static) -> Self {
        Self {
            story: Mutex::new(Some(Box::new(story))),
            scene: Mutex::default(),
            changed: Condvar::new(),
            counters: Arc::default(),
        }
    }

    /// What is on it now.
    fn scene(&self) -> MutexGuard<'_, Scene> {
        self.scene.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The instance, if one is there.
    fn instance(&self) -> Option<Arc<Handle>> {
        self.scene().instance.clone()
    }

    /// Starts an instance of `topology`.
    pub(super) fn enter(&self, topology: &Topology) -> anyhow::Result<Arc<Handle>> {
        let instance = runtime::start(topology, Cluster::Embedded)?;
        let mut scene = self.scene();
        scene.instance = Some(Arc::clone(&instance));
        if scene.stopped {
            instance.stop();
        }
        drop(scene);
        Ok(instance)
    }

    /// Ends the instance: it commits and leaves the group.
    pub(super) fn leave(&self) -> anyhow::Result<()> {
        let Some(instance) = self.instance() else { return Ok(()) };
        instance.stop();
        let ended = instance.wait();
        self.scene().instance = None;
        Ok(ended?)
    }

    /// Whether the demo was asked to stop.
    fn is_stopped(&self) -> bool {
        self.scene().stopped
    }

    /// Waits for a moment. An error if the demo is to stop, or if the instance cannot go on.
    pub(super) fn pause(&self, moment: Duration) -> anyhow::Result<()> {
        let scene = self.scene();
        let waited = self.changed.wait_timeout_while(scene, moment, |scene| !scene.stopped);
        let (scene, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let (stopped, instance) = (scene.stopped, scene.instance.clone());
        drop(scene);
        if stopped {
            return Err(Interrupted.into());
        }
        let Some(instance) = instance else { return Ok(()) };
        if instance.is_finished() {
            instance.wait()?;
            bail!("the instance has ended by itself");
        }
        if let Some(task) = instance.status().tasks.iter().find(|task| task.state == TaskState::Failed) {
            bail!("task {} has stopped: {}", task.task, task.reason);
        }
        Ok(())
    }

    /// Serves until the demo is asked to stop.
    pub(super) fn serve_on(&self) -> anyhow::Result<()> {
        loop {
            match self.pause(Duration::from_millis(500)) {
                Err(error) if error.is::<Interrupted>() => return Ok(()),
                paused => paused?,
            }
        }
    }
}

impl Engine for Stage {
    fn stop(&self) {
        let mut scene = self.scene();
        scene.stopped = true;
        if let Some(instance) = &scene.instance {
            instance.stop();
        }
        drop(scene);
        self.changed.notify_all();
    }

    fn wait(&self) -> anyhow::Result<()> {
        let story = self.story.lock().unwrap_or_else(PoisonError::into_inner).take();
        let played = story.map_or(Ok(()), |story| story(self));
        let left = self.leave();
        match played {
            // What an instance says that was stopped in the middle of it is no news.
            Err(_) if self.is_stopped() => Err(Interrupted.into()),
            played => played.and(left),
        }
    }
}

/// The instance's answers; before it is there, those of one that starts.
impl Host for Stage {
    fn status(&self) -> InstanceStatus {
        let starting = || InstanceStatus { state: InstanceState::Starting, ..InstanceStatus::default() };
        self.instance().map_or_else(starting, |instance| instance.status())
    }

    fn readiness(&self) -> Vec<Check> {
        let detail = "the demo fills its topics".to_owned();
        let starting = || vec![Check { name: "started".to_owned(), ok: false, detail }];
        self.instance().map_or_else(starting, |instance| instance.readiness())
    }

    fn topology(&self) -> serde_json::Value {
        self.instance().map_or(serde_json::Value::Null, |instance| instance.topology())
    }

    fn counters(&self) -> Arc<Counters> {
        self.instance().map_or_else(|| Arc::clone(&self.counters), |instance| Host::counters(&*instance))
    }

    fn get(&self, store: &str, key: &[u8]) -> Result<Option<Entry>, QueryError> {
        self.instance().ok_or_else(|| not_here(store))?.catalog().get(store, key)
    }

    fn scan(&self, store: &str, prefix: &[u8], from: Option<&[u8]>, limit: usize) -> Result<Scan, QueryError> {
        self.instance().ok_or_else(|| not_here(store))?.catalog().scan(store, prefix, from, limit)
    }

    fn answer(&self, view: &ViewPlan, request: ViewRequest) -> Result<ViewResponse, ViewError> {
        self.instance().ok_or(ViewError::NotReady)?.answer(view, request)
    }

    fn history(&self, plugin: &str) -> Result<Vec<Transition>, DeployError> {
        self.instance().ok_or(DeployError::NotReady)?.history(plugin)
    }

    fn deploy(&self, plugin: &str, bytes: &[u8], message: &str, now_ms: i64) -> Result<Activation, DeployError> {
        self.instance().ok_or(DeployError::NotReady)?.deploy(plugin, bytes, message, now_ms)
    }

    fn rollback(&self, plugin: &str, now_ms: i64) -> Result<Activation, DeployError> {
        self.instance().ok_or(DeployError::NotReady)?.rollback(plugin, now_ms)
    }
}

/// No instance is there that could have the store.
fn not_here(store: &str) -> QueryError {
    QueryError::NotHere { store: store.to_owned(), partition: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demo_ends_with_its_story() {
        Stage::new(|_| Ok(())).wait().unwrap();
        let error = Stage::new(|_| anyhow::bail!("no rows")).wait().unwrap_err();
        assert_eq!(error.to_string(), "no rows");
    }

    #[test]
    fn a_stopped_demo_is_interrupted_unless_all_was_shown() {
        let stage = Stage::new(|stage| stage.pause(Duration::from_secs(3600)));
        stage.stop();
        assert!(stage.wait().unwrap_err().is::<Interrupted>());
        let stage = Stage::new(Stage::serve_on);
        stage.stop();
        stage.wait().unwrap();
    }

    #[test]
    fn nothing_is_ready_before_the_instance_is_there() {
        let stage = Stage::new(|_| Ok(()));
        assert!(!stage.readiness()[0].ok);
        assert_eq!(stage.status().state, InstanceState::Starting);
        assert!(matches!(stage.get("projekt-store", b"P1"), Err(QueryError::NotHere { .. })));
    }
}
