//! Hostile answers, one way of being wrong at a time.

use super::*;
use crate::model::FunctionIndex;

/// Fields of the wire.
fn fields(values: &[Option<&str>]) -> types::Fields {
    let mut fields = types::Fields { bytes: vec![], ends: vec![] };
    for value in values {
        super::super::fields::push(&mut fields, value.map(str::as_bytes));
    }
    fields
}

/// A refusal of the wire.
fn refusal(index: u32) -> types::Refusal {
    types::Refusal { index, verdict: types::Verdict::Reject, reason: format!("r{index}") }
}

/// A refusal as the host takes it over.
fn refused(index: usize) -> Refusal {
    Refusal { verdict: Verdict::Reject, reason: format!("r{index}") }
}

/// Bytes of a text.
fn bytes(text: &'static str) -> Option<Bytes> {
    Some(Bytes::from_static(text.as_bytes()))
}

#[test]
fn joined_pairs_come_in_order() {
    let answer = Joined { values: fields(&[Some("a"), None, None, Some("")]), refused: vec![refusal(1)] };
    assert_eq!(joined(answer, 4), Ok(vec![Ok(bytes("a")), Err(refused(1)), Ok(None), Ok(bytes(""))]));
}

#[test]
fn refusals_must_rise_and_exist() {
    let check = |indices: &[u32]| {
        let refused = indices.iter().map(|index| refusal(*index)).collect();
        joined(Joined { values: fields(&[None, None]), refused }, 2).err()
    };
    assert_eq!(check(&[0, 1]), None);
    assert_eq!(check(&[2]), Some(BadAnswer::Refused { index: 2, records: 2 }));
    assert_eq!(check(&[u32::MAX]), Some(BadAnswer::Refused { index: u32::MAX, records: 2 }));
    assert_eq!(check(&[1, 0]), Some(BadAnswer::Refused { index: 0, records: 2 }));
    assert_eq!(check(&[1, 1]), Some(BadAnswer::Refused { index: 1, records: 2 }));
}

#[test]
fn a_refused_pair_has_no_value() {
    let answer = Joined { values: fields(&[None, Some("x")]), refused: vec![refusal(1)] };
    assert_eq!(joined(answer, 2), Err(BadAnswer::ValueOfRefused { index: 1 }));
}

#[test]
fn a_join_answers_each_pair() {
    let answer = Joined { values: fields(&[None]), refused: vec![] };
    assert_eq!(joined(answer, 2), Err(BadAnswer::Fields(BadFields::Count { wanted: 2, found: 1 })));
}

#[test]
fn reasons_are_bounded() {
    let long = types::Refusal { reason: "x".repeat(100_000), ..refusal(0) };
    let outcomes = joined(Joined { values: fields(&[None]), refused: vec![long] }, 1).unwrap();
    assert!(outcomes[0].as_ref().unwrap_err().reason.len() <= MAX_REASON + "…".len());
}

/// Runs with so many changes.
fn runs(changes: &[usize]) -> Vec<FoldRun> {
    let change = (FunctionIndex(0), Bytes::new(), 0);
    changes.iter().map(|n| FoldRun { key: Bytes::new(), state: None, changes: vec![change.clone(); *n] }).collect()
}

#[test]
fn folded_runs_have_one_state_or_one_a_change() {
    let answer =
        |states: &[Option<&str>]| FoldedAnswer { states: fields(states), refused: vec![refusal(1), refusal(2)] };
    let last = folded(answer(&[Some("a"), None]), &runs(&[2, 1]), false).unwrap();
    assert_eq!(
        last,
        [
            Folded { states: vec![bytes("a")], refused: vec![(1, refused(1))] },
            Folded { states: vec![None], refused: vec![(0, refused(2))] },
        ]
    );
    let every = folded(answer(&[Some("a"), Some("b"), Some("c")]), &runs(&[2, 1]), true).unwrap();
    assert_eq!(
        every,
        [
            Folded { states: vec![bytes("a"), bytes("b")], refused: vec![(1, refused(1))] },
            Folded { states: vec![bytes("c")], refused: vec![(0, refused(2))] },
        ]
    );
    let wrong = folded(answer(&[Some("a"), Some("b"), Some("c")]), &runs(&[2, 1]), false);
    assert_eq!(wrong, Err(BadAnswer::Fields(BadFields::Count { wanted: 2, found: 3 })));
    let wrong = folded(answer(&[Some("a")]), &runs(&[2]), false);
    assert_eq!(wrong, Err(BadAnswer::Refused { index: 2, records: 2 }));
}

/// An answer with these records: origin, timestamp, headers (`None`: no name).
fn made(records: &[(u32, i64, &[Option<&str>])], refused: Vec<types::Refusal>) -> Transformed {
    let mut flat = Vec::new();
    for (_, _, headers) in records {
        flat.extend([Some("k"), None]);
        flat.extend(headers.iter().flat_map(|name| [*name, Some("v")]));
    }
    let headers = records.iter().map(|(_, _, headers)| u32::try_from(headers.len()).unwrap()).collect();
    let timestamps = records.iter().map(|(_, timestamp, _)| *timestamp).collect();
    let origins = records.iter().map(|(origin, ..)| *origin).collect();
    Transformed { records: Records { fields: fields(&flat), timestamps, headers }, origins, refused }
}

/// Takes over an answer to two records with timestamps 0 and -1.
fn check(answer: Transformed) -> Result<Vec<Outcome<Vec<Record>>>, BadAnswer> {
    let origins = [Record::default(), Record { timestamp: -1, ..Record::default() }];
    transformed(answer, &origins, &mut HeaderNames::default())
}

#[test]
fn transformed_records_go_to_their_origins() {
    let outcomes = check(made(&[(1, 5, &[Some("h"), Some("i")]), (1, -1, &[])], vec![refusal(0)])).unwrap();
    let header = |name: &str| Header { name: Arc::from(name), value: bytes("v") };
    let record = |timestamp, headers| Record { key: bytes("k"), value: None, timestamp, offset: 0, headers };
    let wanted = vec![Err(refused(0)), Ok(vec![record(5, vec![header("h"), header("i")]), record(-1, vec![])])];
    assert_eq!(outcomes, wanted);
    assert_eq!(check(made(&[], vec![])), Ok(vec![Ok(vec![]), Ok(vec![])]));
}

#[test]
fn origins_must_rise_exist_and_not_be_refused() {
    let origin = |result: Result<_, BadAnswer>| match result {
        Err(BadAnswer::Origin { record, origin, what }) => (record, origin, what),
        other => panic!("{other:?}"),
    };
    assert_eq!(origin(check(made(&[(1, 0, &[]), (0, 0, &[])], vec![]))), (1, 0, "is before that of the record before"));
    assert_eq!(origin(check(made(&[(2, 0, &[])], vec![]))), (0, 2, "the call did not have"));
    assert_eq!(origin(check(made(&[(1, 0, &[])], vec![refusal(1)]))), (0, 1, "it refuses"));
}

#[test]
fn a_timestamp_before_1970_must_be_the_origins() {
    assert_eq!(check(made(&[(0, -1, &[])], vec![])), Err(BadAnswer::Timestamp { record: 0, timestamp: -1 }));
}

#[test]
fn header_names_are_there_and_utf8() {
    let nameless = check(made(&[(0, 0, &[None])], vec![]));
    assert_eq!(nameless, Err(BadAnswer::HeaderName { record: 0, what: "is absent" }));
    let mut answer = made(&[(0, 0, &[Some("h")])], vec![]);
    answer.records.fields.bytes[1] = 0xff;
    assert_eq!(check(answer), Err(BadAnswer::HeaderName { record: 0, what: "is not UTF-8" }));
}

#[test]
fn lists_of_records_are_of_one_length() {
    let mut answer = made(&[(0, 0, &[])], vec![]);
    answer.records.headers.push(0);
    assert_eq!(check(answer), Err(BadAnswer::Records { timestamps: 1, headers: 2, origins: 1 }));
    let mut answer = made(&[(0, 0, &[])], vec![]);
    answer.origins.clear();
    assert_eq!(check(answer), Err(BadAnswer::Records { timestamps: 1, headers: 1, origins: 0 }));
    // Header counts that no answer can hold.
    let mut answer = made(&[(0, 0, &[])], vec![]);
    answer.records.headers[0] = u32::MAX;
    let wanted = 2 + 2 * u32::MAX as usize;
    assert_eq!(check(answer), Err(BadAnswer::Fields(BadFields::Count { wanted, found: 2 })));
}

#[test]
fn header_names_are_shared_and_few() {
    let mut names = HeaderNames::default();
    let first = names.get(b"eventType").unwrap();
    assert!(Arc::ptr_eq(&first, &names.get(b"eventType").unwrap()));
    for n in 0..100 {
        names.get(format!("h{n}").as_bytes()).unwrap();
    }
    assert!(names.seen.len() <= MAX_NAMES);
}
