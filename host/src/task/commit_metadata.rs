//! What a commit leaves beside an input offset in the group.

use serde::{Deserialize, Serialize};

use crate::model::{CommitId, Generation, TopicId};

/// Tells which commit wrote an offset, and under which plugins. Kept in the offset's metadata as JSON; metadata of
/// another writer (Kafka Streams' is base64) reads as none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitMetadata {
    /// The commit.
    pub commit: CommitId,
    /// The plugins' generation of the records before the offset.
    pub generation: Generation,
    /// Which topic of its name the offset is of, where the broker says. Survives a lost state folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<TopicId>,
}

impl CommitMetadata {
    /// The metadata string.
    pub fn encode(&self) -> String {
        // A struct of strings and numbers always has a JSON form.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads a metadata string; `None` for an empty one and for another writer's.
    pub fn decode(metadata: &str) -> Option<Self> {
        serde_json::from_str(metadata).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_the_group_and_ignores_kafka_streams() {
        let commit = CommitId { producer: "a1".to_owned(), number: 7 };
        let topic = Some(TopicId("dAXbEfnzQ2Si7eHM4Npc8A".to_owned()));
        let metadata = CommitMetadata { commit, generation: Generation(3), topic };
        assert_eq!(CommitMetadata::decode(&metadata.encode()), Some(metadata.clone()));
        // As versions without topic ids write it.
        let earlier = r#"{"commit":{"producer":"a1","number":7},"generation":3}"#;
        assert_eq!(CommitMetadata::decode(earlier), Some(CommitMetadata { topic: None, ..metadata }));
        assert_eq!(CommitMetadata::decode(""), None);
        assert_eq!(CommitMetadata::decode("AgAAAYsAAAAA"), None);
    }
}
