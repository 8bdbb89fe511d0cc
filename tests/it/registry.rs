//! The registry on its topic: several instances, a broker that goes away, a cleaner that has cleaned.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use weir::kafka::{ClientSettings, NewTopic, TopicAdmin, TopicLog};
use weir::model::Generation;
use weir::plugin::{Engine, Kind, Limits, PluginSet, PluginSpec, Wanted};
use weir::registry::{self, Error, Registry, RegistryOptions, TransitionKind};
use weir_tests::Broker;
use weir_tests::wait::until;

/// How long a condition is awaited.
const PATIENCE: Duration = Duration::from_secs(60);

/// The built plugin `name`.
fn wasm(name: &str) -> Result<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace's root")?;
    let path = root.join(format!("plugins/target/weir/{name}.wasm"));
    std::fs::read(&path).with_context(|| format!("{}: run scripts/plugins.sh", path.display()))
}

/// An instance of an application.
struct Instance {
    /// Its registry.
    registry: Arc<Registry>,
    /// The sets that became active.
    sets: Receiver<Arc<PluginSet>>,
    /// Its folder for bytes.
    _dir: TempDir,
}

/// Settings of application `app`.
fn settings(broker: &Broker, app: &str) -> ClientSettings {
    ClientSettings::new(app, BTreeMap::from([("bootstrap.servers".to_owned(), broker.bootstrap_servers())]))
}

/// Creates the topic of `app`'s registry, with more settings.
fn create(broker: &Broker, app: &str, more: &[(&str, &str)]) -> Result<()> {
    let mut topic = registry::topic(app);
    topic.config.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let topic = NewTopic { ..topic };
    Ok(TopicAdmin::new(&settings(broker, app))?.create(&[topic], PATIENCE)?)
}

/// Starts an instance of `app` that uses a function of `projekt`, perhaps with a file.
fn start(broker: &Broker, app: &str, file: Option<&str>) -> Result<Instance> {
    let dir = tempfile::tempdir()?;
    let mut files = BTreeMap::new();
    if let Some(file) = file {
        let path = dir.path().join("projekt.wasm");
        std::fs::write(&path, wasm(file)?)?;
        files.insert("projekt".to_owned(), path);
    }
    let spec = PluginSpec { name: "projekt".to_owned(), limits: Limits::default(), config: "{}".to_owned() };
    let wanted = Wanted { plugin: "projekt".to_owned(), function: "plus_status".to_owned(), kind: Kind::Aggregator };
    let options = RegistryOptions {
        plugins: vec![spec],
        wanted: vec![wanted],
        cache_dir: dir.path().join("plugins"),
        files,
        instance: "test".to_owned(),
    };
    let topic = registry::topic(app).name;
    let log = || TopicLog::open(&settings(broker, app), &topic, PATIENCE);
    let (sender, sets) = channel();
    let activated = Box::new(move |set| drop(sender.send(set)));
    let registry = Registry::start(Box::new(log()?), Box::new(log()?), Arc::new(Engine::new()?), options, activated)?;
    Ok(Instance { registry, sets, _dir: dir })
}

impl Instance {
    /// Waits for the set of a generation.
    fn runs(&self, generation: Generation) -> Result<()> {
        while self.sets.recv_timeout(PATIENCE)?.generation() < generation {}
        Ok(())
    }
}

/// Number of records that the topic of `app`'s registry holds.
fn records(broker: &Broker, app: &str) -> Result<usize> {
    let mut log = TopicLog::open(&settings(broker, app), &registry::topic(app).name, PATIENCE)?;
    let mut count = 0;
    while log.position() < log.end_at_open() {
        count += usize::from(log.next(Duration::from_millis(200))?.is_some());
    }
    Ok(count)
}

/// A broker for one test.
fn broker(name: &str, properties: &str) -> Result<Broker> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if dir.exists() {
        std::fs::remove_dir_all(&dir)?;
    }
    Broker::start_with(&dir, properties)
}

#[test]
fn instances_follow_one_deployment_also_after_the_broker_was_away() -> Result<()> {
    let mut broker = broker("registry-follow", "")?;
    create(&broker, "follow", &[])?;
    let one = start(&broker, "follow", Some("projekt"))?;
    let two = start(&broker, "follow", Some("projekt"))?;
    // The same file twice is one deployment.
    assert_eq!(two.registry.history("projekt").len(), 1);
    let second = two.registry.deploy("projekt", &wasm("projekt-v2")?, "second", 1)?;
    one.runs(second.generation)?;
    two.runs(second.generation)?;

    broker.stop()?;
    broker.restart()?;
    let back = one.registry.rollback("projekt", 2)?;
    two.runs(back.generation)?;
    let again = start(&broker, "follow", Some("projekt-v2"))?;
    again.runs(back.generation)?;
    let kinds: Vec<TransitionKind> = again.registry.history("projekt").iter().map(|seen| seen.kind).collect();
    assert_eq!(kinds, [TransitionKind::Rollback, TransitionKind::Deploy, TransitionKind::File]);
    assert_eq!(again.registry.history("projekt"), one.registry.history("projekt"));
    Ok(())
}

#[test]
fn instances_that_deploy_at_once_agree() -> Result<()> {
    let broker = broker("registry-race", "")?;
    create(&broker, "race", &[])?;
    let instances = [start(&broker, "race", Some("projekt"))?, start(&broker, "race", None)?];
    let last = thread::scope(|scope| {
        let deploying: Vec<_> = instances
            .iter()
            .zip([["projekt-v2", "projekt"], ["projekt", "projekt-v2"]])
            .map(|(instance, files)| {
                let registry = Arc::clone(&instance.registry);
                scope.spawn(move || -> Result<Generation> {
                    let mut last = Generation::default();
                    for turn in 0..10 {
                        match registry.deploy("projekt", &wasm(files[turn % 2])?, "", 1) {
                            Ok(activation) => last = activation.generation,
                            Err(Error::Contended { .. }) => {}
                            Err(error) => return Err(error.into()),
                        }
                    }
                    Ok(last)
                })
            })
            .collect();
        let ends: Result<Vec<Generation>> = deploying.into_iter().map(|thread| thread.join().unwrap()).collect();
        ends.map(|ends| ends.into_iter().max().unwrap_or_default())
    })?;
    for instance in &instances {
        until("the last generation", PATIENCE, || {
            let generation = instance.registry.generation();
            ensure!(generation == last, "it stands at {generation}, the last is {last}");
            Ok(())
        })?;
    }
    assert_eq!(instances[0].registry.list()[0].digest, instances[1].registry.list()[0].digest);
    assert_eq!(instances[0].registry.history("projekt"), instances[1].registry.history("projekt"));
    Ok(())
}

#[test]
fn a_cleaned_topic_still_has_all_that_counts() -> Result<()> {
    let broker = broker("registry-clean", "log.cleaner.backoff.ms=200\n")?;
    let eager = [("segment.ms", "500"), ("min.cleanable.dirty.ratio", "0.01"), ("delete.retention.ms", "100")];
    create(&broker, "clean", &eager)?;
    let one = start(&broker, "clean", Some("projekt"))?;
    let files = [wasm("projekt-v2")?, wasm("projekt")?];
    let mut last = Generation::default();
    for turn in 0..130 {
        last = one.registry.deploy("projekt", &files[turn % 2], "", 1)?.generation;
    }
    until("the cleaner", PATIENCE, || {
        // A segment is closed by the next append only.
        last = one.registry.rollback("projekt", 1)?.generation;
        let held = records(&broker, "clean")?;
        // What must go: transitions that are too old, and the records that say so.
        ensure!(last.0 - i64::try_from(held)? > 60, "{held} records are held of {last}");
        Ok(())
    })?;
    let next = start(&broker, "clean", Some("projekt-v2"))?;
    next.runs(last)?;
    assert_eq!(next.registry.history("projekt"), one.registry.history("projekt"));
    assert_eq!(next.registry.history("projekt").len(), 100);
    next.registry.rollback("projekt", 1)?;
    Ok(())
}
