//! Whether a topology holds together. Each check reports what it finds and goes on; what another check or the reading has
//! reported already (an empty name is a placeholder) is passed over.

use std::collections::BTreeMap;

use crate::config::{At, ByteSize, Report, list, nearest};

use super::{Node, NodeKind, OnError, StoreKind, Topology, Use, cycles, routes, topics};

/// Most nodes of a file: far beyond what a person reviews; indices are small numbers.
const MAX_NODES: usize = 1_000;

/// Most uses of functions.
const MAX_USES: usize = 10_000;

/// The nodes by name; of several with one name the first.
pub(super) type Names<'t> = BTreeMap<&'t str, &'t Node>;

/// Reports all that is wrong with `topology`.
pub(super) fn check(topology: &Topology, report: &Report) {
    size(topology, report);
    let names = unique_names(topology, report);
    for node in &topology.nodes {
        for from in node.inputs() {
            input(node, from, &names, report);
        }
        if let NodeKind::Join { table, .. } = &node.kind {
            join_table(node, table, &names, report);
        }
        if let NodeKind::Aggregate { .. } = &node.kind {
            one_plugin(node, report);
        }
    }
    for used in topology.nodes.iter().flat_map(Node::uses).chain(topology.views.iter().map(|view| &view.function)) {
        plugin(used, topology, report);
    }
    cycles::check(topology, &names, report);
    topics::check(topology, report);
    routes::check(topology, &names, report);
    dead_letters(topology, report);
    memory(topology, report);
    unused(topology, report);
}

/// Something must be there, and not too much.
fn size(topology: &Topology, report: &Report) {
    if !topology.nodes.iter().any(|node| node.source_topic().is_some()) {
        let remedy = "declare a topic to read: [streams.X], [tables.X] or [global_tables.X]";
        report.problem(Default::default(), "the file reads nothing", remedy);
    }
    if let Some(node) = topology.nodes.get(MAX_NODES) {
        let what = format!("the file declares {} nodes", topology.nodes.len());
        report.problem(node.place, what, format!("declare at most {MAX_NODES} in one application"));
    }
    if let Some(used) = topology.nodes.iter().flat_map(Node::uses).nth(MAX_USES) {
        report.problem(used.place, format!("functions are used more than {MAX_USES} times"), "split the application");
    }
}

/// Names are unique over all kinds of nodes: metrics, logs and `from` know a node by its name alone.
fn unique_names<'t>(topology: &'t Topology, report: &Report) -> Names<'t> {
    let mut names = Names::new();
    for node in &topology.nodes {
        match names.get(node.name.as_str()) {
            None => {
                names.insert(&node.name, node);
            }
            Some(first) => {
                let (before, line) = (first.kind.in_words(), report.origins.mention(first.place));
                let what = format!("{} is the name of {before} ({line}) and of {}", node.name, node.kind.in_words());
                report.problem(
                    node.place,
                    what,
                    "give one of them another name (a topic can be named with topic = \"…\")",
                );
            }
        }
    }
    names
}

/// What `node` takes records from must hand on records.
fn input(node: &Node, from: &At<String>, names: &Names<'_>, report: &Report) {
    let label = node.label();
    match names.get(from.value.as_str()) {
        _ if from.value.is_empty() => {}
        Some(found) if found.hands_on_records() => {}
        Some(found) => {
            let what = format!("{label} takes records from {}, which is {}", from.value, found.kind.in_words());
            report.problem(from.place, what, "name a stream, a join, an aggregate or a transform");
        }
        None => {
            let candidates = names.values().filter(|node| node.hands_on_records());
            let what = format!("{label} takes records from {}, which is not declared", from.value);
            let remedy = did_you_mean(&from.value, candidates.map(|node| node.name.as_str()))
                .unwrap_or_else(|| format!("declare [streams.{}], or name a node that is there", from.value));
            report.problem(from.place, what, remedy);
        }
    }
}

/// What a join looks up must be a table.
fn join_table(node: &Node, table: &At<String>, names: &Names<'_>, report: &Report) {
    let label = node.label();
    let is_table = |node: &Node| matches!(node.kind, NodeKind::Table { .. } | NodeKind::GlobalTable { .. });
    match names.get(table.value.as_str()) {
        _ if table.value.is_empty() => {}
        Some(found) if is_table(found) => {}
        Some(found) => {
            let what = format!("{label} looks rows up in {}, which is {}", table.value, found.kind.in_words());
            let remedy = match found.kind {
                NodeKind::Stream { .. } => format!("declare it as [tables.{0}] or [global_tables.{0}]", table.value),
                _ => "name a table or a global table".to_owned(),
            };
            report.problem(table.place, what, remedy);
        }
        None => {
            let candidates = names.values().filter(|node| is_table(node)).map(|node| node.name.as_str());
            let what = format!("{label} looks rows up in {}, which is not declared", table.value);
            let remedy = did_you_mean(&table.value, candidates)
                .unwrap_or_else(|| format!("declare [tables.{0}] or [global_tables.{0}]", table.value));
            report.problem(table.place, what, remedy);
        }
    }
}

/// The functions of an aggregate share its state, so they are of one plugin.
fn one_plugin(node: &Node, report: &Report) {
    let uses = node.uses();
    let mut used = uses.iter().filter(|used| !used.plugin.is_empty());
    let Some(first) = used.next() else { return };
    for other in used.filter(|other| other.plugin != first.plugin) {
        let what = format!("{} has functions of {} and of {}", node.label(), first.plugin, other.plugin);
        report.problem(
            other.place,
            what,
            "use one plugin: all functions of an aggregate read and write the same state",
        );
    }
}

/// A function's plugin must be declared.
fn plugin(used: &Use, topology: &Topology, report: &Report) {
    if used.plugin.is_empty() || topology.plugins.contains_key(&used.plugin) {
        return;
    }
    let what = format!("{}.{}: there is no plugin {}", used.plugin, used.function, used.plugin);
    let remedy = did_you_mean(&used.plugin, topology.plugins.keys().map(String::as_str))
        .unwrap_or_else(|| format!("add [plugins.{0}] with file = \"{0}.wasm\"", used.plugin));
    report.problem(used.place, what, remedy);
}

/// Dead letters need a topic.
fn dead_letters(topology: &Topology, report: &Report) {
    let mut dead = topology.nodes.iter().flat_map(Node::uses).filter(|used| used.on_error == OnError::DeadLetter);
    match (dead.next(), &topology.dead_letters) {
        (Some(used), None) => {
            let what =
                format!("{}.{} has on_error = \"dlq\", but there is no [dead_letters]", used.plugin, used.function);
            report.problem(used.place, what, "add [dead_letters] with topic = \"dead-letters\"");
        }
        (None, Some(topic)) => {
            report.warning(
                topic.place,
                "[dead_letters] is not used",
                "set on_error = \"dlq\" where a function is used, or remove it",
            );
        }
        _ => {}
    }
}

/// What memory stores may hold must fit into what the process may take.
fn memory(topology: &Topology, report: &Report) {
    let bounds: Vec<_> = topology
        .nodes
        .iter()
        .filter_map(|node| match node.store() {
            Some(StoreKind::Memory { max_bytes }) => Some((node, max_bytes)),
            _ => None,
        })
        .collect();
    let total = bounds.iter().fold(0_u64, |total, (_, bytes)| total.saturating_add(*bytes));
    if total > topology.state.memory.0 {
        let names = list(bounds.iter().map(|(node, bytes)| format!("{} ({})", node.name, ByteSize(*bytes))), "and");
        let what = format!("state.memory is {}, less than its memory stores may hold: {names}", topology.state.memory);
        report.problem(topology.state.memory_place, what, "raise it, or lower their max_memory");
    }
}

/// Warns of what nobody uses.
fn unused(topology: &Topology, report: &Report) {
    for node in &topology.nodes {
        let passes = matches!(node.kind, NodeKind::Stream { .. } | NodeKind::Join { .. } | NodeKind::Transform { .. });
        let read = topology.nodes.iter().flat_map(Node::inputs).any(|from| from.value == node.name);
        if passes && !read {
            let remedy = match node.kind {
                NodeKind::Stream { .. } => {
                    "it is not consumed: name it in a join, an aggregate, a transform or a sink, or remove it"
                }
                _ => "name it in a sink, an aggregate, a join or a transform, or remove it",
            };
            report.warning(node.place, format!("nothing takes the records of {}", node.label()), remedy);
        }
    }
    for (name, plugin) in &topology.plugins {
        let nodes = topology.nodes.iter().flat_map(Node::uses);
        let mut uses = nodes.chain(topology.views.iter().map(|view| &view.function));
        if !uses.any(|used| used.plugin == *name) {
            report.warning(
                plugin.file_place,
                format!("no function of the plugin {name} is used"),
                "use one, or remove the plugin",
            );
        }
    }
}

/// The remedy for a name that is not there but nearly.
pub(super) fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(name, candidates).map(|near| format!("did you mean {near}?"))
}
