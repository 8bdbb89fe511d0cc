//! What the seeds have exercised: a case that is no longer counted is a case that is no longer tested.

/// Something that must happen in some seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// A seed with outputs in the transaction.
    ExactlyOnce,
    /// A seed with outputs sent at once.
    AtLeastOnce,
    /// Records arrived while the instances ran.
    LiveInput,
    /// A process died outside commits and restores.
    Crash,
    /// A process died between the first record of a commit and the answer of its end.
    CrashInCommit,
    /// A process died after a transaction was committed and before its stores had it.
    CrashBeforeStores,
    /// A process died after some of its thread's stores had a commit and before others had.
    CrashBetweenStores,
    /// A process died while it restored.
    CrashInRestore,
    /// Restored rows were lost with a process.
    UnloggedRowsLost,
    /// A state folder was lost.
    FolderLost,
    /// A process stopped cleanly.
    CleanStop,
    /// Partitions were given back.
    Revoked,
    /// Partitions were lost.
    Lost,
    /// Partitions were taken while their changelogs were being read.
    RebalanceInRestore,
    /// The group refused offsets of a member that it had gone on without.
    StaleCommitRefused,
    /// A producer found itself replaced.
    ProducerFenced,
    /// The answer of an end of a transaction was lost; it was committed.
    UnknownCommitted,
    /// The answer of an end of a transaction was lost; it was not committed.
    UnknownAborted,
    /// The request to end a transaction came late, and still took effect.
    LateEndTookEffect,
    /// The request to end a transaction came so late that it was refused.
    LateEndRefused,
    /// A step of a transaction timed out and was taken up again.
    StepResumed,
    /// The coordinator could not be reached.
    CoordinatorUnavailable,
    /// A record was not delivered.
    DeliveryFailed,
    /// A transaction timed out at its coordinator.
    TransactionTimedOut,
    /// Committed offsets were asked for while a transaction was about to change them.
    UnstableOffsets,
    /// A changelog was read over aborted records.
    RestoreOverAborted,
    /// A changelog was read over a marker.
    RestoreOverMarker,
    /// A changelog was read over offsets that compaction had emptied.
    RestoreOverHole,
    /// A restore came to an end below which a transaction was open.
    RestoreWaitedForTransaction,
    /// A table came to an end below which a transaction was open.
    TableWaitedForTransaction,
    /// A checkpoint lay below its log's beginning.
    CheckpointBelowLog,
    /// A restore resumed from a checkpoint.
    RestoreResumed,
    /// A log was compacted.
    Compacted,
    /// Streams were set back.
    Sought,
    /// Others acted between two effects of one step.
    Preempted,
    /// A process that had stood still for longer than its session went on.
    Zombie,
}

/// How many cases there are.
const CASES: usize = Seen::Zombie as usize + 1;

/// How often each case was seen.
#[derive(Clone, Debug)]
pub(super) struct Coverage([(Option<Seen>, u64); CASES]);

impl Default for Coverage {
    fn default() -> Self {
        Self([(None, 0); CASES])
    }
}

impl Coverage {
    /// It was seen.
    pub(super) fn saw(&mut self, what: Seen) {
        let (case, count) = &mut self.0[what as usize];
        *case = Some(what);
        *count += 1;
    }

    /// Adds what another seed saw.
    pub(super) fn add(&mut self, other: &Self) {
        for (mine, (case, count)) in self.0.iter_mut().zip(&other.0) {
            mine.0 = mine.0.or(*case);
            mine.1 += count;
        }
    }

    /// The places of cases that were never seen, in the order of [`Seen`].
    pub(super) fn unseen(&self) -> Vec<usize> {
        (0..CASES).filter(|case| self.0[*case].1 == 0).collect()
    }

    /// All counts, for people.
    pub(super) fn shown(&self) -> String {
        let cases = self.0.iter().filter_map(|(case, count)| case.map(|case| format!("{case:?} {count}")));
        cases.collect::<Vec<_>>().join(", ")
    }
}
