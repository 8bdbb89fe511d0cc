//! Logs, bytes and versions that are not as they should be.

use super::*;

#[test]
fn a_version_that_cannot_run_here_leaves_what_runs() {
    let log = InProcessLog::new();
    let old = Setup::new(&log).start();
    let first = old.deploy(&fake("1"));
    let new = Setup::new(&log).uses(&["g"]).start();
    assert_eq!(new.registry.generation(), Generation(0));
    insta::assert_snapshot!(new.problems(), @"not 'has the functions in use': it lacks p.g; add it");

    let second = new.deploy(&Fake::new("2", &["g"]));
    assert_eq!(second.waits_for, None);
    assert!(old.registry.shared.wait(SOON, |view| view.load_problem.is_some()));
    assert_eq!((old.running(), old.registry.generation()), ("1".to_owned(), first.generation));
    insta::assert_snapshot!(old.problems(), @"not 'has the functions in use': it lacks p.f; add it");

    let third = new.deploy(&Fake::new("3", &["f", "g"]));
    old.runs(third.generation);
    assert_eq!((old.running().as_str(), old.problems().as_str()), ("3", ""));
}

#[test]
fn bytes_that_are_missing_are_waited_for() {
    let log = InProcessLog::new();
    let bytes = fake("1").bytes();
    let mut writer = log.writer();
    for (key, value) in [manifest(&bytes), ("x".to_owned(), vec![]), transition(&bytes, 0)] {
        writer.append(key.as_bytes(), Some(&value)).unwrap();
    }
    let one = Setup::new(&log).start();
    assert!(one.problems().contains("its bytes are not (all) in the registry"), "{}", one.problems());
    writer.append(chunk_key(&Digest::of(&bytes), 0).as_bytes(), Some(&bytes)).unwrap();
    one.runs(Generation(2));
    assert_eq!(one.problems(), "");
}

#[test]
fn damaged_bytes_are_refused_until_the_version_is_deployed_again() {
    let log = InProcessLog::new();
    let bytes = fake("1").bytes();
    let mut writer = log.writer();
    writer.append(chunk_key(&Digest::of(&bytes), 0).as_bytes(), Some(b"{}")).unwrap();
    for (key, value) in [manifest(&bytes), transition(&bytes, 0)] {
        writer.append(key.as_bytes(), Some(&value)).unwrap();
    }
    let one = Setup::new(&log).start();
    assert!(one.problems().contains("its bytes"), "{}", one.problems());
    assert!(one.deploy(&fake("1")).already_active);
    one.runs(Generation(2));
}

#[test]
fn a_newer_programs_record_freezes_what_is_active() {
    let log = InProcessLog::new();
    let one = Setup::new(&log).start();
    one.deploy(&fake("1"));
    let offset = log.writer().append(b"pause/p", Some(br#"{"v":2}"#)).unwrap();
    let (key, value) = transition(&fake("2").bytes(), 2);
    log.writer().append(key.as_bytes(), Some(&value)).unwrap();
    assert!(one.registry.shared.wait(SOON, |view| view.state.position() > offset + 1));
    assert_eq!(one.running(), "1");
    insta::assert_snapshot!(one.problems(), @"the registry holds a record of format 2 at offset 3, this program reads up to 1: update it");
    let before = log.records();
    let refused = one.registry.deploy("p", &fake("3").bytes(), "", 1);
    assert!(matches!(refused, Err(Error::NewerRecord { offset: 3, version: 2, known: 1 })));
    assert!(matches!(one.registry.rollback("p", 1), Err(Error::NoPrevious { .. } | Error::NewerRecord { .. })));
    assert_eq!(log.records(), before);
}

/// A writer whose log fails at some appends.
struct Failing {
    /// The log.
    log: InProcessLog,
    /// Appends until it fails, once.
    left: Option<usize>,
}

impl LogWriter for Failing {
    fn append(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<i64, LogError> {
        match self.left {
            Some(0) => {
                self.left = None;
                Err("the broker is gone".into())
            }
            left => {
                self.left = left.map(|left| left - 1);
                self.log.append(key, value)
            }
        }
    }
}

#[test]
fn a_deployment_cut_short_anywhere_can_be_repeated() {
    for left in 0..6 {
        let log = InProcessLog::new();
        let one =
            Setup { writer: Box::new(Failing { log: log.clone(), left: Some(left) }), ..Setup::new(&log) }.start();
        let error = one.registry.deploy("p", &large("1").bytes(), "", 1).unwrap_err();
        assert!(error.is_retriable(), "{error}");
        assert!(chain(&error).ends_with("the broker is gone"), "{}", chain(&error));
        assert_eq!(one.registry.generation(), Generation(0));
        one.deploy(&large("1"));
        assert_eq!(one.running(), "1");
        assert_eq!(one.registry.history("p").len(), 1);
    }
}

/// A reader whose log fails while it is told to.
struct Flaky {
    /// The log.
    reader: Box<dyn LogReader>,
    /// Whether it fails now.
    fails: Arc<AtomicBool>,
}

impl LogReader for Flaky {
    fn next(&mut self, timeout: Duration) -> Result<Option<LogRecord>, LogError> {
        if self.fails.load(Ordering::SeqCst) { Err("the broker is gone".into()) } else { self.reader.next(timeout) }
    }

    fn position(&self) -> i64 {
        self.reader.position()
    }

    fn end_at_open(&self) -> i64 {
        self.reader.end_at_open()
    }
}

#[test]
fn a_log_that_fails_is_told_and_followed_again() {
    let log = InProcessLog::new();
    let fails = Arc::new(AtomicBool::new(false));
    let reader = Box::new(Flaky { reader: log.reader(), fails: Arc::clone(&fails) });
    let one = Setup { reader, ..Setup::new(&log) }.start();
    one.deploy(&fake("1"));
    fails.store(true, Ordering::SeqCst);
    assert!(one.registry.shared.wait(SOON, |view| view.log_problem.is_some()));
    assert_eq!(one.problems(), "the registry's log failed while reading: the broker is gone");
    assert_eq!(one.running(), "1");
    fails.store(false, Ordering::SeqCst);
    one.deploy(&fake("2"));
    assert!(one.registry.shared.wait(SOON, |view| view.log_problem.is_none()));
    assert_eq!(one.running(), "2");
}

#[test]
fn after_a_stop_nothing_is_written_any_more() {
    let log = InProcessLog::new();
    let one = Setup::new(&log).start();
    one.deploy(&fake("1"));
    one.registry.stop();
    one.registry.stop();
    let before = log.records();
    assert!(matches!(one.registry.deploy("p", &fake("2").bytes(), "", 1), Err(Error::Stopped)));
    assert_eq!(log.records(), before);
    assert_eq!(one.running(), "1");
    assert_eq!(one.problems(), "");
}

#[test]
fn a_panic_of_the_receiver_is_told_and_kills_nothing() {
    let log = InProcessLog::new();
    let setup = Setup::new(&log);
    let registry = Registry::start_with(
        setup.reader,
        setup.writer,
        setup.loader,
        setup.dir.path(),
        BTreeMap::new(),
        "i1".to_owned(),
        Box::new(|_: FakeSet| panic!("the receiver's fault")),
    )
    .unwrap();
    let activation = registry.deploy("p", &fake("1").bytes(), "", 1);
    assert!(activation.is_err() || activation.is_ok_and(|activation| activation.waits_for.is_some()));
    assert!(registry.shared.wait(SOON, |view| view.ended) || registry.shared.view().ended);
    assert!(registry.problems().iter().any(|problem| problem.contains("has died")));
    registry.stop();
}

#[test]
fn junk_in_the_log_is_passed_over() {
    let log = InProcessLog::new();
    let mut writer = log.writer();
    writer.append(b"hello", Some(b"world")).unwrap();
    writer.append(&[0xff, 0xfe], Some(b"{}")).unwrap();
    writer.append(b"transition/p/0/x", Some(&Bytes::from_static(b"{\"v\":1}"))).unwrap();
    let one = Setup::new(&log).start();
    one.deploy(&fake("1"));
    assert_eq!((one.running().as_str(), one.problems().as_str()), ("1", ""));
}
