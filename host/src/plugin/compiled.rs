//! A plugin that is ready to be instantiated.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use wasmtime::component::InstancePre;

use super::bindings::Indices;
use super::componentize::Form;
use super::description::{Description, Kind};
use super::engine::Engine;
use super::error::Error;
use super::imports::HostState;
use super::memory::Memory;

/// Length of a short digest, in hex digits: enough to tell an application's versions apart.
const SHORT: usize = 12;

/// What instances are made of: imports and exports are resolved.
pub(super) struct Artefact {
    /// The compiled component with its imports.
    pub(super) pre: InstancePre<HostState>,
    /// Where its exports are.
    pub(super) indices: Indices,
    /// What instances take their memory from.
    pub(super) memory: Arc<Memory>,
}

/// A checked and compiled plugin; shared by all that run it.
pub struct Compiled {
    /// What the bytes are.
    pub(super) inspection: Inspection,
    /// What instances are made of.
    pub(super) artefact: Artefact,
}

impl Compiled {
    /// sha256 of the bytes as they were given, in hex.
    pub fn digest(&self) -> &str {
        &self.inspection.digest
    }

    /// The beginning of the digest: what people tell versions apart by.
    pub fn short_digest(&self) -> &str {
        short(&self.inspection.digest)
    }

    /// What the plugin holds.
    pub fn description(&self) -> &Description {
        &self.inspection.description
    }

    /// Kinds of functions that it exports.
    pub fn kinds(&self) -> &[Kind] {
        &self.inspection.kinds
    }

    /// Bytes as they were given.
    pub fn size(&self) -> usize {
        self.inspection.size
    }

    /// All that is known of it.
    pub fn inspection(&self) -> &Inspection {
        &self.inspection
    }
}

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiled").field("inspection", &self.inspection).finish_non_exhaustive()
    }
}

/// The beginning of a digest.
pub(super) fn short(digest: &str) -> &str {
    digest.get(..SHORT).unwrap_or(digest)
}

/// What can be said of a plugin without running it for a topology.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inspection {
    /// sha256 of the bytes as they were given, in hex.
    pub digest: String,
    /// Bytes as they were given.
    pub size: usize,
    /// Core module or component.
    pub form: Form,
    /// Kinds of functions that it exports.
    pub kinds: Vec<Kind>,
    /// Interfaces that it imports.
    pub imports: Vec<String>,
    /// What it says it holds.
    pub description: Description,
}

/// Checks a plugin as a deployment would, short of a topology.
///
/// Makes an engine of its own; a process that has one loads the plugin there instead.
pub fn inspect(bytes: &[u8]) -> Result<Inspection, Error> {
    let compiled: Arc<Compiled> = Engine::new()?.load(bytes)?;
    Ok(compiled.inspection.clone())
}
