//! End-to-end tests, on a real broker.

mod kafka;
mod projekt;
mod registry;
