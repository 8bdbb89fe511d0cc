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
const WRITE_BUFFER: (usize, usize) = (1 << 20, 16 << 20);
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

/// Shared by all databases of the process: cache, write buffers, background threads. Cloning shares them.
#[derive(Clone)]
pub struct Resources {
    /// Blocks read, and the write buffers' bytes.
    cache: Cache,
    /// Counts and bounds the bytes of all write buffers.
    buffers: WriteBufferManager,
    /// Bytes of one database's write buffer.
    write_buffer: usize,
}

impl Resources {
    /// Shares `memory_bytes` between the block cache (with indexes and filters) and the write buffers, which get a third at most.
    pub fn new(memory_bytes: u64) -> Self {
        let memory = usize::try_from(memory_bytes).unwrap_or(usize::MAX);
        let cache = Cache::new_lru_cache(memory);
        let budget = memory / 3;
        // Never stalls writers for memory: idle databases may hold all of the budget, and only a write flushes.
        let buffers = WriteBufferManager::new_write_buffer_manager_with_cache(budget, false, cache.clone());
        Self { cache, buffers, write_buffer: (budget / 8).clamp(WRITE_BUFFER.0, WRITE_BUFFER.1) }
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
        let jobs = available_parallelism().map_or(JOBS.0, |cores| cores.get().clamp(JOBS.0, JOBS.1));
        options.set_max_background_jobs(i32::try_from(jobs).unwrap_or(i32::MAX));

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
