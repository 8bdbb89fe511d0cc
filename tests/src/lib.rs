//! What end-to-end tests need: a real broker, the real program, fixtures on topics, and what is on a topic in the end.

pub mod broker;
pub mod classpath;
pub mod command;
pub mod group;
pub mod host;
pub mod proxy;
pub mod topics;
pub mod wait;

pub use broker::Broker;
pub use host::{Host, Setup};
pub use proxy::Proxy;

/// Whether `make test-slow` runs: tests that can be short or long are long then.
pub fn is_slow_run() -> bool {
    std::env::var_os("WEIR_SLOW").is_some()
}
