//! How long a task waits for its tables.

use std::time::Instant;

use super::ActiveTask;
use crate::plan::{BarrierScope, OnTimeout};

impl ActiveTask {
    /// Whether tables are not waited for.
    pub(super) fn tables_may_lag(&self) -> bool {
        self.instance.options.barrier.scope == BarrierScope::Off || self.gave_up
    }

    /// Fails the task, or lets it go on, when tables are not full in time.
    pub(super) fn check_timeout(&mut self, now: Instant) -> Result<(), String> {
        let barrier = self.instance.options.barrier;
        let Some(timeout) = barrier.timeout.filter(|timeout| now.duration_since(self.opened) > *timeout) else {
            return Ok(());
        };
        match barrier.on_timeout {
            OnTimeout::Proceed => {
                if !std::mem::replace(&mut self.gave_up, true) {
                    tracing::warn!(task = %self.id, ?timeout, "tables are not full in time; going on without");
                }
                Ok(())
            }
            OnTimeout::Fail => {
                let waits: Vec<String> = self
                    .restores(now)
                    .filter(|status| !status.done)
                    .map(|status| format!("{}: {}", status.store, status.waits_for))
                    .collect();
                Err(format!("tables are not full after {timeout:?} (barrier.timeout): {}", waits.join("; ")))
            }
        }
    }
}
