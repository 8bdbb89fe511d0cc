//! What wit-bindgen makes of `wit/`: one module a world, since a plugin exports only the kinds that it has.
//!
//! Plugins use [`export!`](crate::export) instead. Guests that speak the flat form themselves can implement the `Guest`
//! traits here and export each kind with its macro.

/// `describe` and `init`, which every plugin exports, and the host's log.
#[expect(missing_docs, reason = "generated")]
pub mod plugin {
    wit_bindgen::generate!({
        path: "../wit",
        world: "plugin",
        generate_all,
        pub_export_macro: true,
        export_macro_name: "export_plugin",
        default_bindings_module: "weir_guest::bindings::plugin",
        runtime_path: "::weir_guest::export::wit_bindgen::rt",
    });
}

/// Joiners.
#[expect(missing_docs, reason = "generated")]
pub mod joiner {
    wit_bindgen::generate!({
        path: "../wit",
        world: "joiner-plugin",
        with: { "weir:plugin/log@0.1.0": crate::bindings::plugin::weir::plugin::log },
        generate_all,
        pub_export_macro: true,
        export_macro_name: "export_joiner",
        default_bindings_module: "weir_guest::bindings::joiner",
        runtime_path: "::weir_guest::export::wit_bindgen::rt",
    });
}

/// Aggregators.
#[expect(missing_docs, reason = "generated")]
pub mod aggregator {
    wit_bindgen::generate!({
        path: "../wit",
        world: "aggregator-plugin",
        with: {
            "weir:plugin/log@0.1.0": crate::bindings::plugin::weir::plugin::log,
            "weir:plugin/types@0.1.0": crate::bindings::types,
        },
        pub_export_macro: true,
        export_macro_name: "export_aggregator",
        default_bindings_module: "weir_guest::bindings::aggregator",
        runtime_path: "::weir_guest::export::wit_bindgen::rt",
    });
}

/// Transformers.
#[expect(missing_docs, reason = "generated")]
pub mod transformer {
    wit_bindgen::generate!({
        path: "../wit",
        world: "transformer-plugin",
        with: {
            "weir:plugin/log@0.1.0": crate::bindings::plugin::weir::plugin::log,
            "weir:plugin/types@0.1.0": crate::bindings::types,
        },
        pub_export_macro: true,
        export_macro_name: "export_transformer",
        default_bindings_module: "weir_guest::bindings::transformer",
        runtime_path: "::weir_guest::export::wit_bindgen::rt",
    });
}

/// Views, and the stores that they may read.
#[expect(missing_docs, reason = "generated")]
pub mod view {
    wit_bindgen::generate!({
        path: "../wit",
        world: "view-plugin",
        with: { "weir:plugin/log@0.1.0": crate::bindings::plugin::weir::plugin::log },
        generate_all,
        pub_export_macro: true,
        export_macro_name: "export_view",
        default_bindings_module: "weir_guest::bindings::view",
        runtime_path: "::weir_guest::export::wit_bindgen::rt",
    });
}

/// Types that the kinds share; every kind's bindings use these.
pub use joiner::weir::plugin::types;

/// What a plugin exports to describe itself and to start.
pub use plugin::exports::weir::plugin::lifecycle;
