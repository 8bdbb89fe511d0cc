//! Names and numbers that identify things.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A stream task: a sub-topology of the topology and the partition of its inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskId {
    /// Index of the sub-topology in the plan.
    pub subtopology: u32,
    /// Partition of every co-partitioned input.
    pub partition: i32,
}

impl fmt::Display for TaskId {
    /// As Kafka Streams writes it: `0_7`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.subtopology, self.partition)
    }
}

impl TaskId {
    /// Reads what [`fmt::Display`] writes, and nothing else that looks like it.
    pub fn parse(text: &str) -> Option<Self> {
        let (subtopology, partition) = text.split_once('_')?;
        let id = Self { subtopology: subtopology.parse().ok()?, partition: partition.parse().ok()? };
        (id.to_string() == text).then_some(id)
    }
}

/// A partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPartition {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number, from 0.
    pub partition: i32,
}

impl TopicPartition {
    /// The partition `partition` of `topic`.
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    /// As Kafka's tools write it: `orders-3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// Which of all topics that ever had its name a topic is, as Kafka's tools write it. A recreated topic has another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TopicId(pub String);

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A store of one task, by its index in the sub-topology's list of stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StoreIndex(pub u16);

/// A function that the topology uses, by its index in the plan's list of functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionIndex(pub u16);

/// Which activation of plugins is meant: the offset of the latest activation in the registry topic. Never falls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Generation(pub i64);

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_read_as_they_are_written() {
        let id = TaskId { subtopology: 12, partition: 7 };
        assert_eq!(TaskId::parse(&id.to_string()), Some(id));
        for other in ["", "0", "0_", "_0", "0_07", "+0_7", "0_7_1", "0_7.new", "plugins"] {
            assert_eq!(TaskId::parse(other), None, "{other}");
        }
    }
}
