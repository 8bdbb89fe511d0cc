//! The plugins of this repository in the host: what they do, and what the host says of those that misbehave.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use weir::model::{CallFailureKind, FoldRun, FunctionIndex, Generation, Header, JoinPair, Logic, Record};
use weir::plugin::{
    Engine, Error, Inspection, Kind, Limits, PluginSet, PluginSpec, Stage, ThreadLogic, ViewPool, ViewRequest,
    ViewStores, Wanted, inspect,
};

/// The built plugin `name`.
fn wasm(name: &str) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace's root");
    let path = root.join(format!("plugins/target/weir/{name}.wasm"));
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}; run scripts/plugins.sh", path.display()))
}

/// Limits that tests meet soon.
fn short() -> Limits {
    Limits {
        call_timeout: Duration::from_millis(20),
        view_timeout: Duration::from_millis(20),
        start_timeout: Duration::from_millis(500),
        ..Limits::default()
    }
}

/// The set of one plugin, of which `wanted` is used.
fn set(file: &str, limits: Limits, config: &str, wanted: &[(&str, Kind)]) -> Result<Arc<PluginSet>, Error> {
    let engine = Engine::new()?;
    let compiled = engine.load(&wasm(file))?;
    let spec = PluginSpec { name: "plugin".to_owned(), limits, config: config.to_owned() };
    let wanted: Vec<Wanted> = wanted
        .iter()
        .map(|(function, kind)| Wanted { plugin: "plugin".to_owned(), function: (*function).to_owned(), kind: *kind })
        .collect();
    PluginSet::new(&engine, Generation(1), vec![(spec, compiled)], &wanted)
}

/// All functions of a plugin.
fn functions(inspection: &Inspection) -> Vec<(&str, Kind)> {
    inspection.description.functions.iter().map(|function| (&*function.name, function.kind)).collect()
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
    let inspection = inspect(&wasm("evil")).unwrap();
    let functions = functions(&inspection);
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
                format!("{}: {}", failure.kind, failure.reason)
            }
        };
        told.push_str(&format!("{name}: {line}\n"));
    }
    insta::assert_snapshot!(told, @"");
    // Whatever came before, a well-behaved call works.
    let echo = logic.join(FunctionIndex(0), &[pair("v", None)]).unwrap();
    assert_eq!(echo, [Ok(Some(bytes("v")))]);
}

#[test]
fn what_evil_views_do_is_told() {
    let inspection = inspect(&wasm("evil")).unwrap();
    let views: Vec<_> = functions(&inspection).into_iter().filter(|(_, kind)| *kind == Kind::View).collect();
    let set = set("evil", short(), "{}", &views).unwrap();
    let pool = ViewPool::new(set, Arc::new(Orders([("a", "b")].into())), 1);
    let mut told = String::new();
    for (index, (name, _)) in views.iter().enumerate() {
        let function = FunctionIndex(u16::try_from(index).unwrap());
        let query = request(&[("store", "orders"), ("key", "a")]);
        let line = match pool.answer(function, &["orders".to_owned()], query) {
            Ok(answer) => format!("{} {:?}", answer.status, answer.body),
            Err(failure) => format!("{}: {}", failure.kind, failure.reason),
        };
        told.push_str(&format!("{name}: {line}\n"));
    }
    insta::assert_snapshot!(told, @"");
}

#[test]
fn an_evil_start_is_refused() {
    let start = |config: &str| {
        let error = set("evil", short(), config, &[]).unwrap_err();
        assert_eq!(error.stage(), Stage::Started);
        let Error::Start { reason, .. } = error else { panic!("{error}") };
        reason
    };
    let deeds = ["trap", "abort", "spin", "bomb", "deep", "stores"];
    let mut told: Vec<String> = deeds.iter().map(|deed| start(&format!(r#"{{"start":"{deed}"}}"#))).collect();
    told.push(start(r#"{"refuse":"no such table"}"#));
    told.push(start(r#"{"typo":1}"#));
    insta::assert_snapshot!(told.join("\n"), @"");
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
