//! `[app]`: what the application is called and how it runs.

use std::fmt;
use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Serialize;

use super::section::{Choices, Section};
use super::{At, NAME_RULE, is_legal_name};

/// `[app]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppOptions {
    /// `id`: consumer group, prefix of transactional ids and of internal topics. Required.
    pub id: String,
    /// `guarantee`. Default `exactly-once`: state is exactly-once anyway, so only the outputs' delay is saved without it.
    pub guarantee: Guarantee,
    /// `threads`: stream threads of an instance. Default: one a core.
    pub threads: NonZeroUsize,
    /// `commit_interval`. Default 100 ms under both guarantees: changelog and offsets are a transaction under both, it
    /// bounds what a crash repeats, and under `exactly-once` it is the outputs' delay (Kafka Streams' value there).
    pub commit_interval: Duration,
    /// `time`: which row of a table a stream record sees. Default `latest`.
    pub time: TimePolicy,
    /// `offset_reset`: where to begin in a stream that the group never committed. Default `earliest`.
    pub offset_reset: OffsetReset,
    /// `max_task_idle`: how long a task waits for a record of an empty input before it goes on without. Default 0 ms.
    pub max_task_idle: Duration,
    /// `on_stop`: what a clean stop means to the group. Default `leave`: nothing lies still meanwhile.
    pub on_stop: OnStop,
}

/// What a clean stop means to the group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnStop {
    /// The instance leaves: others take its tasks over at once (default).
    #[default]
    Leave,
    /// It stays a member: its tasks wait for it, for `session.timeout.ms` at most. For restarts, one instance after the other,
    /// without moving tasks twice.
    Stay,
}

impl fmt::Display for OnStop {
    /// As in the topology file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Leave => "leave",
            Self::Stay => "stay",
        })
    }
}

/// What holds for output records after a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guarantee {
    /// Each is seen once by readers of committed records (default).
    #[default]
    ExactlyOnce,
    /// Some may be there twice.
    AtLeastOnce,
}

impl fmt::Display for Guarantee {
    /// As in the topology file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ExactlyOnce => "exactly-once",
            Self::AtLeastOnce => "at-least-once",
        })
    }
}

/// Which row of a table a stream record sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimePolicy {
    /// Tables first: rows that are queued when a batch is formed are applied before it (default).
    #[default]
    Latest,
    /// Lowest timestamp first over all inputs, as Kafka Streams does it.
    Timestamp,
}

impl fmt::Display for TimePolicy {
    /// As in the topology file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Latest => "latest",
            Self::Timestamp => "timestamp",
        })
    }
}

/// Where to begin in a stream that the group never committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OffsetReset {
    /// At its first record (default).
    #[default]
    Earliest,
    /// Behind its last record.
    Latest,
}

impl AppOptions {
    /// Most stream threads: more than any machine has cores.
    const MAX_THREADS: u64 = 1024;
    /// Default of `commit_interval`.
    const COMMIT_INTERVAL: Duration = Duration::from_millis(100);
    /// Longest `commit_interval`: half of the 60 s after which a broker aborts an open transaction.
    const MAX_COMMIT_INTERVAL: Duration = Duration::from_secs(30);
    /// Longest `max_task_idle`.
    const MAX_TASK_IDLE: Duration = Duration::from_secs(3600);

    /// The section's options.
    pub(crate) fn read(mut section: Section<'_>) -> Self {
        let guarantees = [("exactly-once", Guarantee::ExactlyOnce), ("at-least-once", Guarantee::AtLeastOnce)];
        let times = [("latest", TimePolicy::Latest), ("timestamp", TimePolicy::Timestamp)];
        let stops = [("leave", OnStop::Leave), ("stay", OnStop::Stay)];
        let resets = [("earliest", OffsetReset::Earliest), ("latest", OffsetReset::Latest)];
        let options = Self {
            id: read_id(&mut section).value,
            guarantee: section
                .choice("guarantee", &Choices { words: &guarantees, unsupported: &[] })
                .unwrap_or_default(),
            threads: section
                .integer("threads", 1..=Self::MAX_THREADS)
                .and_then(|threads| NonZeroUsize::new(usize::try_from(threads).ok()?))
                .unwrap_or_else(|| std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)),
            commit_interval: section
                .duration("commit_interval", Duration::from_millis(1)..=Self::MAX_COMMIT_INTERVAL, "100 ms")
                .unwrap_or(Self::COMMIT_INTERVAL),
            time: section.choice("time", &Choices { words: &times, unsupported: &["versioned"] }).unwrap_or_default(),
            offset_reset: section
                .choice("offset_reset", &Choices { words: &resets, unsupported: &[] })
                .unwrap_or_default(),
            max_task_idle: section
                .duration("max_task_idle", Duration::ZERO..=Self::MAX_TASK_IDLE, "1 s")
                .unwrap_or_default(),
            on_stop: section.choice("on_stop", &Choices { words: &stops, unsupported: &[] }).unwrap_or_default(),
        };
        section.finish();
        options
    }
}

/// `id`, which becomes a part of topics' names.
fn read_id(section: &mut Section<'_>) -> At<String> {
    if section.is_missing() {
        section.report.problem(section.place, "[app] is missing", "add [app] with id = \"…\", the application's name");
    }
    let id = section.required_text("id", "orders");
    if !id.value.is_empty() && !is_legal_name(&id.value) {
        section.report.problem(
            id.place,
            format!("app.id is {:?}, which Kafka does not take as a name", id.value),
            NAME_RULE,
        );
    }
    id
}
