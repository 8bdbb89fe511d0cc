//! The fold, on whole, raced, trimmed and half cleaned logs.

use proptest::prelude::*;

use super::super::fake::description;
use super::super::record::{chunk_key, decode, encode, manifest_key, transition_key};
use super::*;

/// A log as a list of records; an offset is an index.
#[derive(Clone, Default)]
struct Log(Vec<(Bytes, Option<Bytes>)>);

impl Log {
    /// Appends a record.
    fn push(&mut self, key: String, value: Option<Vec<u8>>) -> i64 {
        self.0.push((key.into(), value.map(Bytes::from)));
        i64::try_from(self.0.len()).unwrap() - 1
    }

    /// Appends a chunk.
    fn chunk(&mut self, name: &str, index: u32) -> i64 {
        self.push(chunk_key(&version_of(name), index), Some(b"part".to_vec()))
    }

    /// Appends a manifest.
    fn manifest(&mut self, name: &str, chunks: u32, at_ms: i64) -> i64 {
        let (by, message) = ("i".to_owned(), name.to_owned());
        let manifest = Manifest { size: 1, chunks, description: description(name, &["f"]), by, message, at_ms };
        self.push(manifest_key(&version_of(name)), Some(encode(&manifest).unwrap()))
    }

    /// Appends a transition of the plugin `p`.
    fn transition(&mut self, name: &str, expected: i64) -> i64 {
        let transition = TransitionRecord {
            plugin: "p".to_owned(),
            digest: version_of(name).as_str().to_owned(),
            expected,
            kind: TransitionKind::Deploy,
            by: "i".to_owned(),
            message: name.to_owned(),
            at_ms: 0,
        };
        let random = self.0.len().to_string();
        self.push(transition_key(&transition, &random), Some(encode(&transition).unwrap()))
    }

    /// Folds the records with these offsets.
    fn fold(&self, has: impl Fn(usize) -> bool) -> State {
        let mut state = State::default();
        for (offset, (key, value)) in self.0.iter().enumerate().filter(|(offset, _)| has(*offset)) {
            state.apply(i64::try_from(offset).unwrap(), decode(key.clone(), value.clone()));
        }
        state
    }

    /// Folds all.
    fn state(&self) -> State {
        self.fold(|_| true)
    }

    /// Whether a cleaner that has looked at everything below `looked` would remove the record at `offset`.
    fn is_superseded(&self, offset: usize, looked: usize) -> bool {
        self.0[offset + 1..looked.max(offset + 1)].iter().any(|(key, _)| *key == self.0[offset].0)
    }
}

/// The version called `name` here.
fn version_of(name: &str) -> Digest {
    Digest::of(name.as_bytes())
}

/// Active version, the one before, and generation, of plugin `p`.
fn active(state: &State) -> Option<(Digest, Option<Digest>, i64)> {
    state.active("p").map(|active| (active.digest.clone(), active.previous.clone(), active.generation.0))
}

#[test]
fn an_empty_log_has_nothing() {
    let state = State::default();
    assert_eq!(active(&state), None);
    assert_eq!(state.generation(), Generation(0));
    assert_eq!(state.history("p"), []);
    assert_eq!(state.versions(), []);
}

#[test]
fn transitions_in_turn_follow_each_other() {
    let mut log = Log::default();
    log.chunk("a", 0);
    log.manifest("a", 1, 1);
    let a = log.transition("a", 0);
    assert_eq!(active(&log.state()), Some((version_of("a"), None, a)));
    log.chunk("b", 0);
    log.manifest("b", 1, 2);
    let b = log.transition("b", a);
    assert_eq!(active(&log.state()), Some((version_of("b"), Some(version_of("a")), b)));
    let back = log.transition("a", b);
    let state = log.state();
    assert_eq!(active(&state), Some((version_of("a"), Some(version_of("b")), back)));
    assert_eq!(state.generation(), Generation(back));
    let shown: Vec<(i64, String)> = state.history("p").into_iter().map(|t| (t.generation.0, t.message)).collect();
    assert_eq!(shown, [(back, "a".to_owned()), (b, "b".to_owned()), (a, "a".to_owned())]);
    let digests: Vec<String> = state.versions().into_iter().map(|version| version.digest).collect();
    assert_eq!(digests, [version_of("b").as_str(), version_of("a").as_str()]);
}

#[test]
fn of_two_that_expect_the_same_the_first_wins() {
    let mut log = Log::default();
    log.chunk("x", 0);
    let a = log.transition("a", 0);
    let b = log.transition("b", 0);
    let state = log.state();
    assert_eq!(active(&state), Some((version_of("a"), None, a)));
    assert!(state.was_applied("p", a) && !state.was_applied("p", b));
    assert!(state.was_active("p", &version_of("a")) && !state.was_active("p", &version_of("b")));
    assert_eq!(state.superfluous("p"), [log.0[usize::try_from(b).unwrap()].0.clone()]);
}

#[test]
fn one_that_is_late_changes_nothing_however_late() {
    let mut log = Log::default();
    log.chunk("x", 0);
    let a = log.transition("a", 0);
    let b = log.transition("b", a);
    let c = log.transition("c", b);
    log.transition("d", b);
    log.transition("d", a);
    log.transition("d", 0);
    assert_eq!(active(&log.state()), Some((version_of("c"), Some(version_of("b")), c)));
}

#[test]
fn no_one_can_expect_what_is_not_there_yet() {
    let mut log = Log::default();
    log.chunk("x", 0);
    let a = log.transition("a", 0);
    log.transition("b", 99);
    assert_eq!(active(&log.state()), Some((version_of("a"), None, a)));
}

#[test]
fn plugins_do_not_disturb_each_other() {
    let mut log = Log::default();
    log.chunk("x", 0);
    let a = log.transition("a", 0);
    let state = log.state();
    assert_eq!(state.active("q"), None);
    assert_eq!(state.history("q"), []);
    assert_eq!(state.superfluous("q"), Vec::<Bytes>::new());
    assert_eq!(state.generation(), Generation(a));
}

#[test]
fn a_version_is_whole_with_its_manifest_and_every_chunk() {
    type Step = fn(&mut Log) -> i64;
    let steps: [Step; 3] = [|log| log.chunk("a", 0), |log| log.chunk("a", 1), |log| log.manifest("a", 2, 0)];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut log = Log::default();
        for (done, step) in order.into_iter().enumerate() {
            assert!(!log.state().is_whole(&version_of("a")), "{order:?} after {done}");
            steps[step](&mut log);
        }
        assert!(log.state().is_whole(&version_of("a")), "{order:?}");
    }
    let mut log = Log::default();
    log.manifest("a", 2, 0);
    let applied = log.transition("a", 0);
    // What is active doesn't depend on who has which bytes.
    assert_eq!(active(&log.state()), Some((version_of("a"), None, applied)));
    assert!(!log.state().is_whole(&version_of("a")));
}

#[test]
fn a_second_manifest_replaces_the_first() {
    let mut log = Log::default();
    log.chunk("a", 0);
    log.manifest("a", 1, 1);
    let a = log.transition("a", 0);
    log.chunk("a", 0);
    log.manifest("a", 1, 5);
    let state = log.state();
    assert_eq!(state.versions().iter().map(|version| version.at_ms).collect::<Vec<_>>(), [5]);
    assert_eq!(active(&state), Some((version_of("a"), None, a)));
    assert!(state.is_whole(&version_of("a")));
}

#[test]
fn a_removed_manifest_is_gone_and_nothing_else() {
    let mut log = Log::default();
    log.manifest("a", 1, 1);
    let a = log.transition("a", 0);
    log.push(manifest_key(&version_of("a")), None);
    let state = log.state();
    assert_eq!(state.versions(), []);
    assert_eq!(active(&state), Some((version_of("a"), None, a)));
}

#[test]
fn a_newer_record_ends_the_fold() {
    let mut log = Log::default();
    log.chunk("x", 0);
    let a = log.transition("a", 0);
    let newer = log.push("transition/p/1/r".to_owned(), Some(br#"{"v":2}"#.to_vec()));
    log.transition("b", a);
    log.manifest("b", 1, 1);
    let state = log.state();
    assert_eq!(state.newer(), Some(NewerRecord { offset: newer, version: 2 }));
    assert_eq!(active(&state), Some((version_of("a"), None, a)));
    assert_eq!(state.versions(), []);
    assert_eq!(state.position(), 5);
}

#[test]
fn a_foreign_record_is_passed_over() {
    let mut log = Log::default();
    log.push("hello".to_owned(), Some(b"world".to_vec()));
    let a = log.transition("a", 0);
    log.push("hello".to_owned(), None);
    assert_eq!(active(&log.state()), Some((version_of("a"), None, a)));
}

#[test]
fn the_same_version_again_keeps_what_a_rollback_goes_to() {
    let mut log = Log::default();
    log.chunk("x", 0);
    let a = log.transition("a", 0);
    let b = log.transition("b", a);
    let again = log.transition("b", b);
    assert_eq!(active(&log.state()), Some((version_of("b"), Some(version_of("a")), again)));
}

#[test]
fn the_log_keeps_what_is_shown_and_the_last_of_each_version() {
    let mut log = Log::default();
    log.chunk("x", 0);
    let mut expected = log.transition("first", 0);
    let count = KEPT + 20;
    for turn in 0..count {
        expected = log.transition(if turn % 2 == 0 { "even" } else { "odd" }, expected);
    }
    let state = log.state();
    let removed = state.superfluous("p");
    assert_eq!(removed.len(), 20);
    assert!(!removed.contains(&log.0[1].0), "the only transition to 'first' tells that it was active");
    assert_eq!(state.history("p").len(), SHOWN);
    for key in removed {
        log.push(String::from_utf8(key.to_vec()).unwrap(), None);
    }
    let trimmed = log.state();
    assert_eq!(trimmed.superfluous("p"), Vec::<Bytes>::new());
    assert_eq!(trimmed.history("p"), state.history("p"));
    assert!(trimmed.was_active("p", &version_of("first")));
}

/// A log as several writers make it who each see only a part of it, and who tidy up.
fn raced_log(choices: &[(u8, u8)]) -> Log {
    let mut log = Log::default();
    let mut state = State::default();
    // The generation after each record.
    let mut generations = Vec::new();
    let mut apply_new = |log: &Log, state: &mut State| {
        while let Some((key, value)) = log.0.get(generations.len()) {
            state.apply(i64::try_from(generations.len()).unwrap(), decode(key.clone(), value.clone()));
            generations.push(state.generation().0);
        }
        generations.clone()
    };
    log.chunk("x", 0);
    for (version, lag) in choices {
        // A writer that hasn't read the last few records.
        let expected = apply_new(&log, &mut state).iter().rev().nth(usize::from(*lag)).copied().unwrap_or_default();
        let offset = log.transition(&format!("v{version}"), expected);
        apply_new(&log, &mut state);
        if state.was_applied("p", offset) {
            for key in state.superfluous("p") {
                log.push(String::from_utf8(key.to_vec()).unwrap(), None);
            }
        }
    }
    log
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_cleaned_log_says_the_same_wherever_the_cleaner_is(
        choices in prop::collection::vec((0..9_u8, prop_oneof![3 => Just(0_u8), 1 => 1..4_u8]), 100..260),
        cleaners in prop::collection::vec((0.0..=1.0_f64, 0.0..=1.0_f64), 12),
    ) {
        let log = raced_log(&choices);
        let whole = log.state();
        let length = log.0.len();
        let at = |share: f64| (share * length as f64) as usize;
        for (looked, cleaned) in cleaners.into_iter().map(|(a, b)| (at(a.max(b)), at(a.min(b)))).chain([(length, length)]) {
            // It has looked at all below `looked`, and replaced the files below `cleaned`.
            let seen = log.fold(|offset| offset >= cleaned || !log.is_superseded(offset, looked));
            prop_assert_eq!(active(&seen), active(&whole));
            prop_assert_eq!(seen.generation(), whole.generation());
            prop_assert_eq!(seen.history("p"), whole.history("p"));
        }
        // Wholly cleaned, without the removals even.
        let seen = log.fold(|offset| !log.is_superseded(offset, length) && log.0[offset].1.is_some());
        prop_assert_eq!(active(&seen), active(&whole));
        prop_assert_eq!(seen.history("p"), whole.history("p"));
        for version in 0..9 {
            let digest = version_of(&format!("v{version}"));
            prop_assert_eq!(seen.was_active("p", &digest), whole.was_active("p", &digest));
        }
    }
}
