//! The plugins of this repository in the host: what they do, and what the host says of those that misbehave.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use bytes::Bytes;
use weir::model::{CallFailureKind, FoldRun, FunctionIndex, Generation, Header, JoinPair, Logic, Record};
use weir::plugin::{
    Compiled, Engine, Error, Kind, Limits, PluginSet, PluginSpec, Stage, ThreadLogic, ViewPool, ViewRequest,
    ViewStores, Wanted, inspect,
};

/// The built plugin `name`.
fn wasm(name: &str) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace's root");
    let path = root.join(format!("plugins/target/weir/{name}.wasm"));
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}; run scripts/plugins.sh", path.display()))
}

/// The tests' engine, as a process has one: what a test has compiled is there for the others.
static ENGINE: LazyLock<Engine> = LazyLock::new(|| Engine::new().unwrap());

/// What is compiled, kept in use for the engine.
static LOADED: Mutex<Vec<Arc<Compiled>>> = Mutex::new(Vec::new());

/// The plugin `name`, compiled.
fn load(name: &str) -> Arc<Compiled> {
    let mut loaded = LOADED.lock().unwrap();
    let compiled = ENGINE.load(&wasm(name)).unwrap();
    loaded.push(Arc::clone(&compiled));
    compiled
}

/// Limits that tests meet soon.
fn short() -> Limits {
    let timeout = Duration::from_millis(500);
    Limits { call_timeout: timeout, view_timeout: timeout, start_timeout: timeout, ..Limits::default() }
}

/// The set of one plugin, of which `wanted` is used.
fn set(file: &str, limits: Limits, config: &str, wanted: &[(&str, Kind)]) -> Result<Arc<PluginSet>, Error> {
    let spec = PluginSpec { name: "plugin".to_owned(), limits, config: config.to_owned() };
    let wanted: Vec<Wanted> = wanted
        .iter()
        .map(|(function, kind)| Wanted { plugin: "plugin".to_owned(), function: (*function).to_owned(), kind: *kind })
        .collect();
    PluginSet::new(&ENGINE, Generation(1), vec![(spec, load(file))], &wanted)
}

/// All functions of a plugin.
fn functions(compiled: &Compiled) -> Vec<(&str, Kind)> {
    compiled.description().functions.iter().map(|function| (&*function.name, function.kind)).collect()
}

/// A message without the place in a file, which moves when the file is edited.
fn placeless(message: &str) -> &str {
    message.split_once(".rs:").map_or(message, |(before, _)| before)
}

/// A text as bytes.
fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// A pair with the key `P1`.
fn pair(left: &str, right: Option<&str>) -> JoinPair {
    JoinPair { key: Some(bytes("P1")), left: bytes(left), right: right.map(bytes) }
}

/// The functions of `projekt` that the tests call, by the index that they get.
const PROJEKT: [(&str, Kind); 5] = [
    ("mit_wirtschaftseinheit", Kind::Joiner),
    ("mit_mietobjekt", Kind::Joiner),
    ("plus_projekt", Kind::Aggregator),
    ("plus_status", Kind::Aggregator),
    ("ausgabe", Kind::Transformer),
];

/// Logic of `projekt` or another version of it.
fn projekt(file: &str) -> ThreadLogic {
    set(file, Limits::default(), "{}", &PROJEKT).unwrap().logic()
}

/// A change for `plus_projekt` or `plus_status`.
fn change(function: u16, value: Bytes) -> (FunctionIndex, Bytes, i64) {
    (FunctionIndex(function), value, 1000)
}

#[test]
fn a_project_goes_through_joins_fold_and_output() {
    let mut logic = projekt("projekt");
    let project = r#"{"projektId":"P1","erstelltAm":7}"#;
    let joined = logic
        .join(FunctionIndex(0), &[pair(project, Some(r#"{"id":"W1","plz":"10115"}"#)), pair(project, None)])
        .unwrap();
    let with_unit = joined[0].clone().unwrap().unwrap();
    let without = joined[1].clone().unwrap().unwrap();
    let text = String::from_utf8(with_unit.to_vec()).unwrap();
    assert!(text.contains(r#""wirtschaftseinheit":{"id":"W1""#), "{text}");
    let text = String::from_utf8(without.to_vec()).unwrap();
    assert!(text.contains(r#""wirtschaftseinheit":null"#), "{text}");

    let pair = JoinPair { key: Some(bytes("P1")), left: with_unit, right: Some(bytes(r#"{"id":"M1"}"#)) };
    let joined = logic.join(FunctionIndex(1), &[pair]).unwrap();
    let status = bytes(r#"{"status":"OFFEN","geaendertAm":9}"#);
    let changes = vec![
        change(2, joined[0].clone().unwrap().unwrap()),
        change(3, status.clone()),
        change(3, bytes("no JSON")),
        change(3, status),
    ];
    let run = FoldRun { key: bytes("P1"), state: None, changes };
    let whole = logic.fold(std::slice::from_ref(&run), false).unwrap().remove(0);
    let state = whole.states[0].clone().unwrap();
    let text = String::from_utf8(state.to_vec()).unwrap();
    assert!(text.contains(r#""status":"OFFEN","statusGeaendertAm":9,"statusWechsel":1"#), "{text}");
    assert_eq!(whole.refused.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [2]);

    // Record by record, and with every state, it is the same.
    let every = logic.fold(std::slice::from_ref(&run), true).unwrap().remove(0);
    let mut state_so_far = None;
    for (index, change) in run.changes.iter().enumerate() {
        let one = FoldRun { key: bytes("P1"), state: state_so_far, changes: vec![change.clone()] };
        state_so_far = logic.fold(&[one], false).unwrap().remove(0).states.remove(0);
        assert_eq!(every.states[index], state_so_far, "after change {index}");
    }
    assert_eq!(state_so_far, Some(state.clone()));
    assert_eq!(every.refused, whole.refused);

    let record =
        |value: Bytes| Record { key: Some(bytes("P1")), value: Some(value), timestamp: 5, ..Record::default() };
    let out =
        logic.transform(FunctionIndex(4), &[record(state.clone()), record(bytes(r#"{"projekt":null}"#))]).unwrap();
    let header = Header { name: "eventType".into(), value: Some(bytes("ProjektAggregat")) };
    assert_eq!(out, [Ok(vec![Record { headers: vec![header], ..record(state) }]), Ok(vec![])]);
}

#[test]
fn the_second_version_keeps_the_state_version() {
    let (first, second) = (projekt("projekt"), projekt("projekt-v2"));
    assert_eq!(first.state_version(FunctionIndex(2)), second.state_version(FunctionIndex(2)));
    assert_ne!(first.version(FunctionIndex(2)), second.version(FunctionIndex(2)));
}

#[test]
fn a_plugin_that_lacks_a_function_in_use_is_refused() {
    let refusal = set("projekt-lacking", Limits::default(), "{}", &PROJEKT).unwrap_err();
    assert_eq!(refusal.stage(), Stage::Functions);
    let text = refusal.to_string();
    assert!(text.contains("- transformer plugin.ausgabe: version "), "{text}");
    assert!(text.contains("has no such function (its transformers: none)"), "{text}");
}

#[test]
fn an_inspection_tells_functions_and_imports() {
    let inspection = inspect(&wasm("projekt")).unwrap();
    assert_eq!(inspection, *load("projekt").inspection());
    assert_eq!(inspection.kinds, [Kind::Joiner, Kind::Aggregator, Kind::Transformer]);
    assert_eq!(inspection.description.functions.len(), 9);
    assert_eq!(inspection.description.states.len(), 1);
    let json = serde_json::to_value(&inspection).unwrap();
    assert_eq!(json["form"], "module");
    assert_eq!(json["description"]["functions"][0]["kind"], "joiner");
}

/// A store `orders` in memory.
struct Orders(BTreeMap<&'static str, &'static str>);

impl ViewStores for Orders {
    fn get(&self, _store: &str, key: &[u8]) -> Result<Option<Bytes>, String> {
        Ok(self.0.iter().find(|(k, _)| k.as_bytes() == key).map(|(_, value)| bytes(value)))
    }

    fn count(&self, _store: &str) -> Result<u64, String> {
        Ok(self.0.len() as u64)
    }
}

/// A request with these parameters.
fn request(query: &[(&str, &str)]) -> ViewRequest {
    let query = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    ViewRequest { method: "GET".to_owned(), path: "/api/order/status".to_owned(), query }
}

#[test]
fn the_order_status_service_answers_to_the_letter() {
    let set = set("orders", Limits::default(), "{}", &[("status", Kind::View)]).unwrap();
    let orders = Orders([("O1", r#"{"status":"SHIPPED"}"#), ("O2", "CREATED")].into());
    let pool = ViewPool::new(set, Arc::new(orders), 2);
    let get = |query: &[(&str, &str)]| {
        let answer = pool.answer(FunctionIndex(0), &["orders".to_owned()], request(query)).unwrap();
        (answer.status, String::from_utf8(answer.body.to_vec()).unwrap())
    };
    assert_eq!(get(&[("orderId", "O1")]), (200, "SHIPPED".to_owned()));
    assert_eq!(get(&[("orderId", "O2")]), (200, "CREATED".to_owned()));
    assert_eq!(get(&[]), (400, "Missing orderId parameter".to_owned()));
    assert_eq!(get(&[("orderId", "O3")]), (404, "Order not found".to_owned()));
}

#[test]
fn what_evil_functions_do_is_told_and_ends_only_their_instance() {
    let evil = load("evil");
    let functions = functions(&evil);
    let mut logic = set("evil", short(), "{}", &functions).unwrap().logic();
    let mut told = String::new();
    for (index, (name, kind)) in functions.iter().enumerate() {
        let function = FunctionIndex(u16::try_from(index).unwrap());
        // Two records: with one, what falls and what repeats looks the same as what is lacking.
        let outcome = match kind {
            Kind::Joiner => logic.join(function, &[pair("v", None), pair("w", None)]).map(|it| format!("{it:?}")),
            Kind::Aggregator => {
                let run = FoldRun {
                    key: bytes("k"),
                    state: Some(bytes("1")),
                    changes: vec![(function, bytes("v"), 0), (function, bytes("w"), 0)],
                };
                logic.fold(&[run], true).map(|it| format!("{it:?}"))
            }
            Kind::Transformer => {
                let record = |value| Record { value: Some(bytes(value)), ..Record::default() };
                let outcomes = logic.transform(function, &[record("v"), record("w")]);
                outcomes.map(|it| format!("{:?}", it.iter().map(|it| it.as_ref().map(Vec::len)).collect::<Vec<_>>()))
            }
            Kind::View => continue,
        };
        let line = match outcome {
            Ok(outcome) => outcome,
            Err(failure) => {
                assert_eq!(failure.function, *name);
                format!("{}: {}", failure.kind, placeless(&failure.reason))
            }
        };
        told.push_str(&format!("{name}: {line}\n"));
    }
    insta::assert_snapshot!(told, @r#"
    join_echo: [Ok(Some(b"v")), Ok(Some(b"w"))]
    join_obey: [Ok(Some(b"v")), Ok(Some(b"w"))]
    join_trap: trap: panic: a trap on purpose, at evil/src/deed
    join_abort: trap: it aborted without a message
    join_spin: time-out: it used more than 502ms of CPU time
    join_bomb: memory limit: it wanted 66432 KiB of memory; its limit is 64 MiB
    join_deep: trap: its call stack is used up (512 KiB): endless recursion?
    join_stores: trap: it called weir:plugin/stores.count; only views may read stores
    join_chatter: [Ok(Some(b"v")), Ok(Some(b"w"))]
    join_skip: [Err(Refusal { verdict: Skip, reason: "" }), Err(Refusal { verdict: Skip, reason: "" })]
    join_reject: [Err(Refusal { verdict: Reject, reason: "on purpose" }), Err(Refusal { verdict: Reject, reason: "on purpose" })]
    join_fail: [Err(Refusal { verdict: Fail, reason: "on purpose" }), Err(Refusal { verdict: Fail, reason: "on purpose" })]
    join_huge: bad answer: it hands over more than 32 MiB at a time
    join_fewer: bad answer: its answer's fields are wrong: 1 fields instead of 2
    join_more: bad answer: its answer's fields are wrong: 3 fields instead of 2
    join_falling: bad answer: its answer's fields are wrong: field 1 ends at 1, before its start at 3
    join_beyond: bad answer: its answer's fields are wrong: the fields end at 3, but there are 2 bytes
    join_loose: bad answer: its answer's fields are wrong: the fields end at 2, but there are 3 bytes
    join_stray: bad answer: it refuses record 4294967295 of a call with 2: indices must rise and exist
    join_twice: bad answer: it refuses record 0 of a call with 2: indices must rise and exist
    join_mojibake: bad answer: its data cannot be taken over: invalid utf-8 sequence of 1 bytes from index 0
    join_foreign: [Ok(Some(b"v")), Ok(Some(b"w"))]
    join_headers: [Ok(Some(b"v")), Ok(Some(b"w"))]
    fold_echo: [Folded { states: [Some(b"2"), Some(b"3")], refused: [] }]
    fold_obey: [Folded { states: [Some(b"2"), Some(b"3")], refused: [] }]
    fold_trap: trap: panic: a trap on purpose, at evil/src/deed
    fold_abort: trap: it aborted without a message
    fold_spin: time-out: it used more than 502ms of CPU time
    fold_bomb: memory limit: it wanted 66432 KiB of memory; its limit is 64 MiB
    fold_deep: trap: its call stack is used up (512 KiB): endless recursion?
    fold_stores: trap: it called weir:plugin/stores.count; only views may read stores
    fold_chatter: [Folded { states: [Some(b"2"), Some(b"3")], refused: [] }]
    fold_skip: [Folded { states: [Some(b"1"), Some(b"1")], refused: [(0, Refusal { verdict: Skip, reason: "" }), (1, Refusal { verdict: Skip, reason: "" })] }]
    fold_reject: [Folded { states: [Some(b"1"), Some(b"1")], refused: [(0, Refusal { verdict: Reject, reason: "on purpose" }), (1, Refusal { verdict: Reject, reason: "on purpose" })] }]
    fold_fail: [Folded { states: [Some(b"1"), Some(b"1")], refused: [(0, Refusal { verdict: Fail, reason: "on purpose" }), (1, Refusal { verdict: Fail, reason: "on purpose" })] }]
    fold_huge: bad answer: it hands over more than 32 MiB at a time
    fold_fewer: bad answer: its answer's fields are wrong: 1 fields instead of 2
    fold_more: bad answer: its answer's fields are wrong: 3 fields instead of 2
    fold_falling: bad answer: its answer's fields are wrong: field 1 ends at 1, before its start at 3
    fold_beyond: bad answer: its answer's fields are wrong: the fields end at 3, but there are 2 bytes
    fold_loose: bad answer: its answer's fields are wrong: the fields end at 2, but there are 3 bytes
    fold_stray: bad answer: it refuses record 4294967295 of a call with 2: indices must rise and exist
    fold_twice: bad answer: it refuses record 0 of a call with 2: indices must rise and exist
    fold_mojibake: bad answer: its data cannot be taken over: invalid utf-8 sequence of 1 bytes from index 0
    fold_foreign: [Folded { states: [Some(b"2"), Some(b"3")], refused: [] }]
    fold_headers: [Folded { states: [Some(b"2"), Some(b"3")], refused: [] }]
    transform_echo: [Ok(1), Ok(1)]
    transform_obey: [Ok(1), Ok(1)]
    transform_trap: trap: panic: a trap on purpose, at evil/src/deed
    transform_abort: trap: it aborted without a message
    transform_spin: time-out: it used more than 502ms of CPU time
    transform_bomb: memory limit: it wanted 66432 KiB of memory; its limit is 64 MiB
    transform_deep: trap: its call stack is used up (512 KiB): endless recursion?
    transform_stores: trap: it called weir:plugin/stores.count; only views may read stores
    transform_chatter: [Ok(1), Ok(1)]
    transform_skip: [Err(Refusal { verdict: Skip, reason: "" }), Err(Refusal { verdict: Skip, reason: "" })]
    transform_reject: [Err(Refusal { verdict: Reject, reason: "on purpose" }), Err(Refusal { verdict: Reject, reason: "on purpose" })]
    transform_fail: [Err(Refusal { verdict: Fail, reason: "on purpose" }), Err(Refusal { verdict: Fail, reason: "on purpose" })]
    transform_huge: bad answer: it hands over more than 32 MiB at a time
    transform_fewer: bad answer: its answer's fields are wrong: 3 fields instead of 4
    transform_more: bad answer: its answer's fields are wrong: 5 fields instead of 4
    transform_falling: bad answer: its answer's fields are wrong: field 1 ends at 0, before its start at 3
    transform_beyond: bad answer: its answer's fields are wrong: the fields end at 3, but there are 2 bytes
    transform_loose: bad answer: its answer's fields are wrong: the fields end at 2, but there are 3 bytes
    transform_stray: bad answer: it refuses record 4294967295 of a call with 2: indices must rise and exist
    transform_twice: bad answer: it refuses record 0 of a call with 2: indices must rise and exist
    transform_mojibake: bad answer: its data cannot be taken over: invalid utf-8 sequence of 1 bytes from index 0
    transform_foreign: bad answer: record 0 of its answer says it was made of record 4294967295, which the call did not have
    transform_headers: bad answer: its answer's fields are wrong: 4 fields instead of 6
    "#);
    // Whatever came before, a well-behaved call works.
    let echo = logic.join(FunctionIndex(0), &[pair("v", None)]).unwrap();
    assert_eq!(echo, [Ok(Some(bytes("v")))]);
}

#[test]
fn what_evil_views_do_is_told() {
    let evil = load("evil");
    let views: Vec<_> = functions(&evil).into_iter().filter(|(_, kind)| *kind == Kind::View).collect();
    let set = set("evil", short(), "{}", &views).unwrap();
    let pool = ViewPool::new(set, Arc::new(Orders([("a", "b")].into())), 1);
    let mut told = String::new();
    for (index, (name, _)) in views.iter().enumerate() {
        let function = FunctionIndex(u16::try_from(index).unwrap());
        let query = request(&[("store", "orders"), ("key", "a")]);
        let line = match pool.answer(function, &["orders".to_owned()], query) {
            Ok(answer) => format!("{} {:?}", answer.status, answer.body),
            Err(failure) => format!("{}: {}", failure.kind, placeless(&failure.reason)),
        };
        told.push_str(&format!("{name}: {line}\n"));
    }
    insta::assert_snapshot!(told, @r#"
    view_echo: 200 b"GET /api/order/status [(\"store\", \"orders\"), (\"key\", \"a\")]"
    view_get: 200 b"b"
    view_count: 200 b"1"
    view_trap: trap: panic: a trap on purpose, at evil/src/deed
    view_abort: trap: it aborted without a message
    view_spin: time-out: it used more than 500ms of CPU time
    view_bomb: memory limit: it wanted 66432 KiB of memory; its limit is 64 MiB
    view_deep: trap: its call stack is used up (512 KiB): endless recursion?
    view_chatter: 200 b""
    view_huge: bad answer: it hands over more than 32 MiB at a time
    view_status: bad answer: it answers with status 99; a view answers with 200 to 599
    view_header: bad answer: it answers with content type "text/plain\r\nevil: yes"; it must be like 'text/plain; charset=utf-8'
    view_mojibake: bad answer: its data cannot be taken over: invalid utf-8 sequence of 1 bytes from index 0
    "#);
}

#[test]
fn an_evil_start_is_refused() {
    let start = |config: &str| {
        let error = set("evil", short(), config, &[]).unwrap_err();
        assert_eq!(error.stage(), Stage::Started);
        let Error::Start { reason, .. } = error else { panic!("{error}") };
        placeless(&reason).to_owned()
    };
    let deeds = ["trap", "abort", "spin", "bomb", "deep", "stores"];
    let mut told: Vec<String> = deeds.iter().map(|deed| start(&format!(r#"{{"start":"{deed}"}}"#))).collect();
    told.push(start(r#"{"refuse":"no such table"}"#));
    told.push(start(r#"{"typo":1}"#));
    insta::assert_snapshot!(told.join("\n"), @"
    init: trap: panic: a trap on purpose, at evil/src/deed
    init: trap: it aborted without a message
    init: time-out: it used more than 500ms of CPU time
    init: memory limit: it wanted 66432 KiB of memory; its limit is 64 MiB
    init: trap: its call stack is used up (512 KiB): endless recursion?
    init: trap: it called weir:plugin/stores.count; only views may read stores
    init refuses: no such table
    init refuses: unknown field `typo`, expected `refuse` or `start` at line 1 column 7
    ");
}

#[test]
fn one_bad_record_of_a_batch_can_be_found_by_halves() {
    let mut logic = set("evil", short(), "{}", &[("join_obey", Kind::Joiner)]).unwrap().logic();
    let batch: Vec<JoinPair> = ["a", "b", "trap", "c"].into_iter().map(|value| pair(value, None)).collect();
    assert_eq!(logic.join(FunctionIndex(0), &batch).unwrap_err().kind, CallFailureKind::Trap);
    assert!(logic.join(FunctionIndex(0), &batch[..2]).is_ok());
    assert!(logic.join(FunctionIndex(0), &batch[2..3]).is_err());
    assert!(logic.join(FunctionIndex(0), &batch[3..]).is_ok());
}
