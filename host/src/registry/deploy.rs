//! How a version becomes active: everything is checked first, then chunks, manifest and transition are appended.
//!
//! A deployment decides nothing itself. It appends a wish, and reads in the log whether the wish was the first; if not,
//! it looks again and wishes again (a deployment), or gives up and says who was first (a rollback, which was meant for
//! what was active then).

use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use tracing::warn;
use uuid::Uuid;

use crate::model::Generation;

use super::error::{Error, Stage, chain};
use super::loader::{Loader, Refusal};
use super::log::LogWriter;
use super::record::{
    CHUNK_BYTES, Digest, MAX_MESSAGE_BYTES, MAX_PLUGIN_BYTES, Manifest, RECORD_VERSION, TransitionKind,
    TransitionRecord, chunk_key, encode, manifest_key, transition_key,
};
use super::shared::{Shared, lock};
use super::state::State;

/// How often a deployment is tried when others are first.
const ATTEMPTS: usize = 5;

/// What a deployment or a rollback came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activation {
    /// Name of the plugin.
    pub plugin: String,
    /// The active version: sha256 of its bytes, in hex.
    pub digest: String,
    /// The version that it gives itself.
    pub version: String,
    /// Generation of the activation.
    pub generation: Generation,
    /// What a rollback would activate now.
    pub previous: Option<String>,
    /// It was active before: nothing has changed.
    pub already_active: bool,
    /// Why this instance doesn't run it yet, if it doesn't.
    pub waits_for: Option<String>,
}

/// A version that passed all checks.
pub(super) struct Checked<V> {
    /// Which.
    pub(super) digest: Digest,
    /// The version, compiled.
    pub(super) version: V,
}

/// A wish to make a checked version active.
pub(super) struct Change<'a, V> {
    /// The plugin.
    pub(super) plugin: &'a str,
    /// The version.
    pub(super) checked: Checked<V>,
    /// Its bytes, if it is not sure that the log has them.
    pub(super) bytes: Option<&'a [u8]>,
    /// How it comes about.
    pub(super) kind: TransitionKind,
    /// Why.
    pub(super) message: &'a str,
    /// When.
    pub(super) at_ms: i64,
    /// The generation that it is meant for; `None`: whatever is active.
    pub(super) only_on: Option<Generation>,
}

/// What became of a [`Change`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Committed {
    /// It is active since this generation, by this change.
    Now(Generation),
    /// It was active already.
    Already(Generation),
}

/// Checks versions and appends to the log.
pub(super) struct Deployer<L: Loader> {
    /// Makes versions run.
    loader: Arc<L>,
    /// What the log says so far.
    shared: Arc<Shared<L::Version>>,
    /// The log. Locked for a whole change, so that those of this instance are ordered; one may wait for another's upload.
    writer: Mutex<Box<dyn LogWriter>>,
    /// Checks compile and start plugins: one at a time, as memory is bounded. May wait as long as another check takes.
    one_check: Mutex<()>,
    /// This instance, for the records.
    by: String,
}

impl<L: Loader> Deployer<L> {
    /// A deployer of this instance.
    pub(super) fn new(loader: Arc<L>, shared: Arc<Shared<L::Version>>, writer: Box<dyn LogWriter>, by: String) -> Self {
        Self { loader, shared, writer: Mutex::new(writer), one_check: Mutex::new(()), by }
    }

    /// Whether the topology has the plugin.
    pub(super) fn known(&self, plugin: &str) -> Result<(), Error> {
        let known = self.loader.plugins();
        if known.iter().any(|name| name == plugin) {
            return Ok(());
        }
        Err(Error::UnknownPlugin { plugin: plugin.to_owned(), known })
    }

    /// Checks bytes against everything but what is active. Appends nothing.
    pub(super) fn check(&self, plugin: &str, bytes: &[u8], message: &str) -> Result<Checked<L::Version>, Error> {
        self.known(plugin)?;
        let received = |reason: String, remedy: &str| {
            refused(plugin, Refusal { stage: Stage::Received, reason, remedy: remedy.to_owned() })
        };
        if bytes.is_empty() {
            return Err(received("there are no bytes".into(), "give a .wasm file"));
        }
        if bytes.len() > MAX_PLUGIN_BYTES {
            let reason = format!("it has {} bytes, a plugin may have {MAX_PLUGIN_BYTES}", bytes.len());
            return Err(received(reason, "build it for release and strip its debug information"));
        }
        if message.len() > MAX_MESSAGE_BYTES {
            let reason = format!("its message has {} bytes, it may have {MAX_MESSAGE_BYTES}", message.len());
            return Err(received(reason, "shorten the message"));
        }
        let digest = Digest::of(bytes);
        let _one = lock(&self.one_check);
        let compiled = self.shared.view().compiled.get(&digest).cloned();
        let version = match compiled {
            Some(version) => version,
            None => self.loader.load(bytes).map_err(|refusal| refused(plugin, refusal))?,
        };
        self.loader.prove(plugin, &version).map_err(|refusal| refused(plugin, refusal))?;
        Ok(Checked { digest, version })
    }

    /// Checks a version whose bytes the registry has.
    pub(super) fn check_known(&self, plugin: &str, digest: &Digest) -> Result<Checked<L::Version>, Error> {
        let compiled = self.shared.view().compiled.get(digest).cloned();
        if let Some(version) = compiled {
            self.loader.prove(plugin, &version).map_err(|refusal| refused(plugin, refusal))?;
            return Ok(Checked { digest: digest.clone(), version });
        }
        let bytes = self.shared.blobs().read(digest)?;
        let bytes = bytes.ok_or_else(|| {
            let reason = format!("the bytes of version {digest} are not (all) in the registry");
            refused(plugin, Refusal { stage: Stage::Received, reason, remedy: "deploy its file instead".to_owned() })
        })?;
        self.check(plugin, &bytes, "")
    }

    /// Appends what makes a checked version active, and waits with `read_past` until the log is read beyond the given
    /// offset. Returns once it is decided.
    pub(super) fn commit(
        &self,
        change: Change<'_, L::Version>,
        read_past: &mut dyn FnMut(i64) -> Result<(), Error>,
    ) -> Result<Committed, Error> {
        let Change { plugin, checked: Checked { digest, version }, bytes, kind, message, at_ms, only_on } = change;
        let mut writer = lock(&self.writer);
        let mut upload = bytes;
        for _ in 0..ATTEMPTS {
            let expected = match self.look(plugin, &digest, &version, only_on)? {
                Committed::Now(expected) => expected,
                already @ Committed::Already(_) => {
                    // Active, but perhaps without (sound) bytes: whoever deploys it again heals that.
                    if let Some(bytes) = upload {
                        self.upload(writer.as_mut(), &digest, &version, bytes, message, at_ms)?;
                    }
                    return Ok(already);
                }
            };
            if let Some(bytes) = upload.take() {
                self.upload(writer.as_mut(), &digest, &version, bytes, message, at_ms)?;
            }
            let transition = TransitionRecord {
                plugin: plugin.to_owned(),
                digest: digest.as_str().to_owned(),
                expected: expected.0,
                kind,
                by: self.by.clone(),
                message: message.to_owned(),
                at_ms,
            };
            let key = transition_key(&transition, &Uuid::new_v4().simple().to_string());
            // The follower finds it compiled.
            self.shared.change(|view| view.compiled.insert(digest.clone(), version.clone()));
            let offset = append(writer.as_mut(), &key, &transition)?;
            read_past(offset)?;
            if self.shared.view().state.was_applied(plugin, offset) {
                self.trim(writer.as_mut(), plugin);
                return Ok(Committed::Now(Generation(offset)));
            }
        }
        Err(Error::Contended { plugin: plugin.to_owned(), attempts: ATTEMPTS })
    }

    /// Looks at what is active: `Now` holds the generation to expect.
    fn look(
        &self,
        plugin: &str,
        digest: &Digest,
        version: &L::Version,
        only_on: Option<Generation>,
    ) -> Result<Committed, Error> {
        let view = self.shared.view();
        if view.stop || view.ended {
            return Err(Error::Stopped);
        }
        if let Some(newer) = view.state.newer() {
            let known = RECORD_VERSION;
            return Err(Error::NewerRecord { offset: newer.offset, version: newer.version, known });
        }
        let active = view.state.active(plugin);
        let generation = active.map(|active| active.generation).unwrap_or_default();
        if only_on.is_some_and(|only_on| only_on != generation) {
            return Err(Error::Overtaken { plugin: plugin.to_owned(), generation });
        }
        if active.is_some_and(|active| active.digest == *digest) {
            return Ok(Committed::Already(generation));
        }
        self.states_fit(&view.state, plugin, version).map_err(|refusal| refused(plugin, refusal))?;
        Ok(Committed::Now(generation))
    }

    /// Whether a version's functions keep the states that the active version's do.
    fn states_fit(&self, state: &State, plugin: &str, version: &L::Version) -> Result<(), Refusal> {
        let active = state.active(plugin).and_then(|active| state.manifest(&active.digest));
        let Some(old) = active.map(|manifest| &manifest.description) else { return Ok(()) };
        let new = self.loader.describe(version);
        let kept = |description: &crate::plugin::Description, name: &str| {
            let function = description.functions.iter().find(|function| function.name == name)?;
            let state = function.state.clone()?;
            let version = description.state_version(&state)?;
            Some((state, version))
        };
        for function in self.loader.functions_in_use(plugin) {
            if let (Some(old), Some(new)) = (kept(old, &function), kept(new, &function))
                && old != new
            {
                return Err(Refusal {
                    stage: Stage::States,
                    reason: format!(
                        "function {function} keeps state {} version {}, the active plugin's keeps {} version {}",
                        new.0, new.1, old.0, old.1
                    ),
                    remedy:
                        "keep name and version of the state as long as each can read what the other wrote; if they \
                             cannot, the aggregate needs a new store"
                            .to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Appends chunks and manifest, unless the log has them and they are sound.
    fn upload(
        &self,
        writer: &mut dyn LogWriter,
        digest: &Digest,
        version: &L::Version,
        bytes: &[u8],
        message: &str,
        at_ms: i64,
    ) -> Result<(), Error> {
        let in_log = self.shared.view().state.is_whole(digest);
        if in_log && self.shared.blobs().has(digest) {
            return Ok(());
        }
        let mut chunks = 0;
        for chunk in bytes.chunks(CHUNK_BYTES) {
            let key = chunk_key(digest, chunks);
            writer.append(key.as_bytes(), Some(chunk)).map_err(|source| Error::Log {
                doing: "writing the plugin's bytes (nothing has become active)",
                source,
            })?;
            chunks += 1;
        }
        let manifest = Manifest {
            size: bytes.len(),
            chunks,
            description: self.loader.describe(version).clone(),
            by: self.by.clone(),
            message: message.to_owned(),
            at_ms,
        };
        append(writer, &manifest_key(digest), &manifest)?;
        Ok(())
    }

    /// Removes transitions that no reader needs from the log. If it fails, the next change does it.
    fn trim(&self, writer: &mut dyn LogWriter, plugin: &str) {
        let keys = self.shared.view().state.superfluous(plugin);
        for key in keys {
            if let Err(error) = writer.append(&key, None) {
                warn!(plugin, "old entries stay in the registry's log for now: {}", chain(error.as_ref()));
                return;
            }
        }
    }
}

/// Appends a JSON record.
fn append<T: Serialize>(writer: &mut dyn LogWriter, key: &str, record: &T) -> Result<i64, Error> {
    let value = encode(record).map_err(Error::Encode)?;
    writer.append(key.as_bytes(), Some(&value)).map_err(|source| Error::Log {
        doing: "writing a change (it may become active nevertheless: look at the plugin's history)",
        source,
    })
}

/// The error of a refused version.
fn refused(plugin: &str, refusal: Refusal) -> Error {
    let Refusal { stage, reason, remedy } = refusal;
    Error::Refused { plugin: plugin.to_owned(), stage, reason, remedy }
}
