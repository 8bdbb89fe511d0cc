//! Whole registries on a log in this process, with plugins that are no WebAssembly.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};

use bytes::Bytes;
use tempfile::TempDir;

use super::super::error::Stage;
use super::super::fake::{Fake, FakeLoader, FakeSet, description};
use super::super::log::{InProcessLog, LogError, LogRecord};
use super::super::record::{
    CHUNK_BYTES, MAX_MESSAGE_BYTES, Manifest, TransitionRecord, chunk_key, encode, manifest_key, transition_key,
};
use super::super::state::KEPT;
use super::*;

mod faults;
mod races;
mod start;

/// Longest wait for what must come.
const SOON: Duration = Duration::from_secs(20);

/// An instance of a topology.
struct Instance {
    /// Its registry.
    registry: Arc<Registry<FakeLoader>>,
    /// The sets that it was given.
    sets: Receiver<FakeSet>,
    /// Its loader.
    loader: FakeLoader,
    /// Its folder.
    dir: TempDir,
}

/// How an instance differs from the usual one.
struct Setup {
    /// Its topology.
    loader: FakeLoader,
    /// Its reader.
    reader: Box<dyn LogReader>,
    /// Its writer.
    writer: Box<dyn LogWriter>,
    /// Files that the topology names.
    files: BTreeMap<String, PathBuf>,
    /// Its folder.
    dir: TempDir,
}

impl Setup {
    /// A topology with the plugin `p`, of which it uses the function `f`.
    fn new(log: &InProcessLog) -> Self {
        let loader = FakeLoader::new(&[("p", &["f"])]);
        let (reader, writer) = (log.reader(), log.writer());
        Self { loader, reader, writer, files: BTreeMap::new(), dir: tempfile::tempdir().unwrap() }
    }

    /// Uses these functions of `p`.
    fn uses(mut self, functions: &[&str]) -> Self {
        self.loader = FakeLoader::new(&[("p", functions)]);
        self
    }

    /// Names a file with these bytes for `p`.
    fn file(mut self, bytes: &[u8]) -> Self {
        let path = self.dir.path().join("p.wasm");
        std::fs::write(&path, bytes).unwrap();
        self.files.insert("p".to_owned(), path);
        self
    }

    /// Starts the instance.
    fn try_start(self) -> Result<Instance, Error> {
        let (sender, sets) = channel();
        let activated = Box::new(move |set| drop(sender.send(set)));
        let Self { loader, reader, writer, files, dir } = self;
        let (own, name) = (loader.clone(), "i1".to_owned());
        let registry = Registry::start_with(reader, writer, loader, &dir.path().join("cache"), files, name, activated)?;
        Ok(Instance { registry, sets, loader: own, dir })
    }

    /// Starts the instance, which must go well.
    fn start(self) -> Instance {
        self.try_start().unwrap()
    }
}

impl Instance {
    /// Deploys a version of `p`.
    fn deploy(&self, fake: &Fake) -> Activation {
        self.registry.deploy("p", &fake.bytes(), "why", 17).unwrap()
    }

    /// Waits for the next set; the version in it of `p`, and its generation.
    fn next_set(&self) -> (String, i64) {
        let set = self.sets.recv_timeout(SOON).unwrap();
        (set.versions["p"].clone(), set.generation.0)
    }

    /// Waits until an activation runs here.
    fn runs(&self, generation: Generation) {
        let is_there = |view: &View<_>| view.running.as_ref().is_some_and(|running| running.generation >= generation);
        assert!(self.registry.shared.wait(SOON, is_there), "{:?}", self.registry.problems());
    }

    /// The version of `p` that runs here.
    fn running(&self) -> String {
        self.registry.list()[0].version.clone()
    }

    /// What is wrong, as one text.
    fn problems(&self) -> String {
        self.registry.problems().join("\n")
    }
}

/// A version with the function `f`.
fn fake(version: &str) -> Fake {
    Fake::new(version, &["f"])
}

/// A version large enough for several chunks.
fn large(version: &str) -> Fake {
    Fake { padding: "x".repeat(3 * CHUNK_BYTES), ..fake(version) }
}

/// Keys of a log.
fn keys(log: &InProcessLog) -> Vec<String> {
    log.records().into_iter().map(|(_, key, _)| String::from_utf8(key.to_vec()).unwrap()).collect()
}

/// A transition of `p`.
fn transition(bytes: &[u8], expected: i64) -> (String, Vec<u8>) {
    let transition = TransitionRecord {
        plugin: "p".to_owned(),
        digest: Digest::of(bytes).as_str().to_owned(),
        expected,
        kind: TransitionKind::Deploy,
        by: "other".to_owned(),
        message: "other".to_owned(),
        at_ms: 1,
    };
    (transition_key(&transition, "other"), encode(&transition).unwrap())
}

/// A manifest of one chunk.
fn manifest(bytes: &[u8]) -> (String, Vec<u8>) {
    let (by, message) = ("other".to_owned(), String::new());
    let manifest =
        Manifest { size: bytes.len(), chunks: 1, description: description("x", &["f"]), by, message, at_ms: 1 };
    (manifest_key(&Digest::of(bytes)), encode(&manifest).unwrap())
}

#[test]
fn a_deployment_reaches_every_instance_under_one_generation() {
    let log = InProcessLog::new();
    let (one, two) = (Setup::new(&log).start(), Setup::new(&log).start());
    let first = one.deploy(&large("1"));
    assert_eq!(first.version, "1");
    assert_eq!((first.previous, first.already_active, first.waits_for), (None, false, None));
    assert_eq!(one.next_set(), ("1".to_owned(), first.generation.0));
    assert_eq!(two.next_set(), ("1".to_owned(), first.generation.0));

    let second = two.deploy(&fake("2"));
    assert!(second.generation > first.generation);
    assert_eq!(second.previous, Some(first.digest));
    assert_eq!(two.next_set(), ("2".to_owned(), second.generation.0));
    assert_eq!(one.next_set(), ("2".to_owned(), second.generation.0));
    one.runs(second.generation);
    assert_eq!(one.registry.list(), two.registry.list());
    assert_eq!(one.registry.generation(), second.generation);
    assert_eq!(one.problems(), "");
}

#[test]
fn bytes_come_first_then_the_manifest_then_the_transition() {
    let log = InProcessLog::new();
    let one = Setup::new(&log).start();
    let deployed = one.deploy(&large("1"));
    let keys = keys(&log);
    let expected = [
        format!("blob/{}/0", deployed.digest),
        format!("blob/{}/1", deployed.digest),
        format!("blob/{}/2", deployed.digest),
        format!("blob/{}/3", deployed.digest),
        format!("manifest/{}", deployed.digest),
    ];
    assert_eq!(keys[..5], expected);
    assert!(keys[5].starts_with("transition/p/0/"), "{}", keys[5]);
    assert_eq!(keys.len(), 6);
    assert_eq!(deployed.generation, Generation(5));
}

#[test]
fn the_same_bytes_again_change_nothing_and_say_so() {
    let log = InProcessLog::new();
    let one = Setup::new(&log).start();
    let first = one.deploy(&fake("1"));
    let before = log.records();
    let again = one.deploy(&fake("1"));
    assert_eq!(again, Activation { already_active: true, ..first });
    assert_eq!(log.records(), before);
}

#[test]
fn a_version_is_compiled_once_where_it_is_deployed_and_once_elsewhere() {
    let log = InProcessLog::new();
    let (one, two) = (Setup::new(&log).start(), Setup::new(&log).start());
    one.deploy(&fake("1"));
    let second = one.deploy(&fake("2"));
    two.runs(second.generation);
    let back = one.registry.rollback("p", 18).unwrap();
    two.runs(back.generation);
    assert_eq!(one.loader.compilations.load(Ordering::SeqCst), 2);
    assert!(two.loader.compilations.load(Ordering::SeqCst) <= 2);
}

#[test]
fn a_refusal_names_the_stage_and_changes_nothing() {
    let log = InProcessLog::new();
    let one = Setup::new(&log).start();
    let stateful = Fake { state: 1, ..fake("1") };
    one.deploy(&stateful);
    let before = log.records();
    let cases: [(Vec<u8>, Stage); 6] = [
        (vec![], Stage::Received),
        (vec![0; MAX_PLUGIN_BYTES + 1], Stage::Received),
        (b"no JSON".to_vec(), Stage::Valid),
        (Fake::new("2", &["g"]).bytes(), Stage::Functions),
        (Fake { init: Some("no configuration".to_owned()), ..fake("2") }.bytes(), Stage::Started),
        (Fake { state: 2, ..fake("2") }.bytes(), Stage::States),
    ];
    for (bytes, expected) in cases {
        match one.registry.deploy("p", &bytes, "why", 18) {
            Err(Error::Refused { stage, reason, remedy, .. }) => {
                assert_eq!(stage, expected);
                assert!(!reason.is_empty() && !remedy.is_empty());
            }
            other => panic!("{expected}: {other:?}"),
        }
    }
    let message = "m".repeat(MAX_MESSAGE_BYTES + 1);
    let too_long = one.registry.deploy("p", &fake("2").bytes(), &message, 18);
    assert!(matches!(too_long, Err(Error::Refused { stage: Stage::Received, .. })));
    let unknown = one.registry.deploy("q", &fake("2").bytes(), "", 18).unwrap_err();
    insta::assert_snapshot!(unknown, @"the topology has no plugin 'q'; it has p");
    assert_eq!(log.records(), before);
    assert_eq!(one.running(), "1");
    assert_eq!(one.problems(), "");
}

#[test]
fn the_text_of_a_refusal_says_what_would_be_right() {
    let one = Setup::new(&InProcessLog::new()).start();
    one.deploy(&Fake { state: 1, ..fake("1") });
    let refused = one.registry.deploy("p", &Fake { state: 2, ..fake("2") }.bytes(), "", 18).unwrap_err();
    insta::assert_snapshot!(refused, @"plugin p refused, not 'state versions fit': function f keeps state state version 2, the active plugin's keeps state version 1; keep name and version of the state as long as each can read what the other wrote; if they cannot, the aggregate needs a new store");
}

#[test]
fn a_rollback_is_a_new_generation_and_a_second_one_returns() {
    let log = InProcessLog::new();
    let one = Setup::new(&log).start();
    assert!(matches!(one.registry.rollback("p", 1), Err(Error::NoPrevious { .. })));
    let first = one.deploy(&fake("1"));
    assert!(matches!(one.registry.rollback("p", 1), Err(Error::NoPrevious { .. })));
    let second = one.deploy(&fake("2"));
    let back = one.registry.rollback("p", 19).unwrap();
    assert!(back.generation > second.generation);
    assert_eq!((back.digest, back.previous), (first.digest.clone(), Some(second.digest.clone())));
    assert_eq!(one.running(), "1");
    let forth = one.registry.rollback("p", 20).unwrap();
    assert_eq!((forth.digest, forth.previous), (second.digest, Some(first.digest)));
    assert_eq!(one.running(), "2");
    let kinds: Vec<TransitionKind> = one.registry.history("p").into_iter().map(|t| t.kind).collect();
    use TransitionKind::{Deploy, Rollback};
    assert_eq!(kinds, [Rollback, Rollback, Deploy, Deploy]);
    assert!(matches!(one.registry.rollback("q", 1), Err(Error::UnknownPlugin { .. })));
}

#[test]
fn the_log_stays_small_over_many_swaps() {
    let log = InProcessLog::new();
    let one = Setup::new(&log).start();
    let versions = [fake("1"), fake("2")];
    let mut last = one.deploy(&versions[0]);
    for turn in 1..=KEPT + 8 {
        last = one.deploy(&versions[turn % 2]);
    }
    let status = one.registry.list();
    log.compact();
    // Two versions of two records each, the transitions that are kept, and at most one removal.
    assert!(log.records().len() <= 4 + KEPT + 1, "{}", log.records().len());
    let again = Setup::new(&log).start();
    assert_eq!(again.registry.generation(), last.generation);
    assert_eq!(again.registry.list(), status);
    assert_eq!(again.registry.history("p"), one.registry.history("p"));
}
