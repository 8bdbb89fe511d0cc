//! End-to-end tests, on a real broker.

mod demo;
mod kafka;
mod orders;
mod projekt;
mod registry;
