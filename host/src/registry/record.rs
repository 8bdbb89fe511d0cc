//! The registry's records as they stand in the log.
//!
//! | key | value |
//! |---|---|
//! | `blob/<sha256>/<n>` | chunk `n` of a version's bytes, bare |
//! | `manifest/<sha256>` | JSON: size, chunks, what the version holds, who brought it, when, why |
//! | `transition/<plugin>/<expected>/<random>` | JSON: which version becomes active, and on top of which generation |
//!
//! The topic is compacted, and keys are made for it: a chunk or a manifest written twice is the same one; each
//! transition has a key of its own, since the first of two that expect the same generation wins, and compaction would
//! keep the last. Transitions that no longer matter are removed by those who deploy ([`State::superfluous`]).
//!
//! Every JSON record has a version `v`. One that is newer than this program is told from what is no record of ours at
//! all: the first stops the reader (it may change what is active), the second is passed over.
//!
//! [`State::superfluous`]: super::state::State::superfluous

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::plugin::Description;

/// Version of the JSON records that this program writes, and the newest it reads.
pub(super) const RECORD_VERSION: u64 = 1;

/// Bytes of a chunk: half of what brokers take in a record by default.
pub(super) const CHUNK_BYTES: usize = 512 * 1024;

/// Largest plugin that the registry takes. A large one in Rust has two, one with an interpreter inside fifteen.
pub const MAX_PLUGIN_BYTES: usize = 32 * 1024 * 1024;

/// Longest message of a deployment.
pub const MAX_MESSAGE_BYTES: usize = 4 * 1024;

/// sha256 of a version's bytes, in hex: the version's identity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Digest(Arc<str>);

impl Digest {
    /// The digest of `bytes`.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(bytes);
        Self::finish(hasher)
    }

    /// The digest of all that `hasher` was given.
    pub(super) fn finish(hasher: Sha256) -> Self {
        let hex: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Self(hex.into())
    }

    /// A digest as written. Only 64 small hex digits are one: it becomes a file name.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (text.len() == 64 && text.bytes().all(is_hex)).then(|| Self(text.into()))
    }

    /// In hex.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    /// Its first twelve digits: enough for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.get(..12).unwrap_or(&self.0))
    }
}

/// What came with a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// Bytes of the version.
    pub(super) size: usize,
    /// Number of chunks.
    pub(super) chunks: u32,
    /// What it says that it holds.
    pub(super) description: Description,
    /// Instance through which it came.
    pub(super) by: String,
    /// Why, in the words of whoever deployed it.
    pub(super) message: String,
    /// When, in milliseconds since the epoch.
    pub(super) at_ms: i64,
}

/// How a transition came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransitionKind {
    /// Someone deployed the version.
    Deploy,
    /// The file that the topology names was new.
    File,
    /// Someone went back to the version before.
    Rollback,
}

/// The wish to make a version active.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TransitionRecord {
    /// Name of the plugin in the topology.
    pub(super) plugin: String,
    /// The version that becomes active, in hex.
    pub(super) digest: String,
    /// Generation of the plugin when the writer looked (0: none): the wish holds only on top of it.
    pub(super) expected: i64,
    /// How it came about.
    pub(super) kind: TransitionKind,
    /// Instance through which it came.
    pub(super) by: String,
    /// Why.
    pub(super) message: String,
    /// When, in milliseconds since the epoch.
    pub(super) at_ms: i64,
}

/// A record of the log, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// A part of a version's bytes.
    Chunk {
        /// Of which version.
        digest: Digest,
        /// Which part, from 0.
        index: u32,
        /// The part.
        bytes: Bytes,
    },
    /// A version is there.
    Manifest {
        /// Which.
        digest: Digest,
        /// What came with it.
        manifest: Manifest,
    },
    /// A version shall be active.
    Transition {
        /// The record's key, for its removal.
        key: Bytes,
        /// Which version, of which plugin, on top of what.
        transition: TransitionRecord,
    },
    /// The record with this key is void.
    Removed {
        /// The key.
        key: Bytes,
    },
    /// A record that a newer program wrote.
    Newer {
        /// Its version.
        version: u64,
    },
    /// No record of a registry.
    Foreign {
        /// Why it is none.
        reason: String,
    },
}

/// What all JSON records have in common.
#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    /// Version of the record's format.
    v: u64,
    /// The record.
    #[serde(flatten)]
    record: T,
}

/// Just the version of a JSON record.
#[derive(Deserialize)]
struct VersionOnly {
    /// Version of the record's format.
    v: u64,
}

/// Key of chunk `index` of a version.
pub(super) fn chunk_key(digest: &Digest, index: u32) -> String {
    format!("blob/{}/{index}", digest.as_str())
}

/// Key of a version's manifest.
pub(super) fn manifest_key(digest: &Digest) -> String {
    format!("manifest/{}", digest.as_str())
}

/// Key of a transition; `random` tells it from others that expect the same.
pub(super) fn transition_key(transition: &TransitionRecord, random: &str) -> String {
    format!("transition/{}/{}/{random}", transition.plugin, transition.expected)
}

/// The value of a JSON record.
pub(super) fn encode<T: Serialize>(record: &T) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&Versioned { v: RECORD_VERSION, record })
}

/// Decodes a record of the log. Never fails: what it cannot read is an [`Entry`] too.
pub(super) fn decode(key: Bytes, value: Option<Bytes>) -> Entry {
    let Some(value) = value else { return Entry::Removed { key } };
    let Ok(name) = std::str::from_utf8(&key) else { return foreign("its key is not text") };
    if let Some(rest) = name.strip_prefix("blob/") {
        return chunk(rest, value);
    }
    match serde_json::from_slice::<VersionOnly>(&value) {
        Err(_) => return foreign("its value is no JSON object with a version 'v'"),
        Ok(VersionOnly { v }) if v > RECORD_VERSION => return Entry::Newer { version: v },
        Ok(_) => {}
    }
    if let Some(digest) = name.strip_prefix("manifest/") {
        let Some(digest) = Digest::parse(digest) else { return foreign("its key holds no sha256") };
        match serde_json::from_slice::<Versioned<Manifest>>(&value) {
            Ok(Versioned { record: manifest, .. }) => Entry::Manifest { digest, manifest },
            Err(error) => Entry::Foreign { reason: format!("it is no manifest: {error}") },
        }
    } else if name.starts_with("transition/") {
        match serde_json::from_slice::<Versioned<TransitionRecord>>(&value) {
            Ok(Versioned { record, .. }) if Digest::parse(&record.digest).is_none() => foreign("it holds no sha256"),
            Ok(Versioned { record: transition, .. }) => Entry::Transition { key, transition },
            Err(error) => Entry::Foreign { reason: format!("it is no transition: {error}") },
        }
    } else {
        foreign("its key is none of 'blob/', 'manifest/', 'transition/'")
    }
}

/// A chunk, if `rest` of its key is `<sha256>/<n>`.
fn chunk(rest: &str, bytes: Bytes) -> Entry {
    let parsed = rest.split_once('/').and_then(|(digest, index)| Some((Digest::parse(digest)?, index.parse().ok()?)));
    match parsed {
        Some((digest, index)) if bytes.len() <= CHUNK_BYTES && chunk_is_in_bounds(index) => {
            Entry::Chunk { digest, index, bytes }
        }
        Some(_) => foreign("it is a chunk beyond the bounds"),
        None => foreign("its key is not 'blob/<sha256>/<number>'"),
    }
}

/// Whether a plugin of the largest size has a chunk of this number.
fn chunk_is_in_bounds(index: u32) -> bool {
    usize::try_from(index).is_ok_and(|index| index < MAX_PLUGIN_BYTES.div_ceil(CHUNK_BYTES))
}

/// An entry that is no record of a registry.
fn foreign(reason: &str) -> Entry {
    Entry::Foreign { reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::super::fake::description;
    use super::*;

    /// A manifest of two chunks.
    fn manifest() -> Manifest {
        let (by, message) = ("i1".to_owned(), "first".to_owned());
        Manifest { size: 600_000, chunks: 2, description: description("1.0.0", &["join"]), by, message, at_ms: 17 }
    }

    /// A transition to the version of `bytes`.
    fn transition(bytes: &[u8]) -> TransitionRecord {
        TransitionRecord {
            plugin: "projekt".to_owned(),
            digest: Digest::of(bytes).as_str().to_owned(),
            expected: 3,
            kind: TransitionKind::Deploy,
            by: "i1".to_owned(),
            message: "why".to_owned(),
            at_ms: 17,
        }
    }

    /// Decodes a record given as text.
    fn decoded(key: &str, value: &str) -> Entry {
        decode(Bytes::copy_from_slice(key.as_bytes()), Some(Bytes::copy_from_slice(value.as_bytes())))
    }

    #[test]
    fn records_come_back_as_they_were_written() {
        let digest = Digest::of(b"bytes");
        let manifest = manifest();
        let value = encode(&manifest).unwrap();
        let entry = decode(manifest_key(&digest).into(), Some(value.into()));
        assert_eq!(entry, Entry::Manifest { digest: digest.clone(), manifest });

        let transition = transition(b"bytes");
        let key = Bytes::from(transition_key(&transition, "r"));
        let entry = decode(key.clone(), Some(encode(&transition).unwrap().into()));
        assert_eq!(entry, Entry::Transition { key, transition });

        let entry = decode(chunk_key(&digest, 7).into(), Some("part".into()));
        assert_eq!(entry, Entry::Chunk { digest, index: 7, bytes: "part".into() });
    }

    #[test]
    fn the_written_form_stays() {
        insta::assert_snapshot!(
            String::from_utf8(encode(&transition(b"bytes")).unwrap()).unwrap(),
            @r#"{"v":1,"plugin":"projekt","digest":"277089d91c0bdf4f2e6862ba7e4a07605119431f5d13f726dd352b06f1b206a9","expected":3,"kind":"deploy","by":"i1","message":"why","at_ms":17}"#
        );
        insta::assert_snapshot!(
            String::from_utf8(encode(&manifest()).unwrap()).unwrap(),
            @r#"{"v":1,"size":600000,"chunks":2,"description":{"name":"fake","version":"1.0.0","functions":[{"name":"join","kind":"joiner","doc":""}],"states":[]},"by":"i1","message":"first","at_ms":17}"#
        );
    }

    #[test]
    fn a_newer_record_is_told_whatever_its_key() {
        assert_eq!(decoded("transition/p/0/x", r#"{"v":2,"other":[]}"#), Entry::Newer { version: 2 });
        assert_eq!(decoded("pause/p", r#"{"v":3}"#), Entry::Newer { version: 3 });
    }

    #[test]
    fn what_is_no_record_is_foreign() {
        let sha = Digest::of(b"x");
        let sha = sha.as_str();
        let cases = [
            ("hello".to_owned(), "world"),
            ("hello".to_owned(), r#"{"v":1}"#),
            (format!("manifest/{sha}"), r#"{"v":1}"#),
            ("manifest/../../etc".to_owned(), r#"{"v":1}"#),
            (format!("manifest/{}", sha.to_uppercase()), r#"{"v":1}"#),
            ("transition/p/0/x".to_owned(), r#"{"v":1,"plugin":"p"}"#),
            (format!("blob/{sha}/-1"), "x"),
            (format!("blob/{sha}/64"), "x"),
            ("blob/short/0".to_owned(), "x"),
        ];
        for (key, value) in cases {
            assert!(matches!(decoded(&key, value), Entry::Foreign { .. }), "{key}");
        }
        assert!(matches!(decode(vec![0xff].into(), Some("x".into())), Entry::Foreign { .. }));
        let long = Bytes::from(vec![0; CHUNK_BYTES + 1]);
        assert!(matches!(decode(format!("blob/{sha}/0").into(), Some(long)), Entry::Foreign { .. }));
        let mut bad = transition(b"x");
        bad.digest = "../x".to_owned();
        assert!(matches!(decode("transition/p/3/r".into(), Some(encode(&bad).unwrap().into())), Entry::Foreign { .. }));
    }

    #[test]
    fn a_record_without_value_removes_its_key() {
        assert_eq!(decode("transition/p/0/x".into(), None), Entry::Removed { key: "transition/p/0/x".into() });
    }
}
