//! What a plugin's functions are kept in, and the macro that exports them.

use serde::Deserialize;
use serde::de::DeserializeOwned;
pub use wit_bindgen;

use crate::aggregator::{Aggregate, Apply, FoldRun, fold_batch};
use crate::bindings::aggregator::exports::weir::plugin::aggregator::{Folded, Runs};
use crate::bindings::joiner::exports::weir::plugin::joiner::Joined;
use crate::bindings::lifecycle::{Description, Function, Kind, StateType};
use crate::bindings::transformer::exports::weir::plugin::transformer::{Records, Transformed};
use crate::bindings::types::Fields;
use crate::bindings::view::exports::weir::plugin::view as raw_view;
use crate::flat::broken;
use crate::joiner::JoinBatch;
use crate::transformer::TransformBatch;
use crate::view::{AnswerRequest, answer_raw};
use crate::{Aggregator, Joiner, State, Transformer, View};

/// Exports the functions of a plugin; once a crate, whose `crate-type` has `cdylib`.
///
/// Only the kinds that are named are exported. Each function is an expression: a value that implements its kind's trait.
///
/// ```
/// # use serde::Deserialize;
/// # use weir_guest::{Joiner, Refusal};
/// /// The topology file's `[plugins.NAME.config]`.
/// #[derive(Deserialize)]
/// #[serde(deny_unknown_fields)]
/// struct Settings {
///     separator: String,
/// }
///
/// impl Settings {
///     fn check(&self) -> Result<(), String> {
///         if self.separator.is_empty() { Err("separator is empty".to_owned()) } else { Ok(()) }
///     }
/// }
///
/// /// Puts value and row beside each other.
/// struct Pair {
///     separator: String,
/// }
///
/// impl Joiner for Pair {
/// #     const NAME: &'static str = "pair";
/// #     const DOC: &'static str = "Puts value and row beside each other.";
/// #     type Key<'a> = &'a [u8];
/// #     type Value<'a> = &'a str;
/// #     type Row<'a> = &'a str;
/// #     type Joined<'a> = String;
/// #     fn join<'a>(&'a self, _: &'a [u8], value: &'a str, row: &'a str) -> Result<String, Refusal> {
/// #         Ok(format!("{value}{}{row}", self.separator))
/// #     }
///     // …
/// }
///
/// weir_guest::export! {
///     name: "pairs",
///     version: env!("CARGO_PKG_VERSION"),
///     config: Settings as settings,   // without it, the plugin takes no configuration
///     check: settings.check(),        // an error refuses the deployment
///     joiners: [Pair { separator: settings.separator.clone() }],
///     // aggregates: [StateType: [functions …], …], transformers: […], views: […],
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! export {
    (
        name: $name:expr,
        version: $version:expr,
        config: $Config:ty as $settings:ident,
        check: $check:expr,
        $($kinds:tt)*
    ) => {
        $crate::__export! { ($name) ($version) ($Config) ($settings) ($check) $($kinds)* }
    };
    (name: $name:expr, version: $version:expr, config: $Config:ty as $settings:ident, $($kinds:tt)*) => {
        $crate::__export! { ($name) ($version) ($Config) ($settings) () $($kinds)* }
    };
    (name: $name:expr, version: $version:expr, $($kinds:tt)*) => {
        $crate::__export! { ($name) ($version) ($crate::export::NoConfig) (settings) () $($kinds)* }
    };
}

/// [`export!`], with the configuration filled in.
#[doc(hidden)]
#[macro_export]
macro_rules! __export {
    (
        ($name:expr) ($version:expr) ($Config:ty) ($settings:ident) ($($check:expr)?)
        $(joiners: [$($joiner:expr),* $(,)?] $(,)?)?
        $(aggregates: [$($State:ty: [$($aggregator:expr),* $(,)?]),* $(,)?] $(,)?)?
        $(transformers: [$($transformer:expr),* $(,)?] $(,)?)?
        $(views: [$($view:expr),* $(,)?] $(,)?)?
    ) => {
        const _: () = {
            /// The plugin, as its exports see it. Natively nothing is exported: the names mean something to wasm only.
            enum Plugin {}

            /// The functions of this instance, made when it starts.
            static FUNCTIONS: ::std::sync::OnceLock<$crate::export::Functions> = ::std::sync::OnceLock::new();

            /// What the plugin holds: its functions in the order of their ids.
            fn listing() -> $crate::export::Listing {
                let mut listing = $crate::export::Listing::new($name, $version);
                $($(listing.joiner(|$settings: &$Config| { let _ = $settings; $joiner });)*)?
                $($(
                    listing.state::<$State>();
                    $(listing.aggregator::<$State, _, _>(|$settings: &$Config| { let _ = $settings; $aggregator });)*
                )*)?
                $($(listing.transformer(|$settings: &$Config| { let _ = $settings; $transformer });)*)?
                $($(listing.view(|$settings: &$Config| { let _ = $settings; $view });)*)?
                listing
            }

            /// Makes the functions, in the order of their ids.
            fn functions($settings: &$Config) -> ::core::result::Result<$crate::export::Functions, ::std::string::String> {
                let _ = $settings;
                $($check?;)?
                #[allow(unused_mut, reason = "a plugin may be empty")]
                let mut functions = $crate::export::Functions::default();
                $($(functions.joiner($joiner);)*)?
                $($(functions.aggregate::<$State>(::std::vec![$(::std::boxed::Box::new($aggregator)),*]);)*)?
                $($(functions.transformer($transformer);)*)?
                $($(functions.view($view);)*)?
                Ok(functions)
            }

            impl $crate::bindings::lifecycle::Guest for Plugin {
                fn describe() -> $crate::bindings::lifecycle::Description {
                    $crate::export::describe(listing)
                }

                fn init(config: ::std::string::String) -> ::core::result::Result<(), ::std::string::String> {
                    $crate::export::start(&FUNCTIONS, &config, functions)
                }
            }

            #[cfg(target_arch = "wasm32")]
            $crate::bindings::plugin::export_plugin!(Plugin with_types_in $crate::bindings::plugin);
            // So that natively, too, all that the plugin consists of counts as used.
            #[cfg(not(target_arch = "wasm32"))]
            const _: $crate::export::Lifecycle = $crate::export::lifecycle::<Plugin>();
            $($crate::__export_joiners! { $($joiner),* })?
            $($crate::__export_aggregators! { $($State),* })?
            $($crate::__export_transformers! { $($transformer),* })?
            $($crate::__export_views! { $($view),* })?
        };
    };
}

/// Exports the interface of joiners.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_joiners {
    ($($joiner:expr),*) => {
        impl $crate::bindings::joiner::exports::weir::plugin::joiner::Guest for Plugin {
            fn join(
                function: u32,
                pairs: $crate::bindings::types::Fields,
            ) -> $crate::bindings::joiner::exports::weir::plugin::joiner::Joined {
                $crate::export::started(&FUNCTIONS).join(function, &pairs)
            }
        }
        #[cfg(target_arch = "wasm32")]
        $crate::bindings::joiner::export_joiner!(Plugin with_types_in $crate::bindings::joiner);
    };
}

/// Exports the interface of aggregators.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_aggregators {
    ($($State:ty),*) => {
        impl $crate::bindings::aggregator::exports::weir::plugin::aggregator::Guest for Plugin {
            fn fold(
                every: bool,
                runs: $crate::bindings::aggregator::exports::weir::plugin::aggregator::Runs,
            ) -> $crate::bindings::aggregator::exports::weir::plugin::aggregator::Folded {
                $crate::export::started(&FUNCTIONS).fold(every, &runs)
            }
        }
        #[cfg(target_arch = "wasm32")]
        $crate::bindings::aggregator::export_aggregator!(Plugin with_types_in $crate::bindings::aggregator);
    };
}

/// Exports the interface of transformers.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_transformers {
    ($($transformer:expr),*) => {
        impl $crate::bindings::transformer::exports::weir::plugin::transformer::Guest for Plugin {
            fn transform(
                function: u32,
                records: $crate::bindings::transformer::exports::weir::plugin::transformer::Records,
            ) -> $crate::bindings::transformer::exports::weir::plugin::transformer::Transformed {
                $crate::export::started(&FUNCTIONS).transform(function, &records)
            }
        }
        #[cfg(target_arch = "wasm32")]
        $crate::bindings::transformer::export_transformer!(Plugin with_types_in $crate::bindings::transformer);
    };
}

/// Exports the interface of views.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_views {
    ($($view:expr),*) => {
        impl $crate::bindings::view::exports::weir::plugin::view::Guest for Plugin {
            fn answer(
                function: u32,
                request: $crate::bindings::view::exports::weir::plugin::view::Request,
            ) -> $crate::bindings::view::exports::weir::plugin::view::Response {
                $crate::export::started(&FUNCTIONS).answer(function, request)
            }
        }
        #[cfg(target_arch = "wasm32")]
        $crate::bindings::view::export_view!(Plugin with_types_in $crate::bindings::view);
    };
}

/// The configuration of a plugin that takes none.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoConfig {}

/// What a plugin holds, as it grows. Ids follow the order of calls, which is that of [`Functions`].
pub struct Listing(Description);

impl Listing {
    /// A plugin without functions.
    pub fn new(name: &str, version: &str) -> Self {
        Self(Description {
            name: name.to_owned(),
            version: version.to_owned(),
            functions: Vec::new(),
            states: Vec::new(),
        })
    }

    /// Adds a joiner, known by how it would be made.
    pub fn joiner<C, J: Joiner>(&mut self, _: impl FnOnce(&C) -> J) {
        self.function(J::NAME, Kind::Joiner, J::DOC, None);
    }

    /// Adds a state type.
    pub fn state<S: State>(&mut self) {
        self.0.states.push(StateType { name: S::NAME.to_owned(), version: S::VERSION });
    }

    /// Adds an aggregator, known by how it would be made.
    pub fn aggregator<S: State, C, A: Aggregator<State = S>>(&mut self, _: impl FnOnce(&C) -> A) {
        self.function(A::NAME, Kind::Aggregator, A::DOC, Some(S::NAME));
    }

    /// Adds a transformer, known by how it would be made.
    pub fn transformer<C, T: Transformer>(&mut self, _: impl FnOnce(&C) -> T) {
        self.function(T::NAME, Kind::Transformer, T::DOC, None);
    }

    /// Adds a view, known by how it would be made.
    pub fn view<C, V: View>(&mut self, _: impl FnOnce(&C) -> V) {
        self.function(V::NAME, Kind::View, V::DOC, None);
    }

    /// Adds a function.
    fn function(&mut self, name: &str, kind: Kind, doc: &str, state: Option<&str>) {
        let (name, doc, state) = (name.to_owned(), doc.to_owned(), state.map(str::to_owned));
        self.0.functions.push(Function { name, kind, doc, state });
    }
}

/// The functions of an instance, by their ids.
#[derive(Default)]
pub struct Functions {
    /// Each function's kind and place.
    table: Vec<Entry>,
    /// The aggregates, one a state type.
    aggregates: Vec<Box<dyn FoldRun>>,
}

/// A function in the table.
enum Entry {
    /// A joiner.
    Joiner(Box<dyn JoinBatch>),
    /// An aggregator, which its aggregate holds.
    Aggregator,
    /// A transformer.
    Transformer(Box<dyn TransformBatch>),
    /// A view.
    View(Box<dyn AnswerRequest>),
}

impl Functions {
    /// Adds a joiner.
    pub fn joiner(&mut self, joiner: impl Joiner) {
        self.table.push(Entry::Joiner(Box::new(joiner)));
    }

    /// Adds all aggregators of a state type.
    pub fn aggregate<S: State>(&mut self, functions: Vec<Box<dyn Apply<S>>>) {
        let first = u32::try_from(self.table.len()).unwrap_or(u32::MAX);
        self.table.extend(functions.iter().map(|_| Entry::Aggregator));
        self.aggregates.push(Box::new(Aggregate { first, functions }));
    }

    /// Adds a transformer.
    pub fn transformer(&mut self, transformer: impl Transformer) {
        self.table.push(Entry::Transformer(Box::new(transformer)));
    }

    /// Adds a view.
    pub fn view(&mut self, view: impl View) {
        self.table.push(Entry::View(Box::new(view)));
    }

    /// The function with that id.
    fn get(&self, function: u32) -> Option<&Entry> {
        self.table.get(function as usize)
    }

    /// Answers a call of `join`.
    pub fn join(&self, function: u32, pairs: &Fields) -> Joined {
        let Some(Entry::Joiner(joiner)) = self.get(function) else { broken("the id of a function that is no joiner") };
        joiner.join_batch(pairs)
    }

    /// Answers a call of `fold`.
    pub fn fold(&self, every: bool, runs: &Runs) -> Folded {
        fold_batch(&self.aggregates, every, runs)
    }

    /// Answers a call of `transform`.
    pub fn transform(&self, function: u32, records: &Records) -> Transformed {
        let Some(Entry::Transformer(transformer)) = self.get(function) else {
            broken("the id of a function that is no transformer")
        };
        transformer.transform_batch(records)
    }

    /// Answers a call of `answer`.
    pub fn answer(&self, function: u32, request: raw_view::Request) -> raw_view::Response {
        let Some(Entry::View(view)) = self.get(function) else { broken("the id of a function that is no view") };
        answer_raw(view.as_ref(), request)
    }
}

/// What every plugin exports.
pub type Lifecycle = (fn() -> Description, fn(String) -> Result<(), String>);

/// What `P` would export on wasm.
pub const fn lifecycle<P: crate::bindings::lifecycle::Guest>() -> Lifecycle {
    (P::describe, P::init)
}

/// Answers `describe`.
pub fn describe(listing: fn() -> Listing) -> Description {
    crate::log::report_panics();
    listing().0
}

/// Answers `init`: reads the configuration and makes the functions.
pub fn start<C: DeserializeOwned>(
    functions: &std::sync::OnceLock<Functions>,
    config: &str,
    make: fn(&C) -> Result<Functions, String>,
) -> Result<(), String> {
    crate::log::report_panics();
    let config = serde_json::from_str(config).map_err(|error| format!("the configuration cannot be read: {error}"))?;
    functions.set(make(&config)?).map_err(|_| "the instance was started before".to_owned())
}

/// The functions of an instance that has been started.
pub fn started(functions: &std::sync::OnceLock<Functions>) -> &Functions {
    functions.get().unwrap_or_else(|| broken("a call before init"))
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use super::*;

    /// Starts a plugin without configuration.
    fn start_plain(functions: &OnceLock<Functions>, config: &str) -> Result<(), String> {
        start(functions, config, |_: &NoConfig| Ok(Functions::default()))
    }

    #[test]
    fn a_plugin_without_configuration_refuses_one() {
        assert_eq!(start_plain(&OnceLock::new(), "{}"), Ok(()));
        let refusal = start_plain(&OnceLock::new(), r#"{"size":1}"#).unwrap_err();
        assert!(refusal.starts_with("the configuration cannot be read: unknown field `size`"), "{refusal}");
    }

    #[test]
    fn what_the_check_says_refuses_the_start() {
        let outcome = start(&OnceLock::new(), "7", |size: &u32| Err(format!("{size} is too many")));
        assert_eq!(outcome, Err("7 is too many".to_owned()));
    }

    #[test]
    fn an_instance_starts_once() {
        let functions = OnceLock::new();
        assert_eq!(start_plain(&functions, "{}"), Ok(()));
        assert!(start_plain(&functions, "{}").is_err());
        assert!(functions.get().is_some());
    }
}
