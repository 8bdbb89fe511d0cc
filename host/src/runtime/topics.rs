//! The topology's topics as the instance found them, and what it means when they are found to be others.
//!
//! The offsets of a topic are nothing to another one of the same name, and a key's partition depends on their count. So both are
//! remembered: the ids in checkpoints and beside committed offsets, over restarts; and while the instance runs they are looked at
//! from time to time. A table or changelog that was made anew is read from its start at the next start; for an input nobody but
//! the user can say what that means.

use std::collections::BTreeMap;

use crate::kafka::TopicDescription;
use crate::model::{Checkpoint, TopicId, TopicPartition};
use crate::plan::{Plan, SourceKind};
use crate::task::CommitMetadata;

use super::Error;

/// What a topic is to the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Its records are processed, each once.
    Input,
    /// It fills a store: a table or a changelog.
    State,
}

/// A topic as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Topic {
    /// What it is.
    role: Role,
    /// What the broker says of it.
    found: TopicDescription,
}

/// The topics that are read, as they were found at the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Topics(BTreeMap<String, Topic>);

impl Topics {
    /// The topics that `plan` reads, described by `found`.
    pub(super) fn new(plan: &Plan, found: &BTreeMap<String, TopicDescription>) -> Self {
        let mut topics = BTreeMap::new();
        let mut add = |name: &str, role| {
            if let Some(found) = found.get(name) {
                topics.insert(name.to_owned(), Topic { role, found: found.clone() });
            }
        };
        for part in &plan.subtopologies {
            part.stores.iter().for_each(|store| add(store.origin.topic(), Role::State));
            // A topic may be both: then what holds for an input counts.
            let streams = part.sources.iter().filter(|source| source.kind == SourceKind::Stream);
            streams.for_each(|source| add(&source.topic, Role::Input));
        }
        plan.global_tables.iter().for_each(|table| add(&table.topic, Role::State));
        Self(topics)
    }

    /// Their names.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Partitions of a topic; 0 if it is none of these.
    pub(super) fn partitions(&self, topic: &str) -> i32 {
        self.0.get(topic).map_or(0, |topic| topic.found.partitions)
    }

    /// The id of a topic, where it is known.
    pub(super) fn id(&self, topic: &str) -> Option<&TopicId> {
        self.0.get(topic)?.found.id.as_ref()
    }

    /// Notes in a checkpoint which topic the offsets of `partition` are of.
    pub(super) fn note(&self, partition: &TopicPartition, checkpoint: &mut Checkpoint) {
        if let Some(id) = self.id(&partition.topic) {
            checkpoint.topics.insert(partition.topic.to_string(), id.clone());
        }
    }

    /// Whether the input is still the topic whose offsets are in the checkpoint and in the group.
    pub(super) fn check_input(
        &self,
        partition: &TopicPartition,
        checkpoint: &Checkpoint,
        committed: Option<&CommitMetadata>,
    ) -> Result<(), Error> {
        let Some(now) = self.id(&partition.topic) else { return Ok(()) };
        let committed = committed.and_then(|metadata| metadata.topic.as_ref()).filter(|then| *then != now);
        match checkpoint.recreated(&partition.topic, Some(now)).or(committed) {
            Some(before) => Err(Error::RecreatedInput {
                topic: partition.topic.to_string(),
                before: before.clone(),
                now: now.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Whether all is as it was, by what the broker says `now`; in the order of [`Self::names`]. A topic that is away is not judged: it may
    /// come back.
    pub(super) fn check(&self, now: &[Option<TopicDescription>]) -> Result<(), Error> {
        for ((name, before), now) in self.0.iter().zip(now) {
            let Some(now) = now else { continue };
            if let (Some(before_id), Some(now_id)) = (&before.found.id, &now.id)
                && before_id != now_id
            {
                let (topic, before_id, now_id) = (name.clone(), before_id.clone(), now_id.clone());
                return Err(match before.role {
                    Role::Input => Error::RecreatedInput { topic, before: before_id, now: now_id },
                    Role::State => Error::RecreatedWhileInUse { topic, before: before_id, now: now_id },
                });
            }
            if before.found.partitions != now.partitions {
                let (before, now) = (before.found.partitions, now.partitions);
                return Err(Error::PartitionsChanged { topic: name.clone(), before, now });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(partitions: i32, id: Option<&str>) -> TopicDescription {
        TopicDescription { partitions, id: id.map(|id| TopicId(id.to_owned())) }
    }

    /// A stream and a table, with these ids.
    fn topics(stream: Option<&str>, table: Option<&str>) -> Topics {
        let of = |role, id| Topic { role, found: described(4, id) };
        Topics(BTreeMap::from([
            ("stream".to_owned(), of(Role::Input, stream)),
            ("table".to_owned(), of(Role::State, table)),
        ]))
    }

    #[test]
    fn what_changes_while_it_runs_is_told() {
        let known = topics(Some("s"), Some("t"));
        let check = |stream, table| known.check(&[stream, table]).err().map(|error| error.to_string());
        let (same_stream, same_table) = (Some(described(4, Some("s"))), Some(described(4, Some("t"))));
        assert_eq!(check(same_stream.clone(), same_table.clone()), None);
        assert_eq!(check(None, None), None);
        assert_eq!(check(Some(described(4, None)), None), None, "a broker that doesn't tell ids");
        let error = check(Some(described(4, Some("new"))), same_table.clone()).unwrap();
        assert!(error.contains("input topic stream was deleted and made anew (its id was s and is new)"), "{error}");
        let error = check(same_stream.clone(), Some(described(4, Some("new")))).unwrap();
        assert!(error.contains("topic table was deleted and made anew while its rows were in use"), "{error}");
        let error = check(Some(described(5, Some("s"))), same_table).unwrap();
        assert!(error.contains("topic stream has 5 partitions now, and had 4"), "{error}");
    }

    #[test]
    fn offsets_of_another_input_are_recognised_by_either_trace() {
        let known = topics(Some("s"), None);
        let partition = TopicPartition::new("stream", 1);
        let mut noted = Checkpoint::default();
        known.note(&partition, &mut noted);
        known.note(&TopicPartition::new("table", 1), &mut noted);
        assert_eq!(noted.topics.len(), 1);
        let committed = |id: &str| CommitMetadata {
            commit: crate::model::CommitId::default(),
            generation: crate::model::Generation::default(),
            topic: Some(TopicId(id.to_owned())),
        };
        let empty = Checkpoint::default();
        for (now, checkpoint, metadata, fits) in [
            ("s", &noted, Some(committed("s")), true),
            ("s", &empty, None, true),
            ("new", &empty, None, true),
            ("new", &noted, None, false),
            ("new", &empty, Some(committed("s")), false),
            ("new", &empty, Some(committed("new")), true),
        ] {
            let result = topics(Some(now), None).check_input(&partition, checkpoint, metadata.as_ref());
            assert_eq!(result.is_ok(), fits, "{now} {metadata:?} {result:?}");
        }
        assert!(topics(None, None).check_input(&partition, &noted, Some(&committed("x"))).is_ok());
    }
}
