//! The task's semantics, with native logic: what Kafka Streams does, and what batches must not change.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use super::{DriverError, NativeFunction, NativeLogic, TopologyTestDriver};
use crate::model::{
    Entry, FunctionIndex, Header, Outcome, Record, Refusal, StateRead, StoreError, StoreIndex, TaskId, Verdict,
};
use crate::node::{Lookups, RecordFailure};
use crate::plan::{
    Emit, FunctionKind, FunctionUse, JoinTable, NodeInput, NodeKind, NodePlan, OnError, Plan, SourceKind, SourcePlan,
    StoreKind, StoreOrigin, StorePlan, SubtopologyPlan, TimePolicy,
};
use crate::task::{Options, StreamTask};

/// Settings of a test topology: stream `a` joined with table `t`, cogrouped with stream `b` into `s`, written to `out`.
#[derive(Clone, Copy)]
struct Setup {
    left: bool,
    emit: Emit,
    on_error: OnError,
    time: TimePolicy,
    batch: usize,
}

const SETUP: Setup =
    Setup { left: true, emit: Emit::Each, on_error: OnError::Fail, time: TimePolicy::Latest, batch: 256 };

fn plan(setup: Setup) -> Plan {
    let source = |name: &str, kind| SourcePlan { name: name.to_owned(), topic: name.to_owned(), kind };
    let function = |name: &str, kind| FunctionUse {
        plugin: "native".to_owned(),
        function: name.to_owned(),
        kind,
        on_error: setup.on_error,
    };
    let node = |name: &str, inputs, kind| NodePlan { name: name.to_owned(), inputs, kind };
    let store = |name: &str, origin| StorePlan { name: name.to_owned(), kind: StoreKind::RocksDb, origin };
    Plan {
        app_id: "app".to_owned(),
        subtopologies: vec![SubtopologyPlan {
            index: 0,
            sources: vec![
                source("a", SourceKind::Stream),
                source("b", SourceKind::Stream),
                source("t", SourceKind::Table(StoreIndex(0))),
            ],
            stores: vec![
                store("t", StoreOrigin::Table { topic: "t".to_owned() }),
                store("s", StoreOrigin::Changelog { topic: "app-s-changelog".to_owned() }),
            ],
            nodes: vec![
                node(
                    "joined",
                    vec![NodeInput::Source(0)],
                    NodeKind::Join {
                        table: JoinTable::Store(StoreIndex(0)),
                        left: setup.left,
                        function: FunctionIndex(0),
                    },
                ),
                node(
                    "s",
                    vec![NodeInput::Node(0), NodeInput::Source(1)],
                    NodeKind::Aggregate {
                        store: StoreIndex(1),
                        functions: vec![FunctionIndex(1), FunctionIndex(2)],
                        emit: setup.emit,
                    },
                ),
                node("mark", vec![NodeInput::Node(1)], NodeKind::Transform { function: FunctionIndex(3) }),
                node("out", vec![NodeInput::Node(2)], NodeKind::Sink { topic: "out".to_owned() }),
            ],
            time: setup.time,
        }],
        global_tables: Vec::new(),
        functions: vec![
            function("join", FunctionKind::Joiner),
            function("add", FunctionKind::Aggregator),
            function("add", FunctionKind::Aggregator),
            function("mark", FunctionKind::Transformer),
        ],
        views: Vec::new(),
        dead_letters: Some("dead".to_owned()),
        standby: 0,
    }
}

/// `bad` is rejected, `skip` is skipped, `stop` fails, `clear` ends the state, anything else is appended.
fn append(state: Option<&Bytes>, value: &Bytes) -> Outcome<Option<Bytes>> {
    let refused = |verdict, reason: &str| Err(Refusal { verdict, reason: reason.to_owned() });
    match value.as_ref() {
        b"bad" => refused(Verdict::Reject, "bad, as it says"),
        b"skip" => refused(Verdict::Skip, ""),
        b"stop" => refused(Verdict::Fail, "stop, as it says"),
        b"clear" => Ok(None),
        value => {
            let state = state.map(|s| String::from_utf8_lossy(s).into_owned()).unwrap_or_default();
            Ok(Some(Bytes::from(format!("{state}{}", String::from_utf8_lossy(value)))))
        }
    }
}

fn logic() -> NativeLogic {
    let fold = || NativeFunction::Fold(Box::new(|state, value, _| append(state, value)));
    NativeLogic::new(vec![
        NativeFunction::Join(Box::new(|pair| {
            let right = pair.right.as_ref().map_or("-".to_owned(), |row| String::from_utf8_lossy(row).into_owned());
            match pair.left.as_ref() {
                b"bad" | b"stop" | b"skip" | b"clear" => Ok(Some(pair.left.clone())),
                left => Ok(Some(Bytes::from(format!("{}/{right} ", String::from_utf8_lossy(left))))),
            }
        })),
        fold(),
        fold(),
        NativeFunction::Transform(Box::new(|record| {
            let mut record = record.clone();
            record.headers.push(Header { name: "mark".into(), value: None });
            Ok(vec![record])
        })),
    ])
}

fn driver(setup: Setup, logic: NativeLogic) -> TopologyTestDriver {
    let options = Options { batch: setup.batch, ..Options::default() };
    TopologyTestDriver::new(Arc::new(plan(setup)), Box::new(logic), options)
}

fn record(key: impl Into<Option<&'static str>>, value: impl Into<Option<&'static str>>, timestamp: i64) -> Record {
    Record { key: key.into().map(Bytes::from), value: value.into().map(Bytes::from), timestamp, ..Record::default() }
}

/// Key, value, timestamp of records, as text.
fn shown(records: &[Record]) -> Vec<String> {
    let text =
        |bytes: &Option<Bytes>| bytes.as_ref().map_or("null".into(), |b| String::from_utf8_lossy(b).into_owned());
    records.iter().map(|r| format!("{}={}@{}", text(&r.key), text(&r.value), r.timestamp)).collect()
}

#[test]
fn a_left_join_and_a_cogroup_as_kafka_streams_does_them() {
    let mut driver = driver(SETUP, logic());
    driver.pipe("t", [record("k", "row", 5), record(None, "no key", 5)]).unwrap();
    driver
        .pipe("a", [record("k", "a1", 10), record("l", "a2", 11), record("k", None, 12), record(None, "a3", 13)])
        .unwrap();
    driver.pipe("b", [record("k", "b1", 9), record("k", "b2", 12), record("k", None, 14)]).unwrap();
    driver.run().unwrap();
    let out = driver.read("out");
    assert_eq!(shown(&out), ["k=b1@9", "k=b1a1/row @10", "l=a2/- @11", "k=b1a1/row b2@12"]);
    assert!(out.iter().all(|record| record.headers.len() == 1), "the transformer's header is there");
    let tally = driver.tasks().next().unwrap().tally().clone();
    // A left join passes a record without a key on (KIP-962); the aggregate then drops it.
    assert_eq!(
        tally.dropped.into_iter().collect::<Vec<_>>(),
        [("null-key", 1), ("null-value", 2), ("table-null-key", 1)]
    );
    assert_eq!(tally.lookups[&0], Lookups { hit: 1, miss: 1, null_key: 1 });
}

#[test]
fn an_inner_join_drops_what_finds_no_row() {
    let mut driver = driver(Setup { left: false, ..SETUP }, logic());
    driver.pipe("t", [record("k", "row", 5)]).unwrap();
    driver.pipe("a", [record("k", "a1", 10), record("l", "a2", 11), record(None, "a3", 12)]).unwrap();
    driver.run().unwrap();
    assert_eq!(shown(&driver.read("out")), ["k=a1/row @10"]);
}

#[test]
fn latest_sees_rows_whatever_their_timestamps_and_timestamp_does_not() {
    for (time, want) in [(TimePolicy::Latest, "k=a/row @10"), (TimePolicy::Timestamp, "k=a/- @10")] {
        let mut driver = driver(Setup { time, ..SETUP }, logic());
        driver.pipe("t", [record("k", "row", 50)]).unwrap();
        driver.pipe("a", [record("k", "a", 10)]).unwrap();
        driver.run().unwrap();
        assert_eq!(shown(&driver.read("out")), [want], "{time:?}");
    }
}

#[test]
fn a_row_that_is_deleted_is_not_found_any_more() {
    let mut driver = driver(SETUP, logic());
    driver.pipe("t", [record("k", "row", 1)]).unwrap();
    driver.run().unwrap();
    driver.commit().unwrap();
    driver.pipe("t", [record("k", None, 2)]).unwrap();
    driver.pipe("a", [record("k", "a", 3)]).unwrap();
    driver.run().unwrap();
    assert_eq!(shown(&driver.read("out")), ["k=a/- @3"]);
}

#[test]
fn a_state_keeps_the_highest_timestamp_and_can_end() {
    let mut driver = driver(SETUP, logic());
    driver
        .pipe("b", [record("k", "x", 20), record("k", "y", 5), record("k", "clear", 30), record("k", "z", 1)])
        .unwrap();
    driver.run().unwrap();
    assert_eq!(shown(&driver.read("out")), ["k=x@20", "k=xy@20", "k=null@30", "k=z@1"]);
    assert_eq!(driver.entry("s", b"k").unwrap().unwrap().value, "z");
}

#[test]
fn emit_hands_on_each_update_the_last_of_a_batch_or_of_a_commit() {
    let pipe = |emit| {
        let mut driver = driver(Setup { emit, batch: 3, ..SETUP }, logic());
        driver.pipe("b", [record("k", "1", 1), record("l", "2", 2), record("k", "3", 3), record("k", "4", 4)]).unwrap();
        driver.run().unwrap();
        let before = shown(&driver.read("out"));
        driver.commit().unwrap();
        (before, shown(&driver.read("out")))
    };
    assert_eq!(pipe(Emit::Each).0, ["k=1@1", "l=2@2", "k=13@3", "k=134@4"]);
    assert_eq!(pipe(Emit::Batch).0, ["l=2@2", "k=13@3", "k=134@4"]);
    assert_eq!(pipe(Emit::Commit), (vec![], vec!["k=134@4".to_owned(), "l=2@2".to_owned()]));
}

#[test]
fn a_rejected_record_stops_the_task_before_it_and_nothing_after_it_is_processed() {
    for (value, batch) in [("bad", 256), ("stop", 256), ("bad", 1)] {
        let mut driver = driver(Setup { batch, ..SETUP }, logic());
        driver.pipe("b", [record("k", "1", 1), record("l", value, 2), record("k", "3", 3)]).unwrap();
        let Err(DriverError::Failed(failure)) = driver.run() else { panic!("did not stop") };
        assert_eq!(
            failure.to_string(),
            format!("stopped before b-0 offset 1: plugin native 0, function add: {value}, as it says")
        );
        assert_eq!(shown(&driver.read("out")), ["k=1@1"], "what came before is processed");
        let task = driver.tasks().next().unwrap();
        assert_eq!(task.positions()[1], 1, "the record is the next one again");
        assert_eq!(driver.entry("s", b"k").unwrap().unwrap().value, "1");
    }
}

/// A store that cannot be read while it is told so.
#[derive(Default)]
struct Unreadable(std::sync::atomic::AtomicBool);

impl StateRead for Unreadable {
    fn get(&self, _: StoreIndex, _: &[u8]) -> Result<Option<Entry>, StoreError> {
        if self.0.load(std::sync::atomic::Ordering::SeqCst) {
            return Err(StoreError { store: "s".to_owned(), reason: "the disk is gone".to_owned() });
        }
        Ok(None)
    }
}

#[test]
fn a_store_that_cannot_be_read_stops_the_task_before_the_batch() {
    let stores = Arc::new(Unreadable::default());
    let id = TaskId { subtopology: 0, partition: 0 };
    let options = Options { batch: 2, ..Options::default() };
    let mut task =
        StreamTask::new(id, Arc::new(plan(SETUP)), options, Arc::clone(&stores) as _, Vec::new(), &[0, 7, 0]).unwrap();
    let records = (7..12).map(|offset| Record { offset, ..record("k", "x", offset) });
    task.queue_mut(1).unwrap().extend(records, Some(12));
    task.queue_mut(0).unwrap().extend([], Some(0));
    let mut logic = logic();
    assert_eq!(task.step(&mut logic).outputs.len(), 2);
    task.committed();

    stores.0.store(true, std::sync::atomic::Ordering::SeqCst);
    let step = task.step(&mut logic);
    assert_eq!((step.records, step.outputs.len(), task.positions()), (0, 0, vec![0, 9, 0]));
    let failure = task.failure().unwrap().to_string();
    assert_eq!(failure, "stopped before b-0 offset 9: store s: the disk is gone");

    stores.0.store(false, std::sync::atomic::Ordering::SeqCst);
    task.retry();
    let outputs: usize = (0..3).map(|_| task.step(&mut logic).outputs.len()).sum();
    assert_eq!((outputs, task.positions()), (3, vec![0, 12, 0]), "nothing is left out");
}

#[test]
fn on_error_skip_and_dlq_let_the_partition_go_on() {
    let run = |on_error| {
        let mut driver = driver(Setup { on_error, ..SETUP }, logic());
        driver
            .pipe("b", [record("k", "1", 1), record("k", "bad", 2), record("k", "skip", 3), record("k", "4", 4)])
            .unwrap();
        driver.run().unwrap();
        (shown(&driver.read("out")), driver.read("dead"))
    };
    assert_eq!(run(OnError::Skip), (vec!["k=1@1".to_owned(), "k=14@4".to_owned()], vec![]));
    let (out, dead) = run(OnError::DeadLetter);
    assert_eq!(out, ["k=1@1", "k=14@4"]);
    assert_eq!(shown(&dead), ["k=bad@2"]);
    let headers: Vec<String> = dead[0]
        .headers
        .iter()
        .map(|h| format!("{}={}", h.name, String::from_utf8_lossy(h.value.as_ref().unwrap())))
        .collect();
    assert_eq!(
        headers,
        [
            "weir.error=bad, as it says",
            "weir.topic=b",
            "weir.partition=0",
            "weir.offset=1",
            "weir.plugin=native",
            "weir.plugin.version=0",
            "weir.function=add"
        ]
    );
}

#[test]
fn a_call_that_fails_is_narrowed_down_to_the_record_that_causes_it() {
    let run = |on_error| {
        let mut driver = driver(Setup { on_error, ..SETUP }, logic().trapping_on("trap"));
        let records = (0..100).map(|i| record("k", if i == 77 { "trap" } else { "." }, i));
        driver.pipe("b", records).unwrap();
        let result = driver.run();
        (result, driver)
    };
    let (result, driver) = run(OnError::Fail);
    let Err(DriverError::Failed(failure)) = result else { panic!("did not stop") };
    assert_eq!(
        (failure.offset, &failure.failure),
        (77, &RecordFailure::Call("plugin native 0, function function: trap: trapped, as told".to_owned()))
    );
    assert_eq!(driver.entry("s", b"k").unwrap().unwrap().value.len(), 77);
    let (result, mut driver) = run(OnError::DeadLetter);
    result.unwrap();
    assert_eq!(driver.entry("s", b"k").unwrap().unwrap().value.len(), 99);
    assert_eq!(driver.read("dead").len(), 1);
    assert_eq!(driver.read("out").len(), 99);
}

#[test]
fn a_record_that_no_producer_would_take_stops_the_task() {
    let options = Options { max_record_bytes: 20, ..Options::default() };
    let mut driver = TopologyTestDriver::new(Arc::new(plan(SETUP)), Box::new(logic()), options);
    driver.pipe("b", [record("k", "0123456789", 1), record("k", "0123456789", 2)]).unwrap();
    let Err(DriverError::Failed(failure)) = driver.run() else { panic!("did not stop") };
    assert_eq!(
        failure.to_string(),
        "stopped before b-0 offset 1: the record for topic app-s-changelog would have 21 bytes, the limit is 20 \
         (kafka.\"message.max.bytes\")"
    );
    assert_eq!(shown(&driver.read("out")), ["k=0123456789@1"]);
}

/// Arbitrary records of both streams.
fn inputs() -> impl Strategy<Value = Vec<(bool, Record)>> {
    let key = prop_oneof![Just(Some("k")), Just(Some("l")), Just(Some("m")), Just(None)];
    let value = prop_oneof![
        6 => Just(Some("x")), 6 => Just(Some("y")), 1 => Just(Some("bad")), 1 => Just(Some("skip")),
        1 => Just(Some("clear")), 1 => Just(Some("trap")), 1 => Just(None)
    ];
    let one = (any::<bool>(), key, value, 0i64..50);
    proptest::collection::vec(one, 0..80)
        .prop_map(|records| records.into_iter().map(|(a, key, value, at)| (a, record(key, value, at))).collect())
}

proptest! {
    #[test]
    fn how_records_are_cut_into_batches_never_changes_a_result(inputs in inputs(), batch in 2usize..40) {
        let run = |batch: usize| {
            let setup = Setup { batch, on_error: OnError::DeadLetter, ..SETUP };
            let mut driver = driver(setup, logic().trapping_on("trap"));
            driver.pipe("t", [record("k", "row", 1), record("l", "row", 1)]).unwrap();
            for (a, record) in &inputs {
                driver.pipe(if *a { "a" } else { "b" }, [record.clone()]).unwrap();
            }
            driver.run().unwrap();
            let states: Vec<_> = ["k", "l", "m"].map(|key| driver.entry("s", key.as_bytes()).unwrap()).into();
            (driver.read("out"), driver.read("dead"), states, driver.tasks().next().unwrap().tally().clone())
        };
        prop_assert_eq!(run(1), run(batch));
    }
}
