//! How far a consumer group is, seen from outside.

use std::time::Duration;

use anyhow::{Result, ensure};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Offset, TopicPartitionList};

use crate::{topics, wait};

/// How long one question may take.
const QUESTION: Duration = Duration::from_secs(10);

/// Waits until the group has committed the end of every partition of `inputs`.
pub fn wait_caught_up(bootstrap: &str, group: &str, inputs: &[&str], timeout: Duration) -> Result<()> {
    let consumer: BaseConsumer =
        topics::client(bootstrap).set("group.id", group).set("isolation.level", "read_uncommitted").create()?;
    let mut ends = TopicPartitionList::new();
    for input in inputs {
        let metadata = consumer.fetch_metadata(Some(input), QUESTION)?;
        for partition in metadata.topics().iter().flat_map(rdkafka::metadata::MetadataTopic::partitions) {
            let (_, end) = consumer.fetch_watermarks(input, partition.id(), QUESTION)?;
            ends.add_partition_offset(input, partition.id(), Offset::Offset(end))?;
        }
    }
    wait::until("the group's offsets at the ends of its inputs", timeout, || {
        let committed = consumer.committed_offsets(ends.clone(), QUESTION)?;
        let (mut done, mut left) = (true, 0);
        for end in ends.elements() {
            let at = committed.find_partition(end.topic(), end.partition()).map(|found| found.offset());
            let (Some(Offset::Offset(at)), Offset::Offset(end)) = (at, end.offset()) else {
                // Nothing is committed for an empty partition that nobody has touched.
                done &= end.offset() == Offset::Offset(0);
                continue;
            };
            done &= at >= end;
            left += (end - at).max(0);
        }
        ensure!(done, "{left} offsets left");
        Ok(())
    })
}

/// The offset that a group has committed for a partition, if it has.
pub fn committed(bootstrap: &str, group: &str, topic: &str, partition: i32) -> Result<Option<i64>> {
    let consumer: BaseConsumer = topics::client(bootstrap).set("group.id", group).create()?;
    let mut list = TopicPartitionList::new();
    list.add_partition(topic, partition);
    let committed = consumer.committed_offsets(list, QUESTION)?;
    let offset = committed.find_partition(topic, partition).map(|found| found.offset());
    Ok(offset.and_then(|offset| offset.to_raw()).filter(|offset| *offset >= 0))
}
