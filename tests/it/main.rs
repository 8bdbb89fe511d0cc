//! End-to-end tests, on a real broker.

#![expect(clippy::indexing_slicing, reason = "a test that finds less than it looks for shall fail")]

mod counted;
mod crash;
mod demo;
mod disk_full;
mod doesnt_swap;
mod faults;
mod flow;
mod grown;
mod kafka;
mod kills;
mod load;
mod membership;
mod memory;
mod network;
mod orders;
mod projekt;
mod rebalance;
mod recreated;
mod registry;
mod rewind;
mod standby;
mod swap;
mod zombie;
