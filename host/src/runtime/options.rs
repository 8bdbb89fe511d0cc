//! Settings of an instance, from the topology file.

use std::time::Duration;

use crate::config::OffsetReset;
use crate::kafka::QueueLimits;
use crate::plan::MemoryPlan;
use crate::plugin::Limits;
use crate::task;
use crate::topology::Topology;

use super::instance::Options;

/// Least bytes that a guest may hand over at a time, however little memory there is.
const LEAST_RESULT: u64 = 4 << 20;

/// The options of an instance of this topology, whose memory is divided like this.
pub(super) fn options(topology: &Topology, memory: &MemoryPlan) -> Options {
    let app = &topology.app;
    let max_record_bytes = topology
        .kafka
        .get("message.max.bytes")
        .and_then(|bytes| bytes.parse::<usize>().ok())
        .unwrap_or(1_000_000)
        // What Kafka's record format adds to key, value and headers.
        .saturating_sub(512);
    Options {
        guarantee: app.guarantee,
        threads: app.threads.get(),
        commit_interval: app.commit_interval,
        overlay_bytes: bytes(memory.overlay),
        fetch_bytes: bytes(memory.queue),
        probe_interval: Duration::from_secs(1),
        persist_interval: Duration::from_secs(30),
        barrier: topology.barrier,
        task: task::Options { max_record_bytes, ..task::Options::default() },
        start_at_end: app.offset_reset == OffsetReset::Latest,
        close_timeout: Duration::from_secs(12),
        on_stop: app.on_stop,
        max_poll_interval: max_poll_interval(topology),
        cleanup_delay: topology.state.cleanup_delay,
    }
}

/// How long a thread may stand still; librdkafka's default is five minutes.
fn max_poll_interval(topology: &Topology) -> Duration {
    let set = topology.kafka.get("max.poll.interval.ms").and_then(|ms| ms.parse().ok());
    Duration::from_millis(set.unwrap_or(300_000))
}

/// What Kafka clients may hold.
pub(super) fn queue_limits(memory: &MemoryPlan) -> QueueLimits {
    QueueLimits { partition: bytes(memory.queue), answer: bytes(memory.answer), producer: bytes(memory.producer) }
}

/// What a plugin may use, in these options and this share of memory.
pub(super) fn limits(options: &crate::config::PluginOptions, memory: &MemoryPlan) -> Limits {
    let limits = Limits { memory: options.memory.0, call_timeout: options.call_timeout, ..Limits::default() };
    // An answer becomes uncommitted state and outputs: there is room for as much, and for some records of the largest size.
    let result_bytes = memory.overlay.max(memory.producer).clamp(LEAST_RESULT, limits.result_bytes);
    Limits { result_bytes, ..limits }
}

/// A number of bytes as the machine counts them.
pub(super) fn bytes(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
