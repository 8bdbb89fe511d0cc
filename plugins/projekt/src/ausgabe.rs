//! The output: only aggregates that have a project, each with its type in a header.

use serde::Deserialize;
use serde::de::IgnoredAny;
use weir_guest::{Output, Record, Refusal, Transformer};

use crate::jackson::read;

/// Drops aggregates without a project and sets the header `eventType`.
#[derive(Clone, Copy, Debug)]
pub struct Ausgabe;

impl Transformer for Ausgabe {
    const NAME: &'static str = "ausgabe";
    const DOC: &'static str = "Drops aggregates without a project; sets the header eventType.";
    type Key<'a> = Option<&'a [u8]>;
    type Value<'a> = Option<&'a [u8]>;

    fn transform<'a>(
        &self,
        mut record: Record<'a, Option<&'a [u8]>, Option<&'a [u8]>>,
        output: &mut Output,
    ) -> Result<(), Refusal> {
        let Some(aggregat) = record.value else { return Ok(()) };
        if hat_projekt(aggregat)? {
            record.headers.set("eventType", b"ProjektAggregat");
            output.emit(&record)?;
        }
        Ok(())
    }
}

/// Whether an aggregate has a project. The aggregators write that first, so that most need not be read.
fn hat_projekt(aggregat: &[u8]) -> Result<bool, Refusal> {
    /// The one field that matters.
    #[derive(Deserialize)]
    struct Kopf {
        /// The project.
        projekt: Option<IgnoredAny>,
    }

    if aggregat.starts_with(br#"{"projekt":{"#) {
        return Ok(true);
    }
    let kopf: Kopf = read(aggregat).map_err(|error| Refusal::reject(format!("the value cannot be read: {error}")))?;
    Ok(kopf.projekt.is_some())
}

#[cfg(test)]
mod tests {
    use weir_guest::testing::{Record, record, transform};

    use super::*;

    fn ausgabe(value: &str) -> Result<Vec<Record>, Refusal> {
        let mut input = record("P1", value);
        input.timestamp = 7;
        input.headers.add("eventType", b"old");
        input.headers.add("trace", b"1");
        transform(&Ausgabe, input)
    }

    #[test]
    fn the_header_replaces_those_of_its_name_and_stands_last() {
        for value in [r#"{"projekt":{},"status":null}"#, r#"{ "status": null, "projekt": {} }"#] {
            let mut want = record("P1", value);
            want.timestamp = 7;
            want.headers.add("trace", b"1");
            want.headers.add("eventType", b"ProjektAggregat");
            assert_eq!(ausgabe(value).unwrap(), [want]);
        }
    }

    #[test]
    fn aggregates_without_a_project_are_dropped() {
        for value in [r#"{"projekt":null}"#, r#"{"status":"x"}"#] {
            assert_eq!(ausgabe(value).unwrap(), [], "{value}");
        }
        assert_eq!(transform(&Ausgabe, record("P1", None::<&str>)).unwrap(), []);
    }

    #[test]
    fn what_is_no_aggregate_is_rejected() {
        for value in ["{", "[1]"] {
            assert_eq!(ausgabe(value).unwrap_err().verdict, weir_guest::Verdict::Reject, "{value}");
        }
    }
}
