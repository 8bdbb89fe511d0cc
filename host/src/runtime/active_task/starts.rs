//! Where a task's streams start: by the group's offsets, checked against what its stores say.

use crate::model::{Checkpoint, TopicPartition};

use crate::runtime::event::StreamStart;

/// Where `stream` starts in a task whose stores are at `checkpoint`.
///
/// The group's offset decides. The stores' copy checks it, and replaces one that has expired; but not if it is older than the
/// state, because changelog records of others' commits were applied since (in a standby, or in a restore): the records in between
/// would count twice. `tell` puts what is wrong with a partition into a sentence.
pub(super) fn of(
    stream: &StreamStart,
    checkpoint: &Checkpoint,
    tell: impl FnOnce(&TopicPartition, &str) -> String,
) -> Result<i64, String> {
    let wrong = match (stream.committed, checkpoint.streams.get(&stream.partition).copied()) {
        (Some(committed), Some(stored)) if stored > committed => format!(
            "up to offset {stored}, but its group is committed at {committed}: records in between would count twice; set the \
             group's offset to {stored}, or delete the folder and the changelogs to start over"
        ),
        (None, Some(stored)) if checkpoint.ahead => format!(
            "beyond offset {stored}, where this instance committed it last, and its group has no offset for it any more: records \
             would count twice; set the group's offset, or delete the folder and the changelogs to start over"
        ),
        (Some(committed), _) => return Ok(committed),
        (None, Some(stored)) => return Ok(stored),
        (None, None) => return Ok(stream.initial),
    };
    Err(tell(&stream.partition, &wrong))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The start with the group at `committed` and the stores at `stored`; a part of the error if there is none.
    fn check(committed: Option<i64>, stored: Option<i64>, ahead: bool, expected: Result<i64, &str>) {
        let partition = TopicPartition::new("in", 3);
        let mut checkpoint = Checkpoint { ahead, ..Checkpoint::default() };
        checkpoint.streams.extend(stored.map(|at| (partition.clone(), at)));
        let stream = StreamStart { source: 0, partition, committed, initial: 5, metadata: None };
        let start = of(&stream, &checkpoint, |partition, wrong| format!("{partition} {wrong}"));
        match (start, expected) {
            (Ok(start), Ok(expected)) => assert_eq!(start, expected),
            (Err(wrong), Err(part)) => assert!(wrong.starts_with("in-3 ") && wrong.contains(part), "{wrong}"),
            (start, expected) => panic!("{start:?}, not {expected:?}"),
        }
    }

    #[test]
    fn the_group_decides_and_the_stores_check() {
        check(None, None, false, Ok(5));
        check(Some(7), None, false, Ok(7));
        check(Some(7), Some(7), false, Ok(7));
        check(Some(9), Some(7), false, Ok(9));
        check(Some(7), Some(9), false, Err("up to offset 9, but its group is committed at 7"));
        check(None, Some(7), false, Ok(7));
    }

    #[test]
    fn offsets_that_are_older_than_the_state_replace_nothing_and_still_check() {
        check(Some(9), Some(7), true, Ok(9));
        check(Some(7), Some(9), true, Err("up to offset 9, but its group is committed at 7"));
        check(None, Some(7), true, Err("beyond offset 7"));
    }
}
