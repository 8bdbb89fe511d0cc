//! Host bindings of `wit/`: one world a kind, all reaching the same instance.
//!
//! Each world names one export only, so a component that exports several kinds is bound once per kind. Names are looked
//! up once, when the component is loaded; an instance is bound by index.

use wasmtime::component::{HasSelf, Instance, InstancePre, Linker};

use super::description::Kind;
use super::imports::HostState;

/// The world of every plugin: `describe`, `init` and the log.
pub(super) mod lifecycle {
    wasmtime::component::bindgen!({ path: "../wit", world: "plugin" });
}

/// The world of plugins with joiners. Types that several kinds share are generated here.
pub(super) mod joiner {
    wasmtime::component::bindgen!({
        path: "../wit",
        world: "joiner-plugin",
        with: { "weir:plugin/log": super::lifecycle::weir::plugin::log },
    });
}

/// The world of plugins with aggregators.
pub(super) mod aggregator {
    wasmtime::component::bindgen!({
        path: "../wit",
        world: "aggregator-plugin",
        with: {
            "weir:plugin/log": super::lifecycle::weir::plugin::log,
            "weir:plugin/types": super::joiner::weir::plugin::types,
        },
    });
}

/// The world of plugins with transformers.
pub(super) mod transformer {
    wasmtime::component::bindgen!({
        path: "../wit",
        world: "transformer-plugin",
        with: {
            "weir:plugin/log": super::lifecycle::weir::plugin::log,
            "weir:plugin/types": super::joiner::weir::plugin::types,
        },
    });
}

/// The world of plugins with views; only they read stores, and a read may trap (outside a view's call).
pub(super) mod view {
    wasmtime::component::bindgen!({
        path: "../wit",
        world: "view-plugin",
        imports: { "weir:plugin/stores": trappable },
        with: { "weir:plugin/log": super::lifecycle::weir::plugin::log },
    });
}

pub(super) use aggregator::exports::weir::plugin::aggregator as aggregator_types;
pub(super) use joiner::exports::weir::plugin::joiner as joiner_types;
pub(super) use joiner::weir::plugin::types;
pub(super) use lifecycle::exports::weir::plugin::lifecycle as lifecycle_types;
pub(super) use lifecycle::weir::plugin::log;
pub(super) use transformer::exports::weir::plugin::transformer as transformer_types;
pub(super) use view::exports::weir::plugin::view as view_types;
pub(super) use view::weir::plugin::stores;

/// Defines everything a plugin may import.
pub(super) fn link(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    log::add_to_linker::<_, HasSelf<_>>(linker, |state| state)?;
    stores::add_to_linker::<_, HasSelf<_>>(linker, |state| state)?;
    types::add_to_linker::<_, HasSelf<_>>(linker, |state| state)
}

/// Where a component's exports are: resolved by name once, used for every instance.
pub(super) struct Indices {
    /// `describe` and `init`.
    lifecycle: lifecycle::PluginIndices,
    /// Present when the component exports joiners.
    joiner: Option<joiner::JoinerPluginIndices>,
    /// Present when it exports aggregators.
    aggregator: Option<aggregator::AggregatorPluginIndices>,
    /// Present when it exports transformers.
    transformer: Option<transformer::TransformerPluginIndices>,
    /// Present when it exports views.
    view: Option<view::ViewPluginIndices>,
}

impl Indices {
    /// Looks up the exports of `kinds`.
    pub(super) fn new(pre: &InstancePre<HostState>, kinds: &[Kind]) -> wasmtime::Result<Self> {
        let has = |kind: Kind| kinds.contains(&kind);
        Ok(Self {
            lifecycle: lifecycle::PluginIndices::new(pre)?,
            joiner: has(Kind::Joiner).then(|| joiner::JoinerPluginIndices::new(pre)).transpose()?,
            aggregator: has(Kind::Aggregator).then(|| aggregator::AggregatorPluginIndices::new(pre)).transpose()?,
            transformer: has(Kind::Transformer).then(|| transformer::TransformerPluginIndices::new(pre)).transpose()?,
            view: has(Kind::View).then(|| view::ViewPluginIndices::new(pre)).transpose()?,
        })
    }

    /// Binds an instance.
    pub(super) fn load(
        &self,
        mut store: impl wasmtime::AsContextMut,
        instance: &Instance,
    ) -> wasmtime::Result<Exports> {
        Ok(Exports {
            lifecycle: self.lifecycle.load(&mut store, instance)?,
            joiner: self.joiner.as_ref().map(|i| i.load(&mut store, instance)).transpose()?,
            aggregator: self.aggregator.as_ref().map(|i| i.load(&mut store, instance)).transpose()?,
            transformer: self.transformer.as_ref().map(|i| i.load(&mut store, instance)).transpose()?,
            view: self.view.as_ref().map(|i| i.load(&mut store, instance)).transpose()?,
        })
    }
}

/// The exports of one instance, ready to be called.
pub(super) struct Exports {
    /// `describe` and `init`.
    lifecycle: lifecycle::Plugin,
    /// `join`.
    joiner: Option<joiner::JoinerPlugin>,
    /// `fold`.
    aggregator: Option<aggregator::AggregatorPlugin>,
    /// `transform`.
    transformer: Option<transformer::TransformerPlugin>,
    /// `answer`.
    view: Option<view::ViewPlugin>,
}

/// A call of a kind that the component doesn't export: `description` and exports are checked against each other at
/// load, so this is never seen.
fn not_exported(kind: Kind) -> wasmtime::Error {
    wasmtime::Error::msg(format!("the component exports no {kind}"))
}

impl Exports {
    /// `describe` and `init`.
    pub(super) fn lifecycle(&self) -> &lifecycle_types::Guest {
        self.lifecycle.weir_plugin_lifecycle()
    }

    /// `join`.
    pub(super) fn joiner(&self) -> wasmtime::Result<&joiner_types::Guest> {
        self.joiner.as_ref().map(|j| j.weir_plugin_joiner()).ok_or_else(|| not_exported(Kind::Joiner))
    }

    /// `fold`.
    pub(super) fn aggregator(&self) -> wasmtime::Result<&aggregator_types::Guest> {
        self.aggregator.as_ref().map(|a| a.weir_plugin_aggregator()).ok_or_else(|| not_exported(Kind::Aggregator))
    }

    /// `transform`.
    pub(super) fn transformer(&self) -> wasmtime::Result<&transformer_types::Guest> {
        self.transformer.as_ref().map(|t| t.weir_plugin_transformer()).ok_or_else(|| not_exported(Kind::Transformer))
    }

    /// `answer`.
    pub(super) fn view(&self) -> wasmtime::Result<&view_types::Guest> {
        self.view.as_ref().map(|v| v.weir_plugin_view()).ok_or_else(|| not_exported(Kind::View))
    }
}
