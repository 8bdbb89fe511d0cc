//! Places where a test can end this process, or let it sleep: what a crash leaves there is looked at by `tests/it/kills`.
//!
//! Without the feature `fault-points`, which only the tests' crate asks for, nothing of it is compiled. With it, the variable
//! `WEIR_FAULT=NAME[:N][:STOP|:HANG]` lets the process send itself SIGKILL (or SIGSTOP) when it passes NAME for the N-th time, or the
//! thread that does hang there for ever.

/// All places, each in the order in which a process comes past it.
pub const POINTS: &[&str] = &[
    // The group has given partitions; nothing of them is open yet.
    "assignment.begun",
    // A task's database is there, and doesn't know its stores yet.
    "store.created",
    // A task is open, the thread's next one is not.
    "assignment.task-opened",
    // All tasks are open; their partitions are not assigned yet.
    "assignment.opened",
    // A thread's producer has ended what its predecessor left open.
    "transactions.ready",
    // A store was emptied, since its log doesn't hold what it was made of.
    "restore.cleared",
    // A log is read from the checkpoint on.
    "restore.opened",
    // Some of its records are in the store, and may be lost with the process.
    "restore.batch",
    // What was restored is about to be made durable.
    "restore.persisting",
    // It is durable, and no checkpoint says so.
    "store.flushed",
    // The checkpoint says so.
    "restore.persisted",
    // A task is full, and others may hear of it.
    "restore.finished",
    // Some outputs are sent.
    "outputs.sent",
    // A commit begins: all outputs are with the broker (at-least-once), or in the transaction.
    "commit.outputs-flushed",
    // The commit's transaction is open.
    "commit.transaction-begun",
    // A task's changelog records are sent.
    "commit.changelog-sent",
    // The inputs' offsets are in the transaction.
    "commit.offsets-added",
    // All records are with the broker: what is left is the end of the transaction.
    "commit.records-flushed",
    // The transaction is committed; no store knows.
    "commit.ended",
    // One task's stores have the commit, the next one's have not.
    "commit.between-stores",
    // All stores have it.
    "commit.applied",
    // A commit went through, and other plugins take over now.
    "swap.committed",
    // They have.
    "swap.done",
    // A commit failed, a new producer is there, and the group is asked what became of it.
    "recovery.asking",
    // That is known: the stores have the commit, or the tasks are back at the one before.
    "recovery.resolved",
    // The streams are back there, too.
    "recovery.sought",
    // The instance was asked to stop.
    "shutdown.begun",
    // The group takes partitions away, or the instance leaves it.
    "revocation.begun",
    // A thread's last commit is done.
    "close.committed",
    // A task is closed, the thread's next one is not.
    "close.task-closed",
    // All tasks are.
    "revocation.done",
    // The instance has left the group.
    "shutdown.left",
    // All threads have ended.
    "shutdown.ended",
];

/// The process is at this place: one of [`POINTS`].
#[cfg(not(feature = "fault-points"))]
#[inline(always)]
pub(crate) fn point(_name: &'static str) {}

#[cfg(feature = "fault-points")]
pub(crate) use planned::point;

/// What the variable asks for.
#[cfg(feature = "fault-points")]
mod planned {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use rustix::process::{Signal, getpid, kill_process};

    use super::POINTS;

    /// What happens.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Deed {
        /// The process sends itself this.
        Signal(Signal),
        /// The thread goes no further.
        Hang,
    }

    /// A fault to come.
    #[derive(Debug)]
    struct Planned {
        /// Where.
        name: String,
        /// At which passing, from 1.
        passing: u32,
        /// What then.
        deed: Deed,
        /// Passings so far, of all threads.
        passed: AtomicU32,
    }

    impl Planned {
        /// What `NAME[:N][:STOP|:HANG]` means.
        fn parse(text: &str) -> Result<Self, String> {
            let mut parts = text.split(':');
            let name = parts.next().unwrap_or_default().to_owned();
            if !POINTS.contains(&name.as_str()) {
                return Err(format!("there is no fault point '{name}'"));
            }
            let mut planned = Self { name, passing: 1, deed: Deed::Signal(Signal::KILL), passed: AtomicU32::new(0) };
            for part in parts {
                match part {
                    "STOP" => planned.deed = Deed::Signal(Signal::STOP),
                    "HANG" => planned.deed = Deed::Hang,
                    _ => planned.passing = part.parse().map_err(|error| format!("'{part}' is no passing: {error}"))?,
                }
            }
            Ok(planned)
        }

        /// Whether it is time, now that some thread passes `name`.
        fn is_due(&self, name: &str) -> bool {
            self.name == name && self.passed.fetch_add(1, Ordering::SeqCst) + 1 == self.passing
        }
    }

    /// The process is at this place: one of [`POINTS`].
    pub(crate) fn point(name: &'static str) {
        /// The process' plan. Signals reach a process as a whole, so there is one plan for all its instances.
        static PLANNED: OnceLock<Option<Planned>> = OnceLock::new();
        let planned = PLANNED.get_or_init(|| {
            let text = std::env::var("WEIR_FAULT").ok()?;
            Planned::parse(&text).inspect_err(|error| tracing::error!("WEIR_FAULT={text}: {error}")).ok()
        });
        if let Some(planned) = planned.as_ref().filter(|planned| planned.is_due(name)) {
            tracing::warn!(point = name, passing = planned.passing, "fault point");
            match planned.deed {
                Deed::Signal(signal) => {
                    if let Err(error) = kill_process(getpid(), signal) {
                        tracing::error!("no signal at {name}: {error}");
                    }
                }
                Deed::Hang => loop {
                    std::thread::park();
                },
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_fault_is_due_once_at_its_passing() {
            let planned = Planned::parse("commit.ended:2").unwrap();
            assert_eq!(planned.deed, Deed::Signal(Signal::KILL));
            let due =
                ["commit.ended", "commit.applied", "commit.ended", "commit.ended"].map(|name| planned.is_due(name));
            assert_eq!(due, [false, false, true, false]);
            let stopped = Planned::parse("commit.ended:STOP").unwrap();
            assert!(stopped.deed == Deed::Signal(Signal::STOP) && stopped.is_due("commit.ended"));
        }

        #[test]
        fn a_thread_may_hang() {
            let planned = Planned::parse("commit.ended:2:HANG").unwrap();
            assert_eq!((planned.deed, planned.passing), (Deed::Hang, 2));
        }

        #[test]
        fn what_is_no_plan_is_refused() {
            assert_eq!(Planned::parse("commit.end").unwrap_err(), "there is no fault point 'commit.end'");
            assert!(Planned::parse("commit.ended:often").unwrap_err().contains("'often' is no passing"));
        }
    }
}
