//! Tests of a plugin's functions, natively, without wasm.
//!
//! Everything goes through the same code as a call of the host: fields are decoded and encoded, refusals come as the host
//! would get them. Inputs are anything that is [`Input`]: text, bytes, JSON values, or `None` for null.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::aggregator::{Aggregate as Functions, Apply, FoldRun, fold_batch};
use crate::bindings::aggregator::exports::weir::plugin::aggregator::Runs;
use crate::bindings::transformer::exports::weir::plugin::transformer::Records;
use crate::bindings::types;
use crate::flat::{Reader, Writer};
use crate::joiner::JoinBatch;
use crate::transformer::TransformBatch;
use crate::{Aggregator, Header, Headers, Joiner, Refusal, State, Stores, Transformer};

/// Something to call a function with.
pub trait Input {
    /// Its bytes; `None` is null.
    fn into_field(self) -> Option<Vec<u8>>;
}

impl Input for &str {
    fn into_field(self) -> Option<Vec<u8>> {
        Some(self.as_bytes().to_vec())
    }
}

impl Input for &[u8] {
    fn into_field(self) -> Option<Vec<u8>> {
        Some(self.to_vec())
    }
}

impl Input for Vec<u8> {
    fn into_field(self) -> Option<Vec<u8>> {
        Some(self)
    }
}

impl Input for Value {
    fn into_field(self) -> Option<Vec<u8>> {
        Some(self.to_string().into_bytes())
    }
}

impl Input for Field {
    fn into_field(self) -> Option<Vec<u8>> {
        self.0
    }
}

impl<T: Input> Input for Option<T> {
    fn into_field(self) -> Option<Vec<u8>> {
        self.and_then(Input::into_field)
    }
}

/// A key, value or state that came out of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Field(
    /// Its bytes; `None` is null.
    pub Option<Vec<u8>>,
);

#[expect(clippy::expect_used, reason = "in a test, an output that is not what it should be is a failure")]
impl Field {
    /// Whether it is null.
    pub fn is_null(&self) -> bool {
        self.0.is_none()
    }

    /// Its bytes.
    ///
    /// # Panics
    ///
    /// When it is null.
    pub fn bytes(&self) -> &[u8] {
        self.0.as_deref().expect("the field is null")
    }

    /// Its text.
    ///
    /// # Panics
    ///
    /// When it is null or no UTF-8.
    pub fn text(&self) -> &str {
        str::from_utf8(self.bytes()).expect("the field is no text")
    }

    /// Its JSON value.
    ///
    /// # Panics
    ///
    /// When it is null or no JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(self.bytes()).expect("the field is no JSON")
    }
}

/// Fields in the flat form.
fn flat(fields: impl IntoIterator<Item = Option<Vec<u8>>>) -> types::Fields {
    let mut writer = Writer::default();
    for field in fields {
        writer.field(field.as_deref());
    }
    writer.finish()
}

/// The next field.
fn take(reader: &mut Reader<'_>) -> Field {
    Field(reader.field().map(<[u8]>::to_vec))
}

/// The answer to a call with one record: its one refusal, or what `read` finds.
fn answer<T>(refused: Vec<types::Refusal>, read: impl FnOnce() -> T) -> Result<T, Refusal> {
    refused.into_iter().next().map_or_else(|| Ok(read()), |refusal| Err(Refusal::of(refusal)))
}

/// Joins one record with a row.
pub fn join<J: Joiner>(joiner: &J, key: impl Input, value: impl Input, row: impl Input) -> Result<Field, Refusal> {
    let pair = [key.into_field(), value.into_field(), row.into_field()];
    let joined = joiner.join_batch(&flat(pair));
    answer(joined.refused, || take(&mut Reader::new(&joined.values)))
}

/// The state of one key, to which changes are applied one by one.
pub struct Aggregate<S: State> {
    /// The key.
    key: Vec<u8>,
    /// The state after the last change.
    state: Field,
    /// Whose state it is.
    kind: std::marker::PhantomData<S>,
}

impl<S: State> Aggregate<S> {
    /// A key that has no state yet.
    pub fn new(key: impl Input) -> Self {
        Self { key: key.into_field().unwrap_or_default(), state: Field(None), kind: std::marker::PhantomData }
    }

    /// The same key with another state.
    pub fn with_state(self, state: impl Input) -> Self {
        Self { state: Field(state.into_field()), ..self }
    }

    /// Applies one change. A refusal leaves the state as it was.
    pub fn apply(
        &mut self,
        aggregator: impl Aggregator<State = S>,
        value: impl Input,
        timestamp: i64,
    ) -> Result<(), Refusal> {
        let functions: Vec<Box<dyn Apply<S>>> = vec![Box::new(aggregator)];
        let aggregates: Vec<Box<dyn FoldRun>> = vec![Box::new(Functions { first: 0, functions })];
        let runs = Runs {
            fields: flat([Some(self.key.clone()), self.state.0.clone(), value.into_field()]),
            counts: vec![1],
            functions: vec![0],
            timestamps: vec![timestamp],
        };
        let folded = fold_batch(&aggregates, false, &runs);
        self.state = take(&mut Reader::new(&folded.states));
        answer(folded.refused, || ())
    }

    /// The state; null when the key has none.
    pub fn state(&self) -> &Field {
        &self.state
    }
}

/// A record that goes into a transformer or came out of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The key.
    pub key: Field,
    /// The value.
    pub value: Field,
    /// The record timestamp.
    pub timestamp: i64,
    /// The headers in order.
    pub headers: Headers<'static>,
}

/// A record without headers, at timestamp 0.
pub fn record(key: impl Input, value: impl Input) -> Record {
    Record { key: Field(key.into_field()), value: Field(value.into_field()), ..Record::default() }
}

/// Transforms one record.
pub fn transform<T: Transformer>(transformer: &T, record: Record) -> Result<Vec<Record>, Refusal> {
    let mut fields = Writer::default();
    fields.field(record.key.0.as_deref());
    fields.field(record.value.0.as_deref());
    for header in &record.headers {
        fields.field(Some(header.name.as_bytes()));
        fields.field(header.value.as_deref());
    }
    let headers = u32::try_from(record.headers.len()).unwrap_or(u32::MAX);
    let records = Records { fields: fields.finish(), timestamps: vec![record.timestamp], headers: vec![headers] };
    let transformed = transformer.transform_batch(&records);
    answer(transformed.refused, || {
        let Records { fields, timestamps, headers } = transformed.records;
        let mut reader = Reader::new(&fields);
        let read = |(timestamp, headers)| Record {
            key: take(&mut reader),
            value: take(&mut reader),
            timestamp,
            headers: (0..headers).map(|_| header(&mut reader)).collect(),
        };
        timestamps.into_iter().zip(headers).map(read).collect()
    })
}

/// The next header.
fn header(reader: &mut Reader<'_>) -> Header<'static> {
    let name = take(reader).text().to_owned().into();
    Header { name, value: take(reader).0.map(Into::into) }
}

/// Stores in memory, for views.
#[derive(Clone, Debug, Default)]
pub struct MemoryStores(BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>);

impl MemoryStores {
    /// The same stores with an entry more; a store is there once it has had an entry.
    pub fn with(mut self, store: &str, key: impl Input, value: impl Input) -> Self {
        let entries = self.0.entry(store.to_owned()).or_default();
        let key = key.into_field().unwrap_or_default();
        match value.into_field() {
            Some(value) => entries.insert(key, value),
            None => entries.remove(&key),
        };
        self
    }

    /// A store by its name.
    fn store(&self, name: &str) -> Result<&BTreeMap<Vec<u8>, Vec<u8>>, String> {
        self.0.get(name).ok_or_else(|| format!("no store {name}"))
    }
}

impl Stores for MemoryStores {
    fn get(&self, store: &str, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        Ok(self.store(store)?.get(key).cloned())
    }

    fn count(&self, store: &str) -> Result<u64, String> {
        Ok(self.store(store)?.len() as u64)
    }
}
