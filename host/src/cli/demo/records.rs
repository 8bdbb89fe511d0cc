//! The records of the project aggregate's eight topics: the same in every run.
//!
//! Projects and what happens to them are a day's work. The tables are exported in the night after it, all rows anew, so that
//! every row carries a later timestamp than every project: who goes by timestamps takes the projects first.

use super::cluster::NewRecord;
use super::random::Random;

/// Projects.
pub(super) const PROJECTS: u64 = 4_000;
/// Rows of each table: every project has one in both, the others have no project yet.
pub(super) const ROWS: u64 = 20_000;
/// The tables.
pub(super) const TABLES: [&str; 2] = ["wirtschaftseinheiten", "mietobjekte"];
/// The streams.
pub(super) const STREAMS: [&str; 6] =
    ["projekte", "projektstatus", "befunde", "aufgaben", "durchfuehrungen", "gruppen"];
/// Records of all streams: one of each project in each.
pub(super) const STREAM_RECORDS: u64 = PROJECTS * STREAMS.len() as u64;
/// Of these, the ones that an aggregate counts: all but `projekte` and `projektstatus`.
pub(super) const COUNTED: u64 = PROJECTS * (STREAMS.len() as u64 - 2);

/// 3 March 2025, eight in the morning in Berlin.
const MORNING: i64 = 1_740_985_200_000;
/// The next night, at two.
const NIGHT: i64 = MORNING + 18 * 3_600_000;
/// The time from one stream record to the next: together a day's work.
const STEP: i64 = 1_350;

/// Streets.
const STRASSEN: &[&str] =
    &["Lindenstraße", "Mühlweg", "Bahnhofstraße", "Am Brühl", "Königsplatz", "Rosenhügel", "Gärtnerweg", "Uferstraße"];
/// Towns.
const ORTE: &[&str] = &["Berlin", "München", "Köln", "Nürnberg", "Düsseldorf", "Lübeck", "Würzburg", "Görlitz"];
/// Owners.
const EIGENTUEMER: &[&str] =
    &["Wohnbau Nord eG", "Städtische Wohnungsgesellschaft mbH", "Baugenossenschaft Süd eG", "Grundbesitz Möller GmbH"];
/// People.
const NAMEN: &[&str] = &[
    "Anna Schäfer",
    "Jörg Müller",
    "Käthe Weiß",
    "Björn Groß",
    "Günter Böhm",
    "Zoë Fuchs",
    "Ümit Yılmaz",
    "Lea Vogel",
];
/// What is built.
const MASSNAHMEN: &[&str] =
    &["Dachsanierung", "Fassadendämmung", "Heizungstausch", "Fensteraustausch", "Badmodernisierung", "Kanalsanierung"];
/// States of a project.
const STATUS: &[&str] = &["GEPLANT", "BEAUFTRAGT", "IN_ARBEIT", "PAUSIERT", "ABGESCHLOSSEN"];
/// How bad a finding is.
const SCHWERE: &[&str] = &["GERING", "MITTEL", "HOCH", "KRITISCH"];
/// Rooms.
const RAEUME: &[&str] = &["Küche", "Bad", "Keller", "Treppenhaus", "Dachboden", "Flur"];
/// Findings.
const BEFUNDE: &[&str] = &[
    "Feuchtigkeit an der Außenwand, Ursache noch ungeklärt",
    "Riss im Putz über der Tür, etwa 40 cm lang",
    "Schimmel hinter dem Heizkörper festgestellt",
    "Fliesen lose, Untergrund hohl",
];
/// Trades.
const GEWERKE: &[&str] = &["Elektro", "Sanitär", "Trockenbau", "Maler", "Dachdecker", "Tischler"];
/// Companies.
const FIRMEN: &[&str] = &["Bau Köhler", "Elektro Süß", "Maler Grün", "Dach & Wand", "HLS Nord"];
/// Names of groups.
const GRUPPEN: &[&str] = &["Planung", "Bauleitung", "Einkauf", "Prüfung"];

/// The key of a project, and of its row in each table.
pub(super) fn key(number: u64) -> String {
    format!("P{number:07}")
}

/// The rows of both tables, in the order in which they arrive.
pub(super) fn rows() -> Vec<NewRecord> {
    let mut random = Random::new(1);
    let mut numbers: Vec<u64> = (1..=ROWS).collect();
    random.shuffle(&mut numbers);
    let mut records = Vec::new();
    for (timestamp, number) in (NIGHT..).zip(numbers) {
        for (table, value) in TABLES.into_iter().zip([building(number, &mut random), flat(number, &mut random)]) {
            records.push(NewRecord { topic: table, key: key(number), value: Some(value), timestamp });
        }
    }
    records
}

/// The records of all streams, in the order in which they arrive: a project first, then what happens to some other.
pub(super) fn events() -> Vec<NewRecord> {
    let mut random = Random::new(2);
    let mut orders: Vec<Vec<u64>> = Vec::new();
    for _ in STREAMS {
        let mut numbers: Vec<u64> = (1..=PROJECTS).collect();
        random.shuffle(&mut numbers);
        orders.push(numbers);
    }
    let mut records = Vec::new();
    let mut clock = (MORNING..).step_by(STEP.unsigned_abs() as usize);
    for place in 0..PROJECTS as usize {
        for (stream, numbers) in STREAMS.into_iter().zip(&orders) {
            let (Some(number), Some(timestamp)) = (numbers.get(place), clock.next()) else { continue };
            let value = event(stream, *number, timestamp, &mut random);
            records.push(NewRecord { topic: stream, key: key(*number), value: Some(value), timestamp });
        }
    }
    records
}

/// A row of `wirtschaftseinheiten`.
fn building(number: u64, random: &mut Random) -> String {
    let (street, house) = (random.pick(STRASSEN), random.between(1, 150));
    format!(
        r#"{{"id":"WE-{number:07}","name":"Wohnanlage {street} {house}","strasse":"{street} {house}","plz":"{}","ort":"{}","eigentuemer":"{}","baujahr":{},"einheiten":{},"version":1}}"#,
        random.between(10_000, 99_998),
        random.pick(ORTE),
        random.pick(EIGENTUEMER),
        random.between(1890, 2019),
        random.between(1, 120),
    )
}

/// A row of `mietobjekte`.
fn flat(number: u64, random: &mut Random) -> String {
    let floor = random.below(6);
    format!(
        r#"{{"id":"MO-{number:07}","bezeichnung":"Wohnung {floor}. OG {}","flaecheDm2":{},"zimmer":{},"etage":{floor},"mieter":"{}","kaltmieteCent":{},"version":1}}"#,
        random.pick(&["links", "rechts"]),
        random.between(2_000, 14_000),
        random.between(1, 6),
        random.pick(NAMEN),
        random.between(30_000, 230_000),
    )
}

/// A record of a stream.
fn event(stream: &str, number: u64, now: i64, random: &mut Random) -> String {
    let (project, index) = (key(number), random.between(1, 4));
    let rest = match stream {
        "projekte" => {
            let what = random.pick(MASSNAHMEN);
            format!(
                r#""art":"ERSTELLT","name":"{what} {}","beschreibung":"{what} einschließlich Gerüst, Entsorgung und Abnahme, Los {index}","erstelltAm":{now},"budgetCent":{},"verantwortlich":"{}","version":1"#,
                random.pick(ORTE),
                random.between(100_000, 90_000_000),
                random.pick(NAMEN),
            )
        }
        "projektstatus" => format!(
            r#""status":"{}","geaendertVon":"{}","geaendertAm":{now},"grund":"Rückmeldung aus der Baubesprechung Nr. {index}""#,
            random.pick(STATUS),
            random.pick(NAMEN),
        ),
        "befunde" => format!(
            r#""befundId":"B{index}","schwere":"{}","raum":"{}","text":"{}","erfasstAm":{now}"#,
            random.pick(SCHWERE),
            random.pick(RAEUME),
            random.pick(BEFUNDE),
        ),
        "aufgaben" => format!(
            r#""aufgabeId":"A{index}","titel":"Angebot einholen und prüfen: {}","gewerk":"{}","faelligAm":{},"erledigt":{}"#,
            random.pick(MASSNAHMEN),
            random.pick(GEWERKE),
            now + 86_400_000,
            random.below(2) == 0,
        ),
        "durchfuehrungen" => format!(
            r#""durchfuehrungId":"D{index}","firma":"{}","beginn":"2025-0{}-15T08:00:00Z","kostenCent":{}"#,
            random.pick(FIRMEN),
            random.between(4, 9),
            random.between(10_000, 5_000_000),
        ),
        _ => format!(
            r#""gruppeId":"G{index}","name":"{}","leitung":"{}","mitglieder":{}"#,
            random.pick(GRUPPEN),
            random.pick(NAMEN),
            random.between(1, 20),
        ),
    };
    format!(r#"{{"projektId":"{project}",{rest}}}"#)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::cluster::assert_fits;
    use super::*;

    #[test]
    fn every_project_has_its_rows_and_every_row_is_later_than_every_project() {
        let (rows, events) = (rows(), events());
        assert_eq!((rows.len() as u64, events.len() as u64), (2 * ROWS, STREAM_RECORDS));
        let keys = |records: &[NewRecord], topic| -> BTreeSet<String> {
            records.iter().filter(|record| record.topic == topic).map(|record| record.key.clone()).collect()
        };
        let projects = keys(&events, "projekte");
        assert_eq!(projects.len() as u64, PROJECTS);
        assert!(TABLES.iter().all(|table| projects.is_subset(&keys(&rows, table))));
        assert!(STREAMS.iter().all(|stream| keys(&events, stream) == projects));
        let last = events.iter().map(|record| record.timestamp).max().unwrap();
        assert!(rows.iter().all(|row| row.timestamp > last));
        assert!(events.is_sorted_by_key(|record| record.timestamp));
    }

    #[test]
    fn the_records_are_json_and_the_same_in_every_run() {
        let all = || [rows(), events()].concat();
        assert_eq!(all(), all());
        for record in all() {
            let value: serde_json::Value = serde_json::from_str(record.value.as_deref().unwrap()).unwrap();
            assert!(value.is_object(), "{record:?}");
        }
    }

    /// Inputs, and outputs and changelog even if every record is a batch of its own: no aggregate is longer than its parts.
    #[test]
    fn the_broker_can_keep_it_all() {
        let (rows, events) = (rows(), events());
        assert_fits(&[rows.as_slice(), events.as_slice()].concat()).unwrap();
        let mut parts: BTreeMap<&str, usize> = BTreeMap::new();
        for record in rows.iter().chain(&events) {
            let longest = parts.entry(record.topic).or_default();
            *longest = record.value.as_ref().unwrap().len().max(*longest);
        }
        // An entry of a list keeps an id and a word; 450 bytes are more than the names of all fields.
        let short =
            |topic: &str| ["befunde", "aufgaben", "durchfuehrungen", "gruppen", "projektstatus"].contains(&topic);
        let aggregate: usize =
            450 + parts.iter().filter(|(topic, _)| !short(topic)).map(|(_, length)| length).sum::<usize>();
        let worst = |record: NewRecord| NewRecord { topic: "out", value: Some("x".repeat(aggregate)), ..record };
        assert_fits(&events.into_iter().map(worst).collect::<Vec<_>>()).unwrap();
    }
}
