//! `[state]`: where state is kept, and the memory of the process.

use std::path::PathBuf;
use std::time::Duration;

use super::section::Section;
use super::{At, ByteSize, Place};

/// `[state]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateOptions {
    /// `dir`: the folder of the stores, relative to the topology file. Default `state`.
    pub dir: PathBuf,
    /// `memory`: everything: caches, write buffers, overlays, queues, memory stores, plugins, and headroom for the rest. Divided by
    /// `plan::MemoryPlan`, which refuses less than all parts need. Default 512 MiB.
    pub memory: ByteSize,
    /// `cleanup_delay`: how long the state of a task that has moved to another instance is kept for its return (as Kafka
    /// Streams' `state.cleanup.delay.ms`). Default 10 min.
    pub cleanup_delay: Duration,
    /// `standby`: losses of instances that leave every task a place where its state is kept up to date already, each about one
    /// more copy of the state in the cluster (as Kafka Streams' `num.standby.replicas`). Default 0: a task that moves is restored.
    pub standby: usize,
    /// Where `memory` stands, or the section.
    pub(crate) memory_place: Place,
}

impl StateOptions {
    /// Default of `memory`.
    const MEMORY: ByteSize = ByteSize::mib(512);
    /// Least `memory`: RocksDB's minima and one plugin.
    const MIN_MEMORY: ByteSize = ByteSize::mib(64);
    /// Most `memory`: beyond any machine; a slip of the unit.
    const MAX_MEMORY: ByteSize = ByteSize::mib(64 << 20);
    /// Most `standby`: more copies than anyone keeps of anything.
    const MAX_STANDBY: u64 = 16;

    /// Default of `cleanup_delay`.
    const CLEANUP_DELAY: Duration = Duration::from_secs(600);
    /// Longest `cleanup_delay`: a year, for "never".
    const MAX_CLEANUP_DELAY: Duration = Duration::from_secs(365 * 24 * 3600);

    /// The section's options.
    pub(crate) fn read(mut section: Section<'_>) -> Self {
        let default = At { value: "state".to_owned(), place: Place::default() };
        let dir = match section.value("dir") {
            Some(_) => section.required_text("dir", "state"),
            None => default,
        };
        let memory_place = section.value("memory").map_or(section.place, |memory| memory.place);
        let memory = section.bytes("memory", Self::MIN_MEMORY..=Self::MAX_MEMORY, "512 MiB").unwrap_or(Self::MEMORY);
        let cleanup_delay = section
            .duration("cleanup_delay", Duration::from_secs(1)..=Self::MAX_CLEANUP_DELAY, "10 min")
            .unwrap_or(Self::CLEANUP_DELAY);
        let standby = section.integer("standby", 0..=Self::MAX_STANDBY).unwrap_or_default();
        let standby = usize::try_from(standby).unwrap_or_default();
        let options = Self { dir: section.report.origins.resolve(&dir), memory, cleanup_delay, standby, memory_place };
        section.finish();
        options
    }
}
