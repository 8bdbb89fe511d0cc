//! End-to-end tests, on a real broker.

mod crash;
mod grown;
mod kafka;
mod projekt;
mod rebalance;
mod registry;
mod rewind;
