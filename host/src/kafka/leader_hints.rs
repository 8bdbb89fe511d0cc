//! Switches off what librdkafka makes of the leaders that brokers name in answers to fetch and produce requests (KIP-951).
//!
//! A broker that has just come back names none (-1). librdkafka up to 2.12.1 and later counts such a partition but leaves its
//! place in the list empty (confluentinc/librdkafka#5280): it then takes what the memory happens to hold for a partition's number
//! and leader, and in the end crashes. There is no setting against it. So the linker puts the function below in the place of
//! librdkafka's (`--wrap`, see `build.rs`). Leaders are found as by older clients: the error in the same answer makes the client
//! ask for metadata.

use std::ffi::{c_int, c_void};

/// librdkafka's `RD_KAFKA_OP_RES_HANDLED`: the caller frees what it has handed over.
const HANDLED: c_int = 1;

/// Instead of `rd_kafka_metadata_update_op`: does nothing.
// SAFETY: no other function has the name; the linker's option makes it up. It touches neither argument.
#[unsafe(no_mangle)]
extern "C" fn __wrap_rd_kafka_metadata_update_op(_client: *mut c_void, _metadata: *mut c_void) -> c_int {
    HANDLED
}
