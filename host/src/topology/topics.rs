//! Which topics may be read and written.

use std::collections::BTreeMap;

use crate::config::{MAX_TOPIC, Report};

use super::{Node, NodeKind, Topology};

/// Reports topics that are read twice, that are written though Weir owns them, and those whose names get too long.
pub(super) fn check(topology: &Topology, report: &Report) {
    let sources = read_once(topology, report);
    let internal = internal(topology, report);
    let sinks = topology.nodes.iter().filter_map(|node| match &node.kind {
        NodeKind::Sink { topic, .. } => Some((node.label(), topic)),
        _ => None,
    });
    let dead_letters = topology.dead_letters.iter().map(|topic| ("[dead_letters]".to_owned(), topic));
    for (label, topic) in sinks.chain(dead_letters) {
        if let Some(owner) = internal.get(&topic.value) {
            let what = format!("{label} writes to {}, the {owner}", topic.value);
            report.problem(topic.place, what, "write to a topic of your own");
        }
        if let Some(source) = sources.get(topic.value.as_str()) {
            let what = format!(
                "{label} writes to {}, which {} reads: records may go round for ever",
                topic.value,
                source.label()
            );
            report.warning(topic.place, what, "write to another topic, unless that is meant");
        }
    }
}

/// The sources by topic. Two readers of one topic would have one offset.
fn read_once<'t>(topology: &'t Topology, report: &Report) -> BTreeMap<&'t str, &'t Node> {
    let mut sources = BTreeMap::new();
    for node in &topology.nodes {
        let Some(topic) = node.source_topic().filter(|topic| !topic.value.is_empty()) else { continue };
        match sources.get(topic.value.as_str()) {
            None => {
                sources.insert(topic.value.as_str(), node);
            }
            // Said already: two nodes of one name.
            Some(first) if first.name == node.name => {}
            Some(first) => {
                let (first, line) = (first.label(), report.origins.mention(first.place));
                let what = format!("{} reads {}, which {first} ({line}) reads already", node.label(), topic.value);
                report.problem(topic.place, what, "declare a topic once and use it as often as needed");
            }
        }
    }
    sources
}

/// The topics that Weir makes, and what they are.
fn internal(topology: &Topology, report: &Report) -> BTreeMap<String, String> {
    let mut internal = BTreeMap::new();
    internal.insert(registry_topic(&topology.app.id), "topic of the plugins".to_owned());
    internal.insert(control_topic(&topology.app.id), "topic of the instances".to_owned());
    for node in &topology.nodes {
        if let NodeKind::Aggregate { .. } = node.kind {
            let topic = changelog_topic(&topology.app.id, &node.name);
            if topic.len() > MAX_TOPIC {
                let what =
                    format!("{} would have the changelog {topic}, {} characters long", node.label(), topic.len());
                report.problem(
                    node.place,
                    what,
                    format!("shorten its name or app.id: Kafka takes {MAX_TOPIC} characters"),
                );
            }
            internal.insert(topic, format!("changelog of {}", node.name));
        }
    }
    internal
}

/// The changelog of `store`, named as Kafka Streams names it.
pub(crate) fn changelog_topic(app_id: &str, store: &str) -> String {
    format!("{app_id}-{store}-changelog")
}

/// The topic of the application's plugins and their activations.
pub(crate) fn registry_topic(app_id: &str) -> String {
    format!("{app_id}-plugins")
}

/// The topic by which the application's instances tell each other what they do.
pub(crate) fn control_topic(app_id: &str) -> String {
    format!("{app_id}-control")
}
