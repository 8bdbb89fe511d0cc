//! End-to-end tests, on a real broker.

#![expect(clippy::indexing_slicing, reason = "a test that finds less than it looks for shall fail")]

mod crash;
mod demo;
mod doesnt_swap;
mod faults;
mod grown;
mod kafka;
mod load;
mod orders;
mod projekt;
mod rebalance;
mod registry;
mod rewind;
mod standby;
mod swap;
