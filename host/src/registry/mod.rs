//! The registry: which versions of the plugins there are, which are active, and how one becomes active.
//!
//! What it promises: every instance that reads the same log agrees on the active versions and on their generation,
//! whoever deploys at the same time; a deployment that is refused has changed nothing, nowhere; an activation never goes
//! back to an older generation, since a generation is an offset of the log, and a rollback is an activation like any
//! other; a version that cannot be loaded on an instance leaves that instance with what it had, and says so.
//!
//! The log ([`LogReader`], [`LogWriter`]) holds the bytes in chunks, then a manifest, then transitions
//! (`record`). [`State`](state::State) folds it, without any I/O. The follower applies it on a thread of its
//! own: keeps bytes in a folder by digest, compiles away from the stream threads, hands over each new set of plugins.
//! The deployer checks a version wholly before it appends the first record.
//!
//! What is deliberately absent: a leader, locks between instances (a transition names the generation it expects, and the
//! first one in the log wins), compiled code in the log (it is native code; every instance compiles for itself).

mod blobs;
mod deploy;
mod error;
mod follower;
mod loader;
mod log;
mod record;
mod service;
mod shared;
mod state;
mod topic;

#[cfg(test)]
mod fake;

pub use deploy::Activation;
pub use error::{Error, Stage};
pub use loader::{Loader, PluginLoader, Refusal};
pub use log::{InProcessLog, LogError, LogReader, LogRecord, LogWriter};
pub use record::{MAX_MESSAGE_BYTES, MAX_PLUGIN_BYTES, TransitionKind};
pub use service::{Registry, RegistryOptions};
pub use state::{Transition, Version};
pub use topic::topic;
