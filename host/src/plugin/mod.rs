//! Plugins: topology logic in WebAssembly components. The only home of wasmtime.
//!
//! What it promises: bytes of any origin are either a plugin that follows `wit/`, or refused with a reason a person can
//! act on; a call ends within its CPU time and memory; whatever a guest answers is checked before the host uses it; a
//! guest that failed a call is gone, the next call gets a fresh instance. No state outlives an instance: all state comes
//! in as an argument and goes out as a result.
//!
//! Reading order: [`Engine::load`] turns bytes into [`Compiled`]; [`PluginSet`] resolves the functions a topology wants;
//! [`ThreadLogic`] is one stream thread's instances, [`ViewPool`] the instances that answer query routes.
//!
//! Everything is synchronous: component concurrency is off, and calls run on the caller's thread.

mod answer;
mod bindings;
mod call;
mod compiled;
mod componentize;
mod conformance;
mod description;
mod engine;
mod error;
mod fields;
mod imports;
mod instance;
mod interface_diff;
mod limits;
mod memory;
mod set;
mod view_pool;

#[cfg(test)]
mod test_guest;

pub use call::ThreadLogic;
pub use compiled::{Compiled, Inspection, inspect};
pub use componentize::Form;
pub use description::{Description, Function, Kind, StateType};
pub use engine::Engine;
pub use error::{Error, Missing, Stage};
pub use limits::Limits;
pub use set::{PluginSet, PluginSpec, Wanted};
pub use view_pool::{ViewPool, ViewRequest, ViewResponse, ViewStores};
