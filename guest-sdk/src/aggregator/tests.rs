use std::collections::BTreeMap;

use super::*;
use crate::{CodecError, Json, Presence, Verdict};

/// A state that keeps all it was given, so that nothing can be lost or kept too much without a trace.
#[derive(Clone, Default, PartialEq)]
struct Log(Vec<String>);

impl State for Log {
    const NAME: &'static str = "log";
    const VERSION: u32 = 1;
    type Form<'a> = LogForm;

    fn is_gone(state: &LogForm) -> bool {
        state.0.0.last().is_some_and(|word| word == "forget")
    }
}

/// A log as words with spaces between; one that ends in "unwritable" cannot be written.
#[derive(Clone, Default)]
struct LogForm(Log);

impl Decode<'_> for LogForm {
    fn decode(field: Option<&[u8]>) -> Result<Self, CodecError> {
        let text = <&str>::decode(field)?;
        if text == "unreadable" {
            return Err(CodecError::new("on purpose"));
        }
        Ok(Self(Log(text.split_whitespace().map(str::to_owned).collect())))
    }
}

impl Encode for LogForm {
    fn encode(&self, into: &mut Vec<u8>) -> Result<Presence, CodecError> {
        let text = self.0.0.join(" ");
        into.extend_from_slice(text.as_bytes());
        if text.ends_with("unwritable") { Err(CodecError::new("on purpose")) } else { Ok(Presence::Present) }
    }
}

/// Appends a word; refuses some, after it has spoilt the state.
struct Append;

impl Aggregator for Append {
    const NAME: &'static str = "append";
    const DOC: &'static str = "Appends a word.";
    type Key<'a> = &'a str;
    type Value<'a> = &'a str;
    type State = Log;

    fn apply(&self, _: &str, log: &mut LogForm, word: &str, timestamp: i64) -> Result<(), Refusal> {
        log.0.0.push(word.to_owned());
        match word {
            "skip" => Err(Refusal::skip()),
            "reject" => Err(Refusal::reject(format!("at {timestamp}"))),
            "fail" => Err(Refusal::fail("at once")),
            _ => Ok(()),
        }
    }
}

/// Clears the log; its value is JSON, so that some cannot be read.
struct Clear;

impl Aggregator for Clear {
    const NAME: &'static str = "clear";
    const DOC: &'static str = "Clears the log.";
    type Key<'a> = &'a [u8];
    type Value<'a> = Json<u32>;
    type State = Log;

    fn apply(&self, _: &[u8], log: &mut LogForm, keep: Json<u32>, _: i64) -> Result<(), Refusal> {
        log.0.0.truncate(keep.0 as usize);
        Ok(())
    }
}

/// Id of `Append`; not 0, so that an id is not taken for an index.
const APPEND: u32 = 3;
/// Id of `Clear`.
const CLEAR: u32 = 4;

/// A run: its state, and function and value of each change.
type TestRun<'a> = (Option<&'a str>, &'a [(u32, &'a str)]);
/// A refusal: index, verdict, reason.
type TestRefusal = (u32, Verdict, String);

/// Folds runs; the states and refusals.
fn fold(every: bool, runs: &[TestRun<'_>]) -> (Vec<Option<String>>, Vec<TestRefusal>) {
    let functions: Vec<Box<dyn Apply<Log>>> = vec![Box::new(Append), Box::new(Clear)];
    let aggregates: Vec<Box<dyn FoldRun>> = vec![Box::new(Aggregate { first: APPEND, functions })];
    let mut fields = Writer::default();
    let (mut counts, mut functions) = (Vec::new(), Vec::new());
    for (state, changes) in runs {
        fields.field(Some(b"key"));
        fields.field(state.map(str::as_bytes));
        counts.push(u32::try_from(changes.len()).unwrap());
        for (function, value) in *changes {
            fields.field(Some(value.as_bytes()));
            functions.push(*function);
        }
    }
    let timestamps = (0..).take(functions.len()).collect();
    let folded = fold_batch(&aggregates, every, &Runs { fields: fields.finish(), counts, functions, timestamps });
    let mut reader = Reader::new(&folded.states);
    let states = (0..reader.len()).map(|_| reader.field().map(|f| String::from_utf8(f.to_vec()).unwrap())).collect();
    let refused = folded.refused.into_iter().map(|refusal| {
        let index = refusal.index;
        let Refusal { verdict, reason } = Refusal::of(refusal);
        (index, verdict, reason)
    });
    (states, refused.collect())
}

/// States as the tests write them.
fn states(states: &[Option<&str>]) -> Vec<Option<String>> {
    states.iter().map(|state| state.map(str::to_owned)).collect()
}

#[test]
fn a_run_is_applied_in_order_to_the_state_before() {
    let changes = [(APPEND, "b"), (APPEND, "c"), (CLEAR, "1"), (APPEND, "d")];
    let runs: &[TestRun<'_>] = &[(Some("a"), &changes), (None, &changes[..1])];
    assert_eq!(fold(false, runs), (states(&[Some("a d"), Some("b")]), vec![]));
    let each = states(&[Some("a b"), Some("a b c"), Some("a"), Some("a d"), Some("b")]);
    assert_eq!(fold(true, runs), (each, vec![]));
}

#[test]
fn a_refused_change_leaves_the_state_as_if_it_had_not_come() {
    let changes = [
        (APPEND, "b"),
        (APPEND, "reject"),
        (CLEAR, "no number"),
        (APPEND, "skip"),
        (APPEND, "c"),
        (APPEND, "fail"),
        (APPEND, "d"),
    ];
    let refused = vec![
        (2, Verdict::Reject, "at 2".to_owned()),
        (3, Verdict::Reject, "the value cannot be read: expected ident at line 1 column 2".to_owned()),
        (4, Verdict::Skip, String::new()),
        (6, Verdict::Fail, "at once".to_owned()),
    ];
    // A run before, so that an index of the call is not taken for one of the run.
    let runs: &[TestRun<'_>] = &[(None, &[(APPEND, "x")]), (Some("a"), &changes)];
    assert_eq!(fold(false, runs), (states(&[Some("x"), Some("a b c d")]), refused.clone()));
    let each =
        [Some("x"), Some("a b"), Some("a b"), Some("a b"), Some("a b"), Some("a b c"), Some("a b c"), Some("a b c d")];
    assert_eq!(fold(true, runs), (states(&each), refused));
}

#[test]
fn a_run_of_refusals_gives_the_state_before_to_the_byte() {
    let runs: &[TestRun<'_>] = &[(Some("a   b"), &[(APPEND, "reject"), (APPEND, "skip")]), (None, &[(APPEND, "skip")])];
    assert_eq!(fold(false, runs).0, states(&[Some("a   b"), None]));
    assert_eq!(fold(true, runs).0, states(&[Some("a   b"), Some("a   b"), None]));
}

#[test]
fn a_state_that_is_gone_is_none_and_starts_anew() {
    let runs: &[TestRun<'_>] = &[(Some("a"), &[(APPEND, "forget")]), (Some("a"), &[(APPEND, "forget"), (APPEND, "b")])];
    assert_eq!(fold(false, runs).0, states(&[None, Some("b")]));
    assert_eq!(fold(true, runs).0, states(&[None, None, Some("b")]));
}

#[test]
fn a_state_that_cannot_be_read_fails_all_its_changes_and_no_others() {
    let runs: &[TestRun<'_>] = &[(Some("unreadable"), &[(APPEND, "b"), (APPEND, "c")]), (Some("a"), &[(APPEND, "b")])];
    let (got, refused) = fold(false, runs);
    assert_eq!(got, states(&[Some("unreadable"), Some("a b")]));
    let reason = "the state log (version 1) cannot be read: on purpose";
    assert_eq!(refused, [(0, Verdict::Fail, reason.to_owned()), (1, Verdict::Fail, reason.to_owned())]);
    assert_eq!(fold(true, runs).0, states(&[Some("unreadable"), Some("unreadable"), Some("a b")]));
}

#[test]
fn a_change_after_which_the_state_cannot_be_written_is_rejected() {
    let runs: &[TestRun<'_>] = &[
        (
            Some("a"),
            &[(APPEND, "b"), (APPEND, "unwritable"), (APPEND, "c"), (APPEND, "reject"), (APPEND, "unwritable")],
        ),
        (None, &[(APPEND, "x")]),
    ];
    let reason = "the state log could not be written after it: on purpose".to_owned();
    let refused = vec![
        (1, Verdict::Reject, reason.clone()),
        (3, Verdict::Reject, "at 3".to_owned()),
        (4, Verdict::Reject, reason),
    ];
    let each = states(&[Some("a b"), Some("a b"), Some("a b c"), Some("a b c"), Some("a b c"), Some("x")]);
    assert_eq!(fold(true, runs), (each, refused.clone()));
    assert_eq!(fold(false, runs), (states(&[Some("a b c"), Some("x")]), refused));
}

#[test]
fn how_changes_are_cut_into_runs_makes_no_difference() {
    let words = ["a", "reject", "b", "forget", "c", "skip", "d", "fail", "e"];
    let changes: Vec<(u32, &str)> = words
        .iter()
        .flat_map(|word| [(APPEND, *word), (CLEAR, "2"), (CLEAR, "bad")])
        .chain(words.iter().map(|word| (APPEND, *word)))
        .collect();
    let mut outcomes = BTreeMap::new();
    for length in 1..=changes.len() {
        let mut state: Option<String> = None;
        let (mut each, mut refused) = (Vec::new(), Vec::new());
        for (at, run) in (0..).step_by(length).zip(changes.chunks(length)) {
            let every = fold(true, &[(state.as_deref(), run)]);
            let last = fold(false, &[(state.as_deref(), run)]);
            assert_eq!(every.0.last(), last.0.last(), "the state after the run");
            let indices = |refused: &[TestRefusal]| refused.iter().map(|(i, v, _)| (at + i, *v)).collect::<Vec<_>>();
            assert_eq!(indices(&every.1), indices(&last.1));
            state = last.0.into_iter().next().unwrap();
            each.extend(every.0);
            refused.extend(indices(&every.1));
        }
        outcomes.insert(length, (each, refused));
    }
    let one_by_one = outcomes[&1].clone();
    for (length, outcome) in outcomes {
        assert_eq!(outcome, one_by_one, "runs of {length}");
    }
}
