//! Topics that Weir makes: their names, partitions and settings.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::topology;

use super::{CopartitionProblem, Plan, StoreOrigin};

/// A topic that Weir makes if it isn't there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InternalTopic {
    /// Its name.
    pub name: String,
    /// Its number of partitions.
    pub partitions: i32,
    /// Its settings.
    pub config: Vec<(String, String)>,
}

/// The changelogs, as many partitions as the sub-topology has tasks, named and set as Kafka Streams does it. Of
/// sub-topologies whose topics don't fit (`tasks` says so) there are none.
pub fn internal_topics(plan: &Plan, counts: &BTreeMap<String, i32>) -> Vec<InternalTopic> {
    let mut topics = Vec::new();
    for part in &plan.subtopologies {
        let Ok(partitions) = CopartitionProblem::check(part, counts) else { continue };
        topics.extend(part.stores.iter().filter_map(|store| match &store.origin {
            StoreOrigin::Changelog { topic } => Some(compacted(topic.clone(), partitions)),
            StoreOrigin::Table { .. } => None,
        }));
    }
    topics
}

/// The topic of the application's plugins and their activations: one log, so one partition.
pub fn registry_topic(app_id: &str) -> InternalTopic {
    compacted(topology::registry_topic(app_id), 1)
}

/// The topic by which the application's instances tell each other what they do: one log, so one partition.
pub fn control_topic(app_id: &str) -> InternalTopic {
    compacted(topology::control_topic(app_id), 1)
}

/// A compacted topic whose records keep the timestamps they are given.
fn compacted(name: String, partitions: i32) -> InternalTopic {
    let config = [("cleanup.policy", "compact"), ("message.timestamp.type", "CreateTime")];
    let config = config.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    InternalTopic { name, partitions, config }
}
