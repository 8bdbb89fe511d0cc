//! Write a Weir plugin in Rust: a trait a kind of function, one record at a time.
//!
//! The host calls a plugin with batches in a flat binary form. This crate takes them apart, decodes keys and values,
//! calls the function for each record and packs the answers, so that a function is a few lines over typed values:
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use weir_guest::{Aggregator, Json, Refusal, State};
//!
//! /// A payment as its topic holds it.
//! #[derive(Deserialize)]
//! struct Payment {
//!     cents: i64,
//! }
//!
//! /// What is kept for each account.
//! #[derive(Clone, Default, Deserialize, Serialize)]
//! struct Balance {
//!     cents: i64,
//! }
//!
//! impl State for Balance {
//!     const NAME: &'static str = "balance";
//!     const VERSION: u32 = 1;
//!     type Form<'a> = Json<Self>;
//! }
//!
//! /// Adds a payment to its account's balance.
//! struct Pay;
//!
//! impl Aggregator for Pay {
//!     const NAME: &'static str = "pay";
//!     const DOC: &'static str = "Adds a payment to its account's balance.";
//!     type Key<'a> = &'a str;
//!     type Value<'a> = Json<Payment>;
//!     type State = Balance;
//!
//!     fn apply(
//!         &self,
//!         account: &str,
//!         balance: &mut Json<Balance>,
//!         payment: Json<Payment>,
//!         _timestamp: i64,
//!     ) -> Result<(), Refusal> {
//!         balance.cents = balance
//!             .cents
//!             .checked_add(payment.cents)
//!             .ok_or_else(|| Refusal::reject(format!("account {account} holds too much")))?;
//!         Ok(())
//!     }
//! }
//!
//! weir_guest::export! {
//!     name: "payments",
//!     version: env!("CARGO_PKG_VERSION"),
//!     aggregates: [Balance: [Pay]],
//! }
//!
//! # fn main() {
//! let mut account = weir_guest::testing::Aggregate::<Balance>::new("A1");
//! account.apply(Pay, serde_json::json!({ "cents": 250 }), 0).unwrap();
//! account.apply(Pay, serde_json::json!({ "cents": -50 }), 1).unwrap();
//! assert_eq!(account.state().json(), serde_json::json!({ "cents": 200 }));
//! # }
//! ```
//!
//! # Same input, same bytes
//!
//! The host runs a call again to find the record that broke it, and runs a new version of a plugin beside the old one to
//! compare them. So a function must give the same bytes for the same input: no clock, no random numbers, no state of its
//! own, and in states and outputs `BTreeMap` (or a `Vec`), never `HashMap`, whose order on wasm depends on addresses.
//!
//! # Reading and writing bytes
//!
//! [`Decode`] and [`Encode`] are the two sides. [`Json`] reads and writes through serde; `&str` and `String` are text;
//! `&[u8]` and `Vec<u8>` are the bytes as they are; `Option` of any of them is a value that may be null. A null for a type
//! that is no `Option`, or bytes that cannot be read, are rejected before the function is called.
//!
//! # Errors
//!
//! A function returns a [`Refusal`] to say what is to become of the record: [`Refusal::skip`] leaves it out,
//! [`Refusal::reject`] leaves it to the topology's `on_error`, [`Refusal::fail`] stops the task before it. A panic ends the
//! instance; its message and place reach the host's log.

// The macros below name this crate by its path, also from inside.
extern crate self as weir_guest;

mod aggregator;
#[doc(hidden)]
pub mod bindings;
mod codec;
#[doc(hidden)]
pub mod export;
pub mod flat;
mod joiner;
pub mod log;
mod record;
mod refusal;
pub mod testing;
mod transformer;
mod view;

pub use aggregator::{Aggregator, State};
pub use codec::{CodecError, Decode, Encode, Json, Presence};
pub use joiner::Joiner;
pub use record::{Header, Headers, Record};
pub use refusal::{Refusal, Verdict};
pub use transformer::{Output, Transformer};
pub use view::{Request, Response, Stores, View};
