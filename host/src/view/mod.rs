//! Reading stores from outside the stream threads: which store is open where, and what a query gets of it.
//!
//! Promises: a query reads committed state and never waits for a stream thread, nor a stream thread for a query (it holds a database
//! only while it reads; closing one waits that long). A question that cannot be answered here says what would be right.
//! Bounded by: the limit that a scan is given.

mod catalog;
mod error;
mod row;

pub use catalog::{Catalog, Scan};
pub use error::QueryError;
pub use row::Row;
