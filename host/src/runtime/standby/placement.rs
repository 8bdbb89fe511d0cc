//! Where standbys stand: exactly where range assignment puts a task when instances are lost. Pure.
//!
//! Range assignment sorts the members and cuts each topic's partitions into as many runs, the first ones longer by one. When
//! `k` members are lost, the partition goes to rank `r` among those left, which follows from their number alone; that is the
//! member at place `r + j` of today's order, where `j` of the lost came before it, and `j` can be anything from 0 to `k`. So the
//! places after every loss of `k` members are a run of `k + 1`, of which one is today's owner. With one loss that makes one
//! standby a task, with two mostly two, and so on.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::TaskId;

/// The place, in the members' order, that range assignment gives partition `partition` of `partitions` to.
fn owner(partition: usize, partitions: usize, members: usize) -> usize {
    let (each, longer) = (partitions / members.max(1), partitions % members.max(1));
    let in_longer = longer * (each + 1);
    if partition < in_longer { partition / (each + 1) } else { longer + (partition - in_longer) / each.max(1) }
}

/// The places other than the owner's that the partition may go to when up to `losses` members are lost.
fn standbys(partition: usize, partitions: usize, members: usize, losses: usize) -> BTreeSet<usize> {
    let mut places = BTreeSet::new();
    for lost in 1..=losses.min(members.saturating_sub(1)) {
        let rank = owner(partition, partitions, members - lost);
        places.extend(rank..=rank + lost);
    }
    places.remove(&owner(partition, partitions, members));
    places
}

/// What of all tasks is whose. `partitions`: how many tasks each sub-topology has.
pub(super) struct Placement<'a> {
    /// Tasks of each sub-topology.
    pub(super) partitions: &'a BTreeMap<u32, i32>,
    /// Members of the group.
    pub(super) members: usize,
}

impl Placement<'_> {
    /// The tasks that range assignment gives the member at `place`.
    pub(super) fn owned(&self, place: usize) -> BTreeSet<TaskId> {
        self.tasks(|partition, partitions| owner(partition, partitions, self.members) == place)
    }

    /// The tasks that the member at `place` keeps standbys of, for up to `losses` losses.
    pub(super) fn standbys(&self, place: usize, losses: usize) -> BTreeSet<TaskId> {
        self.tasks(|partition, partitions| standbys(partition, partitions, self.members, losses).contains(&place))
    }

    /// The tasks for which `which(partition, partitions)` holds.
    fn tasks(&self, which: impl Fn(usize, usize) -> bool) -> BTreeSet<TaskId> {
        let mut tasks = BTreeSet::new();
        for (subtopology, partitions) in self.partitions {
            let count = usize::try_from(*partitions).unwrap_or(0);
            tasks.extend((0..*partitions).filter_map(|partition| {
                let index = usize::try_from(partition).ok()?;
                which(index, count).then_some(TaskId { subtopology: *subtopology, partition })
            }));
        }
        tasks
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Range assignment as its definition says it: runs handed out one after the other.
    fn assign(partitions: usize, members: &[usize]) -> BTreeMap<usize, usize> {
        let mut owners = BTreeMap::new();
        let mut next = 0;
        for (rank, member) in members.iter().enumerate() {
            let run = partitions / members.len() + usize::from(rank < partitions % members.len());
            owners.extend((next..next + run).map(|partition| (partition, *member)));
            next += run;
        }
        owners
    }

    /// Every way to leave out `count` of `members`.
    fn without(members: &[usize], count: usize) -> Vec<Vec<usize>> {
        let Some((first, rest)) = members.split_first().filter(|_| count > 0) else {
            return if count == 0 { vec![members.to_vec()] } else { Vec::new() };
        };
        let mut all = without(rest, count - 1);
        all.extend(without(rest, count).into_iter().map(|mut left| {
            left.insert(0, *first);
            left
        }));
        all
    }

    #[test]
    fn two_instances_stand_by_for_each_other() {
        let partitions = BTreeMap::from([(0, 3), (2, 1)]);
        let placement = Placement { partitions: &partitions, members: 2 };
        let names = |tasks: BTreeSet<TaskId>| tasks.iter().map(TaskId::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(names(placement.owned(0)), "0_0 0_1 2_0");
        assert_eq!(names(placement.standbys(0, 1)), "0_2");
        assert_eq!(names(placement.standbys(1, 1)), "0_0 0_1 2_0");
        assert_eq!(names(Placement { members: 1, ..placement }.standbys(0, 1)), "");
    }

    proptest! {
        #[test]
        fn owners_are_range_assignments(partitions in 0usize..40, members in 1usize..12) {
            for (partition, owns) in assign(partitions, &(0..members).collect::<Vec<_>>()) {
                prop_assert_eq!(owner(partition, partitions, members), owns);
            }
        }

        /// Wherever a partition goes after any loss, a lost owner's or one that moves between survivors: it stood by there,
        /// or was there already. And nothing stands by in vain.
        #[test]
        fn standbys_are_where_partitions_go(partitions in 0usize..25, members in 1usize..8, losses in 0usize..4) {
            let all: Vec<usize> = (0..members).collect();
            let now = assign(partitions, &all);
            let mut needed: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
            for count in 1..=losses.min(members - 1) {
                for left in without(&all, count) {
                    for (partition, place) in assign(partitions, &left) {
                        if now[&partition] != place {
                            needed.entry(partition).or_default().insert(place);
                        }
                    }
                }
            }
            for partition in 0..partitions {
                let places = standbys(partition, partitions, members, losses);
                prop_assert_eq!(&places, &needed.remove(&partition).unwrap_or_default());
                prop_assert!(losses == 0 || members == 1 || !places.is_empty());
                prop_assert!(losses != 1 || places.len() <= 1, "{:?}", places);
            }
        }
    }
}
