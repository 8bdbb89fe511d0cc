//! From the names of a checked topology to a plan's indices.
//!
//! Everything is in the file's order: sub-topologies by their first node, sources, stores, functions; nodes too, as far as
//! each stands after all that feed it. So an unchanged file always gives the same plan, on every instance.

use std::collections::BTreeMap;

use crate::model::{FunctionIndex, StoreIndex};
use crate::topology::{Node, NodeKind as Declared, Topology, Use, changelog_topic};

use super::{
    FunctionKind, FunctionUse, GlobalTablePlan, JoinTable, NodeInput, NodeKind, NodePlan, Plan, SourceKind, SourcePlan,
    StoreOrigin, StorePlan, SubtopologyPlan, ViewPlan,
};

impl Plan {
    /// The plan of `topology`. That is checked, so nothing here can fail; what it could not resolve it would leave out.
    pub fn resolve(topology: &Topology) -> Self {
        let mut functions = Functions::default();
        let nodes: Vec<_> = topology.nodes.iter().map(|node| (node, functions.add_all(node))).collect();
        let views = topology
            .views
            .iter()
            .map(|view| ViewPlan {
                name: view.name.clone(),
                route: view.route.value.clone(),
                function: functions.add(&view.function, FunctionKind::View),
                stores: view.stores.iter().map(|store| store.value.clone()).collect(),
            })
            .collect();
        let global_tables: Vec<_> = topology.nodes.iter().filter_map(global_table).collect();
        let globals = global_tables.iter().enumerate().map(|(index, table)| (table.name.as_str(), index)).collect();
        let subtopologies = (0..)
            .zip(components(&nodes))
            .map(|(index, members)| Builder::new(topology, &globals).subtopology(index, &members))
            .collect();
        Self {
            app_id: topology.app.id.clone(),
            subtopologies,
            global_tables,
            functions: functions.0,
            views,
            dead_letters: topology.dead_letters.as_ref().map(|topic| topic.value.clone()),
            standby: topology.state.standby,
        }
    }

    /// Topics that the group subscribes to: streams and tables, in order.
    pub fn source_topics(&self) -> impl Iterator<Item = &str> {
        self.subtopologies.iter().flat_map(|part| &part.sources).map(|source| source.topic.as_str())
    }

    /// Topics that fill stores: tables and changelogs of tasks, then global tables.
    pub fn store_topics(&self) -> impl Iterator<Item = &str> {
        let stores = self.subtopologies.iter().flat_map(|part| &part.stores).map(|store| store.origin.topic());
        stores.chain(self.global_tables.iter().map(|table| table.topic.as_str()))
    }

    /// Topics that are written for others: sinks, then dead letters.
    pub fn output_topics(&self) -> impl Iterator<Item = &str> {
        let sinks = self.subtopologies.iter().flat_map(|part| &part.nodes).filter_map(|node| match &node.kind {
            NodeKind::Sink { topic } => Some(topic.as_str()),
            _ => None,
        });
        sinks.chain(self.dead_letters.as_deref())
    }
}

/// A node of the file and its functions, in order.
type Member<'t> = (&'t Node, Vec<FunctionIndex>);

/// All uses of functions so far.
#[derive(Default)]
struct Functions(Vec<FunctionUse>);

impl Functions {
    /// Adds the uses of a node.
    fn add_all(&mut self, node: &Node) -> Vec<FunctionIndex> {
        let kind = match node.kind {
            Declared::Join { .. } => FunctionKind::Joiner,
            Declared::Aggregate { .. } => FunctionKind::Aggregator,
            _ => FunctionKind::Transformer,
        };
        node.uses().into_iter().map(|used| self.add(used, kind)).collect()
    }

    /// Adds a use. The same function used twice is there twice: what happens to what it rejects belongs to the use.
    fn add(&mut self, used: &Use, kind: FunctionKind) -> FunctionIndex {
        self.0.push(FunctionUse {
            plugin: used.plugin.clone(),
            function: used.function.clone(),
            kind,
            on_error: used.on_error,
        });
        FunctionIndex(index(self.0.len() - 1))
    }
}

/// `index` as plans have it; the checks keep their number far below.
fn index(index: usize) -> u16 {
    u16::try_from(index).unwrap_or(u16::MAX)
}

/// `node` as a global table, if it is one.
fn global_table(node: &Node) -> Option<GlobalTablePlan> {
    match &node.kind {
        Declared::GlobalTable { topic, store } => {
            Some(GlobalTablePlan { name: node.name.clone(), topic: topic.value.clone(), kind: *store })
        }
        _ => None,
    }
}

/// The connected parts of the topology. Global tables connect nothing, being whole everywhere, and a stream that nobody
/// takes records of isn't read.
fn components<'m, 't>(nodes: &'m [Member<'t>]) -> Vec<Vec<&'m Member<'t>>> {
    let positions: BTreeMap<_, _> = nodes.iter().enumerate().map(|(at, (node, _))| (node.name.as_str(), at)).collect();
    let mut parts = Parts((0..nodes.len()).collect());
    let mut taken = vec![false; nodes.len()];
    for (at, (node, _)) in nodes.iter().enumerate() {
        let looked_up = match &node.kind {
            Declared::Join { table, .. } => Some(table),
            _ => None,
        };
        for name in node.inputs().into_iter().chain(looked_up) {
            let Some(position) = positions.get(name.value.as_str()).copied() else { continue };
            if nodes.get(position).is_some_and(|(node, _)| !matches!(node.kind, Declared::GlobalTable { .. })) {
                parts.join(at, position);
            }
            if let Some(taken) = taken.get_mut(position) {
                *taken = true;
            }
        }
    }
    let mut members: BTreeMap<usize, Vec<_>> = BTreeMap::new();
    for ((at, member), taken) in nodes.iter().enumerate().zip(taken) {
        match member.0.kind {
            Declared::GlobalTable { .. } => {}
            Declared::Stream { .. } if !taken => {}
            _ => members.entry(parts.first(at)).or_default().push(member),
        }
    }
    members.into_values().collect()
}

/// Which nodes are connected: each points to an earlier one of its part, or to itself (union-find).
struct Parts(Vec<usize>);

impl Parts {
    /// The first node of the part that `at` is in.
    fn first(&self, mut at: usize) -> usize {
        while let Some(earlier) = self.0.get(at).copied().filter(|earlier| *earlier != at) {
            at = earlier;
        }
        at
    }

    /// Makes one part of those of `left` and `right`.
    fn join(&mut self, left: usize, right: usize) {
        let (left, right) = (self.first(left), self.first(right));
        if let Some(later) = self.0.get_mut(left.max(right)) {
            *later = left.min(right);
        }
    }
}

/// A sub-topology as far as it is built.
struct Builder<'t> {
    /// The topology.
    topology: &'t Topology,
    /// Index of each global table.
    globals: &'t BTreeMap<&'t str, usize>,
    /// What hands on records, by name.
    inputs: BTreeMap<&'t str, NodeInput>,
    /// Store of each table and aggregate.
    stores: BTreeMap<&'t str, StoreIndex>,
}

impl<'t> Builder<'t> {
    /// Nothing yet.
    fn new(topology: &'t Topology, globals: &'t BTreeMap<&'t str, usize>) -> Self {
        Self { topology, globals, inputs: BTreeMap::new(), stores: BTreeMap::new() }
    }

    /// The sub-topology of `members`.
    fn subtopology(mut self, index: u32, members: &[&Member<'t>]) -> SubtopologyPlan {
        let stores = self.stores(members);
        let sources = self.sources(members);
        let nodes = self.nodes(members);
        SubtopologyPlan { index, sources, stores, nodes, time: self.topology.app.time }
    }

    /// Stores of tables and aggregates.
    fn stores(&mut self, members: &[&Member<'t>]) -> Vec<StorePlan> {
        let mut stores = Vec::new();
        for (node, _) in members {
            let (kind, origin) = match &node.kind {
                Declared::Table { topic, store } => (*store, StoreOrigin::Table { topic: topic.value.clone() }),
                Declared::Aggregate { store, .. } => {
                    (*store, StoreOrigin::Changelog { topic: changelog_topic(&self.topology.app.id, &node.name) })
                }
                _ => continue,
            };
            self.stores.insert(&node.name, StoreIndex(index(stores.len())));
            stores.push(StorePlan { name: node.name.clone(), kind, origin });
        }
        stores
    }

    /// Streams and tables.
    fn sources(&mut self, members: &[&Member<'t>]) -> Vec<SourcePlan> {
        let mut sources = Vec::new();
        for (node, _) in members {
            let (topic, kind) = match (&node.kind, self.stores.get(node.name.as_str())) {
                (Declared::Stream { topic }, _) => (topic, SourceKind::Stream),
                (Declared::Table { topic, .. }, Some(store)) => (topic, SourceKind::Table(*store)),
                _ => continue,
            };
            if kind == SourceKind::Stream {
                self.inputs.insert(&node.name, NodeInput::Source(sources.len()));
            }
            sources.push(SourcePlan { name: node.name.clone(), topic: topic.value.clone(), kind });
        }
        sources
    }

    /// What processes records, each after all that feed it.
    fn nodes(&mut self, members: &[&Member<'t>]) -> Vec<NodePlan> {
        let mut nodes: Vec<NodePlan> = Vec::new();
        let mut waiting: Vec<_> = members.iter().filter(|(node, _)| !node.inputs().is_empty()).collect();
        while !waiting.is_empty() {
            let before = nodes.len();
            // In the file's order; what is fed by a later one waits for the next round.
            waiting.retain(|(node, functions)| {
                let inputs = node.inputs().into_iter().map(|from| self.inputs.get(from.value.as_str()).copied());
                let Some(inputs) = inputs.collect::<Option<Vec<_>>>() else { return true };
                if let Some(kind) = self.kind(node, functions) {
                    self.inputs.insert(&node.name, NodeInput::Node(nodes.len()));
                    nodes.push(NodePlan { name: node.name.clone(), inputs, kind });
                }
                false
            });
            if nodes.len() == before {
                break;
            }
        }
        nodes
    }

    /// What `node`, which uses `functions`, does.
    fn kind(&self, node: &Node, functions: &[FunctionIndex]) -> Option<NodeKind> {
        let function = functions.first().copied();
        Some(match &node.kind {
            Declared::Join { table, keeps_unmatched, .. } => NodeKind::Join {
                table: match self.globals.get(table.value.as_str()) {
                    Some(global) => JoinTable::Global(*global),
                    None => JoinTable::Store(*self.stores.get(table.value.as_str())?),
                },
                left: *keeps_unmatched,
                function: function?,
            },
            Declared::Aggregate { emit, .. } => NodeKind::Aggregate {
                store: *self.stores.get(node.name.as_str())?,
                functions: functions.to_vec(),
                emit: *emit,
            },
            Declared::Transform { .. } => NodeKind::Transform { function: function? },
            Declared::Sink { topic, .. } => NodeKind::Sink { topic: topic.value.clone() },
            Declared::Stream { .. } | Declared::Table { .. } | Declared::GlobalTable { .. } => return None,
        })
    }
}
