//! Joiners: a stream record and a table's row become one value.

use crate::bindings::joiner::exports::weir::plugin::joiner::Joined;
use crate::bindings::types::Fields;
use crate::flat::{Reader, Writer, broken};
use crate::{Decode, Encode, Refusal};

/// Joins a stream record with a table's row.
///
/// A left join also asks for records that found no row: then `Row` is an `Option`. If it is not, such a record is rejected.
///
/// ```
/// use serde_json::json;
/// use weir_guest::{Joiner, Json, Refusal, testing};
///
/// /// Puts the customer's country beside an order's sum.
/// struct WithCountry;
///
/// impl Joiner for WithCountry {
///     const NAME: &'static str = "with_country";
///     const DOC: &'static str = "Puts the customer's country beside an order's sum.";
///     type Key<'a> = &'a [u8];
///     type Value<'a> = Json<u64>;
///     type Row<'a> = Option<&'a str>;
///     type Joined<'a> = Json<(u64, &'a str)>;
///
///     fn join<'a>(&self, _: &'a [u8], sum: Json<u64>, country: Option<&'a str>) -> Result<Self::Joined<'a>, Refusal> {
///         Ok(Json((sum.0, country.unwrap_or("unknown"))))
///     }
/// }
///
/// let joined = testing::join(&WithCountry, "C7", json!(12), Some("DE")).unwrap();
/// assert_eq!(joined.json(), json!([12, "DE"]));
/// ```
pub trait Joiner: Send + Sync + 'static {
    /// What the topology file calls it, after the plugin's name and a dot: lower case, digits, `_` and `-`.
    const NAME: &'static str;
    /// One sentence for people.
    const DOC: &'static str;
    /// The stream record's key; an `Option` where it may be null.
    type Key<'a>: Decode<'a>;
    /// The stream record's value.
    type Value<'a>: Decode<'a>;
    /// The table's row; an `Option` in a left join.
    type Row<'a>: Decode<'a>;
    /// The joined value; an `Option` where it may be null.
    type Joined<'a>: Encode;

    /// Joins one record with the row that it found.
    fn join<'a>(
        &'a self,
        key: Self::Key<'a>,
        value: Self::Value<'a>,
        row: Self::Row<'a>,
    ) -> Result<Self::Joined<'a>, Refusal>;
}

/// A joiner over whole batches in the flat form.
pub(crate) trait JoinBatch: Send + Sync {
    /// Answers the interface's `join`.
    fn join_batch(&self, pairs: &Fields) -> Joined;
}

/// Fields a pair: key, value, row.
const FIELDS: usize = 3;

impl<J: Joiner> JoinBatch for J {
    fn join_batch(&self, pairs: &Fields) -> Joined {
        let mut reader = Reader::new(pairs);
        if !reader.len().is_multiple_of(FIELDS) {
            broken("pairs that are not three fields each");
        }
        let count = reader.len() / FIELDS;
        // Joined values hold both sides, as a rule, and names of fields.
        let mut values = Writer::with_capacity(pairs.bytes.len() + 64 * count, count);
        let mut refused = Vec::new();
        for index in (0..).take(count) {
            let (key, value, row) = (reader.field(), reader.field(), reader.field());
            if let Err(refusal) = join(self, key, value, row, &mut values) {
                values.field(None);
                refused.push(refusal.at(index));
            }
        }
        Joined { values: values.finish(), refused }
    }
}

/// Joins one pair; writes the joined value, or nothing and says why.
fn join<'a, J: Joiner>(
    joiner: &'a J,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    row: Option<&'a [u8]>,
    into: &mut Writer,
) -> Result<(), Refusal> {
    let key = J::Key::decode(key).map_err(|error| Refusal::reject(format!("the key cannot be read: {error}")))?;
    let value =
        J::Value::decode(value).map_err(|error| Refusal::reject(format!("the value cannot be read: {error}")))?;
    let row = J::Row::decode(row).map_err(|error| Refusal::reject(format!("the row cannot be read: {error}")))?;
    into.encode(&joiner.join(key, value, row)?)
        .map_err(|error| Refusal::reject(format!("the joined value cannot be written: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Json;

    /// Divides the value by the row.
    struct Divide;

    impl Joiner for Divide {
        const NAME: &'static str = "divide";
        const DOC: &'static str = "Divides the value by the row.";
        type Key<'a> = &'a str;
        type Value<'a> = Json<i64>;
        type Row<'a> = Json<i64>;
        type Joined<'a> = Option<String>;

        fn join(&self, key: &str, value: Json<i64>, row: Json<i64>) -> Result<Option<String>, Refusal> {
            if key == "none" {
                return Ok(None);
            }
            let quotient = value.0.checked_div(row.0).ok_or_else(|| Refusal::reject("division by 0"))?;
            Ok(Some(quotient.to_string()))
        }
    }

    #[test]
    fn each_pair_has_a_field_and_the_refused_ones_a_reason() {
        let pairs: &[[Option<&str>; 3]] = &[
            [Some("a"), Some("8"), Some("2")],
            [Some("a"), Some("8"), Some("0")],
            [Some("none"), Some("8"), Some("2")],
            [None, Some("8"), Some("2")],
            [Some("a"), Some("eight"), Some("2")],
            [Some("a"), Some("8"), None],
            [Some("a"), Some("9"), Some("3")],
        ];
        let mut writer = Writer::default();
        pairs.iter().flatten().for_each(|field| writer.field(field.map(str::as_bytes)));
        let Joined { values, refused } = Divide.join_batch(&writer.finish());
        let mut reader = Reader::new(&values);
        let got: Vec<_> = (0..reader.len()).map(|_| reader.field().map(|f| str::from_utf8(f).unwrap())).collect();
        assert_eq!(got, [Some("4"), None, None, None, None, None, Some("3")]);
        let reasons: Vec<_> = refused.iter().map(|refusal| (refusal.index, refusal.reason.as_str())).collect();
        assert_eq!(
            reasons,
            [
                (1, "division by 0"),
                (3, "the key cannot be read: it is null"),
                (4, "the value cannot be read: expected value at line 1 column 1"),
                (5, "the row cannot be read: it is null"),
            ]
        );
    }
}
