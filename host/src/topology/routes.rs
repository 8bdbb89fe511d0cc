//! Views and the readiness route: their paths and what they name.

use std::collections::BTreeMap;

use crate::config::{At, Place, Report};

use super::check::{Names, did_you_mean};
use super::{NodeKind, Topology};

/// Paths that Weir answers itself.
const BUILT_IN: [&str; 4] = ["/livez", "/readyz", "/metrics", "/openapi.json"];

/// Everything below is Weir's too.
const BUILT_IN_FOLDER: &str = "/v1";

/// Reports illegal and clashing routes, and stores and tables that are not there.
pub(super) fn check(topology: &Topology, names: &Names<'_>, report: &Report) {
    let mut taken: BTreeMap<&str, Place> = BTreeMap::new();
    let ready = topology.http.ready.as_ref();
    let views = topology.views.iter().map(|view| (format!("[views.{}]", view.name), &view.route));
    for (label, route) in views.chain(ready.map(|ready| ("[http.ready]".to_owned(), &ready.route))) {
        if route.value.is_empty() {
            continue;
        }
        legal(&label, route, report);
        if let Some(first) = taken.insert(&route.value, route.place) {
            let what =
                format!("{label} has the route {}, which is taken ({})", route.value, report.origins.mention(first));
            report.problem(route.place, what, "give it another route");
        }
    }
    for view in &topology.views {
        for store in &view.stores {
            let label = format!("[views.{}]", view.name);
            must_be(&label, "reads", store, "a table, a global table or an aggregate", names, report, |kind| {
                matches!(kind, NodeKind::Table { .. } | NodeKind::GlobalTable { .. } | NodeKind::Aggregate { .. })
            });
        }
    }
    if let Some(ready) = ready {
        let table = &ready.table;
        must_be("[http.ready]", "waits for", table, "a table or a global table", names, report, |kind| {
            matches!(kind, NodeKind::Table { .. } | NodeKind::GlobalTable { .. })
        });
    }
}

/// A route is matched as it is, so it has no patterns, and doesn't hide a path of Weir's.
fn legal(label: &str, route: &At<String>, report: &Report) {
    let path = route.value.as_str();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.' | '~');
    if !path.starts_with('/') || path.contains("//") || !path.chars().all(plain) {
        let what = format!("{label} has the route {path:?}");
        report.problem(
            route.place,
            what,
            "write a path of letters, digits, \"-\", \"_\", \".\" and \"~\", such as \"/api/orders\"",
        );
    } else if BUILT_IN.contains(&path) || path == BUILT_IN_FOLDER || path.starts_with(&format!("{BUILT_IN_FOLDER}/")) {
        let what = format!("{label} has the route {path}, which Weir answers itself");
        report.problem(route.place, what, "choose another one, such as \"/api/orders\"");
    }
}

/// What `label` `reads` must be of the kind that `fits`.
fn must_be(
    label: &str,
    reads: &str,
    named: &At<String>,
    wanted: &str,
    names: &Names<'_>,
    report: &Report,
    fits: impl Fn(&NodeKind) -> bool,
) {
    let remedy = || {
        did_you_mean(&named.value, names.values().filter(|node| fits(&node.kind)).map(|node| node.name.as_str()))
            .unwrap_or_else(|| format!("name {wanted}"))
    };
    match names.get(named.value.as_str()) {
        _ if named.value.is_empty() => {}
        Some(node) if fits(&node.kind) => {}
        Some(node) => {
            let what = format!("{label} {reads} {}, which is {}", named.value, node.kind.in_words());
            report.problem(named.place, what, format!("name {wanted}"));
        }
        None => {
            report.problem(named.place, format!("{label} {reads} {}, which is not declared", named.value), remedy())
        }
    }
}
