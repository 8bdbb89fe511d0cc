//! What all databases of the process share, and how they are tuned.
//!
//! Tuned for values of about a kilobyte, read one by one or in small batches, in many small databases.

use std::thread::available_parallelism;

use rocksdb::{
    BlockBasedOptions, Cache, DBCompressionType, DBRecoveryMode, InfoLogger, LogLevel, Options, WriteBufferManager,
};

/// Bits of a bloom filter for each key: about one false positive in a hundred.
const BLOOM_BITS: f64 = 10.0;
/// Share of a write buffer that is given to its own bloom filter.
const MEMTABLE_BLOOM: f64 = 0.02;
/// Smallest and largest write buffer of one database.
const WRITE_BUFFER: (usize, usize) = (512 << 10, 16 << 20);
/// A write buffer grows in steps of this, so that hundreds of idle ones take little.
const ARENA_BLOCK: usize = 64 << 10;
/// Largest log of a database. A start reads it again: a second at most.
const LOG_BYTES: u64 = 64 << 20;
/// Size of a data file.
const FILE_BYTES: u64 = 32 << 20;
/// Most files a database holds open; beyond 4 GiB in one task it opens them anew.
const OPEN_FILES: i32 = 128;
/// Most background jobs; their threads are shared by all databases of the process.
const JOBS: (usize, usize) = (2, 8);
/// What a compaction reads ahead of each of its files.
const READ_AHEAD: usize = 256 << 10;
/// What a file that is written (a log, a data file) collects before it is handed to the system.
const FILE_BUFFER: u64 = 256 << 10;
/// What is reserved on the disk for a database's list of files (RocksDB reserves 4 MiB): hundreds of databases may be small.
const MANIFEST: usize = 64 << 10;
/// What a compaction takes: some files' reading ahead, the block and the filter of the file it writes.
const JOB_BYTES: usize = 4 << 20;
/// What a database takes beside the cache: buffers of its files, the lists of what it consists of.
const DATABASE_BYTES: usize = 256 << 10;

/// Shared by all databases of the process: cache, write buffers, background threads. Cloning shares them.
#[derive(Clone)]
pub struct Resources {
    /// Blocks read, and the write buffers' bytes.
    cache: Cache,
    /// Counts and bounds the bytes of all write buffers.
    buffers: WriteBufferManager,
    /// Bytes of one database's write buffer.
    write_buffer: usize,
    /// Background jobs at a time.
    jobs: usize,
}

impl Resources {
    /// Shares `memory_bytes` between compactions, what each of `databases` needs for itself, the block cache (with indexes and
    /// filters) and the write buffers, which get a third of the cache at most.
    pub fn new(memory_bytes: u64, databases: usize) -> Self {
        let memory = usize::try_from(memory_bytes).unwrap_or(usize::MAX);
        let cores = available_parallelism().map_or(JOBS.0, std::num::NonZero::get);
        let jobs = (memory / 4 / JOB_BYTES).min(cores).clamp(JOBS.0, JOBS.1);
        let beside = databases.saturating_mul(DATABASE_BYTES).saturating_add(jobs * JOB_BYTES);
        let capacity = memory.saturating_sub(beside).max(memory / 4);
        let cache = Cache::new_lru_cache(capacity);
        let budget = capacity / 3;
        // Never stalls writers for memory: idle databases may hold all of the budget, and only a write flushes.
        let buffers = WriteBufferManager::new_write_buffer_manager_with_cache(budget, false, cache.clone());
        // Each database may fill one buffer while it writes another one to disk.
        let write_buffer = budget / databases.clamp(4, 64) / 2;
        Self { cache, buffers, write_buffer: write_buffer.clamp(WRITE_BUFFER.0, WRITE_BUFFER.1), jobs }
    }

    /// Bytes in use now, of cache and write buffers together.
    pub fn memory_used(&self) -> u64 {
        self.cache.get_usage() as u64
    }

    /// The options of a database.
    pub(super) fn options(&self) -> Options {
        let mut options = Options::default();
        options.create_if_missing(true);
        // A log that ends in half a batch is what kill -9 leaves: everything before it counts.
        options.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
        options.set_max_total_wal_size(LOG_BYTES);

        options.set_write_buffer_manager(&self.buffers);
        options.set_write_buffer_size(self.write_buffer);
        options.set_arena_block_size(ARENA_BLOCK);
        options.set_memtable_prefix_bloom_ratio(MEMTABLE_BLOOM);
        options.set_memtable_whole_key_filtering(true);

        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&self.cache);
        table.set_bloom_filter(BLOOM_BITS, false);
        table.set_cache_index_and_filter_blocks(true);
        table.set_cache_index_and_filter_blocks_with_high_priority(true);
        table.set_pin_l0_filter_and_index_blocks_in_cache(true);
        table.set_format_version(6);
        options.set_block_based_table_factory(&table);

        // Level 0 is written once, soon compacted, and not worth it; JSON below it shrinks to a half or a third.
        options.set_compression_per_level(&[DBCompressionType::None, DBCompressionType::Lz4]);
        options.set_target_file_size_base(FILE_BYTES);
        options.set_max_open_files(OPEN_FILES);
        options.set_skip_stats_update_on_db_open(true);
        options.set_max_background_jobs(i32::try_from(self.jobs).unwrap_or(i32::MAX));
        options.set_compaction_readahead_size(READ_AHEAD);
        options.set_writable_file_max_buffer_size(FILE_BUFFER);
        options.set_manifest_preallocation_size(MANIFEST);

        // No log files and no statistics thread in every task's folder: warnings go where ours go.
        options.set_stats_dump_period_sec(0);
        options.set_stats_persist_period_sec(0);
        options.set_info_logger(InfoLogger::new_callback_logger(LogLevel::Warn, |level, message| match level {
            LogLevel::Warn => tracing::warn!(target: "weir::store", "RocksDB: {}", message.trim()),
            LogLevel::Error | LogLevel::Fatal => tracing::error!(target: "weir::store", "RocksDB: {}", message.trim()),
            LogLevel::Debug | LogLevel::Info | LogLevel::Header => {}
        }));
        options
    }
}
