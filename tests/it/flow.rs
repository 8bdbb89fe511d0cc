//! An input that flows while a test does something to those who process it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};

use anyhow::{Result, anyhow, ensure};
use weir_tests::host::TIMEOUT;
use weir_tests::topics::InputRecord;
use weir_tests::{Broker, group, topics, wait};

use crate::grown;

/// Records that the feeder writes at once.
pub(crate) const CHUNK: usize = 60;

/// What the feeder and the test share.
pub(crate) struct Flow<'a> {
    /// All records to write.
    records: &'a [InputRecord],
    /// The broker.
    broker: &'a Broker,
    /// How far the application is.
    progress: group::Progress,
    /// Records written so far.
    fed: AtomicUsize,
    /// The rest shall be written at once.
    stop: AtomicBool,
}

impl<'a> Flow<'a> {
    /// Records for the broker.
    pub(crate) fn new(broker: &'a Broker, records: &'a [InputRecord]) -> Result<Self> {
        let progress = grown::progress(broker)?;
        Ok(Self { records, broker, progress, fed: AtomicUsize::new(0), stop: AtomicBool::new(false) })
    }

    /// Writes them, always a little ahead of the commits, while `test` runs; then the rest.
    pub(crate) fn during(&self, test: impl FnOnce() -> Result<()>) -> Result<()> {
        thread::scope(|scope| {
            let feeder: ScopedJoinHandle<'_, Result<()>> = scope.spawn(|| self.feed());
            let result = test();
            self.stop.store(true, Ordering::SeqCst);
            let fed = feeder.join().map_err(|_| anyhow!("the feeder panicked"))?;
            result.and(fed)
        })
    }

    /// The feeder.
    fn feed(&self) -> Result<()> {
        for chunk in self.records.chunks(CHUNK) {
            topics::produce_all(&self.broker.bootstrap_servers(), chunk)?;
            let now = self.fed.fetch_add(chunk.len(), Ordering::SeqCst) + chunk.len();
            wait::until("progress", TIMEOUT, || {
                let committed = self.progress.committed()?;
                let near = usize::try_from(committed)? + 3 * CHUNK >= now || self.stop.load(Ordering::SeqCst);
                ensure!(near, "{committed} of {now} offsets");
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Waits until so many of `whole` equal parts are written.
    pub(crate) fn wait(&self, parts: usize, whole: usize) -> Result<()> {
        wait::until("records", TIMEOUT, || {
            let now = self.fed.load(Ordering::SeqCst);
            ensure!(now * whole >= self.records.len() * parts, "{now} records");
            Ok(())
        })
    }
}
