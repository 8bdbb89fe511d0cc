//! What a task's stores say of themselves: how far they are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Generation, TopicId, TopicPartition};

/// Identifies one commit of one stream thread: which process made it, and its number there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitId {
    /// Random id of the producer's life (a new one each time a producer is made).
    pub producer: String,
    /// Number of the commit in that life, from 1.
    pub number: u64,
}

/// What a task's stores contain, written in one batch with the state it describes.
///
/// All offsets are positions: the next offset to read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Tables and changelogs: everything below is in the store. The only place they resume from.
    #[serde(with = "by_name")]
    pub tables: BTreeMap<TopicPartition, i64>,
    /// Streams: a copy of the committed offsets, to check the group's against.
    #[serde(with = "by_name")]
    pub streams: BTreeMap<TopicPartition, i64>,
    /// The commit that wrote this.
    pub commit: CommitId,
    /// The plugins' generation of that commit.
    pub generation: Generation,
    /// Which topics of their names these are, where the broker says: the offsets of one are nothing to another. Checkpoints of
    /// earlier versions have none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub topics: BTreeMap<String, TopicId>,
    /// Changelog records of later commits than that are in the store: `streams` is older than the state, and nothing to resume
    /// from. Only the group knows the offsets that belong to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ahead: bool,
}

impl Checkpoint {
    /// The id that `topic` had, if it is known and another one than `now`: the topic was deleted and made anew.
    pub fn recreated(&self, topic: &str, now: Option<&TopicId>) -> Option<&TopicId> {
        self.topics.get(topic).filter(|then| now.is_some_and(|now| now != *then))
    }

    /// Takes out what it says of a table or changelog.
    pub fn forget(&mut self, topic: &str) {
        self.tables.retain(|partition, _| &*partition.topic != topic);
        self.topics.remove(topic);
    }

    /// Whether it is that of another partition's task: a folder that was copied or renamed.
    pub fn is_foreign(&self, partition: i32) -> bool {
        self.tables.keys().chain(self.streams.keys()).any(|of| of.partition != partition)
    }
}

/// Topic partitions as `topic-3` in maps.
mod by_name {
    use std::collections::BTreeMap;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::TopicPartition;

    pub(super) fn serialize<S: Serializer>(
        offsets: &BTreeMap<TopicPartition, i64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let named: BTreeMap<String, i64> = offsets.iter().map(|(tp, at)| (tp.to_string(), *at)).collect();
        named.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<TopicPartition, i64>, D::Error> {
        let named = BTreeMap::<String, i64>::deserialize(deserializer)?;
        named
            .into_iter()
            .map(|(name, at)| {
                let (topic, partition) =
                    name.rsplit_once('-').ok_or_else(|| D::Error::custom(format!("no partition in '{name}'")))?;
                let partition =
                    partition.parse().map_err(|e| D::Error::custom(format!("partition of '{name}': {e}")))?;
                Ok((TopicPartition::new(topic, partition), at))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A checkpoint as a version without topic ids wrote it.
    const EARLIER: &str =
        r#"{"tables":{"t-3":7},"streams":{"s-3":5},"commit":{"producer":"a","number":1},"generation":2}"#;

    #[test]
    fn earlier_forms_are_read() {
        let checkpoint: Checkpoint = serde_json::from_str(EARLIER).unwrap();
        assert_eq!(checkpoint.tables, BTreeMap::from([(TopicPartition::new("t", 3), 7)]));
        assert_eq!(checkpoint.topics, BTreeMap::new());
        // And the same by an earlier version, as long as no id is known.
        assert_eq!(serde_json::to_string(&checkpoint).unwrap(), EARLIER);
    }

    #[test]
    fn a_recreated_topic_is_recognised_where_both_ids_are_known() {
        let (one, two) = (TopicId("one".to_owned()), TopicId("two".to_owned()));
        let mut checkpoint: Checkpoint = serde_json::from_str(EARLIER).unwrap();
        assert_eq!(checkpoint.recreated("t", Some(&one)), None);
        checkpoint.topics.insert("t".to_owned(), one.clone());
        let again: Checkpoint = serde_json::from_str(&serde_json::to_string(&checkpoint).unwrap()).unwrap();
        assert_eq!(again, checkpoint);
        assert_eq!(checkpoint.recreated("t", None), None);
        assert_eq!(checkpoint.recreated("t", Some(&one)), None);
        assert_eq!(checkpoint.recreated("t", Some(&two)), Some(&one));
        assert_eq!(checkpoint.recreated("u", Some(&two)), None);
        checkpoint.forget("t");
        assert_eq!((checkpoint.tables.len(), checkpoint.topics.len(), checkpoint.streams.len()), (0, 0, 1));
    }

    #[test]
    fn a_checkpoint_of_another_partition_is_foreign() {
        let checkpoint: Checkpoint = serde_json::from_str(EARLIER).unwrap();
        assert!(checkpoint.is_foreign(2) && !checkpoint.is_foreign(3));
        assert!(!Checkpoint::default().is_foreign(0));
    }
}
