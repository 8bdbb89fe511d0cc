//! Going on after a full disk.

use std::time::{Duration, Instant};

use super::{ActiveTask, Turn};

/// How often it is looked whether there is room again.
const LOOK: Duration = Duration::from_secs(1);

impl ActiveTask {
    /// Begins again once there is room for its stores: from what they hold, which may be older than the last commit. The changelog has
    /// the rest. A table's rows and the changelog's are read as in any other restore.
    pub(super) fn wait_for_room(&mut self, now: Instant) -> Turn {
        if now < self.next_look {
            return Turn::Idle;
        }
        self.next_look = now + LOOK;
        if !self.stores.has_room() {
            return Turn::Idle;
        }
        match self.stores.reopen() {
            Ok(()) => {
                tracing::info!(task = %self.id, "there is room on the disk again: going on from the last checkpoint");
                self.checkpoint = self.stores.checkpoint();
                Turn::Rewound(self.rewind(now))
            }
            Err(error) => {
                self.reason = crate::runtime::chain(&error);
                Turn::Idle
            }
        }
    }
}
