//! Probes. `/livez` looks at nothing but the process; `/readyz` tells what is not ready.

use std::fmt::Write;

use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::blocking;
use super::host::still_restoring;
use super::problem::Problem;
use super::server::Service;
use crate::config::ReadyRoute;
use crate::model::{Check, InstanceStatus};

/// Content type of the probes' texts.
const TEXT: &str = "text/plain; charset=utf-8";

/// An answer in text.
fn text(status: StatusCode, body: impl Into<String>) -> Response {
    (status, [(header::CONTENT_TYPE, TEXT), (header::CACHE_CONTROL, "no-store")], body.into()).into_response()
}

/// `GET /livez`: the process lives. Never looks at Kafka, the restore or anything else that may take its time.
pub(super) async fn live() -> Response {
    text(StatusCode::OK, "ok")
}

/// `GET /readyz`: whether every condition holds; which do, if one does not or with `?verbose`.
pub(super) async fn ready(State(service): State<Service>, RawQuery(query): RawQuery) -> Result<Response, Problem> {
    let checks = match service.host() {
        Some(host) => blocking::run(move || host.readiness()).await?,
        None => vec![Check { name: "started".to_owned(), ok: false, detail: "the instance is starting".to_owned() }],
    };
    let verbose = query.is_some_and(|query| query.split('&').any(|part| part.split('=').next() == Some("verbose")));
    let (ok, body) = answer(&checks, verbose);
    Ok(text(if ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, body))
}

/// Whether all checks hold, and the answer's text.
fn answer(checks: &[Check], verbose: bool) -> (bool, String) {
    let ok = checks.iter().all(|check| check.ok);
    if ok && !verbose {
        return (true, "ok".to_owned());
    }
    let mut body = String::new();
    for Check { name, ok, detail } in checks {
        let (mark, word) = if *ok { ("[+]", "ok") } else { ("[-]", "failed") };
        let colon = if detail.is_empty() { "" } else { ": " };
        // Writing to a string cannot fail.
        let _ = writeln!(body, "{mark}{name} {word}{colon}{detail}");
    }
    body.push_str(if ok { "readyz check passed\n" } else { "readyz check failed\n" });
    (ok, body)
}

/// The application's readiness route: 200 once its table is restored and has enough rows.
pub(super) async fn in_own_words(service: &Service, route: &ReadyRoute) -> Result<Response, Problem> {
    let status = match service.host() {
        Some(host) => blocking::run(move || host.status()).await?,
        None => InstanceStatus::default(),
    };
    let (ok, body) = words(route, &status);
    Ok(text(if ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, body))
}

/// Whether the table can be served, and the answer's text.
fn words(route: &ReadyRoute, status: &InstanceStatus) -> (bool, String) {
    let table = &route.table.value;
    let (rows, restored) = match status.global_tables.iter().find(|global| global.table == *table) {
        Some(global) => (global.rows, global.restored && global.error.is_none()),
        // A partitioned table: what of it is here.
        None => status.stores.iter().find(|store| store.store == *table).map_or((0, false), |store| {
            (store.entries, !store.partitions.is_empty() && still_restoring(status, table).is_none())
        }),
    };
    let ok = restored && rows >= route.min_records;
    (ok, ReadyRoute::body(if ok { &route.ready } else { &route.not_ready }, rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{At, Place};
    use crate::model::{RestoreStatus, StoreStatus, TableStatus};

    #[test]
    fn ready_is_short_unless_asked_and_not_ready_always_names_the_blocker() {
        let check = |name: &str, ok, detail: &str| Check { name: name.to_owned(), ok, detail: detail.to_owned() };
        let good = check("broker", true, "");
        let bad = check("restore", false, "orders: 5 of 10");
        assert_eq!(answer(std::slice::from_ref(&good), false), (true, "ok".to_owned()));
        assert_eq!(answer(std::slice::from_ref(&good), true), (true, "[+]broker ok\nreadyz check passed\n".to_owned()));
        let listed = "[+]broker ok\n[-]restore failed: orders: 5 of 10\nreadyz check failed\n";
        assert_eq!(answer(&[good, bad], false), (false, listed.to_owned()));
    }

    /// Ready with three orders.
    fn route() -> ReadyRoute {
        let at = |value: &str| At { value: value.to_owned(), place: Place::default() };
        ReadyRoute {
            route: at("/ready"),
            table: at("orders"),
            min_records: 3,
            ready: "Ready".to_owned(),
            not_ready: "Not ready: loaded {count} orders".to_owned(),
        }
    }

    #[test]
    fn the_order_status_service_is_ready_in_its_own_words() {
        let check = |rows, restored, error: Option<&str>, expected: (bool, &str)| {
            let table = "orders".to_owned();
            let error = error.map(str::to_owned);
            let global_tables = vec![TableStatus { table, rows, restored, error, ..TableStatus::default() }];
            let status = InstanceStatus { global_tables, ..InstanceStatus::default() };
            assert_eq!(words(&route(), &status), (expected.0, expected.1.to_owned()), "{status:?}");
        };
        check(0, false, None, (false, "Not ready: loaded 0 orders"));
        check(5, false, None, (false, "Not ready: loaded 5 orders"));
        check(2, true, None, (false, "Not ready: loaded 2 orders"));
        check(5, true, Some("full"), (false, "Not ready: loaded 5 orders"));
        check(3, true, None, (true, "Ready"));
        let nothing = words(&route(), &InstanceStatus::default());
        assert_eq!(nothing, (false, "Not ready: loaded 0 orders".to_owned()));
    }

    #[test]
    fn a_partitioned_table_is_ready_when_its_partitions_here_are() {
        let check = |partitions: &[i32], done, expected| {
            let store = StoreStatus {
                store: "orders".to_owned(),
                partitions: partitions.to_vec(),
                entries: 3,
                ..StoreStatus::default()
            };
            let part = RestoreStatus { store: "orders".to_owned(), done, ..RestoreStatus::default() };
            let restore =
                vec![TableStatus { table: "other".to_owned(), restore: vec![part], ..TableStatus::default() }];
            let status = InstanceStatus { stores: vec![store], global_tables: restore, ..InstanceStatus::default() };
            assert_eq!(words(&route(), &status).0, expected, "{status:?}");
        };
        check(&[], true, false);
        check(&[0], false, false);
        check(&[0], true, true);
    }
}
