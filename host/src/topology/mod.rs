//! The topology file: read into typed options and nodes, and checked as a whole.
//!
//! `load` is the one way in. It either gives a `Topology` that holds together, with warnings, or *all* that is wrong, each
//! with its place and what would be right. What a plugin exports and what a broker has is not known here.
//!
//! Sections: `[app]`, `[kafka]`, `[state]`, `[http]`, `[barrier]`, `[plugins.X]` (see `config`), and
//!
//! - `[streams.X]`: `topic` (default: X)
//! - `[tables.X]`, `[global_tables.X]`: `topic`, `store = "rocksdb" | "memory"`, `max_memory`
//! - `[joins.X]`: `left`, `table`, `kind = "left" | "inner"`, `function`, `on_miss = "pass" | "drop"`, `on_error`
//! - `[aggregates.X]`: `inputs = [{ from, function, on_error }]`, `emit = "each" | "batch" | "commit"`, `store`, `max_memory`
//! - `[transforms.X]`: `from`, `function`, `on_error`
//! - `[sinks.X]`: `from`, `topic` (default: X)
//! - `[views.X]`: `route`, `function`, `stores`
//! - `[dead_letters]`: `topic`, where an `on_error` is `"dlq"`
//!
//! `on_error = "fail" | "skip" | "dlq"`, default `fail`. A function is named `"plugin.function"`.

mod check;
mod cycles;
mod files;
mod node;
mod read;
mod routes;
mod topics;

#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::config::{AppOptions, At, BarrierOptions, HttpOptions, Origins, PluginOptions, Problem, StateOptions};

pub use files::{load, parse};
pub use node::{Emit, Input, Node, NodeKind, OnError, StoreKind, Use, View};
pub(crate) use topics::{changelog_topic, control_topic, registry_topic};

/// A checked topology file.
#[derive(Clone, Debug)]
pub struct Topology {
    /// The file.
    pub file: PathBuf,
    /// `[app]`.
    pub app: AppOptions,
    /// `[kafka]`: properties for librdkafka.
    pub kafka: BTreeMap<String, String>,
    /// `[state]`.
    pub state: StateOptions,
    /// `[http]`.
    pub http: HttpOptions,
    /// `[barrier]`.
    pub barrier: BarrierOptions,
    /// `[plugins.*]`, by name.
    pub plugins: BTreeMap<String, PluginOptions>,
    /// Streams, tables, joins and so on, in the file's order.
    pub nodes: Vec<Node>,
    /// `[views.*]`, in the file's order.
    pub views: Vec<View>,
    /// Topic of `[dead_letters]`.
    pub dead_letters: Option<At<String>>,
    /// What is probably not meant.
    pub warnings: Vec<Problem>,
    /// The texts that places point into.
    origins: Origins,
}

impl Topology {
    /// The plugins whose file isn't there. Not a part of `load`: an instance with a registry can do without the files.
    pub fn missing_plugin_files(&self) -> Vec<Problem> {
        let missing = |(name, plugin): (&String, &PluginOptions)| {
            let what = format!("plugin {name}: there is no file {}", plugin.file.display());
            let remedy = "build the plugin, or name another file (relative to the topology file)";
            (!plugin.file.is_file()).then(|| self.origins.problem(plugin.file_place, what, remedy))
        };
        self.plugins.iter().filter_map(missing).collect()
    }
}
