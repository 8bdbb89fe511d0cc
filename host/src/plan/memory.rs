//! How `state.memory` is divided: the one number covers everything that grows, and each part is bounded by its share.
//!
//! Each part has a least that it cannot work without. What is left above all of these is handed out in shares; a part that has
//! as much as it can use leaves the rest to the stores, whose block cache can always use more. The instance may get all partitions
//! of its inputs, so it is all of them that count.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use serde::Serialize;

use crate::config::{ByteSize, Guarantee};
use crate::topology::{StoreKind, Topology};

use super::{FunctionKind, Plan, StoreOrigin};

/// A mebibyte.
const MIB: u64 = 1 << 20;
/// The program before it does anything: the touched part of its code and data, allocator, HTTP server, Kafka's metadata and connections.
const PROGRAM: u64 = 40 * MIB;
/// What a stream thread adds: the touched part of its stack, its clients' threads and connections.
const THREAD: u64 = 2 * MIB;
/// What a plugin adds: its machine code, that of the version before, and what compiling it leaves in the allocator.
const COMPILED: u64 = 8 * MIB;
/// What the allocator holds besides what is in use: one part of so many of the whole.
const SLACK: u64 = 8;

/// Queues of a partition that is read: librdkafka's, one fetch on top of it, and the task's.
const QUEUES: u64 = 3;
/// Least bytes of each: one batch must always be admissible.
const LEAST_QUEUE: u64 = 64 << 10;
/// Most: more would only add to the delay.
const MOST_QUEUE: u64 = MIB;
/// Consumers that fetch: of streams, and of tables and changelogs.
const CONSUMERS: u64 = 2;
/// Least bytes of an answer to one fetch, over all its partitions.
const LEAST_ANSWER: u64 = MIB;
/// Most.
const MOST_ANSWER: u64 = 8 * MIB;
/// Largest record by default (`message.max.bytes`).
const RECORD: u64 = 1_000_000;
/// Records of the largest size that a producer's queue can hold at least.
const PRODUCER_RECORDS: u64 = 2;
/// Most bytes of a producer's queue.
const MOST_PRODUCER: u64 = 64 * MIB;
/// How often a thread holds its uncommitted state at the worst moment: in the overlay, in the batch for the store, and as the answer of
/// a plugin that it comes from.
const COPIES: u64 = 3;
/// Least bytes of a thread's uncommitted state.
const LEAST_OVERLAY: u64 = 2 * MIB;
/// Most: more makes commits long.
const MOST_OVERLAY: u64 = 64 * MIB;
/// Instances of plugins that answer views, at most.
pub const VIEW_INSTANCES: usize = 4;
/// Instances that are tried when plugins become active, and described when one is deployed.
const TRIED: u64 = 2;
/// Least memory that each instance of a plugin has for itself.
const LEAST_INSTANCE: u64 = 2 * MIB;
/// Most.
const MOST_INSTANCE: u64 = 16 * MIB;
/// What stores need whatever their number: some blocks of cache, and what compactions read ahead.
const STORES: u64 = 16 * MIB;
/// What each database adds: a small write buffer, and buffers of its files.
const DATABASE: u64 = 512 << 10;

/// Shares of what is left above the minima, in hundredths. The stores get the rest.
mod share {
    /// Plugins' instances.
    pub(super) const PLUGINS: u64 = 10;
    /// Queues of partitions.
    pub(super) const QUEUES: u64 = 18;
    /// Answers to fetches.
    pub(super) const ANSWERS: u64 = 2;
    /// Queues of producers.
    pub(super) const PRODUCERS: u64 = 10;
    /// Uncommitted state.
    pub(super) const OVERLAYS: u64 = 20;
}

/// How much memory each part of an instance may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Everything.
    pub total: u64,
    /// What no part accounts for: code, stacks, machine code of plugins, the allocator's own.
    pub headroom: u64,
    /// Block cache with indexes and filters, write buffers and compactions of all databases.
    pub stores: u64,
    /// Databases that share it.
    pub databases: u64,
    /// The bounds of all memory stores together.
    pub memory_stores: u64,
    /// Uncommitted state of a stream thread.
    pub overlay: u64,
    /// Stream threads.
    pub threads: u64,
    /// A queue of a partition: librdkafka's, and the task's.
    pub queue: u64,
    /// Partitions that are read.
    pub partitions: u64,
    /// The answer to one fetch, over all its partitions.
    pub answer: u64,
    /// The queue of one producer.
    pub producer: u64,
    /// Producers.
    pub producers: u64,
    /// What each instance of a plugin has for itself.
    pub instance: u64,
    /// Instances of plugins.
    pub instances: u64,
    /// What one instance at a time may take beyond its own.
    pub reserve: u64,
}

/// A part and its bytes, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryPart {
    /// Which.
    pub part: &'static str,
    /// How much it may take.
    pub memory: ByteSize,
    /// What that consists of.
    pub of: String,
}

/// `state.memory` is less than the minima of all parts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "state.memory is {total}, but this topology needs {needed} at least: {}; raise it, or lower app.threads or plugins' memory",
    list(parts)
)]
pub struct TooLittleMemory {
    /// What it is.
    pub total: ByteSize,
    /// What it must be: whole mebibytes.
    pub needed: ByteSize,
    /// The minima.
    pub parts: Vec<MemoryPart>,
}

/// Parts in a sentence.
fn list(parts: &[MemoryPart]) -> String {
    let parts: Vec<String> =
        parts.iter().map(|part| format!("{} for {} ({})", Rounded(part.memory.0), part.part, part.of)).collect();
    parts.join(", ")
}

/// What there is to divide over.
struct Demand {
    /// `state.memory`.
    total: u64,
    /// Stream threads.
    threads: u64,
    /// Plugins.
    plugins: u64,
    /// Instances of plugins.
    instances: u64,
    /// The largest bound of an instance.
    largest: u64,
    /// Producers.
    producers: u64,
    /// Partitions that are read.
    partitions: u64,
    /// Databases.
    databases: u64,
    /// Bounds of all memory stores.
    memory_stores: u64,
    /// The largest record.
    record: u64,
}

impl MemoryPlan {
    /// Divides the memory of `topology`, whose plan is `plan`. `counts`: the partitions of its topics; of those that are not
    /// known one counts, so that an empty map tells what is too little in any case.
    pub fn divide(plan: &Plan, topology: &Topology, counts: &BTreeMap<String, i32>) -> Result<Self, TooLittleMemory> {
        Demand::new(plan, topology, counts).divide()
    }

    /// The parts, which make up the whole.
    pub fn parts(&self) -> Vec<MemoryPart> {
        let part = |part, bytes: u64, of: String| MemoryPart { part, memory: ByteSize(bytes), of };
        let parts = [
            part(
                "stores",
                self.stores,
                format!("cache, indexes, write buffers and compactions of {}", count(self.databases, "database")),
            ),
            part(
                "uncommitted state",
                self.threads * COPIES * self.overlay,
                format!("{} of {} in up to {COPIES} copies", count(self.threads, "thread"), Rounded(self.overlay)),
            ),
            part(
                "fetched records",
                self.fetched(),
                format!(
                    "{} of {} for {}, {CONSUMERS} fetches of {}",
                    count(QUEUES, "queue"),
                    Rounded(self.queue),
                    count(self.partitions, "partition"),
                    Rounded(self.answer)
                ),
            ),
            part(
                "records to send",
                self.producers * self.producer,
                format!("{} of {}", count(self.producers, "producer"), Rounded(self.producer)),
            ),
            part(
                "plugins",
                self.instances * self.instance + self.reserve,
                format!(
                    "{} of {}, {} more for one at a time",
                    count(self.instances, "instance"),
                    Rounded(self.instance),
                    Rounded(self.reserve)
                ),
            ),
            part("memory stores", self.memory_stores, "the sum of their max_memory".to_owned()),
            part("headroom", self.headroom, HEADROOM.to_owned()),
        ];
        parts.into_iter().filter(|part| part.memory.0 > 0).collect()
    }

    /// Bytes of all fetched records.
    fn fetched(&self) -> u64 {
        self.partitions * QUEUES * self.queue + CONSUMERS * self.answer
    }

    /// Bytes of all parts together.
    fn sum(&self) -> u64 {
        self.parts().iter().map(|part| part.memory.0).fold(0, u64::saturating_add)
    }
}

/// What the headroom is for.
const HEADROOM: &str = "code, stacks, compiled plugins, what the allocator holds back";

impl Demand {
    /// What `plan` needs with these partitions.
    fn new(plan: &Plan, topology: &Topology, counts: &BTreeMap<String, i32>) -> Self {
        let of = |topic: &str| counts.get(topic).map_or(1, |count| u64::try_from(*count).unwrap_or(0));
        let (mut partitions, mut databases, mut memory_stores) = (0_u64, 0, 0_u64);
        let bound = |kind| match kind {
            StoreKind::Memory { max_bytes } => max_bytes,
            StoreKind::RocksDb => 0,
        };
        for part in &plan.subtopologies {
            let tasks = part.sources.iter().map(|source| of(&source.topic)).max().unwrap_or(0);
            databases += tasks;
            partitions += part.sources.iter().map(|source| of(&source.topic)).sum::<u64>();
            for store in &part.stores {
                memory_stores = memory_stores.saturating_add(tasks.saturating_mul(bound(store.kind)));
                if matches!(store.origin, StoreOrigin::Changelog { .. }) {
                    partitions += tasks;
                }
            }
        }
        for table in &plan.global_tables {
            databases += 1;
            partitions += of(&table.topic);
            memory_stores = memory_stores.saturating_add(bound(table.kind));
        }
        // Without streams and tables there are no stream threads.
        let threads = if plan.subtopologies.is_empty() { 0 } else { topology.app.threads.get() as u64 };
        let called = |name: &String, views: bool| {
            plan.functions.iter().any(|used| used.plugin == *name && (used.kind == FunctionKind::View) == views)
        };
        let on_threads = topology.plugins.keys().filter(|name| called(name, false)).count() as u64;
        let views = topology.plugins.keys().any(|name| called(name, true));
        let plugins = topology.plugins.len() as u64;
        let for_views = if views { VIEW_INSTANCES as u64 } else { 0 };
        let record = topology.kafka.get("message.max.bytes").and_then(|bytes| bytes.parse().ok()).unwrap_or(RECORD);
        Self {
            total: topology.state.memory.0,
            threads,
            plugins,
            instances: if plugins == 0 { 0 } else { threads * on_threads + for_views + TRIED },
            largest: topology.plugins.values().map(|options| options.memory.0).max().unwrap_or(0),
            producers: threads * if topology.app.guarantee == Guarantee::AtLeastOnce { 2 } else { 1 },
            partitions,
            databases,
            memory_stores,
            record,
        }
    }

    /// What every part needs at least.
    fn least(&self) -> MemoryPlan {
        let headroom = PROGRAM + self.threads * THREAD + self.plugins * COMPILED + self.total / SLACK;
        let instance = LEAST_INSTANCE.min(self.largest);
        MemoryPlan {
            total: self.total,
            headroom,
            stores: STORES + self.databases * DATABASE,
            databases: self.databases,
            memory_stores: self.memory_stores,
            overlay: LEAST_OVERLAY,
            threads: self.threads,
            queue: LEAST_QUEUE,
            partitions: self.partitions,
            answer: LEAST_ANSWER.max(self.record),
            producer: PRODUCER_RECORDS * self.record,
            producers: self.producers,
            instance,
            instances: self.instances,
            reserve: self.largest - instance,
        }
    }

    /// Divides.
    fn divide(&self) -> Result<MemoryPlan, TooLittleMemory> {
        let mut plan = self.least();
        let least = plan.sum();
        let Some(left) = self.total.checked_sub(least) else {
            // The allocator's part grows with the whole.
            let needed = (least - self.total / SLACK).saturating_mul(SLACK).div_ceil(SLACK - 1);
            let needed = ByteSize::mib(needed.div_ceil(MIB));
            return Err(TooLittleMemory { total: ByteSize(self.total), needed, parts: plan.parts() });
        };
        let each = |share: u64, count: u64| left / 100 * share / count.max(1);
        let more = |least: u64, share: u64, most: u64| (least + share).min(most.max(least));
        let before = plan.instance;
        plan.instance = more(plan.instance, each(share::PLUGINS, self.instances), MOST_INSTANCE.min(self.largest));
        // What an instance has for itself it needs not take from the reserve.
        plan.reserve -= plan.instance - before;
        plan.queue = more(plan.queue, each(share::QUEUES, self.partitions * QUEUES), MOST_QUEUE);
        plan.answer = more(plan.answer, each(share::ANSWERS, CONSUMERS), MOST_ANSWER);
        plan.producer = more(plan.producer, each(share::PRODUCERS, self.producers), MOST_PRODUCER);
        plan.overlay = more(plan.overlay, each(share::OVERLAYS, self.threads * COPIES), MOST_OVERLAY);
        plan.stores += self.total - plan.sum();
        Ok(plan)
    }
}

/// Bytes for people, in MiB or KiB, rounded down.
struct Rounded(u64);

impl Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes >= 10 * MIB => write!(f, "{} MiB", bytes / MIB),
            bytes => write!(f, "{} KiB", bytes >> 10),
        }
    }
}

/// `1 thread`, `2 threads`.
fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests;
