//! A plan with names instead of indices: what `/v1/topology` answers as JSON, and what `describe` writes for people.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::config::{ByteSize, Guarantee, OnStop, Readable};
use crate::model::{FunctionIndex, StoreIndex};
use crate::topology::Topology;

use super::{
    BarrierScope, CopartitionProblem, Emit, FunctionKind, FunctionUse, GlobalTablePlan, InternalTopic, JoinTable,
    MemoryPart, MemoryPlan, NodeInput, NodeKind, NodePlan, OnError, OnTimeout, Plan, SourceKind, StoreOrigin,
    SubtopologyPlan, TimePolicy, control_topic, internal_topics, registry_topic,
};

/// A whole topology.
#[derive(Debug, Serialize)]
pub(super) struct Description {
    /// `app.id`.
    pub(super) app: String,
    /// What holds for outputs.
    pub(super) guarantee: Guarantee,
    /// Stream threads of an instance.
    pub(super) threads: usize,
    /// How often is committed.
    pub(super) commit_interval: String,
    /// What a clean stop means to the group.
    pub(super) on_stop: OnStop,
    /// How long the state of a task that has moved away is kept.
    pub(super) cleanup_delay: String,
    /// Losses of instances that standbys are kept for.
    pub(super) standby: usize,
    /// Which row a record sees.
    pub(super) time: TimePolicy,
    /// Who waits for tables.
    pub(super) barrier: Barrier,
    /// Connected parts.
    pub(super) subtopologies: Vec<Part>,
    /// Tables that every instance holds whole.
    pub(super) global_tables: Vec<GlobalTable>,
    /// Plugins and what is used of them.
    pub(super) plugins: Vec<Plugin>,
    /// Query routes.
    pub(super) views: Vec<View>,
    /// The readiness route with texts of the file's own.
    pub(super) ready: Option<Ready>,
    /// Topics that Weir makes.
    pub(super) internal_topics: Vec<Internal>,
    /// Topic of dead letters.
    pub(super) dead_letters: Option<String>,
    /// How memory is divided.
    pub(super) memory: Memory,
}

/// How memory is divided.
#[derive(Debug, Serialize)]
pub(super) struct Memory {
    /// `state.memory`.
    pub(super) total: ByteSize,
    /// Whether each topic was taken to have one partition, since nobody has asked the broker.
    pub(super) partitions_unknown: bool,
    /// The parts, which make up the whole; none if it is too little.
    pub(super) parts: Vec<MemoryPart>,
}

/// The barrier.
#[derive(Debug, Serialize)]
pub(super) struct Barrier {
    /// Who waits.
    pub(super) scope: BarrierScope,
    /// How long at most.
    pub(super) timeout: Option<String>,
    /// What then.
    pub(super) on_timeout: OnTimeout,
}

/// A sub-topology.
#[derive(Debug, Serialize)]
pub(super) struct Part {
    /// Its index.
    pub(super) index: u32,
    /// Its tasks; unknown without partition counts.
    pub(super) tasks: Option<i32>,
    /// What it reads.
    pub(super) sources: Vec<Source>,
    /// What it does.
    pub(super) nodes: Vec<Node>,
    /// What it keeps.
    pub(super) stores: Vec<Store>,
}

/// A topic that is read.
#[derive(Debug, Serialize)]
pub(super) struct Source {
    /// Its name in the file.
    pub(super) name: String,
    /// `stream` or `table`.
    pub(super) kind: &'static str,
    /// The topic.
    pub(super) topic: String,
    /// Its partitions; unknown without partition counts.
    pub(super) partitions: Option<i32>,
}

/// A node that takes records.
#[derive(Debug, Serialize)]
pub(super) struct Node {
    /// Its name in the file.
    pub(super) name: String,
    /// What feeds it.
    pub(super) inputs: Vec<String>,
    /// The function for each input; none for a sink.
    pub(super) functions: Vec<Function>,
    /// What it does.
    #[serde(flatten)]
    pub(super) kind: Kind,
}

/// What a node does.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum Kind {
    /// A stream–table join.
    Join {
        /// The table.
        table: String,
        /// Whether a record without a row goes on.
        left: bool,
    },
    /// A cogroup.
    Aggregate {
        /// Which states it hands on.
        emit: Emit,
    },
    /// A transform.
    Transform,
    /// A sink.
    Sink {
        /// The topic.
        topic: String,
    },
}

/// A store of each task.
#[derive(Debug, Serialize)]
pub(super) struct Store {
    /// Its name.
    pub(super) name: String,
    /// `rocksdb`, or `memory` and its bound.
    pub(super) kind: String,
    /// `table` or `changelog`: what `topic` is.
    pub(super) origin: &'static str,
    /// The topic it is restored from.
    pub(super) topic: String,
}

/// A global table.
#[derive(Debug, Serialize)]
pub(super) struct GlobalTable {
    /// Its name.
    pub(super) name: String,
    /// `rocksdb`, or `memory` and its bound.
    pub(super) kind: String,
    /// Its topic.
    pub(super) topic: String,
    /// Its partitions; unknown without partition counts.
    pub(super) partitions: Option<i32>,
}

/// A plugin.
#[derive(Debug, Serialize)]
pub(super) struct Plugin {
    /// Its name in the file.
    pub(super) name: String,
    /// Its file.
    pub(super) file: String,
    /// Most memory of an instance.
    pub(super) memory: String,
    /// Most CPU time of a call.
    pub(super) call_timeout: String,
    /// What is used of it.
    pub(super) functions: Vec<Function>,
}

/// A use of a plugin's function.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Function {
    /// The plugin.
    pub(super) plugin: String,
    /// The function.
    pub(super) function: String,
    /// What it is used as.
    pub(super) kind: FunctionKind,
    /// What happens to what it rejects.
    pub(super) on_error: OnError,
}

/// A query route.
#[derive(Debug, Serialize)]
pub(super) struct View {
    /// Its name.
    pub(super) name: String,
    /// Its path.
    pub(super) route: String,
    /// The function that answers.
    pub(super) function: Option<Function>,
    /// Stores it may read.
    pub(super) stores: Vec<String>,
}

/// A readiness route.
#[derive(Debug, Serialize)]
pub(super) struct Ready {
    /// Its path.
    pub(super) route: String,
    /// The table that must be restored.
    pub(super) table: String,
    /// How many rows it must hold.
    pub(super) min_records: u64,
}

/// A topic that Weir makes.
#[derive(Debug, Serialize)]
pub(super) struct Internal {
    /// Its name.
    pub(super) name: String,
    /// Its partitions; unknown without partition counts.
    pub(super) partitions: Option<i32>,
    /// Its settings.
    pub(super) config: BTreeMap<String, String>,
}

impl Description {
    /// Describes `plan`, which is that of `topology`.
    pub(super) fn new(plan: &Plan, topology: &Topology, counts: Option<&BTreeMap<String, i32>>) -> Self {
        let counts = Counts(counts);
        Self {
            app: plan.app_id.clone(),
            guarantee: topology.app.guarantee,
            threads: topology.app.threads.get(),
            commit_interval: Readable(topology.app.commit_interval).to_string(),
            on_stop: topology.app.on_stop,
            cleanup_delay: Readable(topology.state.cleanup_delay).to_string(),
            standby: plan.standby,
            time: topology.app.time,
            barrier: Barrier {
                scope: topology.barrier.scope,
                timeout: topology.barrier.timeout.map(|timeout| Readable(timeout).to_string()),
                on_timeout: topology.barrier.on_timeout,
            },
            subtopologies: plan.subtopologies.iter().map(|part| Part::new(part, plan, counts)).collect(),
            global_tables: plan.global_tables.iter().map(|table| GlobalTable::new(table, counts)).collect(),
            plugins: plugins(plan, topology),
            views: plan
                .views
                .iter()
                .map(|view| View {
                    name: view.name.clone(),
                    route: view.route.clone(),
                    function: function(plan, view.function),
                    stores: view.stores.clone(),
                })
                .collect(),
            ready: topology.http.ready.as_ref().map(|ready| Ready {
                route: ready.route.value.clone(),
                table: ready.table.value.clone(),
                min_records: ready.min_records,
            }),
            internal_topics: internal(plan, topology, counts),
            dead_letters: plan.dead_letters.clone(),
            memory: memory(plan, topology, counts),
        }
    }
}

/// How the memory of `topology` is divided.
fn memory(plan: &Plan, topology: &Topology, counts: Counts<'_>) -> Memory {
    let assumed = BTreeMap::new();
    let divided = MemoryPlan::divide(plan, topology, counts.0.unwrap_or(&assumed));
    Memory {
        total: topology.state.memory,
        partitions_unknown: counts.0.is_none(),
        parts: divided.map(|divided| divided.parts()).unwrap_or_default(),
    }
}

/// Partition counts of topics, if they are known.
#[derive(Clone, Copy)]
struct Counts<'c>(Option<&'c BTreeMap<String, i32>>);

impl Counts<'_> {
    /// That of `topic`.
    fn of(self, topic: &str) -> Option<i32> {
        self.0.and_then(|counts| counts.get(topic)).copied()
    }
}

impl Part {
    /// Describes `part`.
    fn new(part: &SubtopologyPlan, plan: &Plan, counts: Counts<'_>) -> Self {
        let source = |source: &super::SourcePlan| Source {
            name: source.name.clone(),
            kind: if source.kind == SourceKind::Stream { "stream" } else { "table" },
            topic: source.topic.clone(),
            partitions: counts.of(&source.topic),
        };
        let store = |store: &super::StorePlan| Store {
            name: store.name.clone(),
            kind: store.kind.to_string(),
            origin: if matches!(store.origin, StoreOrigin::Table { .. }) { "table" } else { "changelog" },
            topic: store.origin.topic().to_owned(),
        };
        Self {
            index: part.index,
            tasks: counts.0.and_then(|counts| CopartitionProblem::check(part, counts).ok()),
            sources: part.sources.iter().map(source).collect(),
            nodes: part.nodes.iter().map(|node| Node::new(node, part, plan)).collect(),
            stores: part.stores.iter().map(store).collect(),
        }
    }
}

impl Node {
    /// Describes `node` of `part`.
    fn new(node: &NodePlan, part: &SubtopologyPlan, plan: &Plan) -> Self {
        let name_of_input = |input: &NodeInput| match input {
            NodeInput::Source(index) => part.sources.get(*index).map(|source| source.name.clone()),
            NodeInput::Node(index) => part.nodes.get(*index).map(|node| node.name.clone()),
        };
        let name_of_store = |store: &StoreIndex| part.stores.get(usize::from(store.0)).map(|store| store.name.clone());
        let (kind, functions) = match &node.kind {
            NodeKind::Join { table, left, function } => {
                let table = match table {
                    JoinTable::Store(store) => name_of_store(store),
                    JoinTable::Global(index) => plan.global_tables.get(*index).map(|table| table.name.clone()),
                };
                (Kind::Join { table: table.unwrap_or_default(), left: *left }, vec![*function])
            }
            NodeKind::Aggregate { functions, emit, .. } => (Kind::Aggregate { emit: *emit }, functions.clone()),
            NodeKind::Transform { function } => (Kind::Transform, vec![*function]),
            NodeKind::Sink { topic } => (Kind::Sink { topic: topic.clone() }, Vec::new()),
        };
        Self {
            name: node.name.clone(),
            inputs: node.inputs.iter().filter_map(name_of_input).collect(),
            functions: functions.into_iter().filter_map(|index| function(plan, index)).collect(),
            kind,
        }
    }
}

impl GlobalTable {
    /// Describes `table`.
    fn new(table: &GlobalTablePlan, counts: Counts<'_>) -> Self {
        Self {
            name: table.name.clone(),
            kind: table.kind.to_string(),
            topic: table.topic.clone(),
            partitions: counts.of(&table.topic),
        }
    }
}

impl From<&FunctionUse> for Function {
    fn from(used: &FunctionUse) -> Self {
        Self { plugin: used.plugin.clone(), function: used.function.clone(), kind: used.kind, on_error: used.on_error }
    }
}

/// The function that `index` points to.
fn function(plan: &Plan, index: FunctionIndex) -> Option<Function> {
    plan.functions.get(usize::from(index.0)).map(Function::from)
}

/// The plugins, each with what is used of it; a function that is used twice alike is there once.
fn plugins(plan: &Plan, topology: &Topology) -> Vec<Plugin> {
    let plugin = |(name, options): (&String, &crate::config::PluginOptions)| {
        let mut functions: Vec<Function> = Vec::new();
        for used in plan.functions.iter().filter(|used| used.plugin == *name).map(Function::from) {
            if !functions.contains(&used) {
                functions.push(used);
            }
        }
        Plugin {
            name: name.clone(),
            file: options.file.display().to_string(),
            memory: options.memory.to_string(),
            call_timeout: Readable(options.call_timeout).to_string(),
            functions,
        }
    };
    topology.plugins.iter().map(plugin).collect()
}

/// The topics that Weir makes: changelogs, that of the plugins, and that of instances that keep standbys for each other.
fn internal(plan: &Plan, topology: &Topology, counts: Counts<'_>) -> Vec<Internal> {
    // Names and settings don't depend on counts, so any will do where they are unknown.
    let assumed = plan.source_topics().map(|topic| (topic.to_owned(), 1)).collect();
    let known = counts.0.map(|counts| internal_topics(plan, counts)).unwrap_or_default();
    let changelogs = internal_topics(plan, &assumed).into_iter().map(|topic| Internal {
        partitions: known.iter().find(|known| known.name == topic.name).map(|known| known.partitions),
        name: topic.name,
        config: topic.config.into_iter().collect(),
    });
    let log = |topic: InternalTopic| Internal {
        name: topic.name,
        partitions: Some(topic.partitions),
        config: topic.config.into_iter().collect(),
    };
    let registry = (!topology.plugins.is_empty()).then(|| registry_topic(&plan.app_id));
    let control = (plan.standby > 0).then(|| control_topic(&plan.app_id));
    changelogs.chain(registry.into_iter().chain(control).map(log)).collect()
}
