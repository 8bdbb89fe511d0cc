//! Several who deploy at once.

use super::*;

#[test]
fn instances_that_deploy_at_once_agree() {
    let log = InProcessLog::new();
    let instances = [Setup::new(&log).start(), Setup::new(&log).start(), Setup::new(&log).start()];
    let latest = std::thread::scope(|scope| {
        let deployments: Vec<_> = instances
            .iter()
            .enumerate()
            .map(|(number, instance)| {
                let registry = Arc::clone(&instance.registry);
                let deploy = move |turn: i32| {
                    let bytes = fake(&format!("{number}.{turn}")).bytes();
                    match registry.deploy("p", &bytes, "", 1) {
                        Ok(activation) => Some(activation.generation),
                        // Others may be first five times in a row: then the caller would ask again.
                        Err(Error::Contended { .. }) => None,
                        Err(other) => panic!("{other}"),
                    }
                };
                scope.spawn(move || (0..8).filter_map(deploy).max().unwrap_or_default())
            })
            .collect();
        deployments.into_iter().map(|deployment| deployment.join().unwrap()).max().unwrap()
    });
    for instance in &instances {
        instance.runs(latest);
        assert_eq!(instance.registry.generation(), latest);
        assert_eq!(instance.registry.list(), instances[0].registry.list());
        assert_eq!(instance.registry.history("p"), instances[0].registry.history("p"));
        let generations: Vec<i64> = instance.sets.try_iter().map(|set| set.generation.0).collect();
        assert!(generations.is_sorted(), "{generations:?}");
    }
}

/// A writer before whose transitions others are first, some times.
struct Overtaken {
    /// The log.
    log: InProcessLog,
    /// The versions of the others that are still to come.
    others: Vec<Vec<u8>>,
}

impl LogWriter for Overtaken {
    fn append(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<i64, LogError> {
        let expected = std::str::from_utf8(key).unwrap().strip_prefix("transition/p/").filter(|_| value.is_some());
        if let Some((expected, bytes)) = expected.and_then(|expected| Some((expected, self.others.pop()?))) {
            let expected = expected.split('/').next().unwrap().parse().unwrap();
            self.append(chunk_key(&Digest::of(&bytes), 0).as_bytes(), Some(&bytes))?;
            for (key, value) in [manifest(&bytes), transition(&bytes, expected)] {
                self.log.append(key.as_bytes(), Some(&value))?;
            }
        }
        self.log.append(key, value)
    }
}

#[test]
fn a_deployment_that_was_overtaken_comes_next() {
    let log = InProcessLog::new();
    let others = vec![fake("other").bytes()];
    let one = Setup { writer: Box::new(Overtaken { log: log.clone(), others }), ..Setup::new(&log) }.start();
    let deployed = one.deploy(&fake("1"));
    assert_eq!(deployed.previous, Some(Digest::of(&fake("other").bytes()).as_str().to_owned()));
    assert_eq!(one.running(), "1");
    // The one that came too late, tidied up.
    assert_eq!(log.records().last().map(|(_, _, value)| value.is_none()), Some(true));
}

#[test]
fn a_deployment_gives_up_when_it_is_always_overtaken() {
    let log = InProcessLog::new();
    let others = (0..20).map(|number| fake(&format!("other {number}")).bytes()).collect();
    let one = Setup { writer: Box::new(Overtaken { log: log.clone(), others }), ..Setup::new(&log) }.start();
    let error = one.registry.deploy("p", &fake("1").bytes(), "", 1).unwrap_err();
    assert!(error.is_retriable());
    insta::assert_snapshot!(error, @"others deployed plugin p first, 5 times in a row: try again later");
}

#[test]
fn a_deployment_that_was_overtaken_by_its_own_bytes_is_content() {
    let log = InProcessLog::new();
    let others = vec![fake("1").bytes()];
    let one = Setup { writer: Box::new(Overtaken { log: log.clone(), others }), ..Setup::new(&log) }.start();
    assert!(one.deploy(&fake("1")).already_active);
    assert_eq!(one.registry.history("p").len(), 1);
}

#[test]
fn a_rollback_that_was_overtaken_says_so_and_does_nothing() {
    let log = InProcessLog::new();
    {
        let one = Setup::new(&log).start();
        one.deploy(&fake("1"));
        one.deploy(&fake("2"));
    }
    let others = vec![fake("3").bytes()];
    let one = Setup { writer: Box::new(Overtaken { log: log.clone(), others }), ..Setup::new(&log) }.start();
    assert!(matches!(one.registry.rollback("p", 1), Err(Error::Overtaken { .. })));
    let active = one.registry.history("p")[0].digest.clone();
    assert_eq!(active, Digest::of(&fake("3").bytes()).as_str());
}
