//! The options of a topology file's fixed sections, typed: `[app]`, `[kafka]`, `[state]`, `[http]`, `[barrier]`, `[plugins.*]`;
//! and what reading them needs: a value tree that knows where everything stands, overrides, and a report of all problems.
//!
//! A section is walked by hand instead of through serde: serde stops at the first error, and a person who writes a
//! topology file wants all of them, each with its place and what would be right.
//!
//! What could not be read holds a placeholder (an empty string, a default). That is safe, since a file with one problem
//! is refused as a whole.

mod app;
mod barrier;
mod document;
mod http;
mod kafka;
mod kafka_names;
mod names;
mod origins;
mod overrides;
mod plugin;
mod problem;
mod quantity;
mod report;
mod section;
mod state;
mod suggest;

pub use app::{AppOptions, Guarantee, OffsetReset, OnStop, TimePolicy};
pub use barrier::{BarrierOptions, BarrierScope, OnTimeout};
pub use http::{HttpOptions, ReadyRoute};
pub use origins::{At, Place};
pub use plugin::PluginOptions;
pub use problem::{Problem, Problems};
pub use quantity::{ByteSize, Readable};
pub use state::StateOptions;

pub(crate) use document::{Table, parse as parse_document};
pub(crate) use kafka::read as read_kafka;
pub(crate) use names::{MAX_TOPIC, NAME_RULE, is_legal_name, is_legal_topic};
pub(crate) use origins::Origins;
pub(crate) use overrides::merge;
pub(crate) use report::Report;
pub(crate) use section::{Choices, Section, list};
pub(crate) use suggest::nearest;
