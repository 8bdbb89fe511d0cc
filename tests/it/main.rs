//! End-to-end tests, on a real broker.

mod demo;
mod doesnt_swap;
mod faults;
mod kafka;
mod load;
mod orders;
mod projekt;
mod registry;
mod swap;
