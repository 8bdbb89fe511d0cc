//! What a file may say, and what is said of a file that is wrong: every message, whole.

mod nodes;
mod sections;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::{BarrierScope, ByteSize, Guarantee, OffsetReset, OnStop, OnTimeout, ReadyRoute, TimePolicy};

use super::samples::{ORDERS, PROJEKT, topology};
use super::{Node, NodeKind, StoreKind, Topology, load, parse};

/// What every file needs, said from outside, so that a test's text is only what it is about.
const REST: [(&str, &str); 3] = [("app.id", "a"), ("kafka.bootstrap.servers", "b:1"), ("streams.in.topic", "in")];

/// Pairs of text, owned.
fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// All that is said of `input`, overridden by `set` and `env`.
fn said(input: &str, set: &[(&str, &str)], env: &[(&str, &str)]) -> String {
    let env: BTreeMap<_, _> = owned(env).into_iter().collect();
    let mut said = String::new();
    match parse(input.as_bytes(), Path::new("weir.toml"), &owned(set), &env) {
        Ok(topology) => topology.warnings.iter().for_each(|warning| writeln!(said, "warning: {warning}").unwrap()),
        Err(problems) => writeln!(said, "{problems}").unwrap(),
    }
    said
}

/// `input`, together with `REST`, has exactly the problems `expected`, one a line.
#[track_caller]
fn check(input: &str, expected: &str) {
    let unused = "warning: --set streams.in.topic=in: nothing takes the records of [streams.in]; it is not consumed: name it in a join, an aggregate, a transform or a sink, or remove it\n";
    let said = said(input.trim_start(), &REST, &[]).replace(unused, "");
    assert_eq!(said.trim_end(), expected.trim());
}

/// The same without `REST`.
#[track_caller]
fn check_alone(input: &str, set: &[(&str, &str)], env: &[(&str, &str)], expected: &str) {
    assert_eq!(said(input, set, env).trim_end(), expected.trim());
}

/// The topology of `text`, overridden by `set` and `env`; there is no problem.
#[track_caller]
fn overridden(text: &str, set: &[(&str, &str)], env: &[(&str, &str)]) -> Topology {
    let env = owned(env).into_iter().collect();
    match parse(text.as_bytes(), Path::new("conf/weir.toml"), &owned(set), &env) {
        Ok(topology) => topology,
        Err(problems) => panic!("{problems}"),
    }
}

/// The node called `name`.
fn node<'t>(topology: &'t Topology, name: &str) -> Option<&'t Node> {
    topology.nodes.iter().find(|node| node.name == name)
}

/// The topic of the node `name`.
fn topic_of<'t>(topology: &'t Topology, name: &str) -> Option<&'t str> {
    node(topology, name)?.source_topic().map(|topic| topic.value.as_str())
}

#[test]
fn what_every_file_needs_is_said_at_once() {
    check_alone(
        "",
        &[],
        &[],
        r#"
weir.toml:1:1: [app] is missing; add [app] with id = "…", the application's name
weir.toml:1:1: [kafka] lacks bootstrap.servers; add "bootstrap.servers" = "localhost:9092" to [kafka], or run with --set kafka.bootstrap.servers=HOST:PORT
weir.toml:1:1: the file reads nothing; declare a topic to read: [streams.X], [tables.X] or [global_tables.X]
"#,
    );
    check_alone(
        "[streams.x]\n[sinks.y]\nfrom = 'x'\n[app]\n[kafka]\nbootstrap.server = 'b:1'",
        &[],
        &[],
        r#"
weir.toml:4:2: [app] lacks id; add id = "orders"
weir.toml:6:11: unknown key bootstrap.server in [kafka], and bootstrap.servers is missing; did you mean bootstrap.servers?
"#,
    );
}

#[test]
fn the_project_aggregate_is_read() {
    let topology = topology(PROJEKT);
    assert_eq!(topology.warnings, []);
    assert_eq!((topology.app.id.as_str(), topology.app.guarantee), ("projekt", Guarantee::ExactlyOnce));
    assert_eq!((topology.app.threads.get(), topology.app.commit_interval), (8, Duration::from_millis(100)));
    assert_eq!((topology.app.time, topology.app.offset_reset), (TimePolicy::Latest, OffsetReset::Earliest));
    assert_eq!(
        topology.kafka,
        owned(&[("bootstrap.servers", "localhost:9092"), ("linger.ms", "5")]).into_iter().collect()
    );
    assert_eq!((topology.state.dir.as_path(), topology.state.memory), (Path::new("state"), ByteSize::mib(512)));
    assert_eq!((topology.barrier.scope, topology.barrier.on_timeout), (BarrierScope::Instance, OnTimeout::Fail));
    assert_eq!((topology.app.on_stop, topology.state.cleanup_delay), (OnStop::Leave, Duration::from_secs(600)));
    assert_eq!(topology.barrier.timeout, Some(Duration::from_secs(300)));
    assert_eq!(topology.nodes.iter().filter(|node| matches!(node.kind, NodeKind::Stream { .. })).count(), 6);
    let first: Vec<_> = topology.nodes.iter().take(3).map(|node| node.name.as_str()).collect();
    assert_eq!(first, ["wirtschaftseinheiten", "mietobjekte", "projekte"]);
}

#[test]
fn the_order_status_service_is_read() {
    let topology = topology(ORDERS);
    assert_eq!(topology.warnings, []);
    let ready = topology.http.ready.as_ref().unwrap();
    assert_eq!((ready.route.value.as_str(), ready.table.value.as_str(), ready.min_records), ("/ready", "orders", 1));
    assert_eq!(ReadyRoute::body(&ready.not_ready, 7), "Not ready: loaded 7 orders");
    let plugin = topology.plugins.get("orders").unwrap();
    assert_eq!(plugin.config.to_string(), r#"{"codes":[200,404],"parameter":"orderId"}"#);
    assert_eq!((plugin.memory, plugin.call_timeout), (ByteSize::mib(64), Duration::from_millis(100)));
    let orders = node(&topology, "orders").and_then(|node| node.store());
    assert_eq!(orders, Some(StoreKind::Memory { max_bytes: 256 << 20 }));
    assert_eq!(topology.views.first().map(|view| view.route.value.as_str()), Some("/api/order/status"));
}

#[test]
fn paths_are_relative_to_the_file_and_overrides_to_the_working_directory() {
    let topology = overridden(PROJEKT, &[], &[]);
    assert_eq!(topology.state.dir, PathBuf::from("conf/state"));
    assert_eq!(topology.plugins.get("projekt").unwrap().file, PathBuf::from("conf/projekt.wasm"));
    let topology = overridden(PROJEKT, &[("state.dir", "x"), ("plugins.projekt.file", "/p.wasm")], &[]);
    assert_eq!(topology.state.dir, PathBuf::from("x"));
    assert_eq!(topology.plugins.get("projekt").unwrap().file, PathBuf::from("/p.wasm"));
    assert_eq!(overridden(ORDERS, &[], &[]).state.dir, PathBuf::from("conf/state"));
}

#[test]
fn the_command_line_overrides_the_environment_and_that_the_file() {
    let set = [
        ("app.threads", "2"),
        ("app.id", "42"),
        ("kafka.bootstrap.servers", "h:9"),
        ("kafka.\"client.id\"", "c"),
        ("http.listen", "localhost:0"),
        ("streams.projekte.topic", "2026"),
    ];
    let env = [
        ("WEIR_APP__THREADS", "3"),
        ("WEIR_APP__GUARANTEE", "at-least-once"),
        ("WEIR_KAFKA__BOOTSTRAP_SERVERS", "e:1"),
        ("WEIR_KAFKA__SOCKET_TIMEOUT_MS", "7"),
        ("WEIR_KAFKA__LINGER_MS", "6"),
        ("WEIR_STATE__MEMORY", "1 GiB"),
        ("WEIR_TRANSFORMS__AUSGABE__ON_ERROR", "skip"),
        ("WEIR_SINKS__PROJEKT_AGGREGATE__TOPIC", "out"),
        ("WEIR_LOG", "debug"),
        ("WEIR_SERVER", "http://x"),
        ("PATH", "/bin"),
    ];
    let topology = overridden(PROJEKT, &set, &env);
    assert_eq!((topology.app.threads.get(), topology.app.id.as_str()), (2, "42"));
    assert_eq!(topology.app.guarantee, Guarantee::AtLeastOnce);
    assert_eq!(topology.state.memory, ByteSize::mib(1024));
    assert_eq!(topology.http.listen, "127.0.0.1:0".parse().unwrap());
    let expected = [("bootstrap.servers", "h:9"), ("client.id", "c"), ("linger.ms", "6"), ("socket.timeout.ms", "7")];
    assert_eq!(topology.kafka, owned(&expected).into_iter().collect());
    assert_eq!(topic_of(&topology, "projekte"), Some("2026"));
    let Some(NodeKind::Sink { topic, .. }) = node(&topology, "projekt-aggregate").map(|node| &node.kind) else {
        panic!()
    };
    assert_eq!(topic.value, "out");
    assert_eq!(overridden(ORDERS, &[("kafka.bootstrap.servers", "h:9")], &[]).kafka.len(), 1);
}

#[test]
fn an_override_that_is_wrong_names_itself() {
    check_alone(
        ORDERS,
        &[("app.thread", "2"), ("app.threads", "two"), ("state.dir.x", "1"), ("http.listen.x", "1"), ("a b", "1")],
        &[("WEIR_APP__COMMIT_INTERVAL", "fast"), ("WEIR_KAFKA__GROUP_ID", "g"), ("WEIR_APP__", "")],
        r#"
WEIR_APP__: it names no setting; write WEIR_, the section, two underscores and the key, such as WEIR_APP__THREADS
WEIR_APP__COMMIT_INTERVAL: app.commit_interval is "fast"; write a duration from 1 ms to 30 s, such as "100 ms" (ms, s, min, h, d)
WEIR_KAFKA__GROUP_ID: [kafka] has group.id, which Weir sets itself: the consumer group is app.id; remove it, or change app.id
--set app.thread=2: unknown key thread in [app]; did you mean threads?
--set app.threads=two: app.threads is "two"; write a whole number from 1 to 1024
--set state.dir.x=1: state.dir is a table; write a string, such as dir = "state"
--set http.listen.x=1: listen is "127.0.0.1:8080" (line 10), not a table; set what is there, or write a table there
--set a b=1: "a b" names no setting; write keys with dots between them, such as --set app.threads=2
"#,
    );
}

#[test]
fn files_that_are_none() {
    let env = BTreeMap::new();
    let missing = load(Path::new("no-such-folder/weir.toml"), &[], &env).unwrap_err().to_string();
    assert!(missing.starts_with("no-such-folder/weir.toml: it cannot be read: "), "{missing}");
    let latin = parse(b"[app]\nid = \"\xe4\"", Path::new("weir.toml"), &[], &env).unwrap_err();
    assert_eq!(latin.to_string(), "weir.toml: line 2 is no UTF-8 text; save the file as UTF-8");
}

#[test]
fn plugin_files_are_looked_for_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("weir.toml");
    std::fs::write(&file, ORDERS).unwrap();
    let topology = load(&file, &[], &BTreeMap::new()).unwrap();
    let missing = topology.missing_plugin_files();
    let plugin = folder.path().join("orders.wasm");
    let what = format!("plugin orders: there is no file {}", plugin.display());
    assert_eq!(
        missing.iter().map(|problem| (problem.line, problem.what.as_str())).collect::<Vec<_>>(),
        [(20, what.as_str())]
    );
    std::fs::write(plugin, "").unwrap();
    assert_eq!(topology.missing_plugin_files(), []);
}
