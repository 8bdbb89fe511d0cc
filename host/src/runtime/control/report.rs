//! What an instance tells the others: one record of the control topic, under the instance's id.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::kafka::GroupMember;
use crate::model::TaskId;

/// Version of the records' form. Fields that a version doesn't know are passed over; a later form is not read at all.
const FORMAT: u32 = 1;

/// A report of an instance: who it is in which generation of the group, and what it got there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::runtime) struct Report {
    /// Version of the form.
    format: u32,
    /// The group's generation.
    pub(in crate::runtime) generation: i32,
    /// What range assignment sorts the group's members by.
    pub(in crate::runtime) order: String,
    /// Its partitions of each sub-topology.
    tasks: BTreeMap<u32, BTreeSet<i32>>,
}

/// The part that every version has.
#[derive(Deserialize)]
struct Format {
    /// Version of the form.
    format: u32,
}

/// A record that is no report.
#[derive(Debug, thiserror::Error)]
pub(in crate::runtime) enum Unreadable {
    /// A later version wrote it.
    #[error("it has format {found}, this version of Weir knows {FORMAT}")]
    Newer {
        /// The format found.
        found: u32,
    },
    /// It is not what Weir writes.
    #[error("it is no report")]
    Damaged(#[from] serde_json::Error),
}

impl Report {
    /// The report of a member with these tasks.
    pub(in crate::runtime) fn new(member: &GroupMember, tasks: impl IntoIterator<Item = TaskId>) -> Self {
        let mut by_part: BTreeMap<u32, BTreeSet<i32>> = BTreeMap::new();
        for task in tasks {
            by_part.entry(task.subtopology).or_default().insert(task.partition);
        }
        let order = member.order().to_owned();
        Self { format: FORMAT, generation: member.generation, order, tasks: by_part }
    }

    /// The tasks.
    pub(in crate::runtime) fn tasks(&self) -> BTreeSet<TaskId> {
        let of = |(part, partitions): (&u32, &BTreeSet<i32>)| {
            let subtopology = *part;
            partitions.iter().map(move |partition| TaskId { subtopology, partition: *partition }).collect::<Vec<_>>()
        };
        self.tasks.iter().flat_map(of).collect()
    }

    /// As the topic has it.
    pub(super) fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }

    /// From the topic.
    pub(super) fn decode(value: &[u8]) -> Result<Self, Unreadable> {
        let Format { format: found } = serde_json::from_slice(value)?;
        if found > FORMAT {
            return Err(Unreadable::Newer { found });
        }
        Ok(serde_json::from_slice(value)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_reads_as_it_was_written() {
        let member = GroupMember { generation: 7, member: "m-1".to_owned(), instance: Some("i".to_owned()) };
        let tasks = [(0, 1), (0, 0), (2, 5)].map(|(subtopology, partition)| TaskId { subtopology, partition });
        let report = Report::new(&member, tasks);
        let json = report.encode().unwrap();
        assert_eq!(
            String::from_utf8(json.clone()).unwrap(),
            r#"{"format":1,"generation":7,"order":"i","tasks":{"0":[0,1],"2":[5]}}"#
        );
        assert_eq!(Report::decode(&json).unwrap(), report);
        assert_eq!(report.tasks(), BTreeSet::from(tasks));
        assert_eq!(Report::new(&GroupMember { instance: None, ..member }, []).order, "m-1");
    }

    #[test]
    fn later_forms_and_other_things_are_told_apart() {
        let more = br#"{"format":1,"generation":7,"order":"i","tasks":{},"barrier":{"full":true}}"#;
        assert_eq!(Report::decode(more).unwrap().generation, 7);
        let later = Report::decode(br#"{"format":2}"#).unwrap_err();
        assert_eq!(later.to_string(), "it has format 2, this version of Weir knows 1");
        for other in [&b"x"[..], b"{}", br#"{"format":1}"#] {
            assert!(matches!(Report::decode(other), Err(Unreadable::Damaged(_))));
        }
    }
}
