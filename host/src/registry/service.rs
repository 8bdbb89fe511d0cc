//! The registry as the rest of the host has it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tracing::{error, info};

use crate::model::{Generation, PluginStatus};
use crate::plugin::{Engine, PluginSpec, Wanted};

use super::blobs::Blobs;
use super::deploy::{Activation, Change, Checked, Committed, Deployer};
use super::error::{Error, chain};
use super::follower::{Follower, OnActivation};
use super::loader::{Loader, PluginLoader};
use super::log::{LogReader, LogWriter};
use super::record::{Digest, MAX_PLUGIN_BYTES, RECORD_VERSION, TransitionKind};
use super::shared::{Shared, View, lock};
use super::state::{Transition, Version};

#[cfg(test)]
mod tests;

/// Longest wait until a change that was written is read back.
const READ_BACK: Duration = Duration::from_secs(30);
/// Longest wait until an activation runs here.
const RUNS_HERE: Duration = Duration::from_secs(60);

/// What a registry of plugins needs to know of its topology and its instance.
pub struct RegistryOptions {
    /// The topology's plugins.
    pub plugins: Vec<PluginSpec>,
    /// The functions that the topology uses, in the plan's order.
    pub wanted: Vec<Wanted>,
    /// Folder for the bytes of versions; it may be deleted at any time.
    pub cache_dir: PathBuf,
    /// Files that the topology names, by plugin.
    pub files: BTreeMap<String, PathBuf>,
    /// This instance's name, for the records of what is deployed through it.
    pub instance: String,
}

/// Follows the log on a thread of its own; deploys; tells what is active.
pub struct Registry<L: Loader = PluginLoader> {
    /// Makes versions run.
    loader: Arc<L>,
    /// What the follower knows.
    shared: Arc<Shared<L::Version>>,
    /// Checks and appends.
    deployer: Deployer<L>,
    /// What became of the files that the topology names.
    files: BTreeMap<String, TopologyFile>,
    /// The follower, until it is stopped. Locked to take it out.
    follower: Mutex<Option<JoinHandle<()>>>,
}

/// A file that the topology names.
#[derive(Default)]
struct TopologyFile {
    /// sha256 of its bytes, if it could be read.
    digest: Option<Digest>,
    /// Why it is not, and never was, active.
    problem: Option<String>,
}

impl Registry {
    /// Reads the log to its end, deploys files of the topology that were never active (a file that was overrides
    /// nothing), and makes run what is active.
    ///
    /// `on_activation` gets each new set, in the follower's thread, the first one before this returns. If there is none
    /// yet, or it does not run here, `start` succeeds, and [`problems`](Self::problems) says why.
    ///
    /// Fails when a plugin that has no active version names a file that is refused: there would be nothing to run.
    pub fn start(
        log: Box<dyn LogReader>,
        writer: Box<dyn LogWriter>,
        engine: Arc<Engine>,
        options: RegistryOptions,
        on_activation: Box<dyn Fn(Arc<crate::plugin::PluginSet>) + Send>,
    ) -> Result<Arc<Self>, Error> {
        let RegistryOptions { plugins, wanted, cache_dir, files, instance } = options;
        let loader = PluginLoader::new(engine, plugins, wanted);
        Self::start_with(log, writer, loader, &cache_dir, files, instance, on_activation)
    }
}

impl<L: Loader> Registry<L> {
    /// As [`Registry::start`], with any loader.
    pub(super) fn start_with(
        log: Box<dyn LogReader>,
        writer: Box<dyn LogWriter>,
        loader: L,
        cache_dir: &Path,
        files: BTreeMap<String, PathBuf>,
        instance: String,
        on_activation: OnActivation<L::Set>,
    ) -> Result<Arc<Self>, Error> {
        let loader = Arc::new(loader);
        let shared = Arc::new(Shared::new(Blobs::open(cache_dir)?));
        let end = log.end_at_open();
        let mut follower = Follower::new(log, Arc::clone(&loader), Arc::clone(&shared), on_activation);
        follower.read_to(end)?;
        let deployer = Deployer::new(Arc::clone(&loader), Arc::clone(&shared), writer, instance);
        let mut found = BTreeMap::new();
        for (plugin, path) in files {
            let file = bring_file(&deployer, &shared, &plugin, &path, &mut |offset| follower.read_to(offset + 1))?;
            found.insert(plugin, file);
        }
        let thread = std::thread::Builder::new()
            .name("weir-registry".to_owned())
            .spawn(move || follower.run())
            .map_err(Error::Thread)?;
        // However long the first compilation takes: without it there is nothing to do.
        while !shared.wait(RUNS_HERE, |view| view.tried.is_some() || view.ended) {}
        let follower = Mutex::new(Some(thread));
        Ok(Arc::new(Self { loader, shared, deployer, files: found, follower }))
    }

    /// Makes `bytes` the active version of `plugin`, on all instances; returns once this one runs it.
    ///
    /// Blocks: compilation takes a while. A refusal has changed nothing. Bytes that are active already are a success.
    /// Of two deployments at once the later in the log stays.
    pub fn deploy(&self, plugin: &str, bytes: &[u8], message: &str, now_ms: i64) -> Result<Activation, Error> {
        self.deployer.known(plugin)?;
        if let Some(generation) = self.runs(plugin, &Digest::of(bytes)) {
            return Ok(self.activation(plugin, &Digest::of(bytes), Committed::Already(generation)));
        }
        let checked = self.deployer.check(plugin, bytes, message)?;
        let digest = checked.digest.clone();
        let (kind, bytes) = (TransitionKind::Deploy, Some(bytes));
        let change = Change { plugin, checked, bytes, kind, message, at_ms: now_ms, only_on: None };
        let committed = self.deployer.commit(change, &mut |offset| self.read_past(plugin, offset))?;
        Ok(self.activation(plugin, &digest, committed))
    }

    /// Makes the version before the active one active again, under a new generation; returns once it runs here.
    ///
    /// The version rolled back from is then the one before: a second rollback returns to it.
    pub fn rollback(&self, plugin: &str, now_ms: i64) -> Result<Activation, Error> {
        self.deployer.known(plugin)?;
        let active = self.shared.view().state.active(plugin).cloned();
        let no_previous = || Error::NoPrevious { plugin: plugin.to_owned() };
        let active = active.ok_or_else(no_previous)?;
        let previous = active.previous.ok_or_else(no_previous)?;
        let Checked { digest, version } = self.deployer.check_known(plugin, &previous)?;
        let message = format!("back from {}", active.digest);
        let change = Change {
            plugin,
            checked: Checked { digest, version },
            bytes: None,
            kind: TransitionKind::Rollback,
            message: &message,
            at_ms: now_ms,
            only_on: Some(active.generation),
        };
        let committed = self.deployer.commit(change, &mut |offset| self.read_past(plugin, offset))?;
        Ok(self.activation(plugin, &previous, committed))
    }

    /// The topology's plugins as they run here.
    pub fn list(&self) -> Vec<PluginStatus> {
        let view = self.shared.view();
        let plugins = self.loader.plugins().into_iter();
        plugins.map(|plugin| self.status(&view, plugin)).collect()
    }

    /// All versions that the registry holds, the latest first.
    pub fn versions(&self) -> Vec<Version> {
        self.shared.view().state.versions()
    }

    /// The last hundred activations of `plugin`, the latest first.
    pub fn history(&self, plugin: &str) -> Vec<Transition> {
        self.shared.view().state.history(plugin)
    }

    /// The generation that runs here; 0 while none does.
    pub fn generation(&self) -> Generation {
        self.shared.view().running.as_ref().map(|running| running.generation).unwrap_or_default()
    }

    /// Why what is active doesn't run here, why the log cannot be followed, and which file of the topology was refused.
    pub fn problems(&self) -> Vec<String> {
        let view = self.shared.view();
        let mut problems: Vec<String> = self.files.values().filter_map(|file| file.problem.clone()).collect();
        problems.extend(view.load_problem.clone());
        problems.extend(view.log_problem.clone());
        if let Some(newer) = view.state.newer() {
            let known = RECORD_VERSION;
            let error = Error::NewerRecord { offset: newer.offset, version: newer.version, known };
            problems.push(error.to_string());
        }
        if view.ended && !view.stop {
            problems.push("the thread that follows the registry has died: restart this instance".to_owned());
        }
        problems
    }

    /// Stops following, waits for the follower's end. What runs stays as it is. A second call does nothing.
    pub fn stop(&self) {
        self.shared.change(|view| view.stop = true);
        let Some(follower) = lock(&self.follower).take() else { return };
        // The last handle may go with `on_activation`, in the follower itself.
        if follower.thread().id() != std::thread::current().id() && follower.join().is_err() {
            error!("the thread that followed the registry has panicked");
        }
    }

    /// The status of one plugin.
    fn status(&self, view: &View<L::Version>, plugin: String) -> PluginStatus {
        let running = view.running.as_ref().and_then(|running| running.plugins.get(&plugin));
        let previous = view.state.active(&plugin).and_then(|active| active.previous.clone());
        let file = self.files.get(&plugin).and_then(|file| file.digest.clone());
        let file_digest = file.filter(|file| running.is_none_or(|running| running.digest != *file));
        PluginStatus {
            digest: running.map(|running| running.digest.as_str().to_owned()).unwrap_or_default(),
            version: running.map(|running| self.version_name(&running.version)).unwrap_or_default(),
            generation: running.map(|running| running.generation).unwrap_or_default(),
            file_digest: file_digest.map(|digest| digest.as_str().to_owned()),
            previous: previous.map(|digest| digest.as_str().to_owned()),
            plugin,
        }
    }

    /// The version that a plugin gives itself.
    fn version_name(&self, version: &L::Version) -> String {
        self.loader.describe(version).version.clone()
    }

    /// The generation of `plugin`'s activation, if this version is active and runs here.
    fn runs(&self, plugin: &str, digest: &Digest) -> Option<Generation> {
        let view = self.shared.view();
        let running = view.running.as_ref()?.plugins.get(plugin)?;
        let active = view.state.active(plugin)?;
        (running.digest == *digest && active.digest == *digest).then_some(active.generation)
    }

    /// Waits until the follower has read the record at `offset`.
    fn read_past(&self, plugin: &str, offset: i64) -> Result<(), Error> {
        if self.shared.wait(READ_BACK, |view| view.state.position() > offset) {
            return Ok(());
        }
        if self.shared.view().ended {
            return Err(Error::Stopped);
        }
        Err(Error::Unanswered { plugin: plugin.to_owned(), offset, seconds: READ_BACK.as_secs() })
    }

    /// Waits until an activation runs here, or it is known why it doesn't.
    fn activation(&self, plugin: &str, digest: &Digest, committed: Committed) -> Activation {
        let (generation, already_active) = match committed {
            Committed::Now(generation) => (generation, false),
            Committed::Already(generation) => (generation, true),
        };
        // Later activations may have come: then this one will never run here, and need not.
        let tried = self.shared.wait(RUNS_HERE, |view| view.tried.is_some_and(|tried| tried >= generation));
        let view = self.shared.view();
        let runs = view.running.as_ref().is_some_and(|running| running.generation >= generation);
        let waits_for = match (runs, tried) {
            (true, _) => None,
            (false, true) => view.load_problem.clone(),
            (false, false) => Some(format!("not tried within {} s", RUNS_HERE.as_secs())),
        };
        let version = view.state.manifest(digest).map(|manifest| manifest.description.version.clone());
        let previous = view.state.active(plugin).and_then(|active| active.previous.clone());
        Activation {
            plugin: plugin.to_owned(),
            digest: digest.as_str().to_owned(),
            version: version.unwrap_or_default(),
            generation,
            previous: previous.map(|digest| digest.as_str().to_owned()),
            already_active,
            waits_for,
        }
    }
}

impl<L: Loader> Drop for Registry<L> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Deploys a file that the topology names, unless it was active before.
fn bring_file<L: Loader>(
    deployer: &Deployer<L>,
    shared: &Shared<L::Version>,
    plugin: &str,
    path: &Path,
    read_past: &mut dyn FnMut(i64) -> Result<(), Error>,
) -> Result<TopologyFile, Error> {
    let mut file = TopologyFile::default();
    let outcome = read(path).and_then(|bytes| {
        let digest = Digest::of(&bytes);
        file.digest = Some(digest.clone());
        if shared.view().state.was_active(plugin, &digest) {
            return Ok(());
        }
        info!(plugin, version = %digest, file = %path.display(), "the topology's file is new to the registry");
        let message = format!("file {}", path.file_name().unwrap_or(path.as_os_str()).to_string_lossy());
        let checked = deployer.check(plugin, &bytes, &message)?;
        let (kind, bytes) = (TransitionKind::File, Some(bytes.as_slice()));
        let change = Change { plugin, checked, bytes, kind, message: &message, at_ms: now_ms(), only_on: None };
        deployer.commit(change, read_past).map(|_| ())
    });
    let Err(problem) = outcome else { return Ok(file) };
    let is_about_the_file = matches!(problem, Error::Refused { .. } | Error::File { .. });
    if !is_about_the_file || shared.view().state.active(plugin).is_none() {
        return Err(problem);
    }
    let problem = format!("file {}: {}", path.display(), chain(&problem));
    error!(plugin, "the version that is active stays: {problem}");
    file.problem = Some(problem);
    Ok(file)
}

/// The bytes of a file; of one that is too large just enough to see that.
fn read(path: &Path) -> Result<Vec<u8>, Error> {
    use std::io::Read;
    let failed = |source| Error::File { doing: "read the plugin's file", path: path.to_owned(), source };
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    let enough = u64::try_from(MAX_PLUGIN_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    file.take(enough).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// Now, for the record of a file's deployment.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
