//! Plugins without WebAssembly, for the registry's tests: their bytes are JSON.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};

use crate::model::Generation;
use crate::plugin::{Description, Function, Kind, StateType};

use super::error::Stage;
use super::loader::{Loader, Refusal};

/// What a fake plugin's bytes say.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Fake {
    /// Version that it gives itself.
    pub(super) version: String,
    /// Its functions.
    pub(super) functions: Vec<String>,
    /// Version of the state that all of them keep; 0: none, they are joiners.
    pub(super) state: u32,
    /// Why `init` fails, if it does.
    pub(super) init: Option<String>,
    /// To make it large.
    pub(super) padding: String,
}

impl Fake {
    /// A sound plugin with functions.
    pub(super) fn new(version: &str, functions: &[&str]) -> Self {
        let functions = functions.iter().map(|name| (*name).to_owned()).collect();
        Self { version: version.to_owned(), functions, ..Self::default() }
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap()
    }
}

/// The description of a plugin with joiners.
pub(super) fn description(version: &str, functions: &[&str]) -> Description {
    describe(&Fake::new(version, functions))
}

/// The description of a fake plugin.
fn describe(fake: &Fake) -> Description {
    let keeps_state = fake.state > 0;
    let function = |name: &String| Function {
        name: name.clone(),
        kind: if keeps_state { Kind::Aggregator } else { Kind::Joiner },
        doc: String::new(),
        state: keeps_state.then(|| "state".to_owned()),
    };
    Description {
        name: "fake".to_owned(),
        version: fake.version.clone(),
        functions: fake.functions.iter().map(function).collect(),
        states: if keeps_state { vec![StateType { name: "state".to_owned(), version: fake.state }] } else { vec![] },
    }
}

/// A fake plugin, "compiled".
#[derive(Clone)]
pub(super) struct FakeVersion {
    /// What it is.
    fake: Arc<Fake>,
    /// What it holds.
    description: Arc<Description>,
}

/// A set of fake plugins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FakeSet {
    /// Its generation.
    pub(super) generation: Generation,
    /// The version that each plugin gives itself.
    pub(super) versions: BTreeMap<String, String>,
}

/// Loads fake plugins for a topology that uses some functions of each.
#[derive(Clone, Default)]
pub(super) struct FakeLoader {
    /// Functions in use by plugin.
    pub(super) uses: BTreeMap<String, Vec<String>>,
    /// How often bytes were "compiled".
    pub(super) compilations: Arc<AtomicUsize>,
}

impl FakeLoader {
    /// For a topology with these plugins and functions.
    pub(super) fn new(uses: &[(&str, &[&str])]) -> Self {
        let owned = |functions: &[&str]| functions.iter().map(|name| (*name).to_owned()).collect();
        let uses = uses.iter().map(|(plugin, functions)| ((*plugin).to_owned(), owned(functions))).collect();
        Self { uses, compilations: Arc::default() }
    }
}

impl Loader for FakeLoader {
    type Version = FakeVersion;
    type Set = FakeSet;

    fn plugins(&self) -> Vec<String> {
        self.uses.keys().cloned().collect()
    }

    fn functions_in_use(&self, plugin: &str) -> Vec<String> {
        self.uses.get(plugin).cloned().unwrap_or_default()
    }

    fn load(&self, bytes: &[u8]) -> Result<FakeVersion, Refusal> {
        self.compilations.fetch_add(1, Ordering::SeqCst);
        let fake: Fake = serde_json::from_slice(bytes).map_err(|error| Refusal {
            stage: Stage::Valid,
            reason: error.to_string(),
            remedy: "give JSON".to_owned(),
        })?;
        Ok(FakeVersion { description: Arc::new(describe(&fake)), fake: Arc::new(fake) })
    }

    fn describe<'a>(&self, version: &'a FakeVersion) -> &'a Description {
        &version.description
    }

    fn prove(&self, plugin: &str, version: &FakeVersion) -> Result<(), Refusal> {
        let lacking = self.functions_in_use(plugin).into_iter().find(|name| !version.fake.functions.contains(name));
        if let Some(name) = lacking {
            let reason = format!("it lacks {plugin}.{name}");
            return Err(Refusal { stage: Stage::Functions, reason, remedy: "add it".to_owned() });
        }
        match &version.fake.init {
            Some(reason) => {
                Err(Refusal { stage: Stage::Started, reason: reason.clone(), remedy: "configure it".to_owned() })
            }
            None => Ok(()),
        }
    }

    fn assemble(&self, generation: Generation, versions: &BTreeMap<String, FakeVersion>) -> Result<FakeSet, Refusal> {
        for (plugin, version) in versions {
            self.prove(plugin, version)?;
        }
        let name = |(plugin, version): (&String, &FakeVersion)| (plugin.clone(), version.fake.version.clone());
        Ok(FakeSet { generation, versions: versions.iter().map(name).collect() })
    }
}
