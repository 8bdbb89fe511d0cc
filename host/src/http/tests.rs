//! The server as its clients see it: over a socket, with a made-up engine behind it.

mod fake;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use fake::{Fake, row, site};

use super::{Listener, Service};
use crate::model::{Check, InstanceState, InstanceStatus, PluginStatus, RestoreStatus, TableStatus};

/// A server on a port of its own.
struct Running {
    /// The server's threads.
    runtime: Runtime,
    /// Ends it.
    stop: Option<oneshot::Sender<()>>,
    /// Where it is.
    address: SocketAddr,
    /// The server.
    service: Service,
    /// What is behind it, once attached.
    fake: Arc<Fake>,
}

/// An answer.
#[derive(Debug)]
struct Answer {
    /// HTTP status.
    status: u16,
    /// Headers with names in lower case.
    headers: Vec<(String, String)>,
    /// The body.
    body: String,
}

impl Answer {
    /// The value of a header.
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts that it is this problem, and gives its document.
    fn problem(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let document = self.json();
        assert_eq!(document["type"], format!("urn:weir:problem:{code}"), "{self:?}");
        assert_eq!(document["code"], code);
        assert_eq!(document["status"], status);
        assert!(document["title"].is_string() && document["detail"].is_string(), "{self:?}");
        assert_eq!(document["retryable"].as_bool(), Some(self.header("retry-after").is_some()), "{self:?}");
        document
    }
}

impl Running {
    /// A server without an engine.
    fn starting() -> Self {
        let runtime = Runtime::new().unwrap();
        let listener = Listener::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let address = listener.address();
        let service = Service::new(site());
        let (stop, stopped) = oneshot::channel();
        runtime.spawn(service.clone().serve(listener, async {
            let _ = stopped.await;
        }));
        Self { runtime, stop: Some(stop), address, service, fake: Arc::default() }
    }

    /// A server with an engine.
    fn started() -> Self {
        let running = Self::starting();
        running.service.attach(running.fake.clone());
        running
    }

    /// Sends a request as it is written and reads the answer. (A client library would put things right that are meant to be
    /// wrong.)
    fn send(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut request =
            format!("{method} {target} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "host") {
            request += "host: localhost\r\n";
        }
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.write_all(format!("{request}\r\n").as_bytes()).unwrap();
        // A refusal may come, and the connection end, before the whole body is sent.
        let _ = stream.write_all(body);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer to {target}: {answer}"));
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        Answer { status, headers: lines.filter_map(header).collect(), body: body.to_owned() }
    }

    /// The answer to a GET.
    fn get(&self, target: &str) -> Answer {
        self.send("GET", target, &[], b"")
    }

    /// The answer to a POST.
    fn post(&self, target: &str, body: &[u8]) -> Answer {
        self.send("POST", target, &[], body)
    }
}

#[test]
fn without_an_engine_it_is_alive_and_says_that_it_starts() {
    let server = Running::starting();
    let live = server.get("/livez");
    assert_eq!((live.status, live.body.as_str()), (200, "ok"));
    let ready = server.get("/readyz");
    let listed = "[-]started failed: the instance is starting\nreadyz check failed\n";
    assert_eq!((ready.status, ready.body.as_str()), (503, listed));
    let own = server.get("/ready");
    assert_eq!((own.status, own.body.as_str()), (503, "Not ready: loaded 0 orders"));
    let status = server.get("/v1/status");
    assert_eq!(status.status, 200);
    assert_eq!((&status.json()["state"], &status.json()["app"]), (&json!("starting"), &json!("orders-app")));
    let metrics = server.get("/metrics");
    assert!(metrics.status == 200 && metrics.body.contains("weir_ready 0\n"), "{metrics:?}");
    for target in ["/v1/topology", "/v1/stores", "/v1/stores/s/keys/k", "/api/order/status?orderId=1", "/v1/plugins"] {
        server.get(target).problem(503, "starting");
    }
    server.post("/v1/plugins/p/versions", b"x").problem(503, "starting");
}

#[test]
fn probes_tell_what_the_engine_says() {
    let server = Running::started();
    let check = |ok| Check { name: "restore".to_owned(), ok, detail: "orders: 5 of 10".to_owned() };
    *server.fake.readiness.lock().unwrap() = vec![check(false)];
    let ready = server.get("/readyz");
    let listed = "[-]restore failed: orders: 5 of 10\nreadyz check failed\n";
    assert_eq!((ready.status, ready.body.as_str()), (503, listed));
    assert_eq!(ready.header("content-type"), Some("text/plain; charset=utf-8"));
    *server.fake.readiness.lock().unwrap() = vec![check(true)];
    assert_eq!(server.get("/readyz").body, "ok");
    let verbose = server.get("/readyz?verbose");
    assert_eq!((verbose.status, verbose.body.as_str()), (200, "[+]restore ok: orders: 5 of 10\nreadyz check passed\n"));
    assert!(server.get("/metrics").body.contains("weir_ready 1\n"));
}

#[test]
fn the_application_is_ready_in_its_own_words() {
    let server = Running::started();
    let orders = |rows, restored| {
        let table = TableStatus { table: "orders".to_owned(), rows, restored, ..TableStatus::default() };
        let status = InstanceStatus { global_tables: vec![table], ..InstanceStatus::default() };
        *server.fake.status.lock().unwrap() = status;
        let answer = server.get("/ready");
        assert!(answer.header("content-type").unwrap().starts_with("text/plain"), "{answer:?}");
        (answer.status, answer.body)
    };
    assert_eq!(orders(7, false), (503, "Not ready: loaded 7 orders".to_owned()));
    assert_eq!(orders(1, true), (503, "Not ready: loaded 1 orders".to_owned()));
    assert_eq!(orders(2, true), (200, "Ready".to_owned()));
}

#[test]
fn status_topology_and_stores_are_documents() {
    let server = Running::started();
    let status = InstanceStatus { state: InstanceState::Running, app: "a".to_owned(), ..InstanceStatus::default() };
    *server.fake.status.lock().unwrap() = status.clone();
    let answer = server.get("/v1/status");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(serde_json::from_str::<InstanceStatus>(&answer.body).unwrap(), status);
    assert_eq!(server.get("/v1/topology").json(), json!({"nodes": []}));
    assert_eq!(server.get("/v1/stores").json(), json!({"stores": []}));
}

#[test]
fn an_entry_is_found_under_its_key_however_that_is_written() {
    let server = Running::started();
    let rows =
        vec![row("a/b ü", br#"{"price":1.10}"#), row("plain", b"not json"), (vec![0xfb, 0xff].into(), row("", b"1").1)];
    *server.fake.rows.lock().unwrap() = rows;
    let answer = server.get("/v1/stores/orders/keys/a%2Fb%20%C3%BC");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.body.contains(r#""value":{"price":1.10}"#), "digit for digit: {}", answer.body);
    assert_eq!(answer.json()["key"], "a/b ü");
    assert_eq!(answer.json()["timestamp"], 5);
    let answer = server.get("/v1/stores/orders/keys/plain");
    assert_eq!(answer.json()["value_base64"], "bm90IGpzb24=");
    for key in ["-_8", "-_8=", "%2B%2F8="] {
        let answer = server.get(&format!("/v1/stores/orders/keys/{key}?key-format=base64"));
        assert_eq!((answer.status, &answer.json()["value"]), (200, &json!(1)), "{key}");
    }
    server.get("/v1/stores/orders/keys/none").problem(404, "no-such-key");
    server.get("/v1/stores/orders/keys/%FB%FF").problem(400, "bad-request");
    server.get("/v1/stores/orders/keys/k?key-format=long").problem(400, "bad-request");
    server.get("/v1/stores/orders/keys/k?keyformat=string").problem(400, "bad-request");
    server.get("/v1/stores/orders/keys/a%20b?key-format=base64").problem(400, "bad-request");
}

#[test]
fn a_store_that_cannot_answer_says_why() {
    let server = Running::started();
    for target in ["/v1/stores/nope/keys/k", "/v1/stores/nope/keys"] {
        let problem = server.get(target).problem(404, "unknown-store");
        assert_eq!(problem["stores"], json!(["orders", "elsewhere"]));
    }
    // Without `retryable` in mid-rebalance clients would give up on a key that is here in a moment.
    for (state, retryable) in [(InstanceState::Rebalancing, true), (InstanceState::Running, false)] {
        server.fake.status.lock().unwrap().state = state;
        let problem = server.get("/v1/stores/elsewhere/keys/k").problem(503, "not-here");
        assert_eq!((&problem["partition"], &problem["retryable"]), (&json!(3), &json!(retryable)));
    }
    let part = RestoreStatus { store: "orders".to_owned(), end: Some(9), position: 2, ..RestoreStatus::default() };
    let table = TableStatus { table: "orders".to_owned(), restore: vec![part], ..TableStatus::default() };
    *server.fake.status.lock().unwrap() = InstanceStatus { global_tables: vec![table], ..InstanceStatus::default() };
    for target in ["/v1/stores/orders/keys/k", "/v1/stores/orders/keys"] {
        let problem = server.get(target).problem(503, "restoring");
        assert_eq!(problem["detail"], "store 'orders' is being restored: 7 offsets left in 1 partitions");
    }
}

#[test]
fn pages_follow_each_other_to_the_end() {
    let server = Running::started();
    let keys: Vec<String> = (0..25).map(|n| format!("k{n:02}")).chain(["other".to_owned()]).collect();
    *server.fake.rows.lock().unwrap() = keys.iter().map(|key| row(key, b"{}")).collect();
    let mut found = Vec::new();
    let mut next = Some("/v1/stores/orders/keys?prefix=k&limit=10".to_owned());
    let mut pages = 0;
    while let Some(target) = next {
        let page = server.get(&target).json();
        found.extend(page["entries"].as_array().unwrap().iter().map(|row| row["key"].as_str().unwrap().to_owned()));
        assert_eq!(page["missing_partitions"], json!([1]));
        next = page["next"].as_str().map(str::to_owned);
        pages += 1;
    }
    assert_eq!((found, pages), (keys[..25].to_vec(), 3));
    let page = server.get("/v1/stores/orders/keys?from=k24").json();
    assert_eq!(page["entries"].as_array().unwrap().len(), 2);
    for limit in ["0", "1001", "x"] {
        server.get(&format!("/v1/stores/orders/keys?limit={limit}")).problem(400, "bad-request");
    }
}

#[test]
fn a_view_answers_with_what_its_plugin_says() {
    let server = Running::started();
    let answer = server.get("/api/order/status?orderId=a%2Bb%20c&x=1&orderId=2");
    assert_eq!((answer.status, answer.header("content-type")), (418, Some("text/plain")));
    assert_eq!(
        answer.body,
        r#"order-status GET /api/order/status [("orderId", "a+b c"), ("x", "1"), ("orderId", "2")]"#
    );
    let head = server.send("HEAD", "/api/order/status", &[], b"");
    assert_eq!((head.status, head.body.as_str()), (418, ""));
    server.post("/api/order/status", b"").problem(405, "method-not-allowed");
    server.get("/api/order/status/").problem(404, "not-found");
    let problem = server.get("/api/order/status?fail").problem(500, "view-failed");
    assert_eq!(problem["plugin"], "orders");
    server.get("/api/order/status?not-ready").problem(503, "view-not-ready");
    server.get("/api/order/status?odd").problem(500, "internal");
}

#[test]
fn routes_of_the_application_cannot_take_the_servers_own() {
    let server = Running::started();
    assert_eq!(server.get("/livez").body, "ok");
    assert_eq!(server.get("/braces/%7Bx%7D").status, 404);
    assert_eq!(server.get("/braces/{x}").status, 418, "matched exactly, not as a pattern");
    assert_eq!(server.get("/braces/y").status, 404);
}

#[test]
fn a_plugin_is_deployed_shown_and_rolled_back() {
    let server = Running::started();
    let plugin = PluginStatus { plugin: "orders".to_owned(), ..PluginStatus::default() };
    *server.fake.status.lock().unwrap() = InstanceStatus { plugins: vec![plugin], ..InstanceStatus::default() };
    let answer = server.post("/v1/plugins/orders/versions?message=why%20not", b"\0asm");
    assert_eq!(answer.status, 200, "{answer:?}");
    let activation = answer.json();
    assert_eq!((&activation["plugin"], &activation["digest"]), (&json!("orders"), &json!("4 bytes, why not")));
    let answer = server.post("/v1/plugins/orders/rollback", b"");
    assert_eq!((answer.status, &answer.json()["generation"]), (200, &json!(2)));
    assert_eq!(server.get("/v1/plugins").json()["plugins"][0]["plugin"], "orders");
    let shown = server.get("/v1/plugins/orders").json();
    assert_eq!((&shown["plugin"], &shown["history"][0]["kind"]), (&json!("orders"), &json!("deploy")));
    assert_eq!(server.get("/v1/plugins/nope").problem(404, "unknown-plugin")["plugins"], json!(["orders"]));
}

#[test]
fn a_refused_plugin_changes_nothing_and_says_what_would_be_right() {
    let server = Running::started();
    let problem = server.post("/v1/plugins/orders/versions", b"bad").problem(422, "plugin-refused");
    assert_eq!(problem["stage"], "valid");
    assert_eq!((&problem["reason"], &problem["remedy"]), (&json!("no wasm"), &json!("build it")));
    server.post("/v1/plugins/nope/versions", b"x").problem(404, "unknown-plugin");
    server.post("/v1/plugins/nope/rollback", b"").problem(404, "unknown-plugin");
    server.post("/v1/plugins/new/rollback", b"").problem(409, "nothing-to-roll-back");
    server.post("/v1/plugins/orders/versions?massage=x", b"x").problem(400, "bad-request");
    server.post("/v1/plugins/orders/versions", &vec![0; 70_000]).problem(413, "too-large");
    assert_eq!(server.fake.changes.load(Ordering::SeqCst), 0);
}

#[test]
fn a_web_page_cannot_administer() {
    let server = Running::started();
    for headers in [
        [("host", "evil.example"), ("x", "y")],
        [("host", "127.0.0.1:8080"), ("origin", "https://evil.example")],
        [("host", "localhost"), ("origin", "null")],
    ] {
        let answer = server.send("POST", "/v1/plugins/orders/rollback", &headers, b"");
        answer.problem(403, "foreign-origin");
    }
    assert_eq!(server.fake.changes.load(Ordering::SeqCst), 0);
    let answer = server.send("GET", "/livez", &[("host", "evil.example"), ("origin", "null")], b"");
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, None));
}

#[test]
fn what_is_not_there_is_a_problem_too() {
    let server = Running::started();
    server.get("/nothing").problem(404, "not-found");
    let answer = server.post("/livez", b"");
    answer.problem(405, "method-not-allowed");
    assert_eq!(answer.header("allow"), Some("GET,HEAD"));
    server.get(&format!("/v1/stores/orders/keys/{}", "k".repeat(9000))).problem(414, "uri-too-long");
}

#[test]
fn it_stops_when_asked() {
    let mut server = Running::started();
    assert_eq!(server.get("/livez").status, 200);
    drop(server.stop.take());
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while TcpStream::connect(server.address).is_ok() {
        assert!(std::time::Instant::now() < deadline, "still listening");
        std::thread::yield_now();
    }
    server.runtime.shutdown_background();
}

#[test]
fn a_taken_port_is_named_with_what_to_do() {
    let first = Listener::bind(([127, 0, 0, 1], 0).into()).unwrap();
    let error = Listener::bind(first.address()).unwrap_err();
    let expected = format!(
        "cannot listen on {} (http.listen): another process has the port; stop it, or choose another one",
        first.address()
    );
    assert_eq!(error.to_string(), expected);
}
