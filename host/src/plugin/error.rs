//! Why bytes are no plugin of this topology.

use std::fmt;

use super::description::Kind;

/// How far a plugin came. Later stages come after all earlier ones have passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The bytes are there.
    Received,
    /// They are WebAssembly.
    Valid,
    /// They follow `wit/`.
    Conforms,
    /// The compiler takes them.
    Compiled,
    /// The plugin has told what it holds, and that makes sense.
    Described,
    /// It has every function that the topology uses.
    Functions,
    /// An instance has started with the topology's configuration.
    Started,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Received => "received",
            Self::Valid => "valid",
            Self::Conforms => "conforms",
            Self::Compiled => "compiled",
            Self::Described => "described",
            Self::Functions => "functions",
            Self::Started => "started",
        })
    }
}

/// A function that the topology uses and its plugins lack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Plugin's name in the topology.
    pub plugin: String,
    /// Function's name.
    pub function: String,
    /// What the topology uses it as.
    pub kind: Kind,
    /// What there is instead.
    pub instead: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}.{}: {}", self.kind, self.plugin, self.function, self.instead)
    }
}

/// Why a plugin is refused. Messages say what is wrong and what would be right.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine cannot be set up on this machine.
    #[error("cannot set up the WebAssembly engine: {reason}")]
    Engine {
        /// What wasmtime or the system said.
        reason: String,
    },
    /// Too many bytes.
    #[error("the file has {size} bytes; a plugin may have {limit}")]
    TooLarge {
        /// Its size.
        size: usize,
        /// The largest that is taken.
        limit: usize,
    },
    /// Not WebAssembly, or broken.
    #[error("not a valid WebAssembly file: {reason}")]
    Invalid {
        /// What is wrong.
        reason: String,
    },
    /// WebAssembly, but no plugin.
    #[error("not a plugin that this host can run:\n{}", lines(.problems))]
    Nonconforming {
        /// All that is wrong.
        problems: Vec<String>,
    },
    /// The compiler refuses it.
    #[error("cannot be compiled: {reason}")]
    Compile {
        /// What the compiler said.
        reason: String,
    },
    /// `describe` failed.
    #[error("the plugin cannot say what it holds: {reason}")]
    Describe {
        /// What happened.
        reason: String,
    },
    /// `describe` tells what cannot be.
    #[error("the plugin's description of itself is wrong:\n{}", lines(.problems))]
    Description {
        /// All that is wrong.
        problems: Vec<String>,
    },
    /// The topology uses what is not there.
    #[error("the topology uses functions that its plugins do not have:\n{}", lines(.missing))]
    Functions {
        /// All of them.
        missing: Vec<Missing>,
    },
    /// An instance could not be started with the topology's configuration.
    #[error("plugin {plugin} {version} cannot be started: {reason}")]
    Start {
        /// The plugin's name in the topology.
        plugin: String,
        /// Short digest of its bytes.
        version: String,
        /// What happened, or what `init` said.
        reason: String,
    },
    /// Components of one set must share an engine.
    #[error("plugin {plugin} was compiled by another engine than the one it should run in")]
    OtherEngine {
        /// The plugin's name in the topology.
        plugin: String,
    },
}

impl Error {
    /// The stage that was not reached.
    pub fn stage(&self) -> Stage {
        match self {
            Self::Engine { .. } | Self::TooLarge { .. } => Stage::Received,
            Self::Invalid { .. } => Stage::Valid,
            Self::Nonconforming { .. } => Stage::Conforms,
            Self::Compile { .. } | Self::OtherEngine { .. } => Stage::Compiled,
            Self::Describe { .. } | Self::Description { .. } => Stage::Described,
            Self::Functions { .. } => Stage::Functions,
            Self::Start { .. } => Stage::Started,
        }
    }

    /// What to do about it, in one sentence.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Engine { .. } => "wasmtime needs a 64-bit machine that lets a process map executable memory",
            Self::TooLarge { .. } => {
                "strip debug information from the plugin (a release build, `strip = \"debuginfo\"`)"
            }
            Self::Invalid { .. } => "build the plugin again, and check that the file was copied as a whole",
            Self::Nonconforming { .. } => "build it with weir-guest, or against the wit/ folder of this host's version",
            Self::Compile { .. } => "turn off WebAssembly features beyond the component model's in the plugin's build",
            Self::Describe { .. } => {
                "`describe` must answer without configuration, within 256 MiB of memory and two seconds of CPU time"
            }
            Self::Description { .. } => {
                "correct what `describe` returns; with weir-guest: the names given to its macro"
            }
            Self::Functions { .. } => "add the functions to the plugin, or name those it has in the topology file",
            Self::Start { .. } => "correct [plugins.NAME.config] in the topology file, or the plugin's `init`",
            Self::OtherEngine { .. } => "load all plugins with one engine",
        }
    }
}

/// Items as lines of a list.
fn lines<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(|item| format!("- {item}")).collect::<Vec<_>>().join("\n")
}
