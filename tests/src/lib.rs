//! What end-to-end tests need: a real broker, fixtures on its topics, and what is on a topic in the end.

pub mod broker;
pub mod classpath;
pub mod topics;

pub use broker::Broker;
