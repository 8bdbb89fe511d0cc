//! What the process tells of itself: log lines, and metrics in Prometheus' text form.
//!
//! The data path only adds to [`Counters`] (atomic additions, no lock); everything else is worked out when somebody asks.

mod counters;
pub mod logging;
mod metric_names;
mod scrape;

pub use counters::{
    CommitCounters, Counter, Counters, DropCounters, Durations, JoinCounters, Operation, PluginCounters,
};
pub use scrape::{CONTENT_TYPE, scrape};
