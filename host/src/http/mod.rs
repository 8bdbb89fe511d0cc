//! The HTTP server: probes, metrics, status, queries, views, and the administration of plugins.
//!
//! - It is bound before anything else starts and answers from then on. What it cannot answer yet is a 503 that says so.
//! - Nothing here waits for a stream thread: stores are read as of the last commit, views run on instances of their own.
//!   Whatever may block runs on the blocking pool, in bounded number; `/livez` never does.
//! - All it knows of the engine is the trait [`Host`].
//! - Errors are problem details (RFC 9457) with a stable `type`.

mod blocking;
mod engine;
mod guard;
mod health;
mod host;
mod plugins;
mod problem;
mod router;
mod server;
mod site;
mod status;
mod stores;
mod views;

#[cfg(test)]
mod tests;

pub use host::{DeployError, Host, ViewError, still_restoring};
pub use problem::CONTENT_TYPE as PROBLEM_JSON;
pub use server::{Error, Listener, Service};
pub use site::Site;
pub use stores::path_segment;
