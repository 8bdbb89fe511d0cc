//! Records must come to an end: no node may feed itself.

use std::collections::BTreeSet;

use crate::config::Report;

use super::check::Names;
use super::{Node, Topology};

/// Reports each cycle once, at its first node in the file, with all nodes on it.
pub(super) fn check(topology: &Topology, names: &Names<'_>, report: &Report) {
    let mut done = BTreeSet::new();
    for node in &topology.nodes {
        search(node, names, &mut done, report);
    }
}

/// Follows inputs upwards from `start`, deepest first, over nodes that are not `done`. With a stack of its own: a file may
/// chain many nodes.
fn search<'t>(start: &'t Node, names: &Names<'t>, done: &mut BTreeSet<&'t str>, report: &Report) {
    let mut path: Vec<(&Node, Vec<&Node>)> = Vec::new();
    let mut next = Some(start);
    loop {
        if let Some(node) = next.take() {
            if let Some(at) = path.iter().position(|(on_path, _)| on_path.name == node.name) {
                found(path.iter().skip(at).map(|(node, _)| *node).collect(), report);
            } else if !done.contains(node.name.as_str()) {
                let inputs = node.inputs().into_iter().filter_map(|from| names.get(from.value.as_str()).copied());
                // Of other kinds is said elsewhere that they cannot be taken from.
                path.push((node, inputs.filter(|input| input.hands_on_records()).collect()));
            }
        }
        match path.last_mut() {
            None => return,
            Some((_, inputs)) if !inputs.is_empty() => next = inputs.pop(),
            Some((node, _)) => {
                done.insert(node.name.as_str());
                path.pop();
            }
        }
    }
}

/// Reports the cycle of which each node takes records from the next one.
fn found(mut cycle: Vec<&Node>, report: &Report) {
    let first = cycle.iter().enumerate().min_by_key(|(_, node)| node.place).map_or(0, |(index, _)| index);
    cycle.rotate_left(first);
    let Some(start) = cycle.first().copied() else { return };
    // In the direction of the records, from the first node and back to it.
    let names: Vec<_> = [start].into_iter().chain(cycle.into_iter().rev()).map(|node| node.name.as_str()).collect();
    let what = format!("records go in a circle: {}", names.join(" -> "));
    report.problem(start.place, what, "let one of them take its records from elsewhere");
}
