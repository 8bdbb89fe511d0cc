//! The plugins of a topology as they are active at one time, with the functions it uses resolved.

use std::sync::Arc;

use super::call::ThreadLogic;
use super::compiled::Compiled;
use super::description::{Function, Kind, StateType};
use super::engine::Engine;
use super::error::{Error, Missing};
use super::imports::Identity;
use super::instance::{Failure, Instance};
use super::limits::{ByteCount, Limits};
use crate::model::{CallFailure, FunctionIndex, Generation};

/// How a topology runs a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginSpec {
    /// The plugin's name in the topology.
    pub name: String,
    /// What its instances may use.
    pub limits: Limits,
    /// Its configuration for `init`: JSON text, `{}` when there is none.
    pub config: String,
}

/// A function that the topology uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Plugin's name in the topology.
    pub plugin: String,
    /// Function's name in the plugin.
    pub function: String,
    /// What the topology uses it as.
    pub kind: Kind,
}

/// One plugin of a set.
pub(super) struct Plugin {
    /// How it runs.
    spec: PluginSpec,
    /// What runs.
    compiled: Arc<Compiled>,
    /// Name and short digest, shared with its instances.
    identity: Arc<Identity>,
}

impl Plugin {
    /// Starts an instance.
    pub(super) fn start(&self) -> Result<Box<Instance>, Failure> {
        let PluginSpec { limits, config, .. } = &self.spec;
        Instance::start(&self.compiled.artefact, Arc::clone(&self.identity), limits, config)
    }

    /// Its limits.
    pub(super) fn limits(&self) -> &Limits {
        &self.spec.limits
    }
}

/// A function of the topology, found in its plugin.
#[derive(Debug)]
pub(super) struct Resolved {
    /// Which plugin of the set.
    pub(super) plugin: usize,
    /// The function's id in the plugin.
    pub(super) id: u32,
    /// Its name there.
    pub(super) name: String,
    /// Its kind.
    pub(super) kind: Kind,
    /// Its state type, if it keeps state.
    state: Option<StateType>,
}

/// The active versions of all plugins of a topology: `FunctionIndex` i is `wanted[i]`.
pub struct PluginSet {
    /// When they became active.
    generation: Generation,
    /// The plugins.
    plugins: Vec<Plugin>,
    /// The functions, by index.
    functions: Vec<Resolved>,
}

impl PluginSet {
    /// Resolves `wanted`; names all that is missing at once. Starts each plugin once, as a proof that it takes its
    /// configuration.
    pub fn new(
        engine: &Engine,
        generation: Generation,
        plugins: Vec<(PluginSpec, Arc<Compiled>)>,
        wanted: &[Wanted],
    ) -> Result<Arc<Self>, Error> {
        if let Some((spec, _)) = plugins.iter().find(|(_, compiled)| !engine.made(compiled)) {
            return Err(Error::OtherEngine { plugin: spec.name.clone() });
        }
        let functions = resolve(&plugins, wanted)?;
        let plugins: Vec<Plugin> = plugins
            .into_iter()
            .map(|(spec, compiled)| {
                let version = compiled.short_digest().to_owned();
                let identity = Arc::new(Identity { plugin: spec.name.clone(), version });
                Plugin { spec, compiled, identity }
            })
            .collect();
        for plugin in &plugins {
            let instance = plugin.start().map_err(|Failure { reason, .. }| Error::Start {
                plugin: plugin.identity.plugin.clone(),
                version: plugin.identity.version.clone(),
                reason,
            })?;
            if instance.has_outgrown() {
                let (takes, share) = (ByteCount(instance.memory()), ByteCount(plugin.compiled.artefact.memory.share()));
                tracing::warn!(
                    target: "weir::plugin", plugin = plugin.identity.plugin, version = plugin.identity.version,
                    "it takes {takes} of memory from its start, but each instance has {share} for itself: all its calls wait for \
                     each other; raise state.memory, or lower app.threads"
                );
            }
        }
        Ok(Arc::new(Self { generation, plugins, functions }))
    }

    /// When these became active.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// The plugins, with what is active of each.
    pub fn plugins(&self) -> impl Iterator<Item = (&PluginSpec, &Arc<Compiled>)> {
        self.plugins.iter().map(|plugin| (&plugin.spec, &plugin.compiled))
    }

    /// The state type that `function` keeps; none unless it is an aggregator.
    pub fn state_type(&self, function: FunctionIndex) -> Option<&StateType> {
        self.resolved(function)?.state.as_ref()
    }

    /// Version of the state type that `function` keeps; 0 unless it is an aggregator.
    pub fn state_version(&self, function: FunctionIndex) -> u32 {
        self.state_type(function).map(|state| state.version).unwrap_or_default()
    }

    /// Instances for one thread: made on first use, dropped on any call failure, made again by the next call.
    pub fn logic(self: &Arc<Self>) -> ThreadLogic {
        ThreadLogic::new(Arc::clone(self))
    }

    /// The function behind an index.
    pub(super) fn resolved(&self, function: FunctionIndex) -> Option<&Resolved> {
        self.functions.get(usize::from(function.0))
    }

    /// A plugin by its place in the set.
    pub(super) fn plugin(&self, index: usize) -> Option<&Plugin> {
        self.plugins.get(index)
    }

    /// How many plugins there are.
    pub(super) fn len(&self) -> usize {
        self.plugins.len()
    }

    /// Plugin name and short digest behind `function`; empty for an index that no function has.
    pub(super) fn version(&self, function: FunctionIndex) -> (String, String) {
        let plugin = self.resolved(function).and_then(|resolved| self.plugin(resolved.plugin));
        plugin.map(|it| (it.identity.plugin.clone(), it.identity.version.clone())).unwrap_or_default()
    }

    /// Tells whose call failed.
    pub(super) fn call_failure(&self, function: FunctionIndex, failure: Failure) -> CallFailure {
        let (plugin, version) = self.version(function);
        let name = self.resolved(function).map(|resolved| resolved.name.clone()).unwrap_or_default();
        let Failure { kind, reason } = failure;
        CallFailure { plugin, version, function: name, kind, reason }
    }
}

impl std::fmt::Debug for PluginSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PluginSet")
            .field("generation", &self.generation)
            .field("functions", &self.functions)
            .finish_non_exhaustive()
    }
}

/// Finds each wanted function.
fn resolve(plugins: &[(PluginSpec, Arc<Compiled>)], wanted: &[Wanted]) -> Result<Vec<Resolved>, Error> {
    let mut functions = Vec::with_capacity(wanted.len());
    let mut missing = Vec::new();
    for want in wanted {
        match find(plugins, want) {
            Ok(resolved) => functions.push(resolved),
            Err(instead) => missing.push(Missing {
                plugin: want.plugin.clone(),
                function: want.function.clone(),
                kind: want.kind,
                instead,
            }),
        }
    }
    if missing.is_empty() { Ok(functions) } else { Err(Error::Functions { missing }) }
}

/// Finds one function, or says what there is instead.
fn find(plugins: &[(PluginSpec, Arc<Compiled>)], want: &Wanted) -> Result<Resolved, String> {
    let Some(plugin) = plugins.iter().position(|(spec, _)| spec.name == want.plugin) else {
        return Err(format!(
            "there is no such plugin (there are: {})",
            list(plugins.iter().map(|(spec, _)| &*spec.name))
        ));
    };
    let Some((_, compiled)) = plugins.get(plugin) else { return Err("there is no such plugin".to_owned()) };
    let description = compiled.description();
    let version = format!("version {} ({})", description.version, compiled.short_digest());
    let of_kind = |kind: Kind| list(description.functions.iter().filter(|f| f.kind == kind).map(|f| &*f.name));
    let found = description.functions.iter().enumerate().find(|(_, function)| function.name == want.function);
    match found {
        None => Err(format!("{version} has no such function (its {}s: {})", want.kind, of_kind(want.kind))),
        Some((_, Function { kind, .. })) if *kind != want.kind => {
            Err(format!("in {version} this is of kind {kind} (its {}s: {})", want.kind, of_kind(want.kind)))
        }
        Some((id, Function { name, kind, state, .. })) => Ok(Resolved {
            plugin,
            // A description has at most a thousand functions.
            id: u32::try_from(id).unwrap_or(u32::MAX),
            name: name.clone(),
            kind: *kind,
            state: state.as_ref().and_then(|state| description.states.iter().find(|s| s.name == *state)).cloned(),
        }),
    }
}

/// Names for people.
fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
