//! Whole calls into guests written as text: sound ones, and every way of failing one. Messages as people read them.

use std::io::Write;
use std::sync::Mutex;
use std::time::Duration;

use super::super::test_guest::{Guest, JOIN_CONCAT};
use super::super::{Engine, Limits, PluginSpec, Wanted};
use super::*;
use crate::model::{Generation, Header};

/// The set of one plugin `guest`, with all functions given in their order.
fn set_with(guest: &Guest, limits: Limits, wanted: &[(&str, Kind)]) -> Result<Arc<PluginSet>, super::super::Error> {
    let engine = Engine::new()?;
    let compiled = engine.load(&guest.build())?;
    let spec = PluginSpec { name: "demo".to_owned(), limits, config: "{}".to_owned() };
    let wanted: Vec<Wanted> = wanted
        .iter()
        .map(|(function, kind)| Wanted { plugin: "demo".to_owned(), function: (*function).to_owned(), kind: *kind })
        .collect();
    PluginSet::new(&engine, Generation(4), vec![(spec, compiled)], &wanted)
}

/// Logic of a joiner `concat` with this body.
fn joiner_with(guest: &Guest, limits: Limits) -> ThreadLogic {
    set_with(guest, limits, &[("concat", Kind::Joiner)]).unwrap().logic()
}

/// A pair for joining.
fn pair(key: &'static str, left: &'static str, right: Option<&'static str>) -> JoinPair {
    JoinPair {
        key: Some(Bytes::from_static(key.as_bytes())),
        left: Bytes::from_static(left.as_bytes()),
        right: right.map(|right| Bytes::from_static(right.as_bytes())),
    }
}

/// Joins one pair.
fn join_one(logic: &mut ThreadLogic) -> Result<Vec<Outcome<Option<Bytes>>>, CallFailure> {
    logic.join(FunctionIndex(0), &[pair("k", "l", Some("r"))])
}

/// How a call of a joiner with this body fails; digests are left out.
fn failure(guest: Guest, limits: Limits) -> String {
    let mut logic = joiner_with(&guest, limits);
    let failure = join_one(&mut logic).unwrap_err();
    failure.to_string().replace(&failure.version, "DIGEST")
}

#[test]
fn pairs_are_joined_in_order() {
    let mut logic = joiner_with(&Guest::joiner(JOIN_CONCAT), Limits::default());
    for _ in 0..3 {
        let outcomes = logic
            .join(FunctionIndex(0), &[pair("a", "b", Some("c")), pair("", "", None), pair("d", "", Some(""))])
            .unwrap();
        let texts: Vec<_> = outcomes.into_iter().map(|it| it.unwrap().unwrap()).collect();
        assert_eq!(texts, [&b"abc"[..], b"", b"d"]);
    }
    assert_eq!(logic.join(FunctionIndex(0), &[]).unwrap(), vec![]);
}

#[test]
fn a_fold_carries_ids_counts_and_timestamps() {
    // Answers one state a run: of the first the function ids, of the second the counts.
    let guest = Guest::new(&[
        ("other", Kind::Joiner, None),
        ("first", Kind::Aggregator, Some("sum")),
        ("second", Kind::Aggregator, Some("sum")),
    ])
    .with(
        "aggregator",
        "(local $out i32) (local $ends_out i32)
         (local.set $out (call $alloc (i32.const 64)))
         (memory.copy (local.get $out) (local.get $functions) (i32.const 12))
         (memory.copy (i32.add (local.get $out) (i32.const 12)) (local.get $counts) (i32.const 8))
         (memory.copy (i32.add (local.get $out) (i32.const 20)) (i32.add (local.get $timestamps) (i32.const 16)) (i32.const 8))
         (local.set $ends_out (call $alloc (i32.const 8)))
         (i32.store (local.get $ends_out) (i32.const 12))
         (i32.store offset=4 (local.get $ends_out) (i32.const 28))
         (call $answer (local.get $out) (i32.const 28) (local.get $ends_out) (i32.const 2))",
    );
    let set =
        set_with(&guest, Limits::default(), &[("second", Kind::Aggregator), ("first", Kind::Aggregator)]).unwrap();
    assert_eq!(set.generation(), Generation(4));
    let mut logic = set.logic();
    let value = Bytes::from_static(b"v");
    let run = |changes: &[(u16, i64)]| FoldRun {
        key: Bytes::from_static(b"k"),
        state: None,
        changes: changes.iter().map(|(function, at)| (FunctionIndex(*function), value.clone(), *at)).collect(),
    };
    let folded = logic.fold(&[run(&[(0, 10), (1, 20)]), run(&[(1, 30)])], false).unwrap();
    let state = |index: usize| folded[index].states[0].clone().unwrap();
    assert_eq!(state(0), &[2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0][..]);
    assert_eq!(state(1), &[2, 0, 0, 0, 1, 0, 0, 0, 30, 0, 0, 0, 0, 0, 0, 0][..]);
    assert_eq!(logic.state_version(FunctionIndex(0)), 7);
    assert_eq!(logic.fold(&[], true).unwrap(), vec![]);
}

#[test]
fn records_come_back_with_key_value_time_and_headers() {
    // Answers the records as they came; each of its own origin.
    let guest = Guest::new(&[("same", Kind::Transformer, None)]).with(
        "transformer",
        "(local $i i32) (local $origins i32)
         (local.set $origins (call $alloc (i32.mul (local.get $headers_len) (i32.const 4))))
         (block $done (loop $next
            (br_if $done (i32.ge_u (local.get $i) (local.get $headers_len)))
            (i32.store (i32.add (local.get $origins) (i32.mul (local.get $i) (i32.const 4))) (local.get $i))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br $next)))
         (drop (call $answer (local.get $bytes) (local.get $bytes_len) (local.get $ends) (local.get $ends_len)))
         (i32.store (i32.const 80) (local.get $timestamps))
         (i32.store (i32.const 84) (local.get $timestamps_len))
         (i32.store (i32.const 88) (local.get $headers))
         (i32.store (i32.const 92) (local.get $headers_len))
         (i32.store (i32.const 96) (local.get $origins))
         (i32.store (i32.const 100) (local.get $headers_len))
         (i32.const 64)",
    );
    let mut logic = set_with(&guest, Limits::default(), &[("same", Kind::Transformer)]).unwrap().logic();
    let header =
        |name: &str, value: Option<&'static [u8]>| Header { name: name.into(), value: value.map(Bytes::from_static) };
    let records = [
        Record {
            key: Some(Bytes::from_static(b"k")),
            value: None,
            timestamp: 3,
            offset: 0,
            headers: vec![header("a", Some(b"1")), header("b", None)],
        },
        Record { key: None, value: Some(Bytes::from_static(b"v")), timestamp: -1, offset: 0, headers: vec![] },
    ];
    let outcomes = logic.transform(FunctionIndex(0), &records).unwrap();
    assert_eq!(outcomes, records.map(|record| Ok(vec![record])));
}

#[test]
fn a_failed_call_ends_its_instance_and_the_next_has_a_fresh_one() {
    // Traps at the second call of an instance.
    let guest = Guest::joiner(
        "(global.set $calls (i32.add (global.get $calls) (i32.const 1)))
         (if (i32.eq (global.get $calls) (i32.const 2)) (then unreachable))
         (call $concat (local.get $bytes) (local.get $bytes_len) (local.get $ends) (local.get $ends_len))",
    )
    .items(&format!(
        "(global $calls (mut i32) (i32.const 0))
         (func $concat (param $bytes i32) (param $bytes_len i32) (param $ends i32) (param $ends_len i32) (result i32)
            {JOIN_CONCAT})"
    ));
    let mut logic = joiner_with(&guest, Limits::default());
    let outcomes: Vec<bool> = (0..6).map(|_| join_one(&mut logic).is_ok()).collect();
    assert_eq!(outcomes, [true, false, true, false, true, false]);
}

#[test]
fn traps_tell_the_panic() {
    let panic = "(call $log (i32.const 3) (i32.const 512) (i32.const 30)) unreachable";
    insta::assert_snapshot!(failure(Guest::joiner(panic), Limits::default()), @"plugin demo DIGEST, function concat: trap: panic: boom, at src/lib.rs:1:2");
    insta::assert_snapshot!(failure(Guest::joiner("unreachable"), Limits::default()), @"plugin demo DIGEST, function concat: trap: it aborted without a message");
    let logged = "(call $log (i32.const 3) (i32.const 560) (i32.const 6)) unreachable";
    insta::assert_snapshot!(failure(Guest::joiner(logged), Limits::default()), @"plugin demo DIGEST, function concat: trap: it aborted; its last error line: orders");
    insta::assert_snapshot!(failure(Guest::joiner("(i32.div_u (i32.const 1) (i32.const 0))"), Limits::default()), @"plugin demo DIGEST, function concat: trap: wasm trap: integer divide by zero");
    insta::assert_snapshot!(failure(Guest::joiner("(i32.load (i32.const -8))"), Limits::default()), @"plugin demo DIGEST, function concat: trap: out of bounds memory access (a wild pointer, or a guest's own stack used up by endless recursion)");
}

#[test]
fn endless_loops_time_out() {
    let limits = Limits { call_timeout: Duration::from_millis(20), ..Limits::default() };
    insta::assert_snapshot!(failure(Guest::joiner("(loop $l (br $l)) unreachable"), limits), @"plugin demo DIGEST, function concat: time-out: it used more than 21ms of CPU time");
}

#[test]
fn endless_recursion_is_a_trap() {
    let guest =
        Guest::joiner("(call $again)").items("(func $again (result i32) (i32.add (call $again) (i32.const 1)))");
    insta::assert_snapshot!(failure(guest, Limits::default()), @"plugin demo DIGEST, function concat: trap: its call stack is used up (512 KiB): endless recursion?");
}

#[test]
fn memory_bombs_meet_the_limit() {
    let bomb = "(block $full (loop $more
            (br_if $full (i32.lt_s (memory.grow (i32.const 64)) (i32.const 0)))
            (br $more)))
        unreachable";
    insta::assert_snapshot!(failure(Guest::joiner(bomb), Limits::default()), @"plugin demo DIGEST, function concat: memory limit: it wanted 65664 KiB of memory; its limit is 64 MiB");
    // A batch that does not fit into the guest's memory.
    let limits = Limits { memory: 1 << 20, ..Limits::default() };
    let mut logic = joiner_with(&Guest::joiner(JOIN_CONCAT), limits);
    let big = JoinPair { key: None, left: Bytes::from(vec![0; 4 << 20]), right: None };
    let failure = logic.join(FunctionIndex(0), &[big]).unwrap_err();
    assert_eq!(failure.kind, CallFailureKind::Memory, "{failure}");
    assert!(join_one(&mut logic).is_ok());
}

#[test]
fn a_guest_that_lives_with_refused_memory_may() {
    let guest = Guest::joiner(
        "(drop (memory.grow (i32.const 60000))) (call $answer (i32.const 0) (i32.const 0) (i32.const 2048) (i32.const 1))",
    );
    let mut logic = joiner_with(&guest, Limits::default());
    assert!(join_one(&mut logic).is_ok());
}

#[test]
fn answers_that_cannot_be_taken_over_are_told() {
    // Behind the memory's end, too many bytes, invalid UTF-8 in a refusal, no verdict, wrong counts, hostile ends.
    let answer = |body| failure(Guest::joiner(body), Limits { result_bytes: 5000, ..Limits::default() });
    insta::assert_snapshot!(answer("(call $answer (i32.const -16) (i32.const 32) (i32.const 0) (i32.const 0))"), @"plugin demo DIGEST, function concat: bad answer: its data cannot be taken over: list pointer/length out of bounds of memory");
    insta::assert_snapshot!(answer("(call $answer (i32.const 0) (i32.const 6000) (i32.const 0) (i32.const 0))"), @"plugin demo DIGEST, function concat: bad answer: it hands over more than 5000 bytes at a time");
    insta::assert_snapshot!(answer("(i32.const 2)"), @"plugin demo DIGEST, function concat: bad answer: its data cannot be taken over: return pointer not aligned");
    let refused = "(local $at i32)
        (local.set $at (call $alloc (i32.const 16)))
        (i32.store offset=8 (local.get $at) (i32.const 600))
        (i32.store offset=12 (local.get $at) (i32.const 2))
        (i32.store8 offset=4 (local.get $at) (i32.const VERDICT))
        (drop (call $answer (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)))
        (i32.store (i32.const 80) (local.get $at))
        (i32.store (i32.const 84) (i32.const 1))
        (i32.const 64)";
    insta::assert_snapshot!(answer(refused.replace("VERDICT", "1").leak()), @"plugin demo DIGEST, function concat: bad answer: its data cannot be taken over: invalid utf-8 sequence of 1 bytes from index 0");
    insta::assert_snapshot!(answer(refused.replace("VERDICT", "9").leak()), @"plugin demo DIGEST, function concat: bad answer: its data cannot be taken over: unexpected discriminant: 9");
    insta::assert_snapshot!(answer("(call $answer (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))"), @"plugin demo DIGEST, function concat: bad answer: its answer's fields are wrong: 0 fields instead of 1");
    let falls = "(i32.store (i32.const 2048) (i32.const 9))
        (call $answer (i32.const 0) (i32.const 4) (i32.const 2048) (i32.const 1))";
    insta::assert_snapshot!(answer(falls), @"plugin demo DIGEST, function concat: bad answer: its answer's fields are wrong: the fields end at 9, but there are 4 bytes");
}

#[test]
fn stores_outside_a_view_trap() {
    let guest = Guest::new(&[("concat", Kind::Joiner, None), ("v", Kind::View, None)]).with(
        "joiner",
        "(call $get (i32.const 560) (i32.const 6) (i32.const 0) (i32.const 0) (i32.const 64)) (i32.const 64)",
    );
    insta::assert_snapshot!(failure(guest, Limits::default()), @"plugin demo DIGEST, function concat: trap: it called weir:plugin/stores.get; only views may read stores");
}

/// Collects what is logged.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn guests_log_under_their_name_and_within_bounds() {
    let body = "(local $i i32)
        (loop $again
            (call $log (i32.const 1) (i32.const 560) (i32.const 6))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $again (i32.lt_u (local.get $i) (i32.const 500))))
        (call $answer (i32.const 0) (i32.const 0) (i32.const 2048) (i32.const 1))";
    let mut logic = joiner_with(&Guest::joiner(body), Limits { log_lines: 2, ..Limits::default() });
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber =
        tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).without_time().finish();
    tracing::subscriber::with_default(subscriber, || {
        join_one(&mut logic).unwrap();
        join_one(&mut logic).unwrap();
    });
    let (_, version) = logic.version(FunctionIndex(0));
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap().replace(&version, "DIGEST");
    insta::assert_snapshot!(text, @r#"
    INFO weir::plugin: orders plugin="demo" version="DIGEST"
    INFO weir::plugin: orders plugin="demo" version="DIGEST"
    WARN weir::plugin: log lines over the limit of a call plugin="demo" version="DIGEST" dropped=498
    INFO weir::plugin: orders plugin="demo" version="DIGEST"
    INFO weir::plugin: orders plugin="demo" version="DIGEST"
    WARN weir::plugin: log lines over the limit of a call plugin="demo" version="DIGEST" dropped=498
    "#);
}

#[test]
fn functions_of_another_kind_are_not_called() {
    let mut logic = joiner_with(&Guest::joiner(JOIN_CONCAT), Limits::default());
    let failure = logic.transform(FunctionIndex(0), &[]).unwrap_err();
    assert_eq!(failure.reason, "function 0 is no transformer");
    assert_eq!(logic.join(FunctionIndex(9), &[]).unwrap_err().reason, "function 9 is no joiner");
}

/// Why a plugin is refused by a set that wants `concat` of it.
fn refusal(guest: Guest) -> String {
    let refusal = set_with(&guest, Limits::default(), &[("concat", Kind::Joiner)]).unwrap_err();
    let text = format!("{}: {refusal}", refusal.stage());
    // The digest is the one word of twelve hex digits.
    let word = text.split(' ').find(|word| word.len() == 12 && word.bytes().all(|b| b.is_ascii_hexdigit()));
    word.map_or_else(|| text.clone(), |digest| text.replace(digest, "DIGEST"))
}

#[test]
fn starts_are_limited_and_refusals_told() {
    let guest = || Guest::joiner(JOIN_CONCAT);
    insta::assert_snapshot!(refusal(guest().items("(func $spin (loop $l (br $l))) (start $spin)")), @"described: the plugin cannot say what it holds: start failed: instantiation: time-out: it used more than 2s of CPU time");
    insta::assert_snapshot!(refusal(guest().pages(2000)), @"started: plugin demo DIGEST cannot be started: instantiation: memory limit: it wanted 125 MiB of memory; its limit is 64 MiB");
    insta::assert_snapshot!(refusal(guest().with("init", "(loop $l (br $l)) unreachable")), @"started: plugin demo DIGEST cannot be started: init: time-out: it used more than 1s of CPU time");
    let refuses = "(i32.store8 (i32.const 64) (i32.const 1))
        (i32.store (i32.const 68) (i32.const 560)) (i32.store (i32.const 72) (i32.const 6)) (i32.const 64)";
    insta::assert_snapshot!(refusal(guest().with("init", refuses)), @"started: plugin demo DIGEST cannot be started: init refuses: orders");
}

#[test]
fn an_init_gets_the_configuration() {
    // Answers its configuration as the reason of a refusal.
    let guest = Guest::joiner(JOIN_CONCAT).with(
        "init",
        "(i32.store8 (i32.const 64) (i32.const 1)) (i32.store (i32.const 68) (local.get $config))
         (i32.store (i32.const 72) (local.get $config_len)) (i32.const 64)",
    );
    insta::assert_snapshot!(refusal(guest), @"started: plugin demo DIGEST cannot be started: init refuses: {}");
}

#[test]
fn all_that_is_missing_is_named_at_once() {
    let engine = Engine::new().unwrap();
    let guest = Guest::new(&[("left", Kind::Joiner, None), ("sum", Kind::Aggregator, Some("sum"))]);
    let compiled = engine.load(&guest.build()).unwrap();
    let spec = PluginSpec { name: "demo".to_owned(), limits: Limits::default(), config: "{}".to_owned() };
    let wanted = [("demo", "left"), ("demo", "lefft"), ("demo", "sum"), ("other", "left")]
        .map(|(plugin, function)| Wanted { plugin: plugin.into(), function: function.into(), kind: Kind::Joiner });
    let digest = compiled.short_digest().to_owned();
    let error = PluginSet::new(&engine, Generation(0), vec![(spec, compiled)], &wanted).unwrap_err();
    insta::assert_snapshot!(error.to_string().replace(&digest, "DIGEST"), @"
    the topology uses functions that its plugins do not have:
    - joiner demo.lefft: version 1.0 (DIGEST) has no such function (its joiners: left)
    - joiner demo.sum: in version 1.0 (DIGEST) this is of kind aggregator (its joiners: left)
    - joiner other.left: there is no such plugin (there are: demo)
    ");
}

#[test]
fn a_component_of_another_engine_is_refused() {
    let compiled = Engine::new().unwrap().load(&Guest::joiner(JOIN_CONCAT).build()).unwrap();
    let spec = PluginSpec { name: "demo".to_owned(), limits: Limits::default(), config: "{}".to_owned() };
    let error = PluginSet::new(&Engine::new().unwrap(), Generation(0), vec![(spec, compiled)], &[]).unwrap_err();
    assert!(matches!(error, super::super::Error::OtherEngine { .. }));
}

#[test]
fn the_same_bytes_are_compiled_once_while_in_use() {
    let engine = Engine::new().unwrap();
    let bytes = Guest::joiner(JOIN_CONCAT).build();
    let first = engine.load(&bytes).unwrap();
    assert!(Arc::ptr_eq(&first, &engine.load(&bytes).unwrap()));
    assert_eq!(first.size(), bytes.len());
    assert_eq!(first.digest().len(), 64);
    assert_eq!(first.kinds(), [Kind::Joiner]);
    assert_eq!(first.inspection().imports, ["weir:plugin/log@0.1.0", "weir:plugin/types@0.1.0"]);
    assert_eq!(super::super::inspect(&bytes).unwrap(), *first.inspection());
}

#[test]
fn logic_moves_between_threads() {
    fn assert_send<T: Send>() {}
    fn assert_shared<T: Send + Sync>() {}
    assert_send::<ThreadLogic>();
    assert_shared::<PluginSet>();
    assert_shared::<super::super::ViewPool>();
    assert_shared::<Engine>();
}
