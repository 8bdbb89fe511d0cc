//! Restoring tables: how far the reading of a table or changelog is, and when it counts as full.
//!
//! Promise: a partition is done when everything below its end is applied, and not before. Pure; the clock comes in as an argument.

mod progress;

pub use progress::Progress;
