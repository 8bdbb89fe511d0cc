//! The functions give, to the byte, what Kafka Streams gives: replays of recorded inputs, in the order of the file.
#![cfg(not(any(feature = "v2", feature = "lacking")))]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use projekt::{
    Ausgabe, MitMietobjekt, MitWirtschaftseinheit, PlusAufgabe, PlusBefund, PlusDurchfuehrung, PlusGruppe, PlusProjekt,
    PlusStatus, ProjektState,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use weir_guest::Refusal;
use weir_guest::testing::{Aggregate, join, record, transform};

/// A line of the inputs.
#[derive(Deserialize)]
struct Input<'a> {
    topic: &'a str,
    timestamp: i64,
    key: &'a str,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
}

/// The topology around the functions, as simple as it can be.
#[derive(Default)]
struct Topology {
    /// Rows of each table.
    tables: HashMap<&'static str, HashMap<String, String>>,
    /// State and timestamp of each key.
    aggregates: HashMap<String, (Aggregate<ProjektState>, i64)>,
}

impl Topology {
    /// Takes one record; the line of the output that it makes, if it makes one.
    fn process(&mut self, input: &Input<'_>) -> Option<String> {
        let value = input.value.map(RawValue::get);
        if let Some(table) = ["wirtschaftseinheiten", "mietobjekte"].into_iter().find(|table| *table == input.topic) {
            let rows = self.tables.entry(table).or_default();
            match value {
                Some(row) => rows.insert(input.key.to_owned(), row.to_owned()),
                None => rows.remove(input.key),
            };
            return None;
        }
        self.add(input, value?).unwrap();
        let (aggregate, timestamp) = self.aggregates.get_mut(input.key).unwrap();
        *timestamp = input.timestamp.max(*timestamp);
        let mut out = record(input.key, aggregate.state().clone());
        out.timestamp = *timestamp;
        let out = transform(&Ausgabe, out).unwrap().pop()?;
        let headers: Vec<_> = out
            .headers
            .iter()
            .map(|h| (h.name.as_ref(), str::from_utf8(h.value.as_deref().unwrap()).unwrap()))
            .collect();
        assert_eq!(headers, [("eventType", "ProjektAggregat")]);
        Some(format!(
            "{{\"key\":\"{}\",\"timestamp\":{},\"value\":{}}}",
            out.key.text(),
            out.timestamp,
            out.value.text()
        ))
    }

    /// Joins a stream record, if it is to be joined, and adds it to its key's aggregate.
    fn add(&mut self, input: &Input<'_>, value: &str) -> Result<(), Refusal> {
        let row = |table| self.tables.get(table).and_then(|rows| rows.get(input.key)).map(String::as_str);
        let rows = (row("wirtschaftseinheiten"), row("mietobjekte"));
        let new = || (Aggregate::new(input.key), i64::MIN);
        let aggregate = &mut self.aggregates.entry(input.key.to_owned()).or_insert_with(new).0;
        match input.topic {
            "projekte" => {
                let joined = join(&MitWirtschaftseinheit, input.key, value, rows.0)?;
                let joined = join(&MitMietobjekt, input.key, joined, rows.1)?;
                aggregate.apply(PlusProjekt, joined, input.timestamp)
            }
            "projektstatus" => aggregate.apply(PlusStatus, value, input.timestamp),
            "befunde" => aggregate.apply(PlusBefund, value, input.timestamp),
            "aufgaben" => aggregate.apply(PlusAufgabe, value, input.timestamp),
            "durchfuehrungen" => aggregate.apply(PlusDurchfuehrung, value, input.timestamp),
            "gruppen" => aggregate.apply(PlusGruppe, value, input.timestamp),
            topic => panic!("no input {topic}"),
        }
    }
}

/// A fixture's text.
fn fixture(name: &str) -> String {
    let path: PathBuf =
        [Path::new(env!("CARGO_MANIFEST_DIR")), Path::new("../../tests/fixtures/projekt"), Path::new(name)]
            .into_iter()
            .collect();
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Replays the inputs and compares each output, and the last one of each key.
fn check(name: &str) {
    let inputs = fixture(&format!("{name}-input.jsonl"));
    let all = fixture(&format!("{name}-all.jsonl"));
    let mut want = all.lines();
    let mut topology = Topology::default();
    let mut last = BTreeMap::new();
    for (number, line) in inputs.lines().enumerate() {
        let input: Input<'_> = serde_json::from_str(line).unwrap();
        let Some(output) = topology.process(&input) else { continue };
        let with_headers =
            output.replacen(",\"value\":", ",\"headers\":{\"eventType\":\"ProjektAggregat\"},\"value\":", 1);
        assert_eq!(Some(with_headers.as_str()), want.next(), "{name}, line {}: {line}", number + 1);
        last.insert(input.key, output);
    }
    assert_eq!(want.next(), None, "{name}: an output is missing");
    let mut got = String::new();
    last.into_values().for_each(|output| writeln!(got, "{output}").unwrap());
    assert_eq!(got, fixture(&format!("{name}-final.jsonl")), "{name}: last outputs");
}

#[test]
fn tables_before_the_streams() {
    check("before");
}

#[test]
fn tables_among_the_streams() {
    check("mixed");
}

#[test]
fn what_json_makes_possible() {
    check("edge");
}
