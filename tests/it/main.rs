//! End-to-end tests, on a real broker.

mod doesnt_swap;
mod faults;
mod kafka;
mod load;
mod projekt;
mod registry;
mod swap;
