//! How much memory each part of the instance takes now. What threads hold they tell from time to time; the rest is asked for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::model::{MemoryPartStatus, MemoryStatus};
use crate::plan::MemoryPlan;
use crate::plugin::Engine;
use crate::store::Resources;

/// The number under which the thread of global tables tells what it holds; stream threads have their own.
pub(super) const GLOBAL_TABLES: usize = usize::MAX;

/// What a thread holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ThreadMemory {
    /// Uncommitted state of its tasks.
    pub(super) overlays: u64,
    /// Records fetched by its tasks and not yet processed.
    pub(super) queues: u64,
    /// Rows of its stores in memory.
    pub(super) memory_stores: u64,
}

impl ThreadMemory {
    /// Both together.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            overlays: self.overlays + other.overlays,
            queues: self.queues + other.queues,
            memory_stores: self.memory_stores + other.memory_stores,
        }
    }
}

/// Where the instance's memory can be seen; filled while it starts.
#[derive(Default)]
pub(super) struct MemoryUse {
    /// How it is divided.
    pub(super) plan: OnceLock<MemoryPlan>,
    /// Caches and write buffers.
    pub(super) resources: OnceLock<Resources>,
    /// Plugins' instances.
    pub(super) engine: OnceLock<Arc<Engine>>,
    /// What threads have told, by their number. Held for a look only.
    threads: Mutex<BTreeMap<usize, ThreadMemory>>,
}

impl MemoryUse {
    /// Notes what a thread holds now.
    pub(super) fn tell(&self, thread: usize, memory: ThreadMemory) {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).insert(thread, memory);
    }

    /// What every part takes now, beside what it may take.
    pub(super) fn status(&self) -> MemoryStatus {
        let Some(plan) = self.plan.get() else {
            return MemoryStatus { resident: resident(), ..MemoryStatus::default() };
        };
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let held = threads.values().copied().fold(ThreadMemory::default(), ThreadMemory::plus);
        let stores = self.resources.get().map_or(0, Resources::memory_used);
        let plugins = self.engine.get().map_or(0, |engine| engine.memory_used());
        let part = |part: &str, used, limit| MemoryPartStatus { part: part.to_owned(), used, limit };
        MemoryStatus {
            limit: plan.total,
            resident: resident(),
            parts: vec![
                part("stores", stores, plan.stores),
                part("memory-stores", held.memory_stores, plan.memory_stores),
                part("overlays", held.overlays, plan.threads * plan.overlay),
                part("queues", held.queues, plan.partitions * plan.queue),
                part("plugins", plugins, plan.instances * plan.instance + plan.reserve),
            ],
        }
    }
}

/// Bytes of the process that are in memory, where the system tells.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
