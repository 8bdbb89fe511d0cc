//! What can go wrong with the registry.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::model::Generation;
use crate::plugin;

use super::log::LogError;

/// The way of a version until it is active. Each stage comes after all earlier ones have passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// The bytes are there, not too many, for a plugin that the topology has.
    Received,
    /// They are WebAssembly.
    Valid,
    /// They follow `wit/`.
    Conforms,
    /// The compiler takes them.
    Compiled,
    /// The plugin has told what it holds.
    Described,
    /// It has every function in use.
    Functions,
    /// An instance has started with the topology's configuration.
    Started,
    /// It can read the states that the active version wrote.
    States,
    /// It is the active one.
    Active,
}

impl Stage {
    /// All stages in order: what a deployment that went well has passed.
    pub const ALL: [Self; 9] = [
        Self::Received,
        Self::Valid,
        Self::Conforms,
        Self::Compiled,
        Self::Described,
        Self::Functions,
        Self::Started,
        Self::States,
        Self::Active,
    ];
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Received => "received",
            Self::Valid => "valid",
            Self::Conforms => "conforms",
            Self::Compiled => "compiled",
            Self::Described => "described",
            Self::Functions => "has the functions in use",
            Self::Started => "init ok",
            Self::States => "state versions fit",
            Self::Active => "active",
        })
    }
}

impl From<plugin::Stage> for Stage {
    fn from(stage: plugin::Stage) -> Self {
        match stage {
            plugin::Stage::Received => Self::Received,
            plugin::Stage::Valid => Self::Valid,
            plugin::Stage::Conforms => Self::Conforms,
            plugin::Stage::Compiled => Self::Compiled,
            plugin::Stage::Described => Self::Described,
            plugin::Stage::Functions => Self::Functions,
            plugin::Stage::Started => Self::Started,
        }
    }
}

/// Why the registry did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The version is not fit to be active. Nothing has changed.
    #[error("plugin {plugin} refused, not '{stage}': {reason}; {remedy}")]
    Refused {
        /// Name of the plugin.
        plugin: String,
        /// The stage that was not reached.
        stage: Stage,
        /// What is wrong.
        reason: String,
        /// What would be right.
        remedy: String,
    },
    /// There is no such plugin.
    #[error("the topology has no plugin '{plugin}'; it has {}", listed(.known))]
    UnknownPlugin {
        /// The name that was asked for.
        plugin: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// There is no version before the active one.
    #[error("plugin {plugin} has had no other version: there is nothing to roll back to")]
    NoPrevious {
        /// Name of the plugin.
        plugin: String,
    },
    /// Someone else changed what is active while a rollback was on its way. Nothing was rolled back.
    #[error("plugin {plugin} was changed by someone else just now (generation {generation}): look, then ask again")]
    Overtaken {
        /// Name of the plugin.
        plugin: String,
        /// The generation that came first.
        generation: Generation,
    },
    /// Others deployed first, again and again.
    #[error("others deployed plugin {plugin} first, {attempts} times in a row: try again later")]
    Contended {
        /// Name of the plugin.
        plugin: String,
        /// How often it was tried.
        attempts: usize,
    },
    /// Records of a newer program: this one cannot know what is active.
    #[error(
        "the registry holds a record of format {version} at offset {offset}, this program reads up to {known}: update it"
    )]
    NewerRecord {
        /// Where the record is.
        offset: i64,
        /// Its format.
        version: u64,
        /// The newest format that this program reads.
        known: u64,
    },
    /// The log could not be read or written.
    #[error("the registry's log failed while {doing}")]
    Log {
        /// What was being done.
        doing: &'static str,
        /// What the log said.
        #[source]
        source: LogError,
    },
    /// The log did not yield its records.
    #[error("the registry's log stands at offset {position}, below {wanted}, for {seconds} s: is the broker there?")]
    Stalled {
        /// Offset that was reached.
        position: i64,
        /// Offset that was to be reached.
        wanted: i64,
        /// How long nothing came.
        seconds: u64,
    },
    /// A transition was written but not read back in time. It may be active, or become so.
    #[error(
        "plugin {plugin}: the change was written at offset {offset}, but not read back within {seconds} s: it may become \
         active yet, look at the plugin's history"
    )]
    Unanswered {
        /// Name of the plugin.
        plugin: String,
        /// Offset of the transition.
        offset: i64,
        /// How long was waited.
        seconds: u64,
    },
    /// A record could not be written as JSON.
    #[error("a record of the registry cannot be encoded")]
    Encode(#[source] serde_json::Error),
    /// A file cannot be used.
    #[error("cannot {doing} {}", path.display())]
    File {
        /// What was to be done with it.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The bytes of a version are not what their digest says.
    #[error("the bytes of version {digest} in the registry are damaged: deploy the version again")]
    Damaged {
        /// The version, in short.
        digest: String,
    },
    /// There is nothing to run plugins with.
    #[error("no plugin can run on this machine")]
    Engine(#[from] plugin::Error),
    /// The thread that follows the log could not be started.
    #[error("cannot start the thread that follows the registry")]
    Thread(#[source] std::io::Error),
    /// The registry follows no more.
    #[error("the registry has been stopped")]
    Stopped,
}

impl Error {
    /// Whether the same call may go well later, unchanged.
    pub fn is_retriable(&self) -> bool {
        matches!(self, Self::Log { .. } | Self::Stalled { .. } | Self::Contended { .. })
    }
}

/// Names as a list for people.
fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// An error with its causes, in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
