//! What a task's stores say of themselves: how far they are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Generation, TopicPartition};

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
    /// Changelog records of later commits than that are in the store: `streams` is older than the state, and nothing to resume
    /// from. Only the group knows the offsets that belong to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ahead: bool,
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
