//! Where logs begin and end, as the broker says.

use std::time::Duration;

use rdkafka::consumer::Consumer;

use super::client::{self, Client, ConsumerState};
use super::error::is_missing;
use super::{ClientSettings, Error};
use crate::model::TopicPartition;

/// A partition's log: the offsets from `begin` on, before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRange {
    /// The first offset that the log has, or will have.
    pub begin: i64,
    /// The offset after the last record, whether it is committed or not.
    pub end: i64,
}

/// Asks for the begin and end of logs. Ends are true log ends: a consumer of committed records may not reach them yet.
pub struct LogEnds {
    /// A consumer that reads nothing, with read_uncommitted.
    client: Client,
}

impl LogEnds {
    /// Does not connect yet.
    pub fn new(settings: &ClientSettings) -> Result<Self, Error> {
        Ok(Self { client: client::consumer(&settings.log_ends(), ConsumerState::new("ends", None))? })
    }

    /// The range of one partition's log.
    pub fn of(&self, partition: &TopicPartition, timeout: Duration) -> Result<LogRange, Error> {
        self.serve();
        match self.client.fetch_watermarks(&partition.topic, partition.partition, timeout) {
            Ok((begin, end)) => Ok(LogRange { begin, end }),
            Err(error) => Err(match error.rdkafka_error_code() {
                Some(code) if is_missing(code) => Error::Missing { name: partition.to_string() },
                _ => Error::request(format!("begin and end of {partition}"), &error),
            }),
        }
    }

    /// rdkafka's consumer, for metadata.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Lets some time go by, at most `time`, before something is asked again.
    pub(super) fn pause(&self, time: Duration) {
        if let Err(error) = client::serve(&self.client, None, time) {
            tracing::debug!(target: "weir::kafka", %error);
        }
    }

    /// Takes log lines and errors from librdkafka: nobody else does. The request that follows tells what matters.
    pub(super) fn serve(&self) {
        for _ in 0..16 {
            self.pause(Duration::ZERO);
        }
    }
}
