//! The aggregate of a project and the six functions that add to it.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use weir_guest::{Aggregator, Refusal, State};

use crate::ereignis::{Aufgabe, Befund, Durchfuehrung, Erstellt, Gruppe, Status};
use crate::jackson::{Jackson, Text, read};
use crate::verknuepft::Verknuepft;

/// All that is known of a project, in the field order of its JSON.
///
/// A change touches one part of it. The others stay the text that they were: they are neither read nor written anew.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ProjektAggregat<'a> {
    /// The last project record.
    #[serde(borrow)]
    projekt: Option<&'a RawValue>,
    /// The row that the last project record found in `wirtschaftseinheiten`.
    #[serde(borrow)]
    wirtschaftseinheit: Option<&'a RawValue>,
    /// The row that the last project record found in `mietobjekte`.
    #[serde(borrow)]
    mietobjekt: Option<&'a RawValue>,
    /// When the first project record says that the project was created.
    projekt_erstellt_am: Option<i64>,
    /// The last status.
    #[serde(borrow)]
    status: Option<Text<'a>>,
    /// When it was reported.
    status_geaendert_am: Option<i64>,
    /// How many records changed the status.
    status_wechsel: i64,
    /// Findings: how bad each is.
    #[serde(borrow)]
    befunde: Liste<'a>,
    /// Tasks: whether each is done.
    #[serde(borrow)]
    aufgaben: Liste<'a>,
    /// Work done: by which company.
    #[serde(borrow)]
    durchfuehrungen: Liste<'a>,
    /// Groups: the name of each.
    #[serde(borrow)]
    gruppen: Liste<'a>,
    /// Timestamp of the record that changed it last; absent in states of the first version.
    #[cfg(feature = "v2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    letzte_aenderung_am: Option<i64>,
}

/// A list of the aggregate.
#[derive(Clone, Debug)]
enum Liste<'a> {
    /// As it was read; no change has touched it.
    Unberuehrt(&'a RawValue),
    /// Taken apart for a change.
    Offen(Eintraege<'a>),
}

/// How many records came, and the last value for each id.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Eintraege<'a> {
    /// How many records came.
    anzahl: i64,
    /// The last value for each id, ids in order.
    #[serde(borrow)]
    letzte: BTreeMap<Text<'a>, Option<Text<'a>>>,
}

impl Default for Liste<'_> {
    fn default() -> Self {
        Self::Offen(Eintraege::default())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Liste<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&RawValue>::deserialize(deserializer).map(Self::Unberuehrt)
    }
}

impl Serialize for Liste<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Unberuehrt(text) => text.serialize(serializer),
            Self::Offen(eintraege) => eintraege.serialize(serializer),
        }
    }
}

impl<'a> Liste<'a> {
    /// Counts a record and keeps its value under its id, which must be there: `feld` is its name.
    fn plus(&mut self, feld: &str, id: Option<Text<'a>>, wert: Option<Text<'a>>) -> Result<(), Refusal> {
        let id = id.ok_or_else(|| Refusal::reject(format!("`{feld}` is missing")))?;
        if let Self::Unberuehrt(text) = *self {
            let eintraege = read(text.get().as_bytes())
                .map_err(|error| Refusal::fail(format!("the state's list for `{feld}` cannot be read: {error}")))?;
            *self = Self::Offen(eintraege);
        }
        if let Self::Offen(eintraege) = self {
            eintraege.anzahl += 1;
            eintraege.letzte.insert(id, wert);
        }
        Ok(())
    }
}

impl ProjektAggregat<'_> {
    /// Notes when the last change came: in the second version of the plugin.
    #[cfg_attr(not(feature = "v2"), expect(clippy::unused_self, reason = "the first version keeps no time"))]
    fn geaendert(&mut self, timestamp: i64) {
        #[cfg(feature = "v2")]
        {
            self.letzte_aenderung_am = Some(timestamp);
        }
        let _ = timestamp;
    }
}

/// The state of the store `projekt-store`.
#[derive(Clone, Copy, Debug)]
pub struct ProjektState;

impl State for ProjektState {
    const NAME: &'static str = "ProjektAggregat";
    const VERSION: u32 = 1;
    type Form<'a> = Jackson<ProjektAggregat<'a>>;
}

/// A value that is JSON's null is skipped, as Kafka Streams skips a null value.
fn da<T>(wert: Jackson<Option<T>>) -> Result<T, Refusal> {
    wert.0.ok_or_else(Refusal::skip)
}

/// Takes over a project and its rows.
#[derive(Clone, Copy, Debug)]
pub struct PlusProjekt;

impl Aggregator for PlusProjekt {
    const NAME: &'static str = "plus_projekt";
    const DOC: &'static str = "Takes over a project and the rows that it found; keeps when it was first created.";
    type Key<'a> = &'a [u8];
    type Value<'a> = Jackson<Verknuepft<&'a RawValue, Option<&'a RawValue>, Option<&'a RawValue>>>;
    type State = ProjektState;

    fn apply<'a>(
        &self,
        _key: &'a [u8],
        aggregat: &mut Jackson<ProjektAggregat<'a>>,
        Jackson(verknuepft): Self::Value<'a>,
        timestamp: i64,
    ) -> Result<(), Refusal> {
        if aggregat.projekt_erstellt_am.is_none() {
            let Erstellt { erstellt_am } = read(verknuepft.projekt.get().as_bytes())
                .map_err(|error| Refusal::reject(format!("`projekt` cannot be read: {error}")))?;
            aggregat.projekt_erstellt_am = Some(erstellt_am);
        }
        aggregat.projekt = Some(verknuepft.projekt);
        aggregat.wirtschaftseinheit = verknuepft.wirtschaftseinheit;
        aggregat.mietobjekt = verknuepft.mietobjekt;
        aggregat.geaendert(timestamp);
        Ok(())
    }
}

/// Takes over a status and counts the changes.
#[derive(Clone, Copy, Debug)]
pub struct PlusStatus;

impl Aggregator for PlusStatus {
    const NAME: &'static str = "plus_status";
    const DOC: &'static str = "Takes over a status and counts the records that changed it.";
    type Key<'a> = &'a [u8];
    type Value<'a> = Jackson<Option<Status<'a>>>;
    type State = ProjektState;

    fn apply<'a>(
        &self,
        _key: &'a [u8],
        aggregat: &mut Jackson<ProjektAggregat<'a>>,
        ereignis: Self::Value<'a>,
        timestamp: i64,
    ) -> Result<(), Refusal> {
        let Status { status, geaendert_am } = da(ereignis)?;
        if status.is_none() {
            return Err(Refusal::reject("`status` is missing"));
        }
        aggregat.status_wechsel += i64::from(aggregat.status != status);
        aggregat.status = status;
        aggregat.status_geaendert_am = Some(geaendert_am);
        aggregat.geaendert(timestamp);
        Ok(())
    }
}

/// Adds a finding.
#[derive(Clone, Copy, Debug)]
pub struct PlusBefund;

impl Aggregator for PlusBefund {
    const NAME: &'static str = "plus_befund";
    const DOC: &'static str = "Counts a finding and keeps how bad it is.";
    type Key<'a> = &'a [u8];
    type Value<'a> = Jackson<Option<Befund<'a>>>;
    type State = ProjektState;

    fn apply<'a>(
        &self,
        _key: &'a [u8],
        aggregat: &mut Jackson<ProjektAggregat<'a>>,
        ereignis: Self::Value<'a>,
        timestamp: i64,
    ) -> Result<(), Refusal> {
        let Befund { befund_id, schwere } = da(ereignis)?;
        aggregat.befunde.plus("befundId", befund_id, schwere)?;
        aggregat.geaendert(timestamp);
        Ok(())
    }
}

/// Adds a task.
#[derive(Clone, Copy, Debug)]
pub struct PlusAufgabe;

impl Aggregator for PlusAufgabe {
    const NAME: &'static str = "plus_aufgabe";
    const DOC: &'static str = "Counts a task and keeps whether it is done.";
    type Key<'a> = &'a [u8];
    type Value<'a> = Jackson<Option<Aufgabe<'a>>>;
    type State = ProjektState;

    fn apply<'a>(
        &self,
        _key: &'a [u8],
        aggregat: &mut Jackson<ProjektAggregat<'a>>,
        ereignis: Self::Value<'a>,
        timestamp: i64,
    ) -> Result<(), Refusal> {
        let Aufgabe { aufgabe_id, erledigt } = da(ereignis)?;
        let wert = if erledigt { "ERLEDIGT" } else { "OFFEN" };
        aggregat.aufgaben.plus("aufgabeId", aufgabe_id, Some(wert.into()))?;
        aggregat.geaendert(timestamp);
        Ok(())
    }
}

/// Adds work done.
#[derive(Clone, Copy, Debug)]
pub struct PlusDurchfuehrung;

impl Aggregator for PlusDurchfuehrung {
    const NAME: &'static str = "plus_durchfuehrung";
    const DOC: &'static str = "Counts work done and keeps the company.";
    type Key<'a> = &'a [u8];
    type Value<'a> = Jackson<Option<Durchfuehrung<'a>>>;
    type State = ProjektState;

    fn apply<'a>(
        &self,
        _key: &'a [u8],
        aggregat: &mut Jackson<ProjektAggregat<'a>>,
        ereignis: Self::Value<'a>,
        timestamp: i64,
    ) -> Result<(), Refusal> {
        let Durchfuehrung { durchfuehrung_id, firma } = da(ereignis)?;
        aggregat.durchfuehrungen.plus("durchfuehrungId", durchfuehrung_id, firma)?;
        aggregat.geaendert(timestamp);
        Ok(())
    }
}

/// Adds a group.
#[derive(Clone, Copy, Debug)]
pub struct PlusGruppe;

impl Aggregator for PlusGruppe {
    const NAME: &'static str = "plus_gruppe";
    const DOC: &'static str = "Counts a group and keeps its name.";
    type Key<'a> = &'a [u8];
    type Value<'a> = Jackson<Option<Gruppe<'a>>>;
    type State = ProjektState;

    fn apply<'a>(
        &self,
        _key: &'a [u8],
        aggregat: &mut Jackson<ProjektAggregat<'a>>,
        ereignis: Self::Value<'a>,
        timestamp: i64,
    ) -> Result<(), Refusal> {
        let Gruppe { gruppe_id, name } = da(ereignis)?;
        aggregat.gruppen.plus("gruppeId", gruppe_id, name)?;
        aggregat.geaendert(timestamp);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use weir_guest::testing::Aggregate;

    use super::*;

    /// A key without a state.
    fn leer() -> Aggregate<ProjektState> {
        Aggregate::new("P1")
    }

    #[test]
    fn a_record_without_what_must_be_there_is_rejected_and_changes_nothing() {
        let mut aggregat = leer();
        aggregat.apply(PlusBefund, json!({"befundId": "B1", "schwere": "HOCH"}), 1).unwrap();
        let before = aggregat.state().clone();
        let refusals = [
            aggregat.apply(PlusStatus, json!({"status": null}), 2),
            aggregat.apply(PlusBefund, json!({"schwere": "HOCH"}), 2),
            aggregat.apply(PlusAufgabe, json!({"erledigt": true}), 2),
            aggregat.apply(PlusDurchfuehrung, json!({}), 2),
            aggregat.apply(PlusGruppe, json!({"gruppeId": null}), 2),
            aggregat.apply(PlusGruppe, "no JSON", 2),
        ];
        let reasons: Vec<_> = refusals.into_iter().map(|refusal| refusal.unwrap_err().to_string()).collect();
        assert_eq!(
            reasons,
            [
                "rejected: `status` is missing",
                "rejected: `befundId` is missing",
                "rejected: `aufgabeId` is missing",
                "rejected: `durchfuehrungId` is missing",
                "rejected: `gruppeId` is missing",
                "rejected: the value cannot be read: expected ident at line 1 column 2",
            ]
        );
        assert_eq!(*aggregat.state(), before);
    }

    #[test]
    fn a_value_that_is_json_null_is_skipped() {
        let mut aggregat = leer();
        assert_eq!(aggregat.apply(PlusStatus, "null", 1), Err(Refusal::skip()));
        assert!(aggregat.state().is_null());
    }

    #[test]
    fn a_state_that_cannot_be_read_stops_the_task() {
        let mut aggregat = leer().with_state(r#"{"befunde":[]}"#);
        let refusal = aggregat.apply(PlusBefund, json!({"befundId": "B1"}), 1).unwrap_err();
        assert_eq!(refusal.verdict, weir_guest::Verdict::Fail);
        assert_eq!(aggregat.state().text(), r#"{"befunde":[]}"#);
    }

    #[test]
    fn each_version_reads_the_others_state() {
        let mut aggregat = leer();
        aggregat.apply(PlusStatus, json!({"status": "NEU"}), 5).unwrap();
        let mut states = Vec::new();
        for field in [Value::Null, json!(4)] {
            let mut state = aggregat.state().json();
            state["letzteAenderungAm"] = field;
            let mut next = leer().with_state(state);
            next.apply(PlusStatus, json!({"status": "ALT"}), 6).unwrap();
            states.push(next.state().json());
        }
        for state in states {
            assert_eq!((&state["status"], &state["statusWechsel"]), (&json!("ALT"), &json!(2)));
            let when = if cfg!(feature = "v2") { Some(&json!(6)) } else { None };
            assert_eq!(state.get("letzteAenderungAm"), when);
        }
    }
}
