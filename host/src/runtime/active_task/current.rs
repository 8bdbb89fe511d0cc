//! Whether the group still has the task's streams where the task starts.

use std::time::{Duration, Instant};

use crate::model::TopicPartition;

use super::ActiveTask;

/// How long the question may take: the thread waits for the answer.
const QUESTION: Duration = Duration::from_secs(1);
/// How long to wait before it is asked again.
const PAUSE: Duration = Duration::from_millis(250);

impl ActiveTask {
    /// Whether the state that was read belongs to the offsets that the task starts at.
    ///
    /// Both are committed together, but the offsets were asked for first. If they have moved since, another member has the partitions,
    /// and has written the changelog on: records would count twice, and although their commit would be refused, outputs under
    /// at-least-once would be out. Such a task waits until this member learns that it has lost it.
    pub(super) fn is_current(&mut self, now: Instant) -> bool {
        if now < self.next_question {
            return false;
        }
        let partitions: Vec<TopicPartition> = self.streams.iter().map(|stream| stream.partition.clone()).collect();
        let answer = self.instance.source.committed(&partitions, QUESTION);
        let moved = answer.map(|committed| {
            let mut of_streams = self.streams.iter().zip(committed);
            of_streams.find(|(stream, of)| of.offset.is_some() && of.offset != stream.committed).map(|(_, of)| of)
        });
        self.reason = match moved {
            Ok(None) => return true,
            Ok(Some(of)) => {
                let at = of.offset.unwrap_or_default();
                format!("another member has processed {} on, up to offset {at}: waits to be taken away", of.partition)
            }
            Err(error) => {
                format!("cannot ask whether the group has gone on: {}", crate::runtime::chain(&error))
            }
        };
        self.next_question = now + PAUSE;
        false
    }
}
