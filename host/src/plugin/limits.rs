//! What a guest may use: CPU time, memory, tables, log. Bounds are checked here, without wasmtime's stores or clocks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use wasmtime::ResourceLimiter;

use super::memory::{Claim, Memory};

/// Stack of a guest's calls, for all plugins: the engine compiles the check in.
pub(super) const STACK_BYTES: usize = 512 << 10;
/// Core instances of a component, adapters included: one module makes about three.
const MAX_INSTANCES: usize = 100;
/// Linear memories of a component.
const MAX_MEMORIES: usize = 10;
/// Tables of a component.
const MAX_TABLES: usize = 100;

/// Limits of one plugin; each of its instances has them for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of linear memory of an instance, over all its memories.
    pub memory: u64,
    /// CPU time of a call, to which [`Self::record_timeout`] is added for each record of the batch.
    pub call_timeout: Duration,
    /// CPU time that each record of a batch adds to its call's.
    pub record_timeout: Duration,
    /// CPU time of an instance's start: instantiation and `init`, each.
    pub start_timeout: Duration,
    /// CPU time of a view's answer, store reads included; also how long a request waits for a free instance.
    pub view_timeout: Duration,
    /// Bytes that a guest may hand over at a time: the answer of a call, or the arguments of an import.
    pub result_bytes: u64,
    /// Elements of all tables of an instance.
    pub table_elements: u64,
    /// Log lines of a call; what is over is dropped and counted.
    pub log_lines: u32,
    /// Bytes of log lines of a call.
    pub log_bytes: u32,
}

impl Default for Limits {
    /// Room for a generous JSON plugin: raising a bound costs only what guests then really use.
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            call_timeout: Duration::from_millis(100),
            record_timeout: Duration::from_millis(1),
            start_timeout: Duration::from_secs(1),
            view_timeout: Duration::from_secs(1),
            result_bytes: 32 << 20,
            table_elements: 100_000,
            log_lines: 100,
            log_bytes: 64 << 10,
        }
    }
}

impl Limits {
    /// CPU time of a call with `records` records.
    pub(super) fn batch_timeout(&self, records: usize) -> Duration {
        let records = u32::try_from(records).unwrap_or(u32::MAX);
        self.call_timeout.saturating_add(self.record_timeout.saturating_mul(records))
    }
}

/// A count of bytes for people: exact in MiB where that is whole.
pub(super) struct ByteCount(pub(super) u64);

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        for (unit, name) in UNITS {
            if self.0 >= unit && self.0.is_multiple_of(unit) {
                return write!(f, "{} {name}", self.0 / unit);
            }
        }
        write!(f, "{} bytes", self.0)
    }
}

/// Growth that was refused to a guest. It usually traps soon after: then this is the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RefusedGrowth {
    /// Linear memory.
    Memory {
        /// Bytes it would have had.
        wanted: u64,
        /// Bytes it may have.
        limit: u64,
    },
    /// Tables.
    Table {
        /// Elements it would have had.
        wanted: u64,
        /// Elements it may have.
        limit: u64,
    },
}

impl fmt::Display for RefusedGrowth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory { wanted, limit } => {
                write!(f, "it wanted {} of memory; its limit is {}", ByteCount(*wanted), ByteCount(*limit))
            }
            Self::Table { wanted, limit } => write!(f, "it wanted {wanted} table elements; its limit is {limit}"),
        }
    }
}

/// Counts what an instance's memories and tables hold.
#[derive(Debug)]
pub(super) struct Growth {
    /// Bytes of memory it may have.
    memory_limit: u64,
    /// Table elements it may have.
    table_limit: u64,
    /// Bytes of memory it has.
    memory: u64,
    /// `memory` before the last permitted growth, for a growth that then failed.
    memory_before: u64,
    /// Table elements it has.
    table: u64,
    /// `table` before the last permitted growth.
    table_before: u64,
    /// What it has of the memory of all instances.
    claim: Claim,
    /// Growth refused since the call began.
    refused: Option<RefusedGrowth>,
}

impl Growth {
    /// Nothing is used yet.
    pub(super) fn new(limits: &Limits, memory: &Arc<Memory>) -> Self {
        Self {
            memory_limit: limits.memory,
            table_limit: limits.table_elements,
            memory: 0,
            memory_before: 0,
            table: 0,
            table_before: 0,
            claim: Claim::new(memory),
            refused: None,
        }
    }

    /// A call begins.
    pub(super) fn begin_call(&mut self) {
        self.refused = None;
    }

    /// Bytes of memory it has.
    pub(super) fn memory(&self) -> u64 {
        self.memory
    }

    /// Whether that is more than its share.
    pub(super) fn is_beyond(&self) -> bool {
        self.claim.is_beyond()
    }

    /// Growth refused since the call began.
    pub(super) fn refused(&self) -> Option<&RefusedGrowth> {
        self.refused.as_ref()
    }
}

/// What all have together when one grows from `current` to `desired`.
fn grown(total: u64, current: usize, desired: usize) -> u64 {
    let bytes = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    total.saturating_sub(bytes(current)).saturating_add(bytes(desired))
}

impl ResourceLimiter for Growth {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let wanted = grown(self.memory, current, desired);
        self.memory_before = self.memory;
        if wanted > self.memory_limit {
            self.refused = Some(RefusedGrowth::Memory { wanted, limit: self.memory_limit });
            return Ok(false);
        }
        self.claim.set(wanted);
        self.memory = wanted;
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.memory = self.memory_before;
        self.claim.set(self.memory);
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let wanted = grown(self.table, current, desired);
        self.table_before = self.table;
        if wanted > self.table_limit {
            self.refused = Some(RefusedGrowth::Table { wanted, limit: self.table_limit });
            return Ok(false);
        }
        self.table = wanted;
        Ok(true)
    }

    fn table_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.table = self.table_before;
        Ok(())
    }

    fn instances(&self) -> usize {
        MAX_INSTANCES
    }

    fn tables(&self) -> usize {
        MAX_TABLES
    }

    fn memories(&self) -> usize {
        MAX_MEMORIES
    }
}

/// CPU time of one call.
///
/// Looked at when the epoch changes, not at the call's begin: asking the system for a thread's CPU time costs as much as
/// a small call. So a call may use one epoch more than its limit.
#[derive(Debug, Default)]
pub(super) struct CpuClock {
    /// What the call may use.
    limit: Duration,
    /// The thread's CPU time at the first epoch change within the call.
    since: Option<Duration>,
    /// Whether the call has used more than its limit.
    exceeded: bool,
}

impl CpuClock {
    /// A call begins.
    pub(super) fn begin_call(&mut self, limit: Duration) {
        *self = Self { limit, since: None, exceeded: false };
    }

    /// The epoch has changed, at CPU time `now` of this thread. Whether the call may go on.
    pub(super) fn tick(&mut self, now: Duration) -> bool {
        let since = *self.since.get_or_insert(now);
        self.exceeded = now.saturating_sub(since) > self.limit;
        !self.exceeded
    }

    /// The limit, if the call has used more.
    pub(super) fn exceeded(&self) -> Option<Duration> {
        self.exceeded.then_some(self.limit)
    }
}

/// Log lines of one call.
#[derive(Debug)]
pub(super) struct LogBudget {
    /// Lines a call may write.
    lines: u32,
    /// Bytes a call may write.
    bytes: u32,
    /// Lines left.
    lines_left: u32,
    /// Bytes left.
    bytes_left: u32,
    /// Lines dropped.
    dropped: u64,
}

impl LogBudget {
    /// A whole budget.
    pub(super) fn new(limits: &Limits) -> Self {
        let Limits { log_lines: lines, log_bytes: bytes, .. } = *limits;
        Self { lines, bytes, lines_left: lines, bytes_left: bytes, dropped: 0 }
    }

    /// A call begins.
    pub(super) fn begin_call(&mut self) {
        self.lines_left = self.lines;
        self.bytes_left = self.bytes;
        self.dropped = 0;
    }

    /// Whether a line of `len` bytes may be written; counts it.
    pub(super) fn admit(&mut self, len: usize) -> bool {
        let fits = u32::try_from(len).ok().and_then(|len| self.bytes_left.checked_sub(len));
        match (fits, self.lines_left.checked_sub(1)) {
            (Some(bytes), Some(lines)) => {
                self.bytes_left = bytes;
                self.lines_left = lines;
                true
            }
            _ => {
                self.dropped += 1;
                false
            }
        }
    }

    /// Lines dropped since the call began.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The growth of an instance that is alone.
    fn growth(limits: Limits) -> Growth {
        Growth::new(&limits, &Memory::new(u64::MAX, u64::MAX))
    }

    #[test]
    fn memories_are_counted_together() {
        let mut growth = growth(Limits { memory: 100, ..Limits::default() });
        assert!(growth.memory_growing(0, 60, None).unwrap());
        assert!(growth.memory_growing(0, 40, None).unwrap());
        assert!(!growth.memory_growing(60, 61, None).unwrap());
        assert_eq!(growth.refused(), Some(&RefusedGrowth::Memory { wanted: 101, limit: 100 }));
        growth.begin_call();
        assert_eq!(growth.refused(), None);
    }

    #[test]
    fn growth_that_failed_is_not_counted() {
        let mut growth = growth(Limits { memory: 100, ..Limits::default() });
        assert!(growth.memory_growing(0, 90, Some(50)).unwrap());
        growth.memory_grow_failed(wasmtime::Error::msg("over its own maximum")).unwrap();
        assert!(growth.memory_growing(0, 100, None).unwrap());
    }

    #[test]
    fn tables_are_bounded() {
        let mut growth = growth(Limits { table_elements: 10, ..Limits::default() });
        assert!(growth.table_growing(0, 10, None).unwrap());
        assert!(!growth.table_growing(10, 11, None).unwrap());
        assert_eq!(growth.refused().unwrap().to_string(), "it wanted 11 table elements; its limit is 10");
    }

    #[test]
    fn a_call_has_its_limit_from_its_first_epoch_on() {
        let ms = Duration::from_millis;
        let mut clock = CpuClock::default();
        clock.begin_call(ms(100));
        assert!(clock.tick(ms(5000)));
        // A descheduled thread uses no CPU time, however many epochs pass.
        assert!(clock.tick(ms(5000)));
        assert!(clock.tick(ms(5100)));
        assert_eq!(clock.exceeded(), None);
        assert!(!clock.tick(ms(5101)));
        assert_eq!(clock.exceeded(), Some(ms(100)));
        clock.begin_call(ms(1));
        assert_eq!(clock.exceeded(), None);
    }

    #[test]
    fn a_batch_has_more_time_than_a_record() {
        let limits = Limits::default();
        assert_eq!(limits.batch_timeout(256), Duration::from_millis(356));
        assert_eq!(limits.batch_timeout(usize::MAX), limits.call_timeout + Duration::from_millis(1) * u32::MAX);
    }

    #[test]
    fn a_log_is_bounded_in_lines_and_bytes() {
        let mut log = LogBudget::new(&Limits { log_lines: 3, log_bytes: 10, ..Limits::default() });
        assert_eq!([4, 7, 6, 0, 0].map(|len| log.admit(len)), [true, false, true, true, false]);
        assert_eq!(log.dropped(), 2);
        log.begin_call();
        assert!(log.admit(10));
        assert_eq!(log.dropped(), 0);
    }

    #[test]
    fn bytes_are_told_in_whole_units() {
        let told = [64 << 20, 512 << 10, 1 << 30, 1000, (1 << 20) + 1].map(|n| ByteCount(n).to_string());
        assert_eq!(told, ["64 MiB", "512 KiB", "1 GiB", "1000 bytes", "1048577 bytes"]);
    }
}
