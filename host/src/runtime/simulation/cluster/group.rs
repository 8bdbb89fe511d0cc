//! The consumer group: members, generations, assignments, committed offsets.
//!
//! Eager and classic: whoever joins, leaves or is missing makes all others join again; when all have, or the time for it is over, the next
//! generation begins, with each member's range of partitions. Offsets are accepted from members of the present generation only. Those
//! of a transaction wait for its end, and as long as they do nobody is told what is committed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::log::ProducerId;
use crate::model::TopicPartition;

/// How long a member may be silent.
pub(in crate::runtime::simulation) const SESSION: Duration = Duration::from_millis(400);
/// How long members may take to join again.
const REBALANCE: Duration = Duration::from_millis(900);

/// A member's id.
pub(in crate::runtime::simulation) type MemberId = u64;

/// A process, and which of its lives.
pub(in crate::runtime::simulation) type Life = (usize, u64);

/// Offsets with their metadata.
pub(in crate::runtime::simulation) type Offsets = Vec<(TopicPartition, i64, String)>;

/// A member's place in a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime::simulation) struct MemberPlace {
    /// The member.
    pub(in crate::runtime::simulation) member: MemberId,
    /// The generation.
    pub(in crate::runtime::simulation) generation: u32,
}

/// What a member learns when it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime::simulation) enum Heartbeat {
    /// Nothing new.
    Fine,
    /// A rebalance began: give back what you have and join again.
    Rejoin,
    /// The group has gone on without you.
    Unknown,
}

/// A member.
struct Member {
    /// Which life of which process it is, to hear whether it is silent.
    life: Life,
    /// Whether it has joined the generation that is being formed.
    joined: bool,
    /// When it was heard last.
    heard: Duration,
    /// Its partition numbers in the present generation.
    partitions: Vec<i32>,
}

/// The group.
#[derive(Default)]
pub(in crate::runtime::simulation) struct Group {
    /// The present generation.
    generation: u32,
    /// Since when the next one is being formed.
    forming: Option<Duration>,
    /// Members.
    members: BTreeMap<MemberId, Member>,
    /// The next member's id.
    next: MemberId,
    /// Committed offsets with their metadata.
    offsets: BTreeMap<TopicPartition, (i64, String)>,
    /// Offsets of transactions that have not ended.
    pending: BTreeMap<ProducerId, Offsets>,
}

impl Group {
    /// A process joins, anew or again. Returns its member id.
    pub(in crate::runtime::simulation) fn join(
        &mut self,
        member: Option<MemberId>,
        life: Life,
        now: Duration,
    ) -> MemberId {
        let id = member.filter(|member| self.members.contains_key(member)).unwrap_or_else(|| {
            self.next += 1;
            self.next
        });
        let partitions = Vec::new();
        let member = self.members.entry(id).or_insert(Member { life, joined: false, heard: now, partitions });
        member.joined = true;
        self.forming.get_or_insert(now);
        id
    }

    /// What a member learns.
    pub(in crate::runtime::simulation) fn heartbeat(&self, member: MemberId) -> Heartbeat {
        match self.members.get(&member) {
            None => Heartbeat::Unknown,
            Some(member) if self.forming.is_some() && !member.joined => Heartbeat::Rejoin,
            Some(_) => Heartbeat::Fine,
        }
    }

    /// A member leaves.
    pub(in crate::runtime::simulation) fn leave(&mut self, member: MemberId, now: Duration) {
        if self.members.remove(&member).is_some() {
            self.forming.get_or_insert(now);
        }
    }

    /// What a member has in the present generation, when it is formed.
    pub(in crate::runtime::simulation) fn given(&self, member: MemberId) -> Option<(MemberPlace, Vec<i32>)> {
        let partitions = self.members.get(&member).filter(|_| self.forming.is_none())?.partitions.clone();
        Some((MemberPlace { member, generation: self.generation }, partitions))
    }

    /// Time goes on: silent members are dropped, a generation is formed. `awake`: who is heard.
    pub(in crate::runtime::simulation) fn step(&mut self, awake: &BTreeSet<Life>, partitions: i32, now: Duration) {
        for member in self.members.values_mut().filter(|member| awake.contains(&member.life)) {
            member.heard = now;
        }
        let silent = |member: &Member| now.saturating_sub(member.heard) > SESSION;
        let before = self.members.len();
        self.members.retain(|_, member| !silent(member));
        if self.members.len() < before {
            self.forming.get_or_insert(now);
        }
        let Some(since) = self.forming else { return };
        if now.saturating_sub(since) > REBALANCE {
            self.members.retain(|_, member| member.joined);
        }
        if self.members.values().all(|member| member.joined) {
            self.form(partitions);
        }
    }

    /// Begins the next generation: each member gets its range.
    fn form(&mut self, partitions: i32) {
        self.generation += 1;
        self.forming = None;
        let count = i32::try_from(self.members.len()).unwrap_or(1).max(1);
        let (each, more) = (partitions / count, partitions % count);
        let mut next = 0;
        for (index, member) in (0..).zip(self.members.values_mut()) {
            let take = each + i32::from(index < more);
            member.partitions = (next..next + take).collect();
            member.joined = false;
            next += take;
        }
    }

    /// Whether a generation is formed.
    pub(in crate::runtime::simulation) fn is_stable(&self) -> bool {
        self.forming.is_none()
    }

    /// Whether the place is one in the present generation.
    pub(in crate::runtime::simulation) fn has(&self, place: MemberPlace) -> bool {
        place.generation == self.generation && self.members.contains_key(&place.member)
    }

    /// Adds offsets to the open transaction of `producer`.
    pub(in crate::runtime::simulation) fn add(
        &mut self,
        producer: ProducerId,
        offsets: &[(TopicPartition, i64, String)],
    ) {
        let pending = self.pending.entry(producer).or_default();
        pending.retain(|(of, ..)| !offsets.iter().any(|(partition, ..)| partition == of));
        pending.extend(offsets.iter().cloned());
    }

    /// Commits offsets outside any transaction.
    pub(in crate::runtime::simulation) fn commit(&mut self, offsets: &[(TopicPartition, i64, String)]) {
        for (partition, offset, metadata) in offsets {
            self.offsets.insert(partition.clone(), (*offset, metadata.clone()));
        }
    }

    /// A transaction has ended.
    pub(in crate::runtime::simulation) fn end_transaction(&mut self, of: ProducerId, commit: bool) {
        let offsets = self.pending.remove(&of).unwrap_or_default();
        if commit {
            self.commit(&offsets);
        }
    }

    /// What is committed for a partition; `Err`: a transaction is about to change it.
    pub(in crate::runtime::simulation) fn committed(&self, of: &TopicPartition) -> Result<Option<(i64, String)>, ()> {
        if self.pending.values().flatten().any(|(partition, ..)| partition == of) {
            return Err(());
        }
        Ok(self.offsets.get(of).cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_of_an_earlier_generation_is_refused() {
        let mut group = Group::default();
        let ms = Duration::from_millis;
        let one = group.join(None, (0, 0), ms(0));
        group.step(&BTreeSet::from([(0, 0)]), 3, ms(0));
        let (first, partitions) = group.given(one).unwrap();
        assert_eq!((group.has(first), partitions), (true, vec![0, 1, 2]));

        let two = group.join(None, (1, 0), ms(1));
        assert_eq!((group.heartbeat(one), group.given(two)), (Heartbeat::Rejoin, None));
        assert!(group.has(first), "the generation lasts until the next is formed");
        group.step(&BTreeSet::from([(0, 0), (1, 0)]), 3, ms(2));
        assert!(!group.is_stable(), "one has not joined again");
        group.join(Some(one), (0, 0), ms(3));
        group.step(&BTreeSet::from([(0, 0), (1, 0)]), 3, ms(3));
        assert_eq!(
            (group.has(first), group.given(one).unwrap().1, group.given(two).unwrap().1),
            (false, vec![0, 1], vec![2])
        );

        group.step(&BTreeSet::from([(0, 1), (1, 0)]), 3, ms(3) + SESSION + ms(1));
        assert_eq!((group.heartbeat(one), group.heartbeat(two)), (Heartbeat::Unknown, Heartbeat::Rejoin));
    }

    #[test]
    fn offsets_of_an_open_transaction_are_not_told() {
        let mut group = Group::default();
        let partition = TopicPartition::new("a", 0);
        group.add(7, &[(partition.clone(), 5, "m".to_owned())]);
        assert_eq!(group.committed(&partition), Err(()));
        group.end_transaction(7, false);
        assert_eq!(group.committed(&partition), Ok(None));
        group.add(7, &[(partition.clone(), 6, "n".to_owned())]);
        group.end_transaction(7, true);
        assert_eq!(group.committed(&partition), Ok(Some((6, "n".to_owned()))));
    }
}
