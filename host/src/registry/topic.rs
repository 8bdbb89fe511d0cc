//! The registry's log as a topic of the application.

use std::time::Duration;

use crate::kafka::{NewTopic, TopicLog};
use crate::plan::{self, InternalTopic};

use super::log::{LogError, LogReader, LogRecord, LogWriter};

/// The topic of an application's registry; whoever starts the application creates it.
///
/// One partition, since its offsets are the generations. Compacted, since what is active must be there for ever.
pub fn topic(app_id: &str) -> NewTopic {
    let InternalTopic { name, partitions, config } = plan::registry_topic(app_id);
    NewTopic { name, partitions, config }
}

impl LogReader for TopicLog {
    fn next(&mut self, timeout: Duration) -> Result<Option<LogRecord>, LogError> {
        Ok(Self::next(self, timeout)?)
    }

    fn position(&self) -> i64 {
        Self::position(self)
    }

    fn end_at_open(&self) -> i64 {
        Self::end_at_open(self)
    }
}

impl LogWriter for TopicLog {
    fn append(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<i64, LogError> {
        Ok(Self::append(self, key, value)?)
    }
}
