//! The topology of all simulations, and its logic in plain Rust: stream `a` joined with table `t`, cogrouped with stream `b`.

use bytes::Bytes;

use crate::model::{
    CallFailure, FoldRun, Folded, FunctionIndex, Generation, JoinPair, Logic, Outcome, Record, StoreIndex,
};
use crate::plan::{
    Emit, FunctionKind, FunctionUse, JoinTable, NodeInput, NodeKind, NodePlan, OnError, Plan, SourceKind, SourcePlan,
    StoreKind, StoreOrigin, StorePlan, SubtopologyPlan, TimePolicy,
};
use crate::runtime::edge::Plugins;

/// The stream that is joined.
pub(super) const A: &str = "a";
/// The stream that is not.
pub(super) const B: &str = "b";
/// The table.
pub(super) const TABLE: &str = "t";
/// The output.
pub(super) const OUT: &str = "out";
/// The state's changelog.
pub(super) const CHANGELOG: &str = "app-s-changelog";
/// The table's store.
pub(super) const ROWS: StoreIndex = StoreIndex(0);
/// The aggregate's store.
pub(super) const STATES: StoreIndex = StoreIndex(1);
/// A value that ends its key's state.
pub(super) const CLEAR: &str = "clear";

/// The plan.
pub(super) fn plan() -> Plan {
    let source = |name: &str, kind| SourcePlan { name: name.to_owned(), topic: name.to_owned(), kind };
    let function = |name: &str, kind| FunctionUse {
        plugin: "native".to_owned(),
        function: name.to_owned(),
        kind,
        on_error: OnError::Fail,
    };
    let node = |name: &str, inputs, kind| NodePlan { name: name.to_owned(), inputs, kind };
    let store = |name: &str, origin| StorePlan { name: name.to_owned(), kind: StoreKind::RocksDb, origin };
    let join = NodeKind::Join { table: JoinTable::Store(ROWS), left: true, function: FunctionIndex(0) };
    let functions = vec![FunctionIndex(1), FunctionIndex(1)];
    let cogroup = NodeKind::Aggregate { store: STATES, functions, emit: Emit::Each };
    Plan {
        app_id: "app".to_owned(),
        standby: 0,
        subtopologies: vec![SubtopologyPlan {
            index: 0,
            sources: vec![
                source(A, SourceKind::Stream),
                source(B, SourceKind::Stream),
                source(TABLE, SourceKind::Table(ROWS)),
            ],
            stores: vec![
                store(TABLE, StoreOrigin::Table { topic: TABLE.to_owned() }),
                store("s", StoreOrigin::Changelog { topic: CHANGELOG.to_owned() }),
            ],
            nodes: vec![
                node("joined", vec![NodeInput::Source(0)], join),
                node("s", vec![NodeInput::Node(0), NodeInput::Source(1)], cogroup),
                node(OUT, vec![NodeInput::Node(1)], NodeKind::Sink { topic: OUT.to_owned() }),
            ],
            time: TimePolicy::Latest,
        }],
        global_tables: Vec::new(),
        functions: vec![function("join", FunctionKind::Joiner), function("add", FunctionKind::Aggregator)],
        views: Vec::new(),
        dead_letters: None,
    }
}

/// The value that joining gives.
pub(super) fn join(left: &Bytes, row: Option<&Bytes>) -> Bytes {
    let row: &[u8] = row.map_or(b"-", |row| row);
    [left, b"/".as_slice(), row].concat().into()
}

/// The state after a change.
pub(super) fn add(state: Option<&Bytes>, value: &Bytes) -> Option<Bytes> {
    let state: &[u8] = state.map_or(b"", |state| state);
    (value != CLEAR).then(|| [state, value, b" ".as_slice()].concat().into())
}

/// The logic of a thread.
struct Native;

/// The plugins of all processes.
pub(super) struct NativePlugins;

impl Plugins for NativePlugins {
    fn generation(&self) -> Generation {
        Generation(1)
    }

    fn logic(self: std::sync::Arc<Self>) -> Box<dyn Logic + Send> {
        Box::new(Native)
    }

    fn state_version(&self, _: FunctionIndex) -> u32 {
        1
    }
}

impl Logic for Native {
    fn join(&mut self, _: FunctionIndex, pairs: &[JoinPair]) -> Result<Vec<Outcome<Option<Bytes>>>, CallFailure> {
        Ok(pairs.iter().map(|pair| Ok(Some(join(&pair.left, pair.right.as_ref())))).collect())
    }

    fn fold(&mut self, runs: &[FoldRun], _: bool) -> Result<Vec<Folded>, CallFailure> {
        let fold = |run: &FoldRun| {
            let mut state = run.state.clone();
            let mut states = Vec::with_capacity(run.changes.len());
            for (_, value, _) in &run.changes {
                state = add(state.as_ref(), value);
                states.push(state.clone());
            }
            Folded { states, refused: Vec::new() }
        };
        Ok(runs.iter().map(fold).collect())
    }

    fn transform(&mut self, _: FunctionIndex, _: &[Record]) -> Result<Vec<Outcome<Vec<Record>>>, CallFailure> {
        Ok(Vec::new())
    }

    fn state_version(&self, _: FunctionIndex) -> u32 {
        1
    }

    fn version(&self, _: FunctionIndex) -> (String, String) {
        ("native".to_owned(), "0".to_owned())
    }
}
