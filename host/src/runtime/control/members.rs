//! What the control topic says: who is in the group, and with which tasks. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::TaskId;

use super::report::{Report, Unreadable};

/// The last report of each instance, dead ones among them.
#[derive(Debug, Default)]
pub(in crate::runtime) struct Members {
    /// By instance id, each with the offset of its record.
    reports: BTreeMap<String, (i64, Report)>,
}

impl Members {
    /// Takes a record of the topic in.
    pub(super) fn apply(&mut self, offset: i64, key: &[u8], value: Option<&[u8]>) -> Result<(), Unreadable> {
        let instance = String::from_utf8_lossy(key).into_owned();
        // Whatever comes, what came before is no longer true.
        self.reports.remove(&instance);
        if let Some(value) = value {
            self.reports.insert(instance, (offset, Report::decode(value)?));
        }
        Ok(())
    }

    /// The members of the group in the generation that `instance` is in, in the order of range assignment, each with its
    /// instance id; or `None` until all of them have reported, which is when `all` tasks are somebody's.
    ///
    /// A group that was deleted counts generations from the beginning again: a report that claims what a later one has got is
    /// from before that.
    pub(in crate::runtime) fn with(&self, instance: &str, all: &BTreeSet<TaskId>) -> Option<Vec<(&str, &Report)>> {
        let (_, own) = self.reports.get(instance)?;
        let mut latest: Vec<_> =
            self.reports.iter().filter(|(_, (_, report))| report.generation == own.generation).collect();
        latest.sort_by_key(|(_, (offset, _))| std::cmp::Reverse(*offset));
        let mut taken = BTreeSet::new();
        let mut members = Vec::new();
        for (instance, (_, report)) in latest {
            let tasks = report.tasks();
            if taken.is_disjoint(&tasks) {
                taken.extend(tasks);
                members.push((instance.as_str(), report));
            }
        }
        members.sort_by(|(_, a), (_, b)| a.order.cmp(&b.order));
        (taken.is_superset(all) && members.iter().any(|(id, _)| *id == instance)).then_some(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::GroupMember;

    /// Partitions of the one sub-topology, as tasks.
    fn tasks(partitions: std::ops::Range<i32>) -> BTreeSet<TaskId> {
        partitions.map(|partition| TaskId { subtopology: 0, partition }).collect()
    }

    /// The topic with these reports, each an instance, its generation, its place in the order, and its partitions.
    fn members(reports: &[(&str, i32, &str, std::ops::Range<i32>)]) -> Members {
        let mut members = Members::default();
        for (offset, (instance, generation, order, partitions)) in (0..).zip(reports) {
            let member = GroupMember { generation: *generation, member: (*order).to_owned(), instance: None };
            let report = Report::new(&member, tasks(partitions.clone())).encode().unwrap();
            members.apply(offset, instance.as_bytes(), Some(&report)).unwrap();
        }
        members
    }

    /// The instances in order, as `instance` of a topology with four tasks sees them.
    fn check(members: &Members, instance: &str, expected: Option<&str>) {
        let found = members.with(instance, &tasks(0..4));
        let names = found.map(|found| found.iter().map(|(id, _)| *id).collect::<Vec<_>>().join(" "));
        assert_eq!(names.as_deref(), expected);
    }

    #[test]
    fn members_are_known_once_all_have_reported() {
        check(&members(&[]), "a", None);
        check(&members(&[("a", 3, "z", 2..4)]), "a", None);
        check(&members(&[("a", 3, "z", 2..4), ("b", 2, "y", 0..2)]), "a", None);
        check(&members(&[("a", 3, "z", 2..4), ("b", 3, "y", 0..2)]), "a", Some("b a"));
        check(&members(&[("a", 3, "z", 2..4), ("b", 3, "y", 0..2)]), "c", None);
        check(&members(&[("a", 3, "z", 2..4), ("b", 3, "y", 0..2), ("c", 3, "zz", 0..0)]), "b", Some("b a c"));
    }

    #[test]
    fn the_dead_don_t_count_whatever_their_generation() {
        check(&members(&[("dead", 9, "a", 0..4), ("a", 3, "z", 2..4), ("b", 3, "y", 0..2)]), "a", Some("b a"));
        // The group was deleted and counts from 1 again.
        check(&members(&[("dead", 3, "a", 0..4), ("a", 3, "z", 2..4), ("b", 3, "y", 0..2)]), "a", Some("b a"));
        check(&members(&[("a", 3, "z", 0..4), ("b", 3, "y", 0..4)]), "a", None);
    }

    #[test]
    fn who_left_or_says_what_nobody_understands_is_not_there() {
        let mut members = members(&[("a", 3, "z", 0..4), ("c", 3, "y", 0..0)]);
        check(&members, "a", Some("c a"));
        members.apply(7, b"c", None).unwrap();
        check(&members, "a", Some("a"));
        assert!(members.apply(8, b"a", Some(br#"{"format":2}"#)).is_err());
        check(&members, "a", None);
    }
}
