//! A Kafka cluster in memory: logs, a group, a transaction coordinator.

mod coordinator;
mod group;
mod log;

use std::collections::BTreeMap;

use crate::model::TopicPartition;

pub(super) use coordinator::{Carry, Coordinator, Identity, Refused};
pub(super) use group::{Group, Heartbeat, MemberId, MemberPlace};
pub(super) use log::{Log, Passed, ProducerId};

/// The cluster.
#[derive(Default)]
pub(super) struct Cluster {
    /// All partitions.
    pub(super) logs: BTreeMap<TopicPartition, Log>,
    /// The group.
    pub(super) group: Group,
    /// The coordinator.
    pub(super) coordinator: Coordinator,
    /// Requests to end a transaction that are still on their way.
    pub(super) late_ends: Vec<Identity>,
}

impl Cluster {
    /// A partition's log.
    pub(super) fn log(&mut self, partition: &TopicPartition) -> &mut Log {
        self.logs.entry(partition.clone()).or_default()
    }

    /// Carries out one step of some transaction's end, or all of those of `only`. Returns what partitions got a marker.
    pub(super) fn carry(&mut self, only: Option<&str>) -> Vec<TopicPartition> {
        let mut marked = Vec::new();
        while let Some((producer, commit, step)) = self.coordinator.carry(only) {
            match step {
                Carry::Marker(partition) => {
                    self.log(&partition).end_transaction(producer, commit);
                    marked.push(partition);
                }
                Carry::Offsets => self.group.end_transaction(producer, commit),
            }
            if only.is_none() {
                break;
            }
        }
        marked
    }
}
