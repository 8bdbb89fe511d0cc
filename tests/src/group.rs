//! How far a consumer group is, seen from outside.

use std::time::Duration;

use anyhow::{Result, ensure};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{Offset, TopicPartitionList};

use crate::{topics, wait};

/// How long one question may take.
const QUESTION: Duration = Duration::from_secs(10);

/// How long a broker that has just started may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until the group has committed the end of every partition of `inputs`.
pub fn wait_caught_up(bootstrap: &str, group: &str, inputs: &[&str], timeout: Duration) -> Result<()> {
    let consumer: BaseConsumer =
        topics::client(bootstrap).set("group.id", group).set("isolation.level", "read_uncommitted").create()?;
    let mut ends = TopicPartitionList::new();
    for element in partitions(&consumer, inputs)?.elements() {
        let (topic, partition) = (element.topic(), element.partition());
        // A broker that has just started has no leaders yet.
        let ask = || Ok(consumer.fetch_watermarks(topic, partition, QUESTION)?);
        let (_, end) = wait::until(topic, PATIENCE, ask)?;
        ends.add_partition_offset(topic, partition, Offset::Offset(end))?;
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

/// Sets the offset of a partition for a group without members, as an operator does.
pub fn commit(bootstrap: &str, group: &str, topic: &str, partition: i32, offset: i64) -> Result<()> {
    let consumer: BaseConsumer = topics::client(bootstrap).set("group.id", group).create()?;
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition, Offset::Offset(offset))?;
    wait::until("the group's new offset", PATIENCE, || Ok(consumer.commit(&list, CommitMode::Sync)?))
}

/// All partitions of topics.
fn partitions(consumer: &BaseConsumer, names: &[&str]) -> Result<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    for topic in names {
        let metadata = wait::until(topic, PATIENCE, || Ok(consumer.fetch_metadata(Some(topic), QUESTION)?))?;
        for partition in metadata.topics().iter().flat_map(rdkafka::metadata::MetadataTopic::partitions) {
            list.add_partition(topic, partition.id());
        }
    }
    Ok(list)
}

/// How much of its inputs a group has committed, asked again and again.
pub struct Progress {
    /// Asks.
    consumer: BaseConsumer,
    /// All partitions of the inputs.
    partitions: TopicPartitionList,
}

impl Progress {
    /// Of a group on its inputs, which must exist.
    pub fn new(bootstrap: &str, group: &str, inputs: &[&str]) -> Result<Self> {
        let consumer: BaseConsumer =
            topics::client(bootstrap).set("group.id", group).set("isolation.level", "read_uncommitted").create()?;
        let partitions = partitions(&consumer, inputs)?;
        Ok(Self { consumer, partitions })
    }

    /// The sum of the offsets committed so far.
    pub fn committed(&self) -> Result<i64> {
        let ask = || Ok(self.consumer.committed_offsets(self.partitions.clone(), QUESTION)?);
        let committed = wait::until("the group's offsets", PATIENCE, ask)?;
        let offset = |offset| if let Offset::Offset(at) = offset { at } else { 0 };
        Ok(committed.elements().iter().map(|element| offset(element.offset())).sum())
    }

    /// Waits until at least `goal` offsets are committed.
    pub fn wait(&self, goal: usize, timeout: Duration) -> Result<()> {
        let goal = i64::try_from(goal)?;
        wait::until("progress of the group", timeout, || {
            let committed = self.committed()?;
            ensure!(committed >= goal, "{committed} of {goal} offsets");
            Ok(())
        })
    }
}
