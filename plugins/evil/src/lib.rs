//! Functions that misbehave, each in its own way and by name: what the host is tested with.
//!
//! Each kind's functions begin with the kind: `join_`, `fold_`, `transform_`, `view_`, then comes what they do: see
//! [`deed::DEEDS`] and [`view::VIEWS`]. `…_echo` is well behaved: a join gives the stream record's value, a fold counts, a
//! transformation hands on the record as it is. `…_obey` does for each record what its value says (`trap`, `reject`, …), and
//! is well behaved where the value names no deed. With the feature `tame` it always is.
//!
//! The configuration `{"refuse": "why"}` makes `init` refuse, `{"start": "trap"}` makes it do that deed.

#![cfg(target_arch = "wasm32")] // natively its exports would have names that no linker takes

mod deed;
mod flat;
mod view;

use deed::{DEEDS, Deed};
use serde::Deserialize;
use view::VIEWS;
use weir_guest::bindings::lifecycle::{Description, Function, Guest, Kind, StateType};
use weir_guest::bindings::{aggregator, joiner, plugin, transformer, view as views};

/// The plugin, as its exports see it.
enum Evil {}

/// The topology file's `[plugins.evil.config]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Why `init` refuses.
    refuse: Option<String>,
    /// The deed that `init` does.
    start: Option<String>,
}

/// The kinds, in the order of the functions' ids, with the prefix of their names.
const KINDS: [(Kind, &str); 3] = [(Kind::Joiner, "join"), (Kind::Aggregator, "fold"), (Kind::Transformer, "transform")];

/// The deed of a function that is no view.
fn deed_of(function: u32) -> Deed {
    let index = function as usize % DEEDS.len();
    DEEDS.get(index).map_or(Deed::Echo, |(_, deed, _)| *deed)
}

impl Guest for Evil {
    fn describe() -> Description {
        weir_guest::log::report_panics();
        let function = |name: String, kind: Kind, doc: &str| {
            let state = (kind == Kind::Aggregator).then(|| "count".to_owned());
            Function { name, kind, doc: doc.to_owned(), state }
        };
        let mut functions = Vec::new();
        for (kind, prefix) in KINDS {
            functions.extend(DEEDS.iter().map(|(name, _, doc)| function(format!("{prefix}_{name}"), kind, doc)));
        }
        functions.extend(VIEWS.iter().map(|(name, _, doc)| function(format!("view_{name}"), Kind::View, doc)));
        let states = vec![StateType { name: "count".to_owned(), version: 1 }];
        Description { name: "evil".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned(), functions, states }
    }

    fn init(config: String) -> Result<(), String> {
        weir_guest::log::report_panics();
        let config: Config = serde_json::from_str(&config).map_err(|error| error.to_string())?;
        if let Some(name) = config.start {
            let deed = Deed::named(&name).ok_or_else(|| format!("there is no deed {name}"))?;
            deed.act();
        }
        config.refuse.map_or(Ok(()), Err)
    }
}

plugin::export_plugin!(Evil with_types_in weir_guest::bindings::plugin);
joiner::export_joiner!(Evil with_types_in weir_guest::bindings::joiner);
aggregator::export_aggregator!(Evil with_types_in weir_guest::bindings::aggregator);
transformer::export_transformer!(Evil with_types_in weir_guest::bindings::transformer);
views::export_view!(Evil with_types_in weir_guest::bindings::view);
