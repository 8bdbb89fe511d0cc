//! The states of a task and how one follows another.
//!
//! ```text
//!                 ┌──────────────────────── a commit failed: begin again from the last one ──────────────────┐
//!                 ▼                                                                                          │
//!   Created ─▶ Restoring ─▶ WaitingForPeers ─▶ Running ───────────────────────────────────────────────▶ (rewound)
//!      │          │               │               │  ▲
//!      │          │               │               ▼  │ a new plugin version: tried again
//!      │          └───────────────┴────────────▶ Failed
//!      └───────────────────── revoked, lost, stopped: ────────────────────▶ Closed (from every state)
//! ```

use crate::model::TaskState;

/// Whether a task in state `from` may go to state `to`.
pub fn may_follow(from: TaskState, to: TaskState) -> bool {
    use TaskState::{Closed, Created, Failed, Restoring, Running, WaitingForPeers};
    match (from, to) {
        (Closed, _) => false,
        (_, Closed | Failed) => from != to,
        (Created, Restoring)
        | (Restoring, WaitingForPeers)
        | (WaitingForPeers, Running)
        | (Failed, Created | Running)
        | (Running | WaitingForPeers | Restoring, Created) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TaskState::{Closed, Created, Failed, Restoring, Running, WaitingForPeers};

    #[test]
    fn a_task_runs_only_after_its_restore() {
        let all = [Created, Restoring, WaitingForPeers, Running, Failed, Closed];
        let into_running: Vec<TaskState> = all.into_iter().filter(|from| may_follow(*from, Running)).collect();
        assert_eq!(into_running, [WaitingForPeers, Failed]);
        assert!(all.into_iter().all(|to| !may_follow(Closed, to)), "closed is the end");
    }
}
