//! The registry's log, folded: versions, and per plugin what is active, on which generation, after which history. Pure.
//!
//! **Who wins.** A transition is applied if it expects the plugin's generation as it is at that point of the log; the
//! generation is then the transition's offset. So of two writers that saw the same generation the first in the log
//! wins, the other is out of turn, and every reader of the log decides alike.
//!
//! **In a log that was trimmed** the beginning is missing. A transition that expects a *later* generation than the reader
//! has is a proof: its writer had seen that generation become active. It is applied, too. Only transitions that are
//! [`KEPT`] turns old are removed, so whatever a half cleaned beginning looks like, the newest `KEPT` are all there. At
//! most the first of them can be judged wrongly (if one that came too late is still there, and the one that was before
//! it is not); from the second on all is as it was (`state/tests.rs` cuts logs everywhere).
//!
//! **A record of a newer program** ends the fold: what it means is unknown, so what comes after is, too.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::model::Generation;
use crate::plugin::Description;

use super::record::{Digest, Entry, Manifest, TransitionKind, TransitionRecord};

#[cfg(test)]
mod tests;

/// Activations of a plugin that the history shows.
pub(super) const SHOWN: usize = 100;

/// Activations of a plugin that the log keeps. Older ones are removed, but for the last one of each version: it is what
/// tells a file that was deployed once from a new one. Two more than are shown, see above.
pub(super) const KEPT: usize = SHOWN + 2;

/// A version that the registry holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// sha256 of its bytes, in hex.
    pub digest: String,
    /// Number of its bytes.
    pub size: usize,
    /// What it holds.
    pub description: Description,
    /// Instance through which it came.
    pub by: String,
    /// Why, in the words of whoever deployed it.
    pub message: String,
    /// When, in milliseconds since the epoch.
    pub at_ms: i64,
}

/// An activation, as the history shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// Name of the plugin in the topology.
    pub plugin: String,
    /// The generation that it began.
    pub generation: Generation,
    /// The version that became active.
    pub digest: String,
    /// The version that was active before.
    pub previous: Option<String>,
    /// How it came about.
    pub kind: TransitionKind,
    /// Instance through which it came.
    pub by: String,
    /// Why.
    pub message: String,
    /// When, in milliseconds since the epoch.
    pub at_ms: i64,
}

/// What is active of one plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Active {
    /// The version.
    pub(super) digest: Digest,
    /// The version before it: what a rollback activates. A rollback makes it the other one.
    pub(super) previous: Option<Digest>,
    /// Generation of the activation.
    pub(super) generation: Generation,
}

/// A record that this program is too old for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NewerRecord {
    /// Where it is.
    pub(super) offset: i64,
    /// Its version.
    pub(super) version: u64,
}

/// What a record did to the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Applied {
    /// Nothing that anyone waits for.
    Nothing,
    /// A chunk or a manifest of this version came: it may be whole now.
    Bytes(Digest),
    /// A version of this plugin is active now.
    Activated(String),
    /// A transition of this plugin came too late.
    OutOfTurn(String),
    /// The fold has ended.
    Newer(NewerRecord),
    /// The record is none of a registry.
    Foreign(String),
}

/// The log up to a position, folded.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct State {
    /// Next offset to apply.
    position: i64,
    /// Manifests by version.
    manifests: BTreeMap<Digest, Manifest>,
    /// Numbers of the chunks that the log holds, by version.
    chunks: BTreeMap<Digest, BTreeSet<u32>>,
    /// Plugins by name.
    plugins: BTreeMap<String, Plugin>,
    /// The record that ended the fold.
    newer: Option<NewerRecord>,
}

/// The transitions of one plugin.
#[derive(Clone, Debug, Default, PartialEq)]
struct Plugin {
    /// What is active.
    active: Option<Active>,
    /// Transitions that the log holds, by offset.
    transitions: BTreeMap<i64, Seen>,
}

/// A transition that the log holds.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    /// Its key.
    key: Bytes,
    /// The record.
    record: TransitionRecord,
    /// Whether it was applied, and if so, what was active before.
    applied: Option<Option<Digest>>,
}

impl State {
    /// Applies the record at `offset`.
    pub(super) fn apply(&mut self, offset: i64, entry: Entry) -> Applied {
        self.position = offset + 1;
        if self.newer.is_some() {
            return Applied::Nothing;
        }
        match entry {
            Entry::Chunk { digest, index, .. } => {
                self.chunks.entry(digest.clone()).or_default().insert(index);
                Applied::Bytes(digest)
            }
            Entry::Manifest { digest, manifest } => {
                self.manifests.insert(digest.clone(), manifest);
                Applied::Bytes(digest)
            }
            Entry::Transition { key, transition } => self.transition(offset, key, transition),
            Entry::Removed { key } => {
                self.remove(&key);
                Applied::Nothing
            }
            Entry::Newer { version } => {
                let newer = NewerRecord { offset, version };
                self.newer = Some(newer);
                Applied::Newer(newer)
            }
            Entry::Foreign { reason } => Applied::Foreign(reason),
        }
    }

    /// Applies a transition if it is its turn.
    fn transition(&mut self, offset: i64, key: Bytes, record: TransitionRecord) -> Applied {
        // Decoding has checked it.
        let Some(digest) = Digest::parse(&record.digest) else { return Applied::Foreign("it holds no sha256".into()) };
        let name = record.plugin.clone();
        let plugin = self.plugins.entry(name.clone()).or_default();
        let current = plugin.active.as_ref().map_or(Generation::default(), |active| active.generation);
        // Equal: in turn. Greater: what it expects was trimmed, see above. No writer has seen its own offset.
        let in_turn = record.expected >= current.0 && record.expected < offset;
        let before = plugin.active.as_ref().map(|active| active.digest.clone());
        let applied = in_turn.then(|| before.clone());
        plugin.transitions.insert(offset, Seen { key, record, applied });
        if !in_turn {
            return Applied::OutOfTurn(name);
        }
        let previous = match &plugin.active {
            // Made active again: what a rollback goes to is still the version before.
            Some(active) if active.digest == digest => active.previous.clone(),
            _ => before,
        };
        plugin.active = Some(Active { digest, previous, generation: Generation(offset) });
        Applied::Activated(name)
    }

    /// Forgets the record with this key. What is active stays.
    fn remove(&mut self, key: &Bytes) {
        for plugin in self.plugins.values_mut() {
            plugin.transitions.retain(|_, seen| seen.key != key);
        }
        let digest = std::str::from_utf8(key).ok().and_then(|key| key.strip_prefix("manifest/"));
        if let Some(digest) = digest.and_then(Digest::parse) {
            self.manifests.remove(&digest);
        }
    }

    /// Next offset to apply.
    pub(super) fn position(&self) -> i64 {
        self.position
    }

    /// The record that ended the fold, if one did.
    pub(super) fn newer(&self) -> Option<NewerRecord> {
        self.newer
    }

    /// What is active of `plugin`.
    pub(super) fn active(&self, plugin: &str) -> Option<&Active> {
        self.plugins.get(plugin)?.active.as_ref()
    }

    /// The latest activation of any plugin.
    ///
    /// Of plugins that this topology doesn't use, too: instances with an older and a newer topology file then agree.
    pub(super) fn generation(&self) -> Generation {
        let generations = self.plugins.values().filter_map(|plugin| plugin.active.as_ref());
        generations.map(|active| active.generation).max().unwrap_or_default()
    }

    /// Whether the transition at `offset` was applied.
    pub(super) fn was_applied(&self, plugin: &str, offset: i64) -> bool {
        let seen = self.plugins.get(plugin).and_then(|plugin| plugin.transitions.get(&offset));
        seen.is_some_and(|seen| seen.applied.is_some())
    }

    /// Whether this version of `plugin` was ever active.
    pub(super) fn was_active(&self, plugin: &str, digest: &Digest) -> bool {
        let Some(plugin) = self.plugins.get(plugin) else { return false };
        plugin.transitions.values().any(|seen| seen.applied.is_some() && seen.record.digest == digest.as_str())
    }

    /// The manifest of a version.
    pub(super) fn manifest(&self, digest: &Digest) -> Option<&Manifest> {
        self.manifests.get(digest)
    }

    /// Whether the log holds the manifest and every chunk of a version.
    pub(super) fn is_whole(&self, digest: &Digest) -> bool {
        self.manifests.get(digest).is_some_and(|manifest| {
            self.chunks.get(digest).is_some_and(|chunks| (0..manifest.chunks).all(|index| chunks.contains(&index)))
        })
    }

    /// All versions, the latest first.
    pub(super) fn versions(&self) -> Vec<Version> {
        let mut versions: Vec<Version> =
            self.manifests.iter().map(|(digest, manifest)| version(digest, manifest)).collect();
        versions.sort_by(|a, b| b.at_ms.cmp(&a.at_ms).then_with(|| a.digest.cmp(&b.digest)));
        versions
    }

    /// The last [`SHOWN`] activations of `plugin`, the latest first.
    pub(super) fn history(&self, plugin: &str) -> Vec<Transition> {
        let Some(plugin) = self.plugins.get(plugin) else { return Vec::new() };
        let applied = plugin.transitions.iter().rev().filter_map(|(offset, seen)| {
            let previous = seen.applied.as_ref()?.as_ref().map(|digest| digest.as_str().to_owned());
            let TransitionRecord { plugin, digest, expected: _, kind, by, message, at_ms } = seen.record.clone();
            Some(Transition { plugin, generation: Generation(*offset), digest, previous, kind, by, message, at_ms })
        });
        applied.take(SHOWN).collect()
    }

    /// Keys of transitions of `plugin` that no reader needs: to be removed from the log.
    ///
    /// Those that came too late, and those with [`KEPT`] newer ones after them whose version became active again since.
    pub(super) fn superfluous(&self, plugin: &str) -> Vec<Bytes> {
        let Some(plugin) = self.plugins.get(plugin) else { return Vec::new() };
        let mut newer = 0;
        let mut versions = BTreeSet::new();
        let mut keys = Vec::new();
        for seen in plugin.transitions.values().rev() {
            let is_last_of_version = seen.applied.is_some() && versions.insert(&seen.record.digest);
            let is_kept = seen.applied.is_some() && (newer < KEPT || is_last_of_version);
            newer += usize::from(seen.applied.is_some());
            if !is_kept {
                keys.push(seen.key.clone());
            }
        }
        keys
    }
}

/// A version as it is shown.
fn version(digest: &Digest, manifest: &Manifest) -> Version {
    let Manifest { size, chunks: _, description, by, message, at_ms } = manifest.clone();
    Version { digest: digest.as_str().to_owned(), size, description, by, message, at_ms }
}
