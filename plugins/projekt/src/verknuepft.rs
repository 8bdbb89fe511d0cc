//! The two left joins: a project and the rows that it found.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use weir_guest::{Joiner, Refusal};

use crate::ereignis::Projekt;
use crate::jackson::Jackson;
use crate::stamm::{Mietobjekt, Wirtschaftseinheit};

/// What the two joins make of one project. Each join reads and writes only its own part; what another has written goes on
/// as the text that it is.
#[derive(Deserialize, Serialize)]
pub struct Verknuepft<P, W, M> {
    /// The project.
    pub(crate) projekt: P,
    /// Its row in `wirtschaftseinheiten`.
    pub(crate) wirtschaftseinheit: W,
    /// Its row in `mietobjekte`.
    pub(crate) mietobjekt: M,
}

/// A row that is absent, or JSON's null, which Kafka Streams' deserialisers make the same of.
type Zeile<T> = Option<Jackson<Option<T>>>;

/// Joins a project with its row in `wirtschaftseinheiten`.
#[derive(Clone, Copy, Debug)]
pub struct MitWirtschaftseinheit;

impl Joiner for MitWirtschaftseinheit {
    const NAME: &'static str = "mit_wirtschaftseinheit";
    const DOC: &'static str = "Joins a projekte record with its row in wirtschaftseinheiten, or null.";
    type Key<'a> = Option<&'a [u8]>;
    type Value<'a> = Jackson<Option<Projekt<'a>>>;
    type Row<'a> = Zeile<Wirtschaftseinheit<'a>>;
    type Joined<'a> = Jackson<Verknuepft<Projekt<'a>, Option<Wirtschaftseinheit<'a>>, ()>>;

    fn join<'a>(
        &'a self,
        _key: Option<&'a [u8]>,
        Jackson(projekt): Self::Value<'a>,
        zeile: Self::Row<'a>,
    ) -> Result<Self::Joined<'a>, Refusal> {
        let projekt = projekt.ok_or_else(Refusal::skip)?;
        Ok(Jackson(Verknuepft { projekt, wirtschaftseinheit: zeile.and_then(|Jackson(zeile)| zeile), mietobjekt: () }))
    }
}

/// Joins what the first join made with the row in `mietobjekte`.
#[derive(Clone, Copy, Debug)]
pub struct MitMietobjekt;

impl Joiner for MitMietobjekt {
    const NAME: &'static str = "mit_mietobjekt";
    const DOC: &'static str = "Joins the result of mit_wirtschaftseinheit with its row in mietobjekte, or null.";
    type Key<'a> = Option<&'a [u8]>;
    type Value<'a> = Jackson<Verknuepft<&'a RawValue, Option<&'a RawValue>, ()>>;
    type Row<'a> = Zeile<Mietobjekt<'a>>;
    type Joined<'a> = Jackson<Verknuepft<&'a RawValue, Option<&'a RawValue>, Option<Mietobjekt<'a>>>>;

    fn join<'a>(
        &'a self,
        _key: Option<&'a [u8]>,
        Jackson(links): Self::Value<'a>,
        zeile: Self::Row<'a>,
    ) -> Result<Self::Joined<'a>, Refusal> {
        let Verknuepft { projekt, wirtschaftseinheit, mietobjekt: () } = links;
        Ok(Jackson(Verknuepft { projekt, wirtschaftseinheit, mietobjekt: zeile.and_then(|Jackson(zeile)| zeile) }))
    }
}

#[cfg(test)]
mod tests {
    use weir_guest::testing;

    use super::*;

    /// Both joins of one project.
    fn verknuepfe(
        projekt: &str,
        wirtschaftseinheit: Option<&str>,
        mietobjekt: Option<&str>,
    ) -> Result<String, Refusal> {
        let erste = testing::join(&MitWirtschaftseinheit, "P1", projekt, wirtschaftseinheit)?;
        let zweite = testing::join(&MitMietobjekt, "P1", erste, mietobjekt)?;
        Ok(zweite.text().to_owned())
    }

    /// A project with no field set.
    const LEER: &str = r#"{"projektId":null,"art":null,"name":null,"beschreibung":null,"erstelltAm":0,"budgetCent":0,"verantwortlich":null,"version":0}"#;

    #[test]
    fn rows_that_are_missing_are_null() {
        let want = format!(r#"{{"projekt":{LEER},"wirtschaftseinheit":null,"mietobjekt":null}}"#);
        assert_eq!(verknuepfe("{}", None, None).unwrap(), want);
        assert_eq!(verknuepfe(" {} ", Some("null"), Some("null")).unwrap(), want);
    }

    #[test]
    fn missing_and_null_fields_are_jacksons_defaults_and_unknown_ones_are_ignored() {
        let zeile = r#"{"neu":[{"a":1}],"id":"W","baujahr":null,"einheiten":3}"#;
        let want = format!(
            r#"{{"projekt":{LEER},"wirtschaftseinheit":{{"id":"W","name":null,"strasse":null,"plz":null,"ort":null,"eigentuemer":null,"baujahr":0,"einheiten":3,"version":0}},"mietobjekt":{{"id":null,"bezeichnung":null,"flaecheDm2":0,"zimmer":0,"etage":-1,"mieter":null,"kaltmieteCent":3000000000,"version":0}}}}"#
        );
        let mietobjekt = r#"{ "kaltmieteCent": 3000000000, "etage": -1 }"#;
        assert_eq!(verknuepfe(r#"{"erstelltAm":null}"#, Some(zeile), Some(mietobjekt)).unwrap(), want);
    }

    #[test]
    fn a_value_that_is_json_null_is_skipped_as_kafka_streams_skips_null() {
        assert_eq!(verknuepfe("null", None, None), Err(Refusal::skip()));
    }

    #[test]
    fn what_cannot_be_read_is_rejected_in_serdes_words() {
        let refusal = |projekt, zeile| verknuepfe(projekt, zeile, None).unwrap_err().to_string();
        assert_eq!(
            refusal(r#"{"budgetCent":"viel"}"#, None),
            "rejected: the value cannot be read: invalid type: string \"viel\", expected i64 at line 1 column 20"
        );
        assert_eq!(
            refusal("{}", Some(r#"{"baujahr":3000000000}"#)),
            "rejected: the row cannot be read: invalid value: integer `3000000000`, expected i32 at line 1 column 21"
        );
    }
}
