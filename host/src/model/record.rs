//! Records as the data path carries them.

use std::sync::Arc;

use bytes::Bytes;

/// A record header: a name and an optional value, as Kafka has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The header's name; names may repeat.
    pub name: Arc<str>,
    /// The header's value.
    pub value: Option<Bytes>,
}

/// A record's headers in order; costs nothing when there are none.
pub type Headers = Vec<Header>;

/// A record of a topic, or on its way to one. Cloning shares the bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The key, `None` for null.
    pub key: Option<Bytes>,
    /// The value, `None` for null (on a table: a tombstone).
    pub value: Option<Bytes>,
    /// Record timestamp in milliseconds since the epoch.
    pub timestamp: i64,
    /// Offset in the partition it was read from; 0 for a record that a node made.
    pub offset: i64,
    /// Headers in order.
    pub headers: Headers,
}

impl Record {
    /// The bytes of key, value and headers: what byte quotas count.
    pub fn size(&self) -> usize {
        let headers: usize = self.headers.iter().map(|h| h.name.len() + h.value.as_ref().map_or(0, Bytes::len)).sum();
        self.key.as_ref().map_or(0, Bytes::len) + self.value.as_ref().map_or(0, Bytes::len) + headers
    }
}
