//! Bytes to values and back.

use std::fmt;
use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};

/// A value that is read from a key, a value or a row; `'a` is the life of the bytes, which it may borrow from.
pub trait Decode<'a>: Sized {
    /// Reads a field; `None` is null.
    fn decode(field: Option<&'a [u8]>) -> Result<Self, CodecError>;
}

/// A value that is written as a key, a value or a state.
pub trait Encode {
    /// Appends the value's bytes, or says that it is null. On an error what was appended is dropped by the caller.
    fn encode(&self, into: &mut Vec<u8>) -> Result<Presence, CodecError>;
}

/// Whether an encoded value is null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Its bytes were appended.
    Present,
    /// It is null; nothing was appended.
    Null,
}

/// Bytes that are not what they should be, or a value that cannot be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodecError(String);

impl CodecError {
    /// An error in the codec's words.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }

    /// A null where the type has none.
    pub fn null() -> Self {
        Self::new("it is null")
    }
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CodecError {}

impl From<serde_json::Error> for CodecError {
    fn from(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
}

/// A value as JSON, through serde. `Json<Option<T>>` is for a JSON `null`, `Option<Json<T>>` for Kafka's null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Json<T>(
    /// The value itself.
    pub T,
);

impl<T> Deref for Json<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Json<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<'a, T: Deserialize<'a>> Decode<'a> for Json<T> {
    fn decode(field: Option<&'a [u8]>) -> Result<Self, CodecError> {
        Ok(Self(serde_json::from_slice(field.ok_or_else(CodecError::null)?)?))
    }
}

impl<T: Serialize> Encode for Json<T> {
    fn encode(&self, into: &mut Vec<u8>) -> Result<Presence, CodecError> {
        serde_json::to_writer(into, &self.0)?;
        Ok(Presence::Present)
    }
}

impl<'a> Decode<'a> for &'a [u8] {
    fn decode(field: Option<&'a [u8]>) -> Result<Self, CodecError> {
        field.ok_or_else(CodecError::null)
    }
}

impl<'a> Decode<'a> for Vec<u8> {
    fn decode(field: Option<&'a [u8]>) -> Result<Self, CodecError> {
        <&[u8]>::decode(field).map(<[u8]>::to_vec)
    }
}

impl<'a> Decode<'a> for &'a str {
    fn decode(field: Option<&'a [u8]>) -> Result<Self, CodecError> {
        str::from_utf8(<&[u8]>::decode(field)?).map_err(|error| CodecError::new(error.to_string()))
    }
}

impl<'a> Decode<'a> for String {
    fn decode(field: Option<&'a [u8]>) -> Result<Self, CodecError> {
        <&str>::decode(field).map(str::to_owned)
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Option<T> {
    fn decode(field: Option<&'a [u8]>) -> Result<Self, CodecError> {
        field.map(|bytes| T::decode(Some(bytes))).transpose()
    }
}

impl Encode for [u8] {
    fn encode(&self, into: &mut Vec<u8>) -> Result<Presence, CodecError> {
        into.extend_from_slice(self);
        Ok(Presence::Present)
    }
}

impl Encode for Vec<u8> {
    fn encode(&self, into: &mut Vec<u8>) -> Result<Presence, CodecError> {
        self.as_slice().encode(into)
    }
}

impl Encode for str {
    fn encode(&self, into: &mut Vec<u8>) -> Result<Presence, CodecError> {
        self.as_bytes().encode(into)
    }
}

impl Encode for String {
    fn encode(&self, into: &mut Vec<u8>) -> Result<Presence, CodecError> {
        self.as_bytes().encode(into)
    }
}

impl<T: Encode + ?Sized> Encode for &T {
    fn encode(&self, into: &mut Vec<u8>) -> Result<Presence, CodecError> {
        (**self).encode(into)
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, into: &mut Vec<u8>) -> Result<Presence, CodecError> {
        self.as_ref().map_or(Ok(Presence::Null), |value| value.encode(into))
    }
}
