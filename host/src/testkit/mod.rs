//! The task's code without a broker, a clock or a thread: what a plugin author's tests and ours run on.

mod driver;
mod native;
#[cfg(test)]
mod tests;

pub use driver::{DriverError, MemoryState, TopologyTestDriver};
pub use native::{NativeFunction, NativeLogic};
