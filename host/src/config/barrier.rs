//! `[barrier]`: when tables count as full, and who waits.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::section::{Choices, Section};

/// `[barrier]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BarrierOptions {
    /// `scope`: who waits for whom. Default `task`.
    pub scope: BarrierScope,
    /// `timeout`: how long to wait at most; `None`: as long as it takes (default).
    pub timeout: Option<Duration>,
    /// `on_timeout`: what then. Default `fail`.
    pub on_timeout: OnTimeout,
}

/// Who waits for whom at start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BarrierScope {
    /// Nobody waits for tables (aggregates are restored all the same).
    Off,
    /// A task waits for its own tables (default).
    #[default]
    Task,
    /// Every task waits for the tables of all tasks of this instance.
    Instance,
}

impl fmt::Display for BarrierScope {
    /// As in the topology file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Task => "task",
            Self::Instance => "instance",
        })
    }
}

/// What happens when tables are not full in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnTimeout {
    /// The task fails, naming what it waits for (default).
    #[default]
    Fail,
    /// The task goes on with what is there, with a warning.
    Proceed,
}

impl fmt::Display for OnTimeout {
    /// As in the topology file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fail => "fail",
            Self::Proceed => "proceed",
        })
    }
}

impl BarrierOptions {
    /// Longest `timeout`.
    const MAX_TIMEOUT: Duration = Duration::from_secs(30 * 24 * 3600);

    /// The section's options.
    pub(crate) fn read(mut section: Section<'_>) -> Self {
        let scopes = [("off", BarrierScope::Off), ("task", BarrierScope::Task), ("instance", BarrierScope::Instance)];
        let scope = section.choice("scope", &Choices { words: &scopes, unsupported: &["app"] });
        let set = section.value("timeout").is_some();
        let timeout = section.duration("timeout", Duration::from_millis(1)..=Self::MAX_TIMEOUT, "5 min");
        let outcomes = [("fail", OnTimeout::Fail), ("proceed", OnTimeout::Proceed)];
        let on_timeout = section.choice("on_timeout", &Choices { words: &outcomes, unsupported: &[] });
        if let (Some(_), false) = (on_timeout, set) {
            let what = "barrier.on_timeout has no effect without a timeout";
            section.report.warning(section.place, what, "add timeout = \"5 min\", or remove on_timeout");
        }
        section.finish();
        Self { scope: scope.unwrap_or_default(), timeout, on_timeout: on_timeout.unwrap_or_default() }
    }
}
