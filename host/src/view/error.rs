//! Why a query has no answer.

use crate::model::StoreError;

/// A query without an answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The topology has no such store.
    #[error("there is no store '{store}'; {}", choice(known))]
    UnknownStore {
        /// The name asked for.
        store: String,
        /// The stores there are.
        known: Vec<String>,
    },
    /// The partition that would hold the answer is not open on this instance.
    #[error("{} not open on this instance; ask the one that owns it, or wait until it is restored here", place(store, *partition))]
    NotHere {
        /// The store.
        store: String,
        /// The partition; -1 is a global table.
        partition: i32,
    },
    /// The store is here, and reading it failed.
    #[error(transparent)]
    Failed(#[from] StoreError),
}

/// What there is instead of an unknown store.
fn choice(known: &[String]) -> String {
    if known.is_empty() {
        return "the topology has none".to_owned();
    }
    format!("the topology has {}", known.join(", "))
}

/// A partition of a store, in words.
fn place(store: &str, partition: i32) -> String {
    if partition < 0 {
        format!("global table '{store}' is")
    } else {
        format!("partition {partition} of store '{store}' is")
    }
}
