//! The flat form of many byte strings, as the hot calls carry them: packed by the host, hostile when it comes back.

use bytes::Bytes;

use super::bindings::types::Fields;

/// The bit of an end that says: absent.
const ABSENT: u32 = 1 << 31;
/// The bits of an end that are the offset; also the most bytes a call can carry.
pub(super) const MAX_BYTES: u32 = ABSENT - 1;
/// A packing buffer larger than this is given back after the call, so that one huge batch doesn't stay resident.
const KEEP_CAPACITY: usize = 4 << 20;

/// Empties a packing buffer for the next call.
pub(super) fn clear(fields: &mut Fields) {
    fields.bytes.clear();
    fields.ends.clear();
    fields.bytes.shrink_to(KEEP_CAPACITY);
}

/// Appends a field.
///
/// More than 2 GiB are noticed by [`fits`], once a call.
pub(super) fn push(fields: &mut Fields, field: Option<&[u8]>) {
    if let Some(field) = field {
        fields.bytes.extend_from_slice(field);
    }
    let end = u32::try_from(fields.bytes.len()).unwrap_or(MAX_BYTES) & MAX_BYTES;
    fields.ends.push(if field.is_none() { end | ABSENT } else { end });
}

/// Whether what was pushed can be told in 31 bits.
pub(super) fn fits(fields: &Fields) -> bool {
    u32::try_from(fields.bytes.len()).is_ok_and(|len| len <= MAX_BYTES)
}

/// What is wrong with a guest's fields.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadFields {
    /// The list is of the wrong length.
    #[error("{found} fields instead of {wanted}")]
    Count {
        /// Fields that the call's answer must have.
        wanted: usize,
        /// Fields that it has.
        found: usize,
    },
    /// An end lies before its start.
    #[error("field {field} ends at {end}, before its start at {start}")]
    Falling {
        /// Which field.
        field: usize,
        /// End of the field before it.
        start: u32,
        /// Its own.
        end: u32,
    },
    /// An end lies behind the buffer, or the buffer behind the last end.
    #[error("the fields end at {end}, but there are {len} bytes")]
    Length {
        /// The last end.
        end: u32,
        /// Length of the buffer.
        len: usize,
    },
    /// An absent field with bytes.
    #[error("field {field} is absent, but has bytes")]
    AbsentWithBytes {
        /// Which field.
        field: usize,
    },
}

/// Checked fields, in order; each shares the guest's one buffer, so that keeping one keeps all of its batch.
#[derive(Debug)]
pub(super) struct FieldsIter {
    /// The buffer.
    bytes: Bytes,
    /// Ends that are left.
    ends: std::vec::IntoIter<u32>,
    /// Start of the next field.
    start: usize,
}

impl FieldsIter {
    /// Checks all ends of `fields`, of which there must be `wanted`.
    pub(super) fn check(fields: Fields, wanted: usize) -> Result<Self, BadFields> {
        let Fields { bytes, ends } = fields;
        if ends.len() != wanted {
            return Err(BadFields::Count { wanted, found: ends.len() });
        }
        let mut start = 0;
        for (field, &raw) in ends.iter().enumerate() {
            let end = raw & MAX_BYTES;
            if end < start {
                return Err(BadFields::Falling { field, start, end });
            }
            if raw & ABSENT != 0 && end != start {
                return Err(BadFields::AbsentWithBytes { field });
            }
            start = end;
        }
        // Ends never fall, so that the last one bounds them all.
        if usize::try_from(start) != Ok(bytes.len()) {
            return Err(BadFields::Length { end: start, len: bytes.len() });
        }
        Ok(Self { bytes: Bytes::from(bytes), ends: ends.into_iter(), start: 0 })
    }
}

impl Iterator for FieldsIter {
    type Item = Option<Bytes>;

    fn next(&mut self) -> Option<Self::Item> {
        let raw = self.ends.next()?;
        if raw & ABSENT != 0 {
            return Some(None);
        }
        // Lossless on every machine wasmtime compiles for; `check` has bounded it.
        let end = (raw & MAX_BYTES) as usize;
        let field = self.bytes.slice(self.start..end);
        self.start = end;
        Some(Some(field))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.ends.size_hint()
    }
}

impl ExactSizeIterator for FieldsIter {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Checks hand-made ends over `len` bytes.
    fn check(ends: &[u32], len: usize) -> Result<Vec<Option<usize>>, BadFields> {
        let fields = Fields { bytes: vec![7; len], ends: ends.to_vec() };
        Ok(FieldsIter::check(fields, ends.len())?.map(|f| f.map(|f| f.len())).collect())
    }

    #[test]
    fn hostile_ends_are_refused() {
        assert_eq!(check(&[], 0), Ok(vec![]));
        assert_eq!(check(&[], 1), Err(BadFields::Length { end: 0, len: 1 }));
        assert_eq!(check(&[2, 1], 2), Err(BadFields::Falling { field: 1, start: 2, end: 1 }));
        assert_eq!(check(&[3], 2), Err(BadFields::Length { end: 3, len: 2 }));
        assert_eq!(check(&[MAX_BYTES], 2), Err(BadFields::Length { end: MAX_BYTES, len: 2 }));
        assert_eq!(check(&[1], 2), Err(BadFields::Length { end: 1, len: 2 }));
        assert_eq!(check(&[2 | ABSENT], 2), Err(BadFields::AbsentWithBytes { field: 0 }));
        assert_eq!(check(&[2, 2 | ABSENT, 2], 2), Ok(vec![Some(2), None, Some(0)]));
        let short = FieldsIter::check(Fields { bytes: vec![], ends: vec![0] }, 2).map(|_| ());
        assert_eq!(short, Err(BadFields::Count { wanted: 2, found: 1 }));
    }

    #[test]
    fn slices_share_the_guests_buffer() {
        let bytes = vec![1, 2, 3, 4];
        let at = bytes.as_ptr();
        let mut fields = FieldsIter::check(Fields { bytes, ends: vec![1, 4] }, 2).unwrap();
        assert_eq!(fields.next().unwrap().unwrap().as_ptr(), at);
        assert_eq!(fields.next().unwrap().unwrap().as_ptr(), at.wrapping_add(1));
    }

    #[test]
    fn a_huge_buffer_is_given_back() {
        let mut fields = Fields { bytes: vec![0; KEEP_CAPACITY * 2], ends: vec![] };
        clear(&mut fields);
        assert!(fields.bytes.capacity() <= KEEP_CAPACITY);
    }

    proptest! {
        #[test]
        fn what_is_packed_comes_back(values in prop::collection::vec(prop::option::of(prop::collection::vec(any::<u8>(), 0..20)), 0..40)) {
            let mut fields = Fields { bytes: vec![], ends: vec![] };
            for value in &values {
                push(&mut fields, value.as_deref());
            }
            prop_assert!(fits(&fields));
            let back: Vec<_> = FieldsIter::check(fields, values.len()).unwrap().map(|f| f.map(|f| f.to_vec())).collect();
            prop_assert_eq!(back, values);
        }

        #[test]
        fn any_ends_are_refused_or_sliced_within_bounds(ends in prop::collection::vec(prop_oneof![0_u32..40, any::<u32>(), (0_u32..40).prop_map(|e| e | ABSENT)], 0..12), len in 0_usize..40) {
            if let Ok(lengths) = check(&ends, len) {
                prop_assert_eq!(lengths.len(), ends.len());
                prop_assert_eq!(lengths.iter().flatten().sum::<usize>(), len);
            }
        }

        #[test]
        fn rising_ends_are_taken(mut ends in prop::collection::vec(0_u32..1000, 1..20)) {
            ends.sort_unstable();
            let len = ends.last().map_or(0, |&e| e as usize);
            prop_assert!(check(&ends, len).is_ok());
        }
    }
}
