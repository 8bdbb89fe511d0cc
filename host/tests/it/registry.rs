//! The registry with real plugins: what is deployed answers calls, what is refused leaves no trace.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use weir::model::{FunctionIndex, Generation, JoinPair, Logic};
use weir::plugin::{Engine, Kind, Limits, PluginSet, PluginSpec, Wanted};
use weir::registry::{Error, InProcessLog, Registry, RegistryOptions, Stage};

/// The built plugin `name`.
fn wasm(name: &str) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace's root");
    let path = root.join(format!("plugins/target/weir/{name}.wasm"));
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}; run scripts/plugins.sh", path.display()))
}

/// An instance whose topology uses joiner, aggregators and transformer of `projekt`.
struct Instance {
    /// Its registry.
    registry: Arc<Registry>,
    /// The sets that became active.
    sets: Receiver<Arc<PluginSet>>,
    /// Its folder for bytes.
    _dir: tempfile::TempDir,
}

/// Starts an instance with this configuration of the plugin.
fn start(log: &InProcessLog, config: &str) -> Instance {
    let dir = tempfile::tempdir().unwrap();
    let spec = PluginSpec { name: "projekt".to_owned(), limits: Limits::default(), config: config.to_owned() };
    let functions = [
        ("mit_wirtschaftseinheit", Kind::Joiner),
        ("plus_projekt", Kind::Aggregator),
        ("plus_status", Kind::Aggregator),
        ("ausgabe", Kind::Transformer),
    ];
    let wanted = functions.iter().map(|(function, kind)| Wanted {
        plugin: "projekt".to_owned(),
        function: (*function).to_owned(),
        kind: *kind,
    });
    let options = RegistryOptions {
        plugins: vec![spec],
        wanted: wanted.collect(),
        cache_dir: dir.path().to_owned(),
        files: BTreeMap::new(),
        instance: "test".to_owned(),
    };
    let (sender, sets) = channel();
    let engine = Arc::new(Engine::new().unwrap());
    let activated = Box::new(move |set| drop(sender.send(set)));
    let registry = Registry::start(log.reader(), log.writer(), engine, options, activated).unwrap();
    Instance { registry, sets, _dir: dir }
}

impl Instance {
    /// The next set.
    fn next_set(&self) -> Arc<PluginSet> {
        self.sets.recv_timeout(Duration::from_secs(60)).unwrap()
    }
}

/// Which version a call of this set runs in: generation and short digest. The call must go well.
fn runs(set: &Arc<PluginSet>) -> (Generation, String) {
    let mut logic = set.logic();
    let pair = JoinPair {
        key: Some(Bytes::from_static(b"P1")),
        left: Bytes::from_static(br#"{"projektId":"P1","erstelltAm":7}"#),
        right: None,
    };
    assert!(logic.join(FunctionIndex(0), &[pair]).unwrap()[0].is_ok());
    (set.generation(), logic.version(FunctionIndex(0)).1)
}

#[test]
fn a_deployed_version_answers_calls_on_every_instance_and_a_rollback_returns() {
    let log = InProcessLog::new();
    let (one, two) = (start(&log, "{}"), start(&log, "{}"));
    let first = one.registry.deploy("projekt", &wasm("projekt"), "first", 1).unwrap();
    let second = two.registry.deploy("projekt", &wasm("projekt-v2"), "second", 2).unwrap();
    // What `two` wrote reaches `one` when it has read it.
    while one.registry.generation() < second.generation {
        std::thread::yield_now();
    }
    let back = one.registry.rollback("projekt", 3).unwrap();
    for instance in [&one, &two] {
        let mut seen = Vec::new();
        while seen.last().is_none_or(|(generation, _)| *generation < back.generation) {
            seen.push(runs(&instance.next_set()));
        }
        for (generation, digest) in seen {
            let deployed = [&first, &second, &back].into_iter().find(|a| a.generation == generation).unwrap();
            assert!(deployed.digest.starts_with(&digest), "{generation}: {digest}");
        }
    }
    assert_eq!(one.registry.history("projekt"), two.registry.history("projekt"));
    assert_eq!(one.registry.list()[0].digest, first.digest);
    let functions = one.registry.versions().into_iter().map(|version| version.description.functions.len());
    assert!(functions.min().is_some_and(|least| least > 3));
}

#[test]
fn the_next_instance_comes_up_with_the_active_version() {
    let log = InProcessLog::new();
    let deployed = start(&log, "{}").registry.deploy("projekt", &wasm("projekt-v2"), "", 1).unwrap();
    let next = start(&log, "{}");
    let (generation, digest) = runs(&next.sets.try_recv().unwrap());
    assert_eq!(generation, deployed.generation);
    assert!(deployed.digest.starts_with(&digest));
}

#[test]
fn what_is_refused_names_the_stage_and_leaves_no_trace() {
    let log = InProcessLog::new();
    let one = start(&log, "{}");
    one.registry.deploy("projekt", &wasm("projekt"), "", 1).unwrap();
    let before = one.registry.history("projekt");
    let versions = one.registry.versions();
    let mut truncated = wasm("projekt");
    truncated.truncate(truncated.len() / 2);
    let cases = [
        (b"\x89PNG\r\n".to_vec(), Stage::Valid),
        (truncated, Stage::Valid),
        (b"\0asm\x01\0\0\0".to_vec(), Stage::Conforms),
        (wasm("orders"), Stage::Functions),
        (wasm("projekt-lacking"), Stage::Functions),
    ];
    for (bytes, expected) in cases {
        match one.registry.deploy("projekt", &bytes, "", 2) {
            Err(Error::Refused { stage, reason, remedy, .. }) => {
                assert_eq!(stage, expected, "{reason}");
                assert!(!remedy.is_empty());
            }
            other => panic!("{expected}: {other:?}"),
        }
    }
    assert_eq!(one.registry.history("projekt"), before);
    assert_eq!(one.registry.versions(), versions);
    assert_eq!(runs(&one.next_set()).0, before[0].generation);
    assert!(one.sets.try_recv().is_err());
    assert_eq!(one.registry.problems(), Vec::<String>::new());
}

#[test]
fn deployments_at_once_from_several_threads_end_in_one_version() {
    let log = InProcessLog::new();
    let instances = [start(&log, "{}"), start(&log, "{}")];
    let ends = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for (instance, file) in instances.iter().zip(["projekt", "projekt-v2"]) {
            let (registry, ends) = (Arc::clone(&instance.registry), &ends);
            scope.spawn(move || {
                let activation = registry.deploy("projekt", &wasm(file), "", 1).unwrap();
                ends.lock().unwrap().push((activation.generation, activation.digest));
            });
        }
    });
    let last = ends.into_inner().unwrap().into_iter().max().unwrap();
    for instance in &instances {
        let mut set = instance.next_set();
        while set.generation() < last.0 {
            set = instance.next_set();
        }
        let (generation, digest) = runs(&set);
        assert_eq!(generation, last.0);
        assert!(last.1.starts_with(&digest));
    }
}
