//! Transformers: none, one or more records out of one.

use std::borrow::Cow;

use crate::bindings::transformer::exports::weir::plugin::transformer::{Records, Transformed};
use crate::flat::{Reader, Writer, broken};
use crate::{CodecError, Decode, Encode, Header, Headers, Record, Refusal};

/// Makes none, one or more records out of one: filters, maps, splits, sets headers.
///
/// ```
/// use serde_json::json;
/// use weir_guest::{Output, Record, Refusal, Transformer, testing};
///
/// /// Makes a record of each word and names its language in a header.
/// struct Words;
///
/// impl Transformer for Words {
///     const NAME: &'static str = "words";
///     const DOC: &'static str = "Makes a record of each word and names its language in a header.";
///     type Key<'a> = Option<&'a [u8]>;
///     type Value<'a> = &'a str;
///
///     fn transform<'a>(
///         &self,
///         mut record: Record<'a, Option<&'a [u8]>, &'a str>,
///         output: &mut Output,
///     ) -> Result<(), Refusal> {
///         record.headers.set("language", b"en");
///         for word in record.value.split_whitespace() {
///             output.emit(&record.clone().with_value(word))?;
///         }
///         Ok(())
///     }
/// }
///
/// let words = testing::transform(&Words, testing::record("k", "a weir")).unwrap();
/// assert_eq!(words.iter().map(|word| word.value.text()).collect::<Vec<_>>(), ["a", "weir"]);
/// ```
pub trait Transformer: Send + Sync + 'static {
    /// What the topology file calls it, after the plugin's name and a dot: lower case, digits, `_` and `-`.
    const NAME: &'static str;
    /// One sentence for people.
    const DOC: &'static str;
    /// The record's key; an `Option` where it may be null.
    type Key<'a>: Decode<'a>;
    /// The record's value; an `Option` where it may be null.
    type Value<'a>: Decode<'a>;

    /// Hands what becomes of `record` to `output`: nothing for a filter that drops it. If it refuses the record, what it
    /// has handed over is dropped.
    fn transform<'a>(
        &self,
        record: Record<'a, Self::Key<'a>, Self::Value<'a>>,
        output: &mut Output,
    ) -> Result<(), Refusal>;
}

/// Takes the records that a transformer makes.
#[derive(Debug)]
pub struct Output {
    /// Keys, values and headers.
    fields: Writer,
    /// The record timestamp of each.
    timestamps: Vec<i64>,
    /// How many headers each has.
    headers: Vec<u32>,
    /// The record that each was made of.
    origins: Vec<u32>,
    /// The record that is being processed.
    origin: u32,
}

impl Output {
    /// Hands on a record.
    pub fn emit(&mut self, record: &Record<'_, impl Encode, impl Encode>) -> Result<(), Refusal> {
        let mark = self.fields.mark();
        let written = self.write(record);
        if written.is_err() {
            self.fields.rewind(mark);
        }
        written.map_err(|error| Refusal::reject(format!("a record cannot be written: {error}")))?;
        self.timestamps.push(record.timestamp);
        self.headers.push(u32::try_from(record.headers.len()).unwrap_or_else(|_| broken("too many headers")));
        self.origins.push(self.origin);
        Ok(())
    }

    /// Writes the fields of a record.
    fn write(&mut self, record: &Record<'_, impl Encode, impl Encode>) -> Result<(), CodecError> {
        self.fields.encode(&record.key)?;
        self.fields.encode(&record.value)?;
        for header in &record.headers {
            self.fields.field(Some(header.name.as_bytes()));
            self.fields.field(header.value.as_deref());
        }
        Ok(())
    }

    /// Drops what was made of the record that is being processed.
    fn drop_current(&mut self, before: crate::flat::Mark) {
        self.fields.rewind(before);
        while self.origins.pop_if(|origin| *origin == self.origin).is_some() {
            self.timestamps.pop();
            self.headers.pop();
        }
    }
}

/// A transformer over whole batches in the flat form.
pub(crate) trait TransformBatch: Send + Sync {
    /// Answers the interface's `transform`.
    fn transform_batch(&self, records: &Records) -> Transformed;
}

impl<T: Transformer> TransformBatch for T {
    fn transform_batch(&self, records: &Records) -> Transformed {
        let count = records.timestamps.len();
        if records.headers.len() != count {
            broken("timestamps and header counts of different length");
        }
        let mut reader = Reader::new(&records.fields);
        let mut output = Output {
            fields: Writer::with_capacity(
                records.fields.bytes.len() + 32 * count,
                records.fields.ends.len() + 2 * count,
            ),
            timestamps: Vec::with_capacity(count),
            headers: Vec::with_capacity(count),
            origins: Vec::with_capacity(count),
            origin: 0,
        };
        let mut refused = Vec::new();
        for ((index, &timestamp), &headers) in (0..).zip(&records.timestamps).zip(&records.headers) {
            output.origin = index;
            let before = output.fields.mark();
            let mut rest = reader;
            reader.skip(2 + 2 * headers as usize);
            if let Err(refusal) = transform(self, &mut rest, timestamp, headers, &mut output) {
                output.drop_current(before);
                refused.push(refusal.at(index));
            }
        }
        if !reader.is_empty() {
            broken("more fields than records");
        }
        let Output { fields, timestamps, headers, origins, .. } = output;
        Transformed { records: Records { fields: fields.finish(), timestamps, headers }, origins, refused }
    }
}

/// Transforms one record, whose fields come next in `reader`.
fn transform<T: Transformer>(
    transformer: &T,
    reader: &mut Reader<'_>,
    timestamp: i64,
    headers: u32,
    output: &mut Output,
) -> Result<(), Refusal> {
    let key =
        T::Key::decode(reader.field()).map_err(|error| Refusal::reject(format!("the key cannot be read: {error}")))?;
    let value = T::Value::decode(reader.field())
        .map_err(|error| Refusal::reject(format!("the value cannot be read: {error}")))?;
    let headers = (0..headers)
        .map(|_| {
            let name = <&str>::decode(reader.field())
                .map_err(|error| Refusal::reject(format!("a header's name cannot be read: {error}")))?;
            Ok(Header { name: Cow::Borrowed(name), value: reader.field().map(Cow::Borrowed) })
        })
        .collect::<Result<Headers<'_>, Refusal>>()?;
    transformer.transform(Record { key, value, timestamp, headers }, output)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a record of each word; stops at the word "bad", after it has emitted those before.
    struct Words;

    impl Transformer for Words {
        const NAME: &'static str = "words";
        const DOC: &'static str = "Makes a record of each word.";
        type Key<'a> = Option<&'a str>;
        type Value<'a> = &'a str;

        fn transform<'a>(
            &self,
            record: Record<'a, Option<&'a str>, &'a str>,
            output: &mut Output,
        ) -> Result<(), Refusal> {
            for word in record.value.split_whitespace() {
                if word == "bad" {
                    return Err(Refusal::reject("a bad word"));
                }
                output.emit(&record.clone().with_value(word))?;
            }
            Ok(())
        }
    }

    /// The records of a batch and what becomes of them.
    fn transform_all(values: &[Option<&str>]) -> Transformed {
        let mut fields = Writer::default();
        for value in values {
            fields.field(None);
            fields.field(value.map(str::as_bytes));
            fields.field(Some(b"h"));
            fields.field(None);
        }
        let records = Records {
            fields: fields.finish(),
            timestamps: (10..).take(values.len()).collect(),
            headers: vec![1; values.len()],
        };
        Words.transform_batch(&records)
    }

    #[test]
    fn records_know_what_they_were_made_of_and_a_refused_one_leaves_none() {
        let Transformed { records, origins, refused } =
            transform_all(&[Some("a b"), Some("c bad d"), Some(""), None, Some("e")]);
        let mut reader = Reader::new(&records.fields);
        let mut words = Vec::new();
        while !reader.is_empty() {
            assert_eq!(reader.field(), None, "the key");
            words.push(str::from_utf8(reader.field().unwrap()).unwrap());
            assert_eq!((reader.field(), reader.field()), (Some(b"h".as_slice()), None), "the header");
        }
        assert_eq!(words, ["a", "b", "e"]);
        assert_eq!((records.timestamps, records.headers, origins), (vec![10, 10, 14], vec![1; 3], vec![0, 0, 4]));
        let reasons: Vec<_> = refused.iter().map(|refusal| (refusal.index, refusal.reason.as_str())).collect();
        assert_eq!(reasons, [(1, "a bad word"), (3, "the value cannot be read: it is null")]);
    }
}
