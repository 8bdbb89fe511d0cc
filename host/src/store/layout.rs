//! How keys and values look in the database.
//!
//! A key is the store's number (2 bytes, big-endian), then the entry's key. Number 0 is for what the database says of itself. A value is
//! the timestamp (8 bytes, big-endian), the state version (4 bytes, big-endian), then the entry's value.

use bytes::Bytes;

use crate::model::Entry;

/// Version of all this; raised when an older Weir could not read it.
pub(super) const FORMAT: u32 = 1;
/// Key of the format version, in decimal.
pub(super) const FORMAT_KEY: &[u8] = b"\0\0format";
/// Key of the stores' names, numbers and topics, as JSON.
pub(super) const TABLES_KEY: &[u8] = b"\0\0stores";
/// Key of the checkpoint, as JSON.
pub(super) const CHECKPOINT_KEY: &[u8] = b"\0\0checkpoint";

/// Bytes of a store's number before each key.
const PREFIX: usize = size_of::<u16>();
/// Bytes of the timestamp before a value.
const TIMESTAMP: usize = size_of::<i64>();
/// Bytes of timestamp and version before a value.
const HEAD: usize = TIMESTAMP + size_of::<u32>();

/// Number of a store in one database: the prefix of its keys. 1 at least; below `u16::MAX`, so that there is always a next prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Number(u16);

impl Number {
    /// The store number `number`, if it may be one.
    pub(super) fn new(number: u16) -> Option<Self> {
        (number > 0 && number < u16::MAX).then_some(Self(number))
    }

    /// As it is written in the table of stores.
    pub(super) fn get(self) -> u16 {
        self.0
    }

    /// The database's key of an entry.
    pub(super) fn key(self, key: &[u8]) -> Vec<u8> {
        let mut full = Vec::with_capacity(PREFIX + key.len());
        full.extend_from_slice(&self.0.to_be_bytes());
        full.extend_from_slice(key);
        full
    }

    /// First key of the store, and the first one behind it.
    pub(super) fn range(self) -> ([u8; PREFIX], [u8; PREFIX]) {
        (self.0.to_be_bytes(), self.0.saturating_add(1).to_be_bytes())
    }

    /// First key behind all of the store's keys that begin with `prefix`.
    pub(super) fn behind(self, prefix: &[u8]) -> Vec<u8> {
        let mut end = self.key(prefix);
        // The prefix plus one, as a number; the store's number below `u16::MAX` ends the carry at the latest.
        while let Some(last) = end.pop() {
            if let Some(next) = last.checked_add(1) {
                end.push(next);
                break;
            }
        }
        end
    }
}

/// The entry's key in a key of the database.
pub(super) fn entry_key(full: &[u8]) -> Option<&[u8]> {
    full.get(PREFIX..)
}

/// The database's value of an entry.
pub(super) fn encode(entry: &Entry) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD + entry.value.len());
    bytes.extend_from_slice(&entry.timestamp.to_be_bytes());
    bytes.extend_from_slice(&entry.version.to_be_bytes());
    bytes.extend_from_slice(&entry.value);
    bytes
}

/// The entry in a value of the database, in memory of its own; `None` if it is too short to be one.
pub(super) fn decode(bytes: &[u8]) -> Option<Entry> {
    let (timestamp, rest) = bytes.split_first_chunk()?;
    let (version, value) = rest.split_first_chunk()?;
    Some(Entry {
        timestamp: i64::from_be_bytes(*timestamp),
        version: u32::from_be_bytes(*version),
        value: Bytes::copy_from_slice(value),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_have_the_documented_bytes() {
        let entry = Entry { timestamp: 0x0102_0304_0506_0708, version: 9, value: Bytes::from_static(b"ab") };
        assert_eq!(encode(&entry), [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 9, b'a', b'b']);
        assert_eq!(decode(&encode(&entry)), Some(entry));
        assert_eq!(decode(&[0; HEAD - 1]), None);
    }

    #[test]
    fn numbers_leave_room_before_and_behind() {
        assert_eq!(Number::new(0), None);
        assert_eq!(Number::new(u16::MAX), None);
        assert_eq!(Number::new(0x0102).map(|n| n.key(b"k")), Some(vec![1, 2, b'k']));
        assert_eq!(Number::new(0x01ff).map(Number::range), Some(([1, 0xff], [2, 0])));
    }

    proptest! {
        #[test]
        fn behind_is_just_behind_the_prefix(
            number in 1..u16::MAX,
            prefix in proptest::collection::vec(prop_oneof![Just(0xffu8), any::<u8>()], 0..4),
            key in proptest::collection::vec(prop_oneof![Just(0xffu8), any::<u8>()], 0..6),
        ) {
            let number = Number::new(number).unwrap();
            let full = number.key(&key);
            let inside = full >= number.key(&prefix) && full < number.behind(&prefix);
            prop_assert_eq!(inside, key.starts_with(&prefix));
        }
    }
}
