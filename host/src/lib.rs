//! A native host for Kafka stream topologies whose logic ships as WebAssembly plugins.
//!
//! Modules in reading order; a module uses only modules of a lower level (`tests/it/layering.rs` checks it).
//! `ARCHITECTURE.md` at the project's root follows a record, and a topology file, through them.

// Level 0
pub mod model;
// Level 1
pub mod config;
pub mod fault;
pub mod telemetry;
// Level 2
pub mod topology;
// Level 3
pub mod kafka;
pub mod plan;
pub mod plugin;
pub mod store;
// Level 4
pub mod registry;
pub mod restore;
pub mod view;
// Level 5
pub mod node;
// Level 6
pub mod task;
// Level 7
pub mod runtime;
pub mod testkit;
// Level 8
pub mod http;
// Level 9
pub mod cli;
