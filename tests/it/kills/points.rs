//! A process dies at each fault point; the next one goes on with what it left.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use weir::fault::POINTS;
use weir_tests::host::{TIMEOUT, plugin, was_killed};
use weir_tests::{Host, Setup, wait};

use super::Lives;
use crate::counted::{Counted, ensure_ended, terminate};
use crate::crash::THREADS;
use crate::projekt::wait_caught_up;
use crate::rewind::fence;

/// What brings a process to a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Its start; nothing is processed.
    Start,
    /// Records.
    Process,
    /// Records, and another process that was given the thread's transactional id: the broker refuses the commit.
    Refuse,
    /// Other plugins.
    Swap,
    /// Records, and SIGTERM amid them.
    Stop,
}

/// The lives: the way to die, the point, and at which passing.
///
/// Those that end before anything is processed come first, all on one state folder that was empty in the beginning.
const LIVES: &[(Way, &str, u32)] = &[
    (Way::Start, "assignment.begun", 1),
    (Way::Start, "store.created", 2),
    (Way::Start, "transactions.ready", 2),
    (Way::Start, "assignment.task-opened", 2),
    (Way::Start, "assignment.opened", 1),
    (Way::Start, "restore.cleared", 5),
    (Way::Start, "restore.opened", 4),
    (Way::Start, "restore.batch", 1),
    (Way::Start, "restore.batch", 9),
    (Way::Start, "restore.persisting", 2),
    (Way::Start, "store.flushed", 3),
    (Way::Start, "restore.persisted", 2),
    (Way::Start, "restore.finished", 3),
    (Way::Process, "outputs.sent", 2),
    (Way::Process, "commit.outputs-flushed", 2),
    (Way::Process, "commit.transaction-begun", 1),
    (Way::Process, "commit.changelog-sent", 2),
    (Way::Process, "commit.offsets-added", 1),
    (Way::Process, "commit.records-flushed", 2),
    (Way::Process, "commit.ended", 1),
    // What it left in the changelog is read now, by a store that has the rest.
    (Way::Start, "restore.batch", 1),
    (Way::Process, "commit.between-stores", 1),
    (Way::Process, "commit.between-stores", 4),
    (Way::Start, "restore.persisted", 1),
    (Way::Process, "commit.applied", 1),
    (Way::Refuse, "recovery.asking", 1),
    (Way::Refuse, "recovery.resolved", 1),
    (Way::Refuse, "recovery.sought", 1),
    // Each thread is given its first plugins, too.
    (Way::Swap, "swap.committed", THREADS as u32 + 1),
    (Way::Swap, "swap.done", THREADS as u32 + 2),
    (Way::Stop, "shutdown.begun", 1),
    (Way::Stop, "revocation.begun", 1),
    (Way::Stop, "close.committed", 2),
    (Way::Stop, "close.task-closed", 2),
    (Way::Stop, "revocation.done", 1),
    (Way::Stop, "shutdown.left", 1),
    (Way::Stop, "shutdown.ended", 1),
];

/// Stream records before each life that processes some.
const PART: usize = 60;

#[test]
fn at_each_fault_point_under_exactly_once() -> Result<()> {
    at_each_fault_point("exactly-once")
}

#[test]
fn at_each_fault_point_under_at_least_once() -> Result<()> {
    at_each_fault_point("at-least-once")
}

fn at_each_fault_point(guarantee: &'static str) -> Result<()> {
    let mut lives = Lives::new(2, guarantee)?;
    // The state is in the changelog and nowhere else.
    lives.feed(3 * PART)?;
    lives.live_in_peace()?;
    fs::remove_dir_all(&lives.state)?;
    let start = Instant::now();
    for (number, life) in LIVES.iter().enumerate() {
        let log = lives.state.with_extension("log");
        lives
            .live(number, *life)
            .with_context(|| format!("{life:?}: {}", fs::read_to_string(log).unwrap_or_default()))?;
    }
    eprintln!("{guarantee}: {} lives in {:?}", LIVES.len(), start.elapsed());
    lives.end().with_context(|| fs::read_to_string(lives.state.with_extension("log")).unwrap_or_default())
}

impl Lives {
    /// A life that ends at a point.
    fn live(&mut self, number: usize, (way, point, passing): (Way, &str, u32)) -> Result<()> {
        if matches!(way, Way::Process | Way::Stop) {
            self.feed(PART.min(self.left().len()))?;
        }
        let mut setup = self.setup().fault(&format!("{point}:{passing}"));
        if way == Way::Stop {
            // Most of what is processed is not committed when it is told to stop.
            setup = setup.set("app.commit_interval", "4 s");
        }
        let mut host = Host::spawn(&setup)?;
        match way {
            Way::Start | Way::Process => {}
            Way::Refuse => {
                host.wait_ready()?;
                wait_caught_up(&self.broker)?;
                fence(&self.broker, &host)?;
                // One record has no order across topics.
                self.feed(1)?;
            }
            Way::Swap => {
                host.wait_ready()?;
                // The answer may come before the end or not at all.
                let _answer = host.deploy("projekt", &another(u8::try_from(number)?)?);
            }
            Way::Stop => {
                wait::until("processed records", TIMEOUT, || {
                    let processed = host.metric("weir_records_processed_total")?;
                    ensure!(processed > 0.0, "{processed}");
                    Ok(())
                })?;
                host.signal("TERM")?;
            }
        }
        let ended = host.wait_end()?;
        ensure!(was_killed(ended), "it ended with {ended}");
        Ok(())
    }
}

/// The plugin `projekt` as other bytes, with a digest of their own: a custom section at its end.
fn another(number: u8) -> Result<Vec<u8>> {
    let mut bytes = fs::read(plugin("projekt")?)?;
    // Section 0: its length, the length of its name, its name.
    bytes.extend([0, 3, 1, b'n', number]);
    Ok(bytes)
}

/// Each point has a life that ends at it: a process that was killed has reached it.
#[test]
fn no_fault_point_is_left_out() {
    let mut lives: BTreeMap<&str, usize> = POINTS.iter().map(|point| (*point, 0)).collect();
    for (_, point, _) in LIVES {
        *lives.entry(point).or_default() += 1;
    }
    let unreached: Vec<&&str> = lives.iter().filter(|(_, lives)| **lives == 0).map(|(point, _)| point).collect();
    assert!(unreached.is_empty() && lives.len() == POINTS.len(), "{unreached:?} of {lives:?}");
}

/// A process that shall stop at a point is stopped there, not dead, and goes on when it is told to.
#[test]
fn a_process_can_be_stopped_at_a_point() -> Result<()> {
    let mut lives = Lives::new(1, "exactly-once")?;
    lives.feed(PART)?;
    let mut host = Host::spawn(&lives.setup().fault("commit.records-flushed:STOP"))?;
    host.wait_stopped()?;
    host.signal("CONT")?;
    wait_caught_up(&lives.broker).with_context(|| host.log())?;
    ensure!(host.terminate()?.success(), "{}", host.log());
    lives.end()
}

/// A thread that hangs for good: the group would never know, so the instance ends, and what was not committed is processed again.
#[test]
fn an_instance_ends_when_a_thread_hangs() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut counted = Counted::start(dir.path(), "")?;
    let state = dir.path().join("state");
    let setup = || -> Result<Setup<'_>> {
        let setup = counted.setup(&state)?.set("kafka.session.timeout.ms", "6000");
        Ok(setup.set("kafka.max.poll.interval.ms", "6000"))
    };
    let (mut hangs, setup) = (setup()?, setup()?);
    counted.feed("in", 2)?;
    hangs.fault = Some("commit.records-flushed:HANG".to_owned());
    let mut host = Host::start(&hangs)?;
    ensure_ended(&mut host, 75, &["has not moved for 6 s", "max.poll.interval.ms"])?;
    let mut host = Host::start(&setup)?;
    counted.wait_caught_up(&host)?;
    counted.assert_counts()?;
    terminate(&mut host)
}
