//! A running instance: threads, clients, and what holds them together.
//!
//! ```text
//!   supervisor ── polls the source consumer ──▶ rebalances ──▶ Open / Close ─┐
//!   prober ── log ends ──▶ LogRange ─────────────────────────────────────────┤ mailboxes
//!   registry ── activations ──▶ Swap ────────────────────────────────────────┤
//!                                                                            ▼
//!   stream threads: fetch ─▶ task ─▶ outputs, overlay ─▶ commit     (own their tasks)
//!   global-tables thread: fetch ─▶ stores                           (own reader queues)
//!   control thread: reports of all instances ─▶ what to stand by for
//!   standby thread: fetch ─▶ stores of others' tasks                (own reader queues)
//! ```

mod activation;
mod active_task;
mod assignment;
mod cleanup;
mod committer;
mod control;
mod edge;
mod error;
mod event;
mod feed;
mod global_tables;
mod handle;
mod instance;
mod membership;
mod memory;
mod metered;
mod options;
mod prober;
#[cfg(test)]
mod simulation;
mod standby;
mod startup;
mod stream_thread;
mod supervisor;
mod topic_watch;
mod topics;
mod wake;

pub use error::Error;
pub use handle::Handle;
pub use supervisor::{Cluster, start};

/// An error with all that caused it, in one line.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
