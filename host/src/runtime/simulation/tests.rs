//! The seeds, and the faults that they must find.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::coverage::Coverage;
use super::fault::Fault;
use super::play;

/// Seeds of a run that nobody has asked for more of.
const SEEDS: u64 = 10_000;

/// A number from the environment.
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}

/// Plays seeds from 0 on, on all cores, until one fails. Returns what was seen, and the first failure.
fn play_all(seeds: u64, fault: Option<Fault>) -> (Coverage, Option<(u64, String)>) {
    let next = AtomicU64::new(0);
    let outcome: Mutex<(Coverage, Option<(u64, String)>)> = Mutex::default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                let mut seen = Coverage::default();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        break;
                    }
                    let (of_seed, result) = play(seed, fault, false);
                    seen.add(&of_seed);
                    if let Err(why) = result {
                        next.store(seeds, Ordering::Relaxed);
                        let failed = &mut outcome.lock().unwrap().1;
                        if failed.as_ref().is_none_or(|(first, _)| seed < *first) {
                            *failed = Some((seed, why));
                        }
                    }
                }
                outcome.lock().unwrap().0.add(&seen);
            });
        }
    });
    outcome.into_inner().unwrap()
}

#[test]
fn outputs_and_state_equal_a_sequential_reference_whatever_happens() {
    if let Some(seed) = number("WEIR_SIMULATION_SEED") {
        let (seen, result) = play(seed, None, true);
        eprintln!("{}", seen.shown());
        return result.unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
    let seeds = number("WEIR_SIMULATION_SEEDS").unwrap_or(SEEDS);
    let start = Instant::now();
    let (seen, failed) = play_all(seeds, None);
    eprintln!("{seeds} seeds in {:?}: {}", start.elapsed(), seen.shown());
    if let Some((seed, why)) = failed {
        panic!("seed {seed}: {why}\nreplay it with WEIR_SIMULATION_SEED={seed}");
    }
    if seeds >= SEEDS {
        assert_eq!(seen.unseen(), [0; 0], "cases (in the order of `Seen`) that no seed exercises any more");
    }
}

#[test]
fn a_seed_replays_exactly() {
    for seed in 0..20 {
        let (first, second) = (play(seed, None, false), play(seed, None, false));
        assert_eq!(first.0.shown(), second.0.shown(), "seed {seed}");
    }
}

/// A fault is found within the seeds that always run.
fn check_found(fault: Fault) {
    match play_all(SEEDS, Some(fault)).1 {
        Some((seed, why)) => eprintln!("{fault:?} is found at seed {seed}: {why}"),
        None => panic!("{fault:?} is not found in {SEEDS} seeds"),
    }
}

#[test]
fn a_checkpoint_before_its_transaction_is_found() {
    check_found(Fault::CheckpointBeforeTransaction);
}

#[test]
fn offsets_before_their_state_are_found() {
    check_found(Fault::OffsetsBeforeState);
}

#[test]
fn a_marker_that_is_not_passed_is_found() {
    check_found(Fault::MarkerNotPassed);
}

#[test]
fn an_open_transaction_that_is_skipped_is_found() {
    check_found(Fault::OpenTransactionSkipped);
}

#[test]
fn what_is_lost_and_treated_as_revoked_is_found() {
    check_found(Fault::LostAsRevoked);
}

#[test]
fn offsets_of_an_earlier_generation_are_found() {
    check_found(Fault::NoGeneration);
}

#[test]
fn a_producer_that_is_not_initialised_is_found() {
    check_found(Fault::NoInit);
}

#[test]
fn a_checkpoint_over_rows_that_are_not_durable_is_found() {
    check_found(Fault::UnsettledCheckpoint);
}
