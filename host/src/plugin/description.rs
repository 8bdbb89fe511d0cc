//! What a plugin says it holds, decoded and checked once.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::bindings::lifecycle_types;

/// Most functions, and most state types, of one plugin.
const MAX_ITEMS: usize = 1000;
/// Longest name or version, in bytes.
const MAX_NAME: usize = 100;
/// Longest doc sentence, in bytes.
const MAX_DOC: usize = 2000;

/// A kind of function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Joins a stream record with a row.
    Joiner,
    /// Folds records into a state.
    Aggregator,
    /// Makes records of a record.
    Transformer,
    /// Answers a query route.
    View,
}

impl Kind {
    /// All kinds, in the order of `wit/`.
    pub(super) const ALL: [Self; 4] = [Self::Joiner, Self::Aggregator, Self::Transformer, Self::View];

    /// The name of the kind's interface in `weir:plugin`.
    pub(super) fn interface(self) -> &'static str {
        match self {
            Self::Joiner => "joiner",
            Self::Aggregator => "aggregator",
            Self::Transformer => "transformer",
            Self::View => "view",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.interface())
    }
}

/// A function of a plugin; its id in calls is its index in [`Description::functions`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// What the topology file calls it, after the plugin's name and a dot.
    pub name: String,
    /// What it does.
    pub kind: Kind,
    /// One sentence for people.
    pub doc: String,
    /// The state type that an aggregator keeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// A type of state that aggregators keep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateType {
    /// Its name.
    pub name: String,
    /// Raised only when old or new code cannot read the other's bytes.
    pub version: u32,
}

/// What a plugin holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// Name that the plugin gives itself.
    pub name: String,
    /// Version that it gives itself.
    pub version: String,
    /// Its functions, by id.
    pub functions: Vec<Function>,
    /// Its state types.
    pub states: Vec<StateType>,
}

impl Description {
    /// Version of the state type called `name`.
    pub fn state_version(&self, name: &str) -> Option<u32> {
        self.states.iter().find(|state| state.name == name).map(|state| state.version)
    }

    /// Takes over a guest's answer; all that is wrong with it at once.
    pub(super) fn check(raw: lifecycle_types::Description, exported: &[Kind]) -> Result<Self, Vec<String>> {
        let description = Self::from(raw);
        let mut problems = Vec::new();
        if description.name.is_empty() || description.name.len() > MAX_NAME {
            problems.push(format!("the plugin's name must have 1 to {MAX_NAME} bytes"));
        }
        if description.version.is_empty() || description.version.len() > MAX_NAME {
            problems.push(format!("the plugin's version must have 1 to {MAX_NAME} bytes"));
        }
        if description.functions.len() > MAX_ITEMS || description.states.len() > MAX_ITEMS {
            problems.push(format!("more than {MAX_ITEMS} functions or state types"));
            return Err(problems);
        }
        description.check_states(&mut problems);
        description.check_functions(exported, &mut problems);
        if problems.is_empty() { Ok(description) } else { Err(problems) }
    }

    /// State types have names of their own.
    fn check_states(&self, problems: &mut Vec<String>) {
        let mut seen = BTreeSet::new();
        for state in &self.states {
            if state.name.is_empty() || state.name.len() > MAX_NAME {
                problems.push(format!("a state type's name must have 1 to {MAX_NAME} bytes: {:?}", brief(&state.name)));
            } else if !seen.insert(&state.name) {
                problems.push(format!("state type {:?} is there twice", state.name));
            }
        }
    }

    /// Functions have names of their own that a topology file can use, a kind that is exported and, if they are
    /// aggregators, a state type.
    fn check_functions(&self, exported: &[Kind], problems: &mut Vec<String>) {
        if self.functions.is_empty() {
            problems.push("it describes no function".to_owned());
        }
        let mut seen = BTreeSet::new();
        for Function { name, kind, doc, state } in &self.functions {
            if !is_function_name(name) {
                problems.push(format!(
                    "function name {:?} must be 1 to {MAX_NAME} of lower case letters, digits, '_' and '-'",
                    brief(name)
                ));
                continue;
            }
            if !seen.insert(name) {
                problems.push(format!("function {name} is there twice"));
            }
            if doc.len() > MAX_DOC {
                problems.push(format!("the doc of function {name} is longer than {MAX_DOC} bytes"));
            }
            if !exported.contains(kind) {
                problems.push(format!(
                    "function {name} is of kind {kind}, but the component doesn't export weir:plugin/{kind}"
                ));
            }
            match (kind, state) {
                (Kind::Aggregator, None) => problems.push(format!("aggregator {name} names no state type")),
                (Kind::Aggregator, Some(state)) if self.state_version(state).is_none() => {
                    problems.push(format!("aggregator {name} keeps state {:?}, which is not described", brief(state)));
                }
                (Kind::Aggregator, Some(_)) | (_, None) => {}
                (_, Some(_)) => problems.push(format!("{kind} {name} names a state type; only aggregators keep state")),
            }
        }
    }
}

/// Whether a topology file can name a function so.
fn is_function_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MAX_NAME
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
}

/// The beginning of a text of unknown length, for an error message.
fn brief(text: &str) -> String {
    text.chars().take(40).collect()
}

impl From<lifecycle_types::Description> for Description {
    fn from(raw: lifecycle_types::Description) -> Self {
        let function = |raw: lifecycle_types::Function| Function {
            name: raw.name,
            kind: match raw.kind {
                lifecycle_types::Kind::Joiner => Kind::Joiner,
                lifecycle_types::Kind::Aggregator => Kind::Aggregator,
                lifecycle_types::Kind::Transformer => Kind::Transformer,
                lifecycle_types::Kind::View => Kind::View,
            },
            doc: raw.doc,
            state: raw.state,
        };
        let state = |raw: lifecycle_types::StateType| StateType { name: raw.name, version: raw.version };
        Self {
            name: raw.name,
            version: raw.version,
            functions: raw.functions.into_iter().map(function).collect(),
            states: raw.states.into_iter().map(state).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A guest's function.
    fn function(name: &str, kind: lifecycle_types::Kind, state: Option<&str>) -> lifecycle_types::Function {
        lifecycle_types::Function { name: name.to_owned(), kind, doc: String::new(), state: state.map(str::to_owned) }
    }

    /// What is wrong with a plugin of these functions, which exports joiners and aggregators and has the state `s`.
    fn problems(functions: Vec<lifecycle_types::Function>) -> Vec<String> {
        let raw = lifecycle_types::Description {
            name: "p".to_owned(),
            version: "1".to_owned(),
            functions,
            states: vec![lifecycle_types::StateType { name: "s".to_owned(), version: 3 }],
        };
        Description::check(raw, &[Kind::Joiner, Kind::Aggregator]).err().unwrap_or_default()
    }

    #[test]
    fn a_sound_description_is_taken() {
        use lifecycle_types::Kind::{Aggregator, Joiner};
        let found = problems(vec![function("join-1", Joiner, None), function("agg_1", Aggregator, Some("s"))]);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn all_problems_are_told_at_once() {
        use lifecycle_types::Kind::{Aggregator, Joiner, View};
        let found = problems(vec![
            function("Upper", Joiner, None),
            function("a", Aggregator, None),
            function("a", Aggregator, Some("t")),
            function("j", Joiner, Some("s")),
            function("v", View, None),
        ]);
        insta::assert_snapshot!(found.join("\n"), @r#"
        function name "Upper" must be 1 to 100 of lower case letters, digits, '_' and '-'
        aggregator a names no state type
        function a is there twice
        aggregator a keeps state "t", which is not described
        joiner j names a state type; only aggregators keep state
        function v is of kind view, but the component doesn't export weir:plugin/view
        "#);
    }

    #[test]
    fn no_function_at_all_is_a_problem() {
        assert_eq!(problems(vec![]), ["it describes no function"]);
    }
}
