//! Topology files for tests: the two jobs, whole.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Topology, parse};

/// The project aggregate.
pub(crate) const PROJEKT: &str = r#"
[app]
id = "projekt"
guarantee = "exactly-once"
threads = 8

[kafka]
"bootstrap.servers" = "localhost:9092"
linger.ms = 5

[state]
dir = "state"
memory = "512 MiB"

[http]
listen = "127.0.0.1:8080"

[plugins.projekt]
file = "projekt.wasm"
memory = "64 MiB"
call_timeout = "100 ms"

[tables.wirtschaftseinheiten]
[tables.mietobjekte]

[streams.projekte]
[streams.projektstatus]
[streams.befunde]
[streams.aufgaben]
[streams.durchfuehrungen]
[streams.gruppen]

[joins.mit-wirtschaftseinheit]
left = "projekte"
table = "wirtschaftseinheiten"
kind = "left"
function = "projekt.mit_wirtschaftseinheit"
on_miss = "pass"

[joins.mit-mietobjekt]
left = "mit-wirtschaftseinheit"
table = "mietobjekte"
kind = "left"
function = "projekt.mit_mietobjekt"
on_miss = "pass"

[aggregates.projekt-store]
inputs = [
  { from = "mit-mietobjekt", function = "projekt.plus_projekt" },
  { from = "projektstatus", function = "projekt.plus_status" },
  { from = "befunde", function = "projekt.plus_befund" },
  { from = "aufgaben", function = "projekt.plus_aufgabe", on_error = "skip" },
  { from = "durchfuehrungen", function = "projekt.plus_durchfuehrung" },
  { from = "gruppen", function = "projekt.plus_gruppe" },
]
emit = "batch"

[transforms.ausgabe]
from = "projekt-store"
function = "projekt.ausgabe"

[sinks.projekt-aggregate]
from = "ausgabe"

[barrier]
scope = "instance"
timeout = "5 min"
on_timeout = "fail"
"#;

/// The order status service.
pub(crate) const ORDERS: &str = r#"
[app]
id = "order-status"
threads = 1

[kafka]
bootstrap.servers = "localhost:9092"

[http]
listen = "127.0.0.1:8080"

[http.ready]
route = "/ready"
table = "orders"
min_records = 1
ready = "Ready"
not_ready = "Not ready: loaded {count} orders"

[plugins.orders]
file = "orders.wasm"
config = { parameter = "orderId", codes = [200, 404] }

[global_tables.orders]
store = "memory"
max_memory = "256 MiB"

[views.order-status]
route = "/api/order/status"
function = "orders.status"
stores = ["orders"]
"#;

/// A topology of `text`, which has no error.
#[track_caller]
pub(crate) fn topology(text: &str) -> Topology {
    match parse(text.as_bytes(), Path::new("weir.toml"), &[], &BTreeMap::new()) {
        Ok(topology) => topology,
        Err(problems) => panic!("{problems}"),
    }
}
