//! `kill -9` at random moments, again and again.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use weir_tests::host::TIMEOUT;
use weir_tests::{Host, group, wait};

use super::Lives;
use crate::grown;

/// Random numbers of a seed.
struct Random(u64);

impl Random {
    /// A number below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }

    /// So many milliseconds at most.
    fn millis(&mut self, bound: u64) -> Duration {
        Duration::from_millis(self.below(bound + 1))
    }
}

/// How often a test kills: a number for every run, and one for `make test-slow`.
fn kills(usual: usize, slow: usize) -> usize {
    if weir_tests::is_slow_run() { slow } else { usual }
}

#[test]
fn at_random_moments_under_exactly_once() -> Result<()> {
    at_random_moments("exactly-once", kills(12, 50))
}

#[test]
fn at_random_moments_under_at_least_once() -> Result<()> {
    at_random_moments("at-least-once", kills(6, 20))
}

fn at_random_moments(guarantee: &'static str, kills: usize) -> Result<()> {
    // The same seed gives the same moments; what a process has done by then is not in our hands.
    let seed = match std::env::var("WEIR_SEED") {
        Ok(seed) => seed.parse().context("WEIR_SEED")?,
        Err(_) => u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() & u128::from(u64::MAX))?,
    };
    eprintln!("{guarantee}: {kills} kills, WEIR_SEED={seed}");
    let mut random = Random(seed);
    let mut lives = Lives::new(4, guarantee)?;
    let result = lives.live_again_and_again(&mut random, kills);
    let log = std::fs::read_to_string(lives.state.with_extension("log")).unwrap_or_default();
    result.with_context(|| format!("WEIR_SEED={seed}: {log}"))
}

impl Lives {
    /// So many lives, and the last one.
    fn live_again_and_again(&mut self, random: &mut Random, kills: usize) -> Result<()> {
        let progress = grown::progress(&self.broker)?;
        let part = self.left().len() / (kills + 1);
        let (start, mut amid) = (Instant::now(), 0);
        for _ in 0..kills {
            self.feed(part)?;
            amid += usize::from(self.live_for_a_while(random, &progress)?);
        }
        let guarantee = self.guarantee;
        eprintln!("{guarantee}: {amid} of {kills} processes died amid their records, {:?}", start.elapsed());
        self.end()
    }

    /// A life that ends at a random moment; whether there was something left to do.
    fn live_for_a_while(&self, random: &mut Random, progress: &group::Progress) -> Result<bool> {
        let before = progress.committed()?;
        let mut host = Host::spawn(&self.setup())?;
        match random.below(8) {
            // Any moment of a start.
            0 => wait::moment(random.millis(2500)),
            // A restart restores, joins, begins: soon after it has shown itself.
            1 => {
                wait::until("its status", TIMEOUT, || host.status()).with_context(|| host.log())?;
                wait::moment(random.millis(1500));
            }
            // From the first batch on.
            2..5 => {
                wait::until("processed records", TIMEOUT, || {
                    let processed = host.metric("weir_records_processed_total")?;
                    ensure!(processed > 0.0, "{processed}");
                    Ok(())
                })?;
                wait::moment(random.millis(150));
            }
            // From some commit on.
            _ => {
                let left = u64::try_from(i64::try_from(self.fed)? - before)?;
                let goal = before + i64::try_from(random.below(left.max(1)))? + 1;
                progress.wait(usize::try_from(goal)?, TIMEOUT).with_context(|| host.log())?;
                wait::moment(random.millis(60));
            }
        }
        host.kill()?;
        Ok(progress.committed()? < i64::try_from(self.fed)?)
    }
}
