//! Records with headers, as transformers see them.

use std::borrow::Cow;

/// A record: key, value, timestamp and headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record<'a, K, V> {
    /// The key.
    pub key: K,
    /// The value.
    pub value: V,
    /// The record timestamp in milliseconds since the epoch.
    pub timestamp: i64,
    /// The headers in order.
    pub headers: Headers<'a>,
}

impl<'a, K, V> Record<'a, K, V> {
    /// A record without headers.
    pub fn new(key: K, value: V, timestamp: i64) -> Self {
        Self { key, value, timestamp, headers: Headers::default() }
    }

    /// The same record with another key.
    pub fn with_key<L>(self, key: L) -> Record<'a, L, V> {
        Record { key, value: self.value, timestamp: self.timestamp, headers: self.headers }
    }

    /// The same record with another value.
    pub fn with_value<W>(self, value: W) -> Record<'a, K, W> {
        Record { key: self.key, value, timestamp: self.timestamp, headers: self.headers }
    }
}

/// A record header: a name and an optional value, as Kafka has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// Its name; names may repeat.
    pub name: Cow<'a, str>,
    /// Its value; `None` is null.
    pub value: Option<Cow<'a, [u8]>>,
}

/// Headers in order; costs nothing when there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers<'a>(Vec<Header<'a>>);

impl<'a> Headers<'a> {
    /// The last header of that name, as Kafka's `lastHeader`.
    pub fn get(&self, name: &str) -> Option<&Header<'a>> {
        self.0.iter().rev().find(|header| header.name == name)
    }

    /// Adds a header behind those that are there.
    pub fn add(&mut self, name: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, [u8]>>) {
        self.0.push(Header { name: name.into(), value: Some(value.into()) });
    }

    /// Removes all headers of that name and adds one behind those that are left.
    pub fn set(&mut self, name: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, [u8]>>) {
        let name = name.into();
        self.remove(&name);
        self.add(name, value);
    }

    /// Removes all headers of that name.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|header| header.name != name);
    }

    /// The headers in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Header<'a>> {
        self.0.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> FromIterator<Header<'a>> for Headers<'a> {
    fn from_iter<I: IntoIterator<Item = Header<'a>>>(headers: I) -> Self {
        Self(headers.into_iter().collect())
    }
}

impl<'h, 'a> IntoIterator for &'h Headers<'a> {
    type Item = &'h Header<'a>;
    type IntoIter = std::slice::Iter<'h, Header<'a>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
