//! Between the registry and the plugins: what becomes of a version's bytes on this instance.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::Generation;
use crate::plugin::{self, Compiled, Description, Engine, PluginSet, PluginSpec, Wanted};

use super::error::Stage;

/// Why a version, or a set of versions, cannot run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The stage that was not reached.
    pub stage: Stage,
    /// What is wrong.
    pub reason: String,
    /// What would be right.
    pub remedy: String,
}

impl From<plugin::Error> for Refusal {
    fn from(error: plugin::Error) -> Self {
        Self { stage: error.stage().into(), reason: error.to_string(), remedy: error.remedy().to_owned() }
    }
}

/// Makes versions run. The registry knows no more of them.
pub trait Loader: Send + Sync + 'static {
    /// A version, compiled. Cheap to clone.
    type Version: Clone + Send + Sync + 'static;
    /// The active versions of all plugins, ready for calls.
    type Set: Send + 'static;

    /// Names of the topology's plugins.
    fn plugins(&self) -> Vec<String>;

    /// Functions that the topology uses of `plugin`.
    fn functions_in_use(&self, plugin: &str) -> Vec<String>;

    /// Bytes → checked, compiled, described.
    fn load(&self, bytes: &[u8]) -> Result<Self::Version, Refusal>;

    /// What a version holds.
    fn describe<'a>(&self, version: &'a Self::Version) -> &'a Description;

    /// Whether `version` can be the topology's `plugin`: has the functions in use, and starts.
    fn prove(&self, plugin: &str, version: &Self::Version) -> Result<(), Refusal>;

    /// All plugins of the topology together; `versions` has one for each.
    fn assemble(
        &self,
        generation: Generation,
        versions: &BTreeMap<String, Self::Version>,
    ) -> Result<Self::Set, Refusal>;
}

/// The loader of real plugins, for one topology.
pub struct PluginLoader {
    /// Compiles.
    engine: Arc<Engine>,
    /// The topology's plugins.
    specs: Vec<PluginSpec>,
    /// The functions that it uses, in the plan's order.
    wanted: Vec<Wanted>,
}

impl PluginLoader {
    /// A loader for the plugins and functions of a topology.
    pub fn new(engine: Arc<Engine>, specs: Vec<PluginSpec>, wanted: Vec<Wanted>) -> Self {
        Self { engine, specs, wanted }
    }

    /// The topology's plugins that have a version in `versions`, with it.
    fn with_versions(&self, versions: &BTreeMap<String, Arc<Compiled>>) -> Vec<(PluginSpec, Arc<Compiled>)> {
        let specs = self.specs.iter();
        specs.filter_map(|spec| Some((spec.clone(), Arc::clone(versions.get(&spec.name)?)))).collect()
    }
}

impl Loader for PluginLoader {
    type Version = Arc<Compiled>;
    type Set = Arc<PluginSet>;

    fn plugins(&self) -> Vec<String> {
        self.specs.iter().map(|spec| spec.name.clone()).collect()
    }

    fn functions_in_use(&self, plugin: &str) -> Vec<String> {
        self.wanted.iter().filter(|wanted| wanted.plugin == plugin).map(|wanted| wanted.function.clone()).collect()
    }

    fn load(&self, bytes: &[u8]) -> Result<Self::Version, Refusal> {
        Ok(self.engine.load(bytes)?)
    }

    fn describe<'a>(&self, version: &'a Self::Version) -> &'a Description {
        version.description()
    }

    fn prove(&self, plugin: &str, version: &Self::Version) -> Result<(), Refusal> {
        let versions = BTreeMap::from([(plugin.to_owned(), Arc::clone(version))]);
        let wanted: Vec<Wanted> = self.wanted.iter().filter(|wanted| wanted.plugin == plugin).cloned().collect();
        PluginSet::new(&self.engine, Generation::default(), self.with_versions(&versions), &wanted)?;
        Ok(())
    }

    fn assemble(
        &self,
        generation: Generation,
        versions: &BTreeMap<String, Self::Version>,
    ) -> Result<Self::Set, Refusal> {
        Ok(PluginSet::new(&self.engine, generation, self.with_versions(versions), &self.wanted)?)
    }
}
