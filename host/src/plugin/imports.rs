//! What a guest may call: the log, and, within a view's call, stores.

use std::sync::Arc;

use super::bindings::{log, stores, types};
use super::limits::{CpuClock, Growth, Limits, LogBudget};
use super::memory::Memory;
use super::view_pool::ViewStores;

/// Longest error line kept for a failure's reason, in bytes.
const MAX_KEPT: usize = 2000;

/// Which plugin runs: for log lines and failures.
#[derive(Debug)]
pub(super) struct Identity {
    /// The plugin's name in the topology.
    pub(super) plugin: String,
    /// Short digest of its bytes.
    pub(super) version: String,
}

/// The stores that a view may read in one call.
pub(super) struct StoreAccess {
    /// The instance's stores.
    pub(super) stores: Arc<dyn ViewStores>,
    /// Names the topology lists for the view.
    pub(super) allowed: Vec<String>,
}

impl StoreAccess {
    /// Refuses a store that isn't listed.
    fn check(&self, store: &str) -> Result<(), String> {
        if self.allowed.iter().any(|allowed| allowed == store) {
            return Ok(());
        }
        let listed = if self.allowed.is_empty() { "none".to_owned() } else { self.allowed.join(", ") };
        Err(format!("store '{store}' is not one that the topology lists for this view (listed: {listed})"))
    }
}

/// The host's side of one instance: what wasmtime's store holds.
pub(super) struct HostState {
    /// Memory and tables.
    pub(super) growth: Growth,
    /// CPU time of the call.
    pub(super) clock: CpuClock,
    /// Log lines of the call.
    pub(super) log: LogBudget,
    /// The last error line of the call: for a panic, its message and place.
    pub(super) last_error: Option<String>,
    /// Stores, while a view answers.
    pub(super) access: Option<StoreAccess>,
    /// Who this is.
    pub(super) identity: Arc<Identity>,
}

impl HostState {
    /// The state of an instance that is about to be made.
    pub(super) fn new(limits: &Limits, identity: Arc<Identity>, memory: &Arc<Memory>) -> Self {
        Self {
            growth: Growth::new(limits, memory),
            clock: CpuClock::default(),
            log: LogBudget::new(limits),
            last_error: None,
            access: None,
            identity,
        }
    }
}

/// A guest read stores outside a view's call.
#[derive(Debug, thiserror::Error)]
#[error("it called weir:plugin/stores.{function}; only views may read stores")]
pub(super) struct OutsideView {
    /// The function called.
    function: &'static str,
}

impl types::Host for HostState {}

impl log::Host for HostState {
    fn log(&mut self, level: log::Level, message: String) {
        let Identity { plugin, version } = &*self.identity;
        if self.log.admit(message.len()) {
            match level {
                log::Level::Debug => tracing::debug!(target: "weir::plugin", plugin, version, "{message}"),
                log::Level::Info => tracing::info!(target: "weir::plugin", plugin, version, "{message}"),
                log::Level::Warn => tracing::warn!(target: "weir::plugin", plugin, version, "{message}"),
                log::Level::Error => tracing::error!(target: "weir::plugin", plugin, version, "{message}"),
            }
        }
        // Kept even when the log is full: a panic may come after a flood.
        if level == log::Level::Error {
            self.last_error = Some(truncated(message, MAX_KEPT));
        }
    }
}

impl stores::Host for HostState {
    fn get(&mut self, store: String, key: Vec<u8>) -> wasmtime::Result<Result<Option<Vec<u8>>, String>> {
        let access = self.access.as_ref().ok_or(OutsideView { function: "get" })?;
        let found = access.check(&store).and_then(|()| access.stores.get(&store, &key));
        Ok(found.map(|value| value.map(Vec::from)))
    }

    fn count(&mut self, store: String) -> wasmtime::Result<Result<u64, String>> {
        let access = self.access.as_ref().ok_or(OutsideView { function: "count" })?;
        Ok(access.check(&store).and_then(|()| access.stores.count(&store)))
    }
}

/// A guest's text, cut to at most `max` bytes.
pub(super) fn truncated(mut text: String, max: usize) -> String {
    if text.len() > max {
        text.truncate(text.floor_char_boundary(max));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(truncated("ää".to_owned(), 4), "ää");
        assert_eq!(truncated("äää".to_owned(), 5), "ää…");
    }
}
