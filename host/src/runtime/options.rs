//! Settings of an instance, from the topology file.

use std::time::Duration;

use crate::config::OffsetReset;
use crate::task;
use crate::topology::Topology;

use super::instance::Options;

/// How the configured memory is divided: shares of a hundred.
///
/// Stores get half (block cache with write buffers charged to it). The rest covers uncommitted state, fetched records
/// (in librdkafka's queues and in tasks) and producers' buffers; plugins have limits of their own.
const STORES: u64 = 50;
/// Share of uncommitted state, over all threads.
const OVERLAYS: u64 = 15;
/// Share of fetched records in tasks, over all partitions; librdkafka's queues get as much again.
const FETCHED: u64 = 10;
/// A partition's fetched records never get less than this: one batch must always be admissible.
const LEAST_FETCHED: u64 = 64 * 1024;
/// Nor more: it would only add to the delay.
const MOST_FETCHED: u64 = 1024 * 1024;

/// How a topology's memory is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    /// Bytes for stores.
    pub(super) stores: u64,
    /// Bytes of uncommitted state a thread.
    pub(super) overlay: usize,
    /// Bytes of fetched records a partition: in its task, and in librdkafka's queue.
    pub(super) fetched: usize,
}

impl Memory {
    /// Divides `bytes` over `threads` and `partitions`.
    pub(super) fn divide(bytes: u64, threads: usize, partitions: usize) -> Self {
        let share = |percent: u64| bytes / 100 * percent;
        let each = |bytes: u64, count: usize| bytes / (count.max(1) as u64);
        let overlay = each(share(OVERLAYS), threads);
        let fetched = each(share(FETCHED), partitions).clamp(LEAST_FETCHED, MOST_FETCHED);
        Self {
            stores: share(STORES),
            overlay: usize::try_from(overlay).unwrap_or(usize::MAX),
            fetched: usize::try_from(fetched).unwrap_or(usize::MAX),
        }
    }
}

/// The options of an instance of this topology.
pub(super) fn options(topology: &Topology, memory: Memory) -> Options {
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
        overlay_bytes: memory.overlay,
        fetch_bytes: memory.fetched,
        probe_interval: Duration::from_secs(1),
        persist_interval: Duration::from_secs(30),
        barrier: topology.barrier,
        task: task::Options { max_record_bytes, ..task::Options::default() },
        start_at_end: app.offset_reset == OffsetReset::Latest,
        close_timeout: Duration::from_secs(12),
        on_stop: app.on_stop,
        cleanup_delay: topology.state.cleanup_delay,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_stay_under_the_whole() {
        for (bytes, threads, partitions) in [(512 << 20, 8, 64), (64 << 20, 1, 1), (8 << 30, 16, 1000)] {
            let memory = Memory::divide(bytes, threads, partitions);
            let sum = memory.stores + (memory.overlay * threads) as u64 + 2 * (memory.fetched * partitions) as u64;
            assert!(sum <= bytes, "{sum} of {bytes}");
        }
    }
}
