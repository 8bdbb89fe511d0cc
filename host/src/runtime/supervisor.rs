//! Starts an instance, polls its consumers, and ends it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::config::OnStop;
use crate::fault;
use crate::kafka::{self, ClientSettings, LogEnds, SourceConsumer, TableReader, TopicAdmin, TopicLog};
use crate::model::InstanceState;
use crate::plan::{FunctionKind, MemoryPlan, NodeKind, Plan};
use crate::plugin::{Engine, Kind, PluginSpec, Wanted};
use crate::registry::{self, InProcessLog, Registry, RegistryOptions};
use crate::store::{Resources, StateDir};
use crate::telemetry::Counters;
use crate::topology::Topology;
use crate::view::Catalog;

use super::activation::Activation;
use super::assignment::Assignment;
use super::cleanup::Cleanup;
use super::control::End;
use super::edge::{Plugins, ProducerFactory, StateFolder};
use super::event::{Event, Mailbox};
use super::handle::Handle;
use super::instance::{Instance, Shared};
use super::membership::LeftTransactions;
use super::options;
use super::prober::Prober;
use super::standby::{self, Standbys};
use super::topic_watch::TopicWatch;
use super::topics::Topics;
use super::{Error, global_tables, membership, startup, stream_thread};

/// How long a poll of the source consumer waits.
const POLL: Duration = Duration::from_millis(100);
/// Between two looks at the stream threads; after a longer one nothing can be said of them.
const GAP: Duration = Duration::from_secs(2);
/// How long ending all threads may take: a thread that waits for a lost broker must not keep the process.
const STOP: Duration = Duration::from_secs(20);
/// How long asking where a topic is may take, before it is read without.
const PREPARE: Duration = Duration::from_secs(5);
/// How long opening the registry's log may take.
const OPEN_LOG: Duration = Duration::from_secs(30);

/// What kind of cluster it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cluster {
    /// A Kafka cluster.
    Kafka,
    /// The embedded broker: topics are made by whoever started it, and the registry lives in this process.
    Embedded,
}

/// Starts an instance. Returns at once, with the state folder locked; everything else happens on its own threads.
pub fn start(topology: &Topology, cluster: Cluster) -> Result<Arc<Handle>, Error> {
    let plan = Arc::new(Plan::resolve(topology));
    // With the least partitions that there can be: what doesn't fit even so is refused before anything is touched.
    MemoryPlan::divide(&plan, topology, &startup::Counts::new())?;
    let state_dir = Arc::new(StateDir::open(&topology.state.dir, &plan.app_id)?);
    let catalog = Arc::new(Catalog::new(kafka::partition_for_key));
    for part in &plan.subtopologies {
        for store in &part.stores {
            catalog.declare(&store.name, store.origin.kind(), 1);
        }
    }
    for table in &plan.global_tables {
        catalog.declare(&table.name, "global-table", 0);
    }
    let shared = Arc::new(Shared::default());
    let counters = Arc::new(Counters::new(joins(&plan), topology.plugins.keys().cloned()));
    let activation = Activation::new(Arc::clone(&catalog));
    let registry = Arc::new(OnceLock::new());
    let instance = state_dir.instance_id().to_owned();
    let start = Start {
        plan: Arc::clone(&plan),
        cluster,
        topology: topology.clone(),
        state_dir,
        catalog: Arc::clone(&catalog),
        shared: Arc::clone(&shared),
        counters: Arc::clone(&counters),
        activation: Arc::clone(&activation),
        registry: Arc::clone(&registry),
    };
    let name = "supervisor".to_owned();
    let supervisor = std::thread::Builder::new()
        .name(name.clone())
        .spawn(move || start.run())
        .map_err(|source| Error::Thread { name, source })?;
    Ok(Arc::new(Handle {
        app: plan.app_id.clone(),
        instance,
        guarantee: topology.app.guarantee,
        topology: crate::plan::describe_json(&plan, topology, None),
        catalog,
        shared,
        counters,
        activation,
        registry,
        supervisor: Mutex::new(Some(supervisor)),
    }))
}

/// What the supervisor starts with.
struct Start {
    /// The topology, resolved.
    plan: Arc<Plan>,
    /// The cluster's kind.
    cluster: Cluster,
    /// The topology.
    topology: Topology,
    /// The state folder, locked.
    state_dir: Arc<StateDir>,
    /// Stores that are open.
    catalog: Arc<Catalog>,
    /// What the outside sees.
    shared: Arc<Shared>,
    /// What the data path counts.
    counters: Arc<Counters>,
    /// Active plugins.
    activation: Arc<Activation>,
    /// Set once the registry is read.
    registry: Arc<OnceLock<Arc<Registry>>>,
}

/// What a start has before its threads: clients that work already, and what the broker has said.
struct Begun {
    /// Settings of further clients.
    settings: ClientSettings,
    /// Shares of the memory.
    memory: MemoryPlan,
    /// The topics that are read.
    topics: Topics,
    /// Looks whether they stay what they are.
    watch: Option<TopicWatch>,
    /// Partition counts of the topology's topics.
    counts: startup::Counts,
    /// What an earlier run has left open.
    left: LeftTransactions,
    /// The reader of tables and changelogs, once it knows where they are.
    reader: JoinHandle<Arc<TableReader>>,
}

/// A running instance's threads.
struct Running {
    /// Shared parts.
    instance: Arc<Instance>,
    /// The group member.
    source: Arc<SourceConsumer>,
    /// The reader of tables and changelogs.
    reader: Arc<TableReader>,
    /// Stream threads, with their mailboxes.
    threads: Vec<(Mailbox, JoinHandle<()>)>,
    /// The global tables' thread.
    globals: JoinHandle<Result<(), Error>>,
    /// What makes tasks of partitions.
    assignment: Arc<Assignment>,
    /// The state folder.
    state_dir: Arc<StateDir>,
    /// Memory of all stores.
    resources: Resources,
    /// Looks whether topics stay what they are; the embedded broker's do.
    _watch: Option<TopicWatch>,
    /// The standbys' threads, if there are to be some.
    standbys: standby::Threads,
}

impl Start {
    /// From nothing to the end.
    fn run(self) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        let result = self.start_and_supervise();
        if let Err(error) = &result {
            shared.set_waits_for(Some(super::chain(error)));
        }
        shared.set_state(InstanceState::Stopping);
        result
    }

    /// Starts everything, polls until told to stop, ends everything.
    fn start_and_supervise(self) -> Result<(), Error> {
        self.shared.set_waits_for(Some("connecting".to_owned()));
        let topology = &self.topology;
        let base = ClientSettings::new(&self.plan.app_id, topology.kafka.clone());
        let admin = TopicAdmin::new(&base).map_err(|source| kafka_error("cannot make an admin client", source))?;
        let Some(counts) = startup::reach(&self.plan, &admin, &self.shared)? else { return Ok(()) };
        let memory = MemoryPlan::divide(&self.plan, topology, &counts)?;
        let _only_once = self.shared.memory.plan.set(memory);
        let settings = base.with_queue_limits(options::queue_limits(&memory));
        // What takes a while goes on beside the rest of the start.
        let left = LeftTransactions::end(&settings, &self.state_dir);
        let checked = startup::check(&self.plan, &admin, self.cluster, &self.shared, &counts)?;
        let Some(topics) = checked else { return Ok(()) };
        let watch = match self.cluster {
            Cluster::Kafka => Some(TopicWatch::start(admin, topics.clone(), Arc::clone(&self.shared))?),
            Cluster::Embedded => None,
        };
        let reader = self.prepare_reader(&settings)?;
        for part in &self.plan.subtopologies {
            for store in &part.stores {
                if let Some(partitions) = part.sources.first().and_then(|source| counts.get(&source.topic)) {
                    self.catalog.declare(&store.name, store.origin.kind(), *partitions);
                }
            }
        }

        self.shared.set_waits_for(Some("loading plugins".to_owned()));
        let registry = self.start_registry(&settings, &memory)?;
        let _only_once = self.registry.set(Arc::clone(&registry));
        // Without plugins there is nothing to run; one that is deployed meanwhile ends the wait.
        while self.activation.current().is_none() {
            if self.shared.is_stopping() {
                registry.stop();
                return Ok(());
            }
            let problems = registry.problems();
            let waits = if problems.is_empty() { "waits for plugins".to_owned() } else { problems.join("; ") };
            self.shared.set_waits_for(Some(waits));
            std::thread::park_timeout(POLL);
        }

        let running = self.start_threads(Begun { settings, memory, topics, watch, counts, left, reader })?;
        self.shared.set_waits_for(None);
        self.shared.set_state(InstanceState::Running);
        let result = running.supervise();
        self.shared.set_state(InstanceState::Stopping);
        self.shared.stopping.store(true, std::sync::atomic::Ordering::SeqCst);
        let ended = running.end(&result);
        registry.stop();
        result.and(ended)
    }

    /// Makes the reader of tables and changelogs, and has it find out where they are.
    fn prepare_reader(&self, settings: &ClientSettings) -> Result<JoinHandle<Arc<TableReader>>, Error> {
        let reader = TableReader::new(settings).map_err(|e| kafka_error("cannot make the table reader", e))?;
        let plan = Arc::clone(&self.plan);
        let name = "table-reader".to_owned();
        std::thread::Builder::new()
            .name(name.clone())
            .spawn(move || {
                reader.prepare(&plan.store_topics().collect::<Vec<_>>(), PREPARE);
                reader
            })
            .map_err(|source| Error::Thread { name, source })
    }

    /// Reads the registry and activates what it says.
    fn start_registry(&self, settings: &ClientSettings, memory: &MemoryPlan) -> Result<Arc<Registry>, Error> {
        let engine = Arc::new(Engine::with_memory(memory.instance, memory.instance + memory.reserve)?);
        let _only_once = self.shared.memory.engine.set(Arc::clone(&engine));
        let mut specs = Vec::new();
        let mut files = std::collections::BTreeMap::new();
        for (name, options) in &self.topology.plugins {
            let limits = options::limits(options, memory);
            specs.push(PluginSpec { name: name.clone(), limits, config: options.config.to_string() });
            files.insert(name.clone(), options.file.clone());
        }
        let wanted = self
            .plan
            .functions
            .iter()
            .map(|function| Wanted {
                plugin: function.plugin.clone(),
                function: function.function.clone(),
                kind: kind(function.kind),
            })
            .collect();
        let options = RegistryOptions {
            plugins: specs,
            wanted,
            cache_dir: self.state_dir.plugin_dir(),
            files,
            instance: self.state_dir.instance_id().to_owned(),
        };
        let activation = Arc::clone(&self.activation);
        let activated = Box::new(move |set| activation.activate(set));
        let registry = match self.cluster {
            Cluster::Embedded => {
                let log = InProcessLog::new();
                Registry::start(log.reader(), log.writer(), engine, options, activated)?
            }
            Cluster::Kafka => {
                let topic = registry::topic(&self.plan.app_id).name;
                let open = || {
                    TopicLog::open(settings, &topic, OPEN_LOG)
                        .map_err(|source| kafka_error("cannot open the registry's topic", source))
                };
                let (log, writer) = (Box::new(open()?), Box::new(open()?));
                Registry::start(log, writer, engine, options, activated)?
            }
        };
        Ok(registry)
    }

    /// Makes the clients and starts the threads.
    fn start_threads(&self, begun: Begun) -> Result<Running, Error> {
        let Begun { settings, memory, topics, watch, counts, left, reader } = begun;
        let options = options::options(&self.topology, &memory);
        let inputs: BTreeSet<&str> =
            self.plan.subtopologies.iter().flat_map(|part| &part.sources).map(|s| s.topic.as_str()).collect();
        let inputs: Vec<&str> = inputs.into_iter().collect();
        let member = match self.cluster {
            Cluster::Kafka if !inputs.is_empty() => {
                membership::end_outdated(&settings, &self.state_dir, &inputs)?;
                Some(self.state_dir.instance_id())
            }
            // Nobody comes back to a group that ends with the process.
            _ => None,
        };
        let log_ends = LogEnds::new(&settings).map_err(|e| kafka_error("cannot make a client", e))?;
        let prober = Arc::new(Prober::start(log_ends)?);
        let assignment = Arc::new(Assignment::default());
        let source = SourceConsumer::new(&settings, member, Arc::clone(&assignment) as _)
            .map_err(|e| kafka_error("cannot make the source consumer", e))?;
        let reader = reader.join().map_err(|_| Error::Panicked { name: "table-reader".to_owned() })?;
        let threads = options.threads;
        let own = |index| membership::transactional_id(&self.plan.app_id, self.state_dir.instance_id(), index);
        let connected = left.ended(&self.state_dir, &(0..threads).map(own).collect());
        let barrier = crate::task::Barrier::new(options.barrier.scope, self.plan.global_tables.is_empty());
        let resources = Resources::new(memory.stores, options::bytes(memory.databases));
        let _only_once = self.shared.memory.resources.set(resources.clone());
        let instance = Arc::new(Instance {
            plan: Arc::clone(&self.plan),
            options,
            time: Box::new(Instant::now),
            producers: Box::new(ProducerFactory::new(settings.clone(), connected)),
            folder: Box::new(StateFolder { dir: Arc::clone(&self.state_dir), resources: resources.clone() }),
            topics,
            source: Box::new(Arc::clone(&source)),
            reader: Box::new(Arc::clone(&reader)),
            prober,
            catalog: Arc::clone(&self.catalog),
            shared: Arc::clone(&self.shared),
            counters: Arc::clone(&self.counters),
            barrier: Mutex::new(barrier),
            mailboxes: OnceLock::new(),
            globals: OnceLock::new(),
            standbys: OnceLock::new(),
            plugins: Mutex::new(self.activation.current().map(|set| set as Arc<dyn Plugins>)),
            started: Instant::now(),
        });
        assignment.attach(&instance);

        let globals = global_tables::open(&instance, &self.state_dir, &resources)?;
        let _only_once = instance.globals.set(globals.clone());
        let partitions: Vec<i32> =
            self.plan.global_tables.iter().map(|table| instance.topics.partitions(&table.topic)).collect();
        let globals = global_tables::start(Arc::clone(&instance), globals, &partitions)?;

        let mut started = Vec::new();
        if inputs.is_empty() {
            self.shared.assigned.store(true, std::sync::atomic::Ordering::SeqCst);
        } else if let Some(plugins) = self.activation.current() {
            for index in 0..threads {
                started.push(stream_thread::start(
                    Arc::clone(&instance),
                    index,
                    Arc::clone(&plugins) as Arc<dyn Plugins>,
                )?);
            }
        }
        let mailboxes: Vec<Mailbox> = started.iter().map(|(mailbox, _)| mailbox.clone()).collect();
        let _only_once = instance.mailboxes.set(mailboxes);
        self.activation.attach(&instance);
        if !inputs.is_empty() {
            source.subscribe(&inputs).map_err(|e| kafka_error("cannot subscribe", e))?;
        }
        let standbys = match self.cluster {
            Cluster::Kafka => Standbys::start(&instance, &settings, &counts)?,
            // One process has it to itself.
            Cluster::Embedded => Vec::new(),
        };
        Ok(Running {
            instance,
            source,
            reader,
            threads: started,
            globals,
            assignment,
            state_dir: Arc::clone(&self.state_dir),
            resources,
            _watch: watch,
            standbys,
        })
    }
}

impl Running {
    /// Polls until the instance is told to stop, or cannot go on.
    fn supervise(&self) -> Result<(), Error> {
        let shared = &self.instance.shared;
        let mut cleanup = Cleanup::new(self.instance.options.cleanup_delay, Instant::now());
        let mut looked = Instant::now();
        while !shared.is_stopping() {
            self.source.poll(POLL).map_err(|error| membership::error(&self.state_dir, error))?;
            if let Some(failure) = shared.take_failure() {
                return Err(failure);
            }
            if shared.assigned.load(std::sync::atomic::Ordering::SeqCst) {
                let ours = || {
                    let standbys = self.instance.standbys.get().map(Standbys::tasks).unwrap_or_default();
                    &self.assignment.tasks() | &standbys
                };
                cleanup.turn(&self.state_dir, &self.resources, ours, Instant::now());
            }
            self.reader.poll(Duration::ZERO).map_err(|e| kafka_error("the table reader cannot go on", e))?;
            shared.set_trouble("broker", self.source.connection_error());
            if let Some((_, thread)) = self.threads.iter().find(|(_, thread)| thread.is_finished()) {
                let name = thread.thread().name().unwrap_or("stream").to_owned();
                return Err(Error::Panicked { name });
            }
            // The group would not see it: librdkafka counts whatever is polled, by whichever thread.
            let (limit, now) = (self.instance.options.max_poll_interval, Instant::now());
            if now.duration_since(looked) > GAP {
                // This thread was held up itself, perhaps with the whole process.
                shared.hear_all(now);
            }
            looked = now;
            if let Some(thread) = shared.stalled(limit, now) {
                return Err(Error::Stalled { name: format!("stream thread {thread}"), seconds: limit.as_secs() });
            }
            if self.globals.is_finished() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Ends the membership (tasks commit and close), then the threads. `result`: why.
    fn end(self, result: &Result<(), Error>) -> Result<(), Error> {
        let started = Instant::now();
        fault::point("shutdown.begun");
        let mut ended = membership::end(&self.source, self.instance.options.on_stop, result);
        fault::point("shutdown.left");
        self.assignment.close_stores();
        for (mailbox, _) in &self.threads {
            mailbox.send(Event::Stop);
        }
        if let Some(standbys) = self.instance.standbys.get() {
            // Who is fenced, too, has another process in its place.
            let fenced = matches!(result, Err(Error::Fenced { .. }));
            let stays = ended.is_err() || fenced || (result.is_ok() && self.instance.options.on_stop == OnStop::Stay);
            standbys.end(if stays { End::Stays } else { End::Left });
        }
        for thread in self.threads.into_iter().map(|(_, thread)| thread).chain(self.standbys) {
            let name = thread.thread().name().unwrap_or("stream").to_owned();
            while !thread.is_finished() && started.elapsed() < STOP {
                std::thread::park_timeout(POLL / 10);
            }
            if !thread.is_finished() {
                // It waits for a broker that doesn't answer. What it has not committed is processed again.
                tracing::warn!("the thread {name} is left behind; the next start resumes from the last commit");
            } else if thread.join().is_err() {
                ended = ended.and(Err(Error::Panicked { name }));
            }
        }
        self.instance.wake_all();
        let globals = self.globals.join().unwrap_or_else(|_| Err(Error::Panicked { name: "global-tables".to_owned() }));
        tracing::info!(seconds = started.elapsed().as_secs_f64(), "stopped");
        fault::point("shutdown.ended");
        // What a table found wrong is the reason, the rest its consequence.
        globals.and(ended)
    }
}

/// Names of a plan's joins.
fn joins(plan: &Plan) -> Vec<String> {
    let nodes = plan.subtopologies.iter().flat_map(|part| &part.nodes);
    nodes.filter(|node| matches!(node.kind, NodeKind::Join { .. })).map(|node| node.name.clone()).collect()
}

/// A function's kind in the plugins' words.
fn kind(kind: FunctionKind) -> Kind {
    match kind {
        FunctionKind::Joiner => Kind::Joiner,
        FunctionKind::Aggregator => Kind::Aggregator,
        FunctionKind::Transformer => Kind::Transformer,
        FunctionKind::View => Kind::View,
    }
}

/// A client's error, with what was being done.
fn kafka_error(doing: &str, source: kafka::Error) -> Error {
    Error::Kafka { doing: doing.to_owned(), source }
}
