//! Follows the log: folds each record, keeps bytes, and makes what is active run on this instance.
//!
//! Making it run is idempotent and takes no input but the fold: if the active versions don't run here, it is tried, at
//! the start, after each activation and when missing bytes come. A try that fails leaves what runs, and is told.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{debug, error, info, warn};

use crate::model::Generation;

use super::error::{Error, chain};
use super::loader::Loader;
use super::log::{LogReader, LogRecord};
use super::record::{Digest, Entry, RECORD_VERSION, decode};
use super::shared::{Running, RunningVersion, Shared};
use super::state::Applied;

/// Longest wait for a record before the follower looks whether it shall stop.
const POLL: Duration = Duration::from_millis(100);
/// Longest time without any progress while the log is read to a given offset.
const STALL: Duration = Duration::from_secs(30);
/// Wait after the log failed.
const BACK_OFF: Duration = Duration::from_secs(1);

/// Called with each new set of plugins.
pub(super) type OnActivation<S> = Box<dyn Fn(S) + Send>;

/// The only reader of this instance's log.
pub(super) struct Follower<L: Loader> {
    /// The log.
    log: Box<dyn LogReader>,
    /// Makes versions run.
    loader: Arc<L>,
    /// Where what it learns goes.
    shared: Arc<Shared<L::Version>>,
    /// Where new sets go.
    on_activation: OnActivation<L::Set>,
}

/// A version that shall run.
struct Chosen {
    /// The plugin.
    plugin: String,
    /// The version.
    digest: Digest,
    /// Generation of its activation.
    generation: Generation,
}

impl<L: Loader> Follower<L> {
    /// A follower at the log's beginning.
    pub(super) fn new(
        log: Box<dyn LogReader>,
        loader: Arc<L>,
        shared: Arc<Shared<L::Version>>,
        on_activation: OnActivation<L::Set>,
    ) -> Self {
        Self { log, loader, shared, on_activation }
    }

    /// Applies everything below `end`. Makes nothing run.
    pub(super) fn read_to(&mut self, end: i64) -> Result<(), Error> {
        let mut last_progress = (self.log.position(), Instant::now());
        while self.log.position() < end {
            let next = self.log.next(POLL).map_err(|source| Error::Log { doing: "reading", source })?;
            if let Some(record) = next {
                self.apply(record)?;
            }
            let position = self.log.position();
            if position > last_progress.0 {
                last_progress = (position, Instant::now());
            } else if last_progress.1.elapsed() > STALL {
                return Err(Error::Stalled { position, wanted: end, seconds: STALL.as_secs() });
            }
        }
        Ok(())
    }

    /// Follows the log until it shall stop. Makes what is active run, first of all.
    pub(super) fn run(mut self) {
        let _ended = EndNotice(Arc::clone(&self.shared));
        self.make_run();
        while !self.shared.view().stop {
            match self.follow() {
                Ok(()) => self.note_log_problem(None),
                Err(error) => {
                    self.note_log_problem(Some(chain(&error)));
                    // Ends early when it shall stop.
                    self.shared.wait(BACK_OFF, |view| view.stop);
                }
            }
        }
    }

    /// Waits a while for a record, applies all that are there, and makes run what became active by them.
    fn follow(&mut self) -> Result<(), Error> {
        let mut wait = POLL;
        let mut due = false;
        let read = loop {
            match self.log.next(wait) {
                Ok(Some(record)) => match self.apply(record) {
                    Ok(may_run_now) => due |= may_run_now,
                    Err(error) => break Err(error),
                },
                Ok(None) => break Ok(()),
                Err(source) => break Err(Error::Log { doing: "reading", source }),
            }
            // Several activations at once are made run as one.
            wait = Duration::ZERO;
        };
        if due {
            self.make_run();
        }
        read
    }

    /// Folds a record; `true`: something may run now that didn't before.
    fn apply(&mut self, (offset, key, value): LogRecord) -> Result<bool, Error> {
        let entry = decode(key, value);
        let chunk = match &entry {
            Entry::Chunk { digest, index, bytes } => Some((digest.clone(), *index, bytes.clone())),
            _ => None,
        };
        let applied = self.shared.change(|view| view.state.apply(offset, entry));
        if let Some((digest, index, bytes)) = chunk {
            self.shared.blobs().keep_chunk(&digest, index, &bytes)?;
        }
        match applied {
            Applied::Nothing => Ok(false),
            Applied::Bytes(digest) => self.put_together(&digest),
            Applied::Activated(plugin) => {
                debug!(plugin, generation = offset, "a version has become active in the registry");
                Ok(true)
            }
            Applied::OutOfTurn(plugin) => {
                info!(plugin, offset, "a change in the registry came too late: another was first");
                Ok(false)
            }
            Applied::Newer(newer) => {
                let known = RECORD_VERSION;
                let problem = Error::NewerRecord { offset: newer.offset, version: newer.version, known };
                error!("{problem}; until then, later changes of plugins have no effect here");
                Ok(false)
            }
            Applied::Foreign(reason) => {
                warn!(offset, reason, "passed over a record in the registry's log that is not the registry's");
                Ok(false)
            }
        }
    }

    /// Makes a file of a version's chunks once all are there; `true`: something may run now that didn't before.
    fn put_together(&self, digest: &Digest) -> Result<bool, Error> {
        let (chunks, something_fails) = {
            let view = self.shared.view();
            let whole = view.state.is_whole(digest);
            let chunks = view.state.manifest(digest).filter(|_| whole).map(|manifest| manifest.chunks);
            (chunks, view.load_problem.is_some())
        };
        let Some(chunks) = chunks else { return Ok(false) };
        match self.shared.blobs().assemble(digest, chunks) {
            Ok(is_there) => Ok(is_there && something_fails),
            // Whoever needs it will say so; it may never be needed.
            Err(damaged @ Error::Damaged { .. }) => {
                warn!("{damaged}");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Makes the active versions run here, unless they do.
    fn make_run(&mut self) {
        let generation = {
            let view = self.shared.view();
            let generation = view.state.generation();
            let runs = view.running.as_ref().is_some_and(|running| running.generation == generation);
            if runs {
                return;
            }
            generation
        };
        let outcome = self.load(generation).map(|(set, running)| {
            (self.on_activation)(set);
            running
        });
        match &outcome {
            Ok(running) => {
                for (plugin, version) in &running.plugins {
                    info!(plugin, version = %version.digest, generation = version.generation.0, "plugin active");
                }
            }
            Err(problem) => error!(generation = generation.0, "the active plugins don't run here: {problem}"),
        }
        self.shared.change(|view| {
            view.tried = Some(generation);
            match outcome {
                Ok(running) => {
                    view.running = Some(running);
                    view.load_problem = None;
                }
                Err(problem) => view.load_problem = Some(problem),
            }
            let state = &view.state;
            let needed: Vec<&Digest> = self
                .loader
                .plugins()
                .iter()
                .filter_map(|plugin| state.active(plugin))
                .flat_map(|active| std::iter::once(&active.digest).chain(&active.previous))
                .collect();
            view.compiled.retain(|digest, _| needed.contains(&digest));
        });
    }

    /// The active versions as a set, or why there is none.
    fn load(&self, generation: Generation) -> Result<(L::Set, Running<L::Version>), String> {
        let mut plugins = BTreeMap::new();
        let mut versions = BTreeMap::new();
        for Chosen { plugin, digest, generation } in self.chosen()? {
            let version = self.version(&digest).map_err(|problem| format!("plugin {plugin} {digest}: {problem}"))?;
            versions.insert(plugin.clone(), version.clone());
            plugins.insert(plugin, RunningVersion { digest, generation, version });
        }
        let set = self
            .loader
            .assemble(generation, &versions)
            .map_err(|refusal| format!("not '{}': {}; {}", refusal.stage, refusal.reason, refusal.remedy))?;
        Ok((set, Running { generation, plugins }))
    }

    /// The active version of each of the topology's plugins.
    fn chosen(&self) -> Result<Vec<Chosen>, String> {
        let view = self.shared.view();
        let choose = |plugin: String| match view.state.active(&plugin) {
            Some(active) => Ok(Chosen { plugin, digest: active.digest.clone(), generation: active.generation }),
            None => Err(format!(
                "plugin {plugin} has no version yet: name its file in the topology, or deploy it with \
                 'weir plugin deploy FILE.wasm --name {plugin}'"
            )),
        };
        self.loader.plugins().into_iter().map(choose).collect()
    }

    /// A version, compiled: the one that is there, or from its bytes.
    fn version(&self, digest: &Digest) -> Result<L::Version, String> {
        if let Some(version) = self.shared.view().compiled.get(digest) {
            return Ok(version.clone());
        }
        let bytes = self.shared.blobs().read(digest).map_err(|error| chain(&error))?;
        let bytes = bytes.ok_or("its bytes are not (all) in the registry: deploy the version again")?;
        let version = self
            .loader
            .load(&bytes)
            .map_err(|refusal| format!("not '{}': {}; {}", refusal.stage, refusal.reason, refusal.remedy))?;
        self.shared.change(|view| view.compiled.insert(digest.clone(), version.clone()));
        Ok(version)
    }

    /// Tells how the log is, once each time that it changes.
    fn note_log_problem(&self, problem: Option<String>) {
        let known = self.shared.view().log_problem.clone();
        if known == problem {
            return;
        }
        match &problem {
            Some(problem) => warn!("plugins cannot be changed at the moment: {problem}"),
            None => info!("plugins can be changed again"),
        }
        self.shared.change(|view| view.log_problem = problem);
    }
}

/// Tells that the follower has ended, however it did.
struct EndNotice<V>(Arc<Shared<V>>);

impl<V> Drop for EndNotice<V> {
    fn drop(&mut self) {
        self.0.change(|view| view.ended = true);
    }
}
