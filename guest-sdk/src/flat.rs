//! The flat form of batches: many byte strings in one, with a list of where each ends.
//!
//! One allocation carries a whole batch across the border, where nested lists would take one a field. The traits of this
//! crate hide it; it is public for guests that speak the interfaces themselves.

use crate::bindings::types::Fields;
use crate::{CodecError, Encode, Presence};

/// The bit of an end that says that the field is null.
pub const NULL: u32 = 1 << 31;

/// Reads fields in order. A copy goes on where the original stands.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    /// The bytes of the fields that were not read yet.
    rest: &'a [u8],
    /// Where `rest` begins.
    at: u32,
    /// The ends of the fields that were not read yet.
    ends: &'a [u32],
}

impl<'a> Reader<'a> {
    /// Reads `fields` from the first one on.
    pub fn new(fields: &'a Fields) -> Self {
        Self { rest: &fields.bytes, at: 0, ends: &fields.ends }
    }

    /// How many fields are left.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether no field is left.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The next field; `None` is null.
    ///
    /// # Panics
    ///
    /// When there is none, or its end is no end: the host has broken the interface.
    #[inline]
    pub fn field(&mut self) -> Option<&'a [u8]> {
        let Some((&end, ends)) = self.ends.split_first() else { broken("fewer fields than it announced") };
        let Some(length) = (end & !NULL).checked_sub(self.at) else { broken("ends that fall") };
        let Some((field, rest)) = self.rest.split_at_checked(length as usize) else {
            broken("an end beyond the bytes")
        };
        *self = Self { rest, at: end & !NULL, ends };
        (end & NULL == 0).then_some(field)
    }

    /// Passes over `count` fields.
    pub(crate) fn skip(&mut self, count: usize) {
        for _ in 0..count {
            self.field();
        }
    }
}

/// Stops the instance: the host sent what the interface forbids.
#[cold]
#[expect(clippy::panic, reason = "nothing that the guest could answer would be right")]
pub(crate) fn broken(what: &str) -> ! {
    panic!("the host sent {what}")
}

/// Writes fields in order.
#[derive(Debug, Default)]
pub struct Writer {
    /// All fields so far, one after the other.
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<u32>,
}

/// A place in a [`Writer`] to go back to.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// Length of the bytes.
    bytes: usize,
    /// Length of the ends.
    ends: usize,
}

impl Writer {
    /// A writer with room for `bytes` bytes in `fields` fields.
    pub fn with_capacity(bytes: usize, fields: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ends: Vec::with_capacity(fields) }
    }

    /// Writes a value as the next field. On an error nothing is written.
    pub fn encode(&mut self, value: &(impl Encode + ?Sized)) -> Result<(), CodecError> {
        let before = self.bytes.len();
        let presence = value.encode(&mut self.bytes);
        if !matches!(presence, Ok(Presence::Present)) {
            self.bytes.truncate(before);
        }
        let null = if presence? == Presence::Null { NULL } else { 0 };
        self.end(null);
        Ok(())
    }

    /// Writes bytes as the next field; `None` is null.
    pub fn field(&mut self, field: Option<&[u8]>) {
        self.bytes.extend_from_slice(field.unwrap_or_default());
        self.end(if field.is_none() { NULL } else { 0 });
    }

    /// Ends the next field where the bytes end.
    fn end(&mut self, null: u32) {
        // A wasm instance has at most 4 GiB, and the host's limit for answers is far below 2 GiB.
        let end = u32::try_from(self.bytes.len()).ok().filter(|end| end & NULL == 0);
        self.ends.push(end.unwrap_or_else(|| broken("a batch whose answer is over 2 GiB")) | null);
    }

    /// The place where the writer stands.
    pub fn mark(&self) -> Mark {
        Mark { bytes: self.bytes.len(), ends: self.ends.len() }
    }

    /// Drops all that was written after `mark`.
    pub fn rewind(&mut self, mark: Mark) {
        self.bytes.truncate(mark.bytes);
        self.ends.truncate(mark.ends);
    }

    /// What was written.
    pub fn finish(self) -> Fields {
        Fields { bytes: self.bytes, ends: self.ends }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fields: &Fields) -> Vec<Option<&[u8]>> {
        let mut reader = Reader::new(fields);
        (0..reader.len()).map(|_| reader.field()).collect()
    }

    #[test]
    fn fields_come_back_in_order_with_nulls_and_empty_ones_apart() {
        let mut writer = Writer::default();
        for field in [Some(b"ab".as_slice()), None, Some(b""), Some(b"c"), None] {
            writer.field(field);
        }
        let fields = writer.finish();
        assert_eq!(fields.ends, [2, 2 | NULL, 2, 3, 3 | NULL]);
        assert_eq!(read(&fields), [Some(b"ab".as_slice()), None, Some(b""), Some(b"c"), None]);
    }

    #[test]
    fn a_value_that_cannot_be_written_leaves_nothing_behind() {
        struct Half;
        impl Encode for Half {
            fn encode(&self, into: &mut Vec<u8>) -> Result<Presence, CodecError> {
                into.extend_from_slice(b"half");
                Err(CodecError::new("no more"))
            }
        }
        let mut writer = Writer::default();
        writer.field(Some(b"a"));
        assert_eq!(writer.encode(&Half), Err(CodecError::new("no more")));
        writer.encode("b").unwrap();
        assert_eq!(read(&writer.finish()), [Some(b"a".as_slice()), Some(b"b")]);
    }

    #[test]
    fn rewinding_drops_what_came_after_the_mark() {
        let mut writer = Writer::default();
        writer.field(Some(b"a"));
        let mark = writer.mark();
        writer.field(Some(b"b"));
        writer.field(None);
        writer.rewind(mark);
        assert_eq!(read(&writer.finish()), [Some(b"a".as_slice())]);
    }

    #[test]
    fn a_broken_batch_stops_the_instance() {
        for (bytes, ends) in [(&b"abc"[..], &[4][..]), (b"abc", &[2, 1]), (b"", &[])] {
            let fields = Fields { bytes: bytes.to_vec(), ends: ends.to_vec() };
            let outcome = std::panic::catch_unwind(|| {
                let mut reader = Reader::new(&fields);
                reader.skip(2);
            });
            assert!(outcome.is_err(), "{fields:?}");
        }
    }
}
