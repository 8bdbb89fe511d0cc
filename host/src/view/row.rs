//! An entry as JSON.

use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};
use serde_json::value::RawValue;

use crate::model::Entry;

/// The digits of base64.
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// An entry to be written as JSON: `{"key": …, "timestamp": …, "version": …, "value": …}`.
///
/// A value that is JSON is given as it is, digit for digit; another one as `value_base64` instead of `value`. A key that is no UTF-8 is
/// given as `key_base64`.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The entry's key.
    key: &'a [u8],
    /// The entry.
    entry: &'a Entry,
}

impl<'a> Row<'a> {
    /// The entry under `key`, to be written as JSON.
    pub fn new(key: &'a [u8], entry: &'a Entry) -> Self {
        Self { key, entry }
    }
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_map(Some(4))?;
        match std::str::from_utf8(self.key) {
            Ok(text) => row.serialize_entry("key", text)?,
            Err(_) => row.serialize_entry("key_base64", &base64(self.key))?,
        }
        row.serialize_entry("timestamp", &self.entry.timestamp)?;
        row.serialize_entry("version", &self.entry.version)?;
        match serde_json::from_slice::<&RawValue>(&self.entry.value) {
            Ok(json) => row.serialize_entry("value", json)?,
            Err(_) => row.serialize_entry("value_base64", &base64(&self.entry.value))?,
        }
        row.end()
    }
}

/// Base64 with padding.
fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit)) as usize & 63;
            let digit = if digit <= chunk.len() { BASE64.get(index).copied() } else { None };
            text.push(char::from(digit.unwrap_or(b'=')));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// Checks what a row is written as.
    fn check(key: &[u8], value: &[u8], expected: &str) {
        let entry = Entry { timestamp: 7, version: 2, value: Bytes::copy_from_slice(value) };
        assert_eq!(serde_json::to_string(&Row::new(key, &entry)).unwrap(), expected);
    }

    #[test]
    fn json_stays_as_it_is_and_other_bytes_are_marked() {
        let big = br#"{"n": 12345678901234567890.10, "b":[ ]}"#;
        check(
            b"k\"1",
            big,
            r#"{"key":"k\"1","timestamp":7,"version":2,"value":{"n": 12345678901234567890.10, "b":[ ]}}"#,
        );
        check(b"", b"null", r#"{"key":"","timestamp":7,"version":2,"value":null}"#);
        check(b"k", b"", r#"{"key":"k","timestamp":7,"version":2,"value_base64":""}"#);
        check(b"k", b"plain", r#"{"key":"k","timestamp":7,"version":2,"value_base64":"cGxhaW4="}"#);
        check(b"k", b"{\"a\":\"\xff\"}", r#"{"key":"k","timestamp":7,"version":2,"value_base64":"eyJhIjoi/yJ9"}"#);
        check(&[0xff, 0], b"1", r#"{"key_base64":"/wA=","timestamp":7,"version":2,"value":1}"#);
    }

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
