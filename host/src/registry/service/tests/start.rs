//! What an instance comes up with.

use super::*;

#[test]
fn a_restart_comes_up_with_the_active_version_before_it_returns() {
    let log = InProcessLog::new();
    let one = Setup::new(&log).start();
    one.deploy(&large("1"));
    let back = {
        one.deploy(&large("2"));
        one.registry.rollback("p", 1).unwrap()
    };
    let status = one.registry.list();
    let Instance { registry, dir, .. } = one;
    drop(registry);
    for dir in [dir, tempfile::tempdir().unwrap()] {
        log.compact();
        let again = Setup { dir, ..Setup::new(&log) }.start();
        let set = again.sets.try_recv().unwrap();
        assert_eq!((set.versions["p"].as_str(), set.generation), ("1", back.generation));
        assert_eq!(again.registry.list(), status);
        assert_eq!(again.sets.try_recv().ok(), None);
        // What a rollback needs is there, too.
        assert!(again.registry.shared.blobs().has(&Digest::of(&large("2").bytes())));
    }
}

#[test]
fn a_rollback_works_after_a_restart() {
    let log = InProcessLog::new();
    {
        let one = Setup::new(&log).start();
        one.deploy(&fake("1"));
        one.deploy(&fake("2"));
    }
    let again = Setup::new(&log).start();
    again.registry.rollback("p", 1).unwrap();
    assert_eq!(again.running(), "1");
}

#[test]
fn a_new_file_becomes_active_and_a_known_one_overrides_nothing() {
    let log = InProcessLog::new();
    let one = Setup::new(&log).file(&fake("1").bytes()).start();
    assert_eq!(one.next_set().0, "1");
    assert_eq!(one.registry.list()[0].file_digest, None);
    let history = one.registry.history("p");
    assert_eq!(history[0].kind, TransitionKind::File);
    assert!(history[0].message.starts_with("file "), "{}", history[0].message);
    one.deploy(&fake("2"));
    drop(one);

    let again = Setup::new(&log).file(&fake("1").bytes()).start();
    assert_eq!(again.next_set().0, "2");
    let file = Digest::of(&fake("1").bytes());
    assert_eq!(again.registry.list()[0].file_digest.as_deref(), Some(file.as_str()));
    drop(again);

    let changed = Setup::new(&log).file(&fake("3").bytes()).start();
    // At once: the version before never runs.
    assert_eq!(changed.next_set().0, "3");
    assert_eq!(changed.sets.try_recv().ok(), None);
}

#[test]
fn a_file_whose_deployment_was_cut_short_is_new() {
    let log = InProcessLog::new();
    let bytes = fake("1").bytes();
    let mut writer = log.writer();
    writer.append(chunk_key(&Digest::of(&bytes), 0).as_bytes(), Some(&bytes)).unwrap();
    let (key, value) = manifest(&bytes);
    writer.append(key.as_bytes(), Some(&value)).unwrap();
    let one = Setup::new(&log).file(&bytes).start();
    assert_eq!(one.next_set(), ("1".to_owned(), 2));
}

#[test]
fn a_refused_file_stops_the_start_only_if_nothing_is_active() {
    let log = InProcessLog::new();
    let refused = Setup::new(&log).file(b"no JSON").try_start().err().unwrap();
    assert!(matches!(refused, Error::Refused { stage: Stage::Valid, .. }));
    let missing = Setup { files: BTreeMap::from([("p".to_owned(), "nowhere.wasm".into())]), ..Setup::new(&log) };
    let missing = missing.try_start().err().unwrap();
    insta::assert_snapshot!(chain(&missing), @"cannot read the plugin's file nowhere.wasm: No such file or directory (os error 2)");
    assert_eq!(log.records(), []);

    Setup::new(&log).start().deploy(&fake("1"));
    let before = log.records();
    let one = Setup::new(&log).file(b"no JSON").start();
    assert_eq!(one.next_set().0, "1");
    assert!(one.problems().contains("refused, not 'valid'"), "{}", one.problems());
    let missing = Setup { files: BTreeMap::from([("p".to_owned(), "nowhere.wasm".into())]), ..Setup::new(&log) };
    let two = missing.start();
    assert_eq!(two.next_set().0, "1");
    assert!(two.problems().contains("nowhere.wasm"), "{}", two.problems());
    assert_eq!(log.records(), before);
}

#[test]
fn without_any_version_it_starts_and_says_what_to_do() {
    let one = Setup::new(&InProcessLog::new()).start();
    assert_eq!(one.registry.generation(), Generation(0));
    assert_eq!(one.sets.try_recv().ok(), None);
    insta::assert_snapshot!(one.problems(), @"plugin p has no version yet: name its file in the topology, or deploy it with 'weir plugin deploy FILE.wasm --name p'");
    one.deploy(&fake("1"));
    assert_eq!(one.problems(), "");
}

#[test]
fn a_topology_without_plugins_has_a_set_at_once() {
    let setup = Setup { loader: FakeLoader::new(&[]), ..Setup::new(&InProcessLog::new()) };
    let one = setup.start();
    assert_eq!(one.sets.try_recv().unwrap().generation, Generation(0));
    assert_eq!(one.problems(), "");
}

#[test]
fn with_two_plugins_the_set_waits_for_both() {
    let log = InProcessLog::new();
    let one = Setup { loader: FakeLoader::new(&[("p", &["f"]), ("q", &["g"])]), ..Setup::new(&log) }.start();
    let first = one.deploy(&fake("1"));
    assert!(first.waits_for.is_some_and(|why| why.contains("plugin q has no version yet")));
    let second = one.registry.deploy("q", &Fake::new("2", &["g"]).bytes(), "", 1).unwrap();
    assert_eq!(second.waits_for, None);
    let set = one.sets.recv_timeout(SOON).unwrap();
    assert_eq!(set.generation, second.generation);
    assert_eq!(set.versions.into_values().collect::<Vec<_>>(), ["1", "2"]);
    let generations: Vec<Generation> = one.registry.list().into_iter().map(|plugin| plugin.generation).collect();
    assert_eq!(generations, [first.generation, second.generation]);
}
