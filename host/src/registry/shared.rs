//! What the follower knows, for those who ask and those who deploy.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::model::Generation;

use super::blobs::Blobs;
use super::record::Digest;
use super::state::State;

/// Shared by the follower, deployments and readers of the status. `V` is a compiled version.
pub(super) struct Shared<V> {
    /// Locked to look or to change, never over I/O or compilation; the follower only takes it between records.
    view: Mutex<View<V>>,
    /// Told of each change.
    changed: Condvar,
    /// Bytes of versions. Locked while a file is read or written, by the follower and by a rollback: they may wait.
    blobs: Mutex<Blobs>,
}

/// The follower's knowledge.
pub(super) struct View<V> {
    /// The log, folded so far.
    pub(super) state: State,
    /// Versions that are compiled: the active ones, the ones before them, and those that are being deployed.
    pub(super) compiled: BTreeMap<Digest, V>,
    /// What runs on this instance.
    pub(super) running: Option<Running<V>>,
    /// Generation of the last try to make the active versions run, whether it went well or not.
    pub(super) tried: Option<Generation>,
    /// Why the active versions don't run here.
    pub(super) load_problem: Option<String>,
    /// Why the log, or the folder of bytes, cannot be used at the moment.
    pub(super) log_problem: Option<String>,
    /// The follower shall end.
    pub(super) stop: bool,
    /// The follower has ended.
    pub(super) ended: bool,
}

/// The versions that run on this instance.
pub(super) struct Running<V> {
    /// Their generation.
    pub(super) generation: Generation,
    /// By plugin.
    pub(super) plugins: BTreeMap<String, RunningVersion<V>>,
}

/// A version that runs on this instance.
pub(super) struct RunningVersion<V> {
    /// Which.
    pub(super) digest: Digest,
    /// Generation of its activation.
    pub(super) generation: Generation,
    /// The version, compiled.
    pub(super) version: V,
}

impl<V> Shared<V> {
    /// Nothing is known yet.
    pub(super) fn new(blobs: Blobs) -> Self {
        let view = View {
            state: State::default(),
            compiled: BTreeMap::new(),
            running: None,
            tried: None,
            load_problem: None,
            log_problem: None,
            stop: false,
            ended: false,
        };
        Self { view: Mutex::new(view), changed: Condvar::new(), blobs: Mutex::new(blobs) }
    }

    /// For looking. A thread that died with the lock has changed whole fields only, so what is there is usable.
    pub(super) fn view(&self) -> MutexGuard<'_, View<V>> {
        lock(&self.view)
    }

    /// Changes something and tells those who wait.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut View<V>) -> T) -> T {
        let result = change(&mut self.view());
        self.changed.notify_all();
        result
    }

    /// Waits until `done`, the follower's end, or the time-out; whether it is done.
    pub(super) fn wait(&self, timeout: Duration, mut done: impl FnMut(&View<V>) -> bool) -> bool {
        let deadline = Instant::now() + timeout;
        let mut view = self.view();
        loop {
            if done(&view) {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if view.ended || left.is_zero() {
                return false;
            }
            view = self.changed.wait_timeout(view, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The bytes of versions.
    pub(super) fn blobs(&self) -> MutexGuard<'_, Blobs> {
        lock(&self.blobs)
    }
}

/// Locks, also after a panic of another thread.
pub(super) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
