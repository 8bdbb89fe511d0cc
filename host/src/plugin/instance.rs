//! One wasm store with one instance in it: the life of a guest.
//!
//! A call takes the instance and gives it back only if it succeeded: after a trap, a time-out or an answer that could
//! not be lifted the wasm store is gone with it.

use std::sync::Arc;
use std::time::Duration;

use wasmtime::{Store, Trap, UpdateDeadline};

use super::bindings::Exports;
use super::compiled::Artefact;
use super::imports::{HostState, Identity, OutsideView, truncated};
use super::limits::{ByteCount, Limits, STACK_BYTES};
use crate::model::CallFailureKind;

/// Longest reason of a failure, in bytes.
const MAX_REASON: usize = 4000;
/// What wasmtime says when a guest hands over too much; its error type is private. Only the wording hangs on it.
const FUEL: &str = "fuel allocated for hostcalls";

/// Why a call failed as a whole.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{kind}: {reason}")]
pub(super) struct Failure {
    /// What happened.
    pub(super) kind: CallFailureKind,
    /// In words.
    pub(super) reason: String,
}

impl Failure {
    /// An answer that breaks the interface.
    pub(super) fn answer(reason: impl ToString) -> Self {
        Self { kind: CallFailureKind::Answer, reason: truncated(reason.to_string(), MAX_REASON) }
    }

    /// A failure while an instance starts is a failed start, whatever its kind.
    fn in_start(self, step: &str) -> Self {
        Self { kind: CallFailureKind::Start, reason: format!("{step}: {}: {}", self.kind, self.reason) }
    }
}

/// An instance of a plugin. Has no state that outlives it.
pub(super) struct Instance {
    /// Memory, tables and the host's side.
    store: Store<HostState>,
    /// The exports of the instance.
    exports: Exports,
    /// Bytes a guest may hand over, for the failure's text.
    result_bytes: u64,
}

impl Instance {
    /// Instantiates, within the limits. Nothing is called yet.
    pub(super) fn instantiate(
        artefact: &Artefact,
        identity: Arc<Identity>,
        limits: &Limits,
    ) -> Result<Box<Self>, Failure> {
        let mut store = Store::new(artefact.pre.engine(), HostState::new(limits, identity, &artefact.memory));
        store.limiter(|state| &mut state.growth);
        store.set_hostcall_fuel(usize::try_from(limits.result_bytes).unwrap_or(usize::MAX));
        store.epoch_deadline_callback(|mut store| {
            if store.data_mut().clock.tick(thread_cpu_time()) {
                Ok(UpdateDeadline::Continue(1))
            } else {
                Err(wasmtime::Error::msg("CPU time is used up"))
            }
        });
        begin_call(&mut store, limits.start_timeout);
        let started = artefact.pre.instantiate(&mut store).and_then(|it| artefact.indices.load(&mut store, &it));
        end_call(&mut store);
        match started {
            Ok(exports) => Ok(Box::new(Self { store, exports, result_bytes: limits.result_bytes })),
            Err(e) => Err(failure(&e, store.data(), limits.result_bytes).in_start("instantiation")),
        }
    }

    /// Instantiates and calls `init`: an instance that is ready for calls.
    pub(super) fn start(
        artefact: &Artefact,
        identity: Arc<Identity>,
        limits: &Limits,
        config: &str,
    ) -> Result<Box<Self>, Failure> {
        let instance = Self::instantiate(artefact, identity, limits)?;
        let (instance, answer) = instance
            .call(limits.start_timeout, |exports, store| exports.lifecycle().call_init(store, config))
            .map_err(|failure| failure.in_start("init"))?;
        match answer {
            Ok(()) => Ok(instance),
            Err(reason) => {
                let reason = truncated(format!("init refuses: {reason}"), MAX_REASON);
                Err(Failure { kind: CallFailureKind::Start, reason })
            }
        }
    }

    /// Calls an export with at most `cpu` of CPU time. The instance comes back only from a call that succeeded.
    pub(super) fn call<T>(
        mut self: Box<Self>,
        cpu: Duration,
        call: impl FnOnce(&Exports, &mut Store<HostState>) -> wasmtime::Result<T>,
    ) -> Result<(Box<Self>, T), Failure> {
        begin_call(&mut self.store, cpu);
        let answer = call(&self.exports, &mut self.store);
        end_call(&mut self.store);
        match answer {
            Ok(answer) => Ok((self, answer)),
            Err(e) => Err(failure(&e, self.store.data(), self.result_bytes)),
        }
    }

    /// Bytes of its memories.
    pub(super) fn memory(&self) -> u64 {
        self.store.data().growth.memory()
    }

    /// Whether it holds more memory than its share, which others may be waiting for: it must not outlive its call.
    pub(super) fn has_outgrown(&self) -> bool {
        self.store.data().growth.is_beyond()
    }

    /// The host's side, to lend it stores between calls.
    pub(super) fn host_mut(&mut self) -> &mut HostState {
        self.store.data_mut()
    }
}

/// Gives the call its budgets.
fn begin_call(store: &mut Store<HostState>, cpu: Duration) {
    store.set_epoch_deadline(1);
    let state = store.data_mut();
    state.clock.begin_call(cpu);
    state.growth.begin_call();
    state.log.begin_call();
    state.last_error = None;
}

/// Tells of log lines that were dropped.
fn end_call(store: &mut Store<HostState>) {
    let HostState { log, identity, .. } = store.data();
    if log.dropped() > 0 {
        let Identity { plugin, version } = &**identity;
        tracing::warn!(target: "weir::plugin", plugin, version, dropped = log.dropped(), "log lines over the limit of a call");
    }
}

/// CPU time that this thread has used.
fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    // Both are positive and in range by the system's promise.
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// What a call's error means.
fn failure(error: &wasmtime::Error, state: &HostState, result_bytes: u64) -> Failure {
    let Identity { plugin, version } = &*state.identity;
    tracing::debug!(target: "weir::plugin", plugin, version, "call failed: {error:?}");
    let (kind, reason) = explain(error, state, result_bytes);
    Failure { kind, reason: truncated(reason, MAX_REASON) }
}

/// Kind and reason of a call's error. The state knows best which limit was met; a trap only tells how the guest took it.
fn explain(error: &wasmtime::Error, state: &HostState, result_bytes: u64) -> (CallFailureKind, String) {
    if let Some(limit) = state.clock.exceeded() {
        return (CallFailureKind::Timeout, format!("it used more than {limit:?} of CPU time"));
    }
    if let Some(outside) = error.downcast_ref::<OutsideView>() {
        return (CallFailureKind::Trap, outside.to_string());
    }
    let trap = error.downcast_ref::<Trap>();
    if trap == Some(&Trap::StackOverflow) {
        let stack = ByteCount(STACK_BYTES as u64);
        return (CallFailureKind::Trap, format!("its call stack is used up ({stack}): endless recursion?"));
    }
    if let Some(refused) = state.growth.refused() {
        return (CallFailureKind::Memory, refused.to_string());
    }
    let Some(trap) = trap else {
        // Not the guest's code failed, but taking its data over: a pointer out of bounds, invalid UTF-8, too much.
        let cause = error.root_cause().to_string();
        let reason = if cause.contains(FUEL) {
            format!("it hands over more than {} at a time", ByteCount(result_bytes))
        } else {
            format!("its data cannot be taken over: {cause}")
        };
        return (CallFailureKind::Answer, reason);
    };
    (CallFailureKind::Trap, trap_reason(*trap, state.last_error.as_deref()))
}

/// A trap in words. Guests of the SDK log a panic's message and place as their last error line.
fn trap_reason(trap: Trap, last_error: Option<&str>) -> String {
    match (trap, last_error) {
        (Trap::UnreachableCodeReached, Some(line)) if line.starts_with("panic") => line.to_owned(),
        (Trap::UnreachableCodeReached, Some(line)) => format!("it aborted; its last error line: {line}"),
        (Trap::UnreachableCodeReached, None) => "it aborted without a message".to_owned(),
        (Trap::MemoryOutOfBounds, None) => {
            "out of bounds memory access (a wild pointer, or a guest's own stack used up by endless recursion)"
                .to_owned()
        }
        (trap, None) => trap.to_string(),
        (trap, Some(line)) => format!("{trap}; its last error line: {line}"),
    }
}
