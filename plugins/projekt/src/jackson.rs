//! JSON to the byte as Jackson writes it, and read as Jackson reads Java records.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::ser::{CharEscape, Formatter};
use weir_guest::{CodecError, Decode, Encode, Presence};

/// A value as JSON in Jackson's form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jackson<T>(
    /// The value itself.
    pub T,
);

impl<T> Deref for Jackson<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Jackson<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<'a, T: Deserialize<'a>> Decode<'a> for Jackson<T> {
    fn decode(field: Option<&'a [u8]>) -> Result<Self, CodecError> {
        read(field.ok_or_else(CodecError::null)?).map(Self)
    }
}

impl<T: Serialize> Encode for Jackson<T> {
    fn encode(&self, into: &mut Vec<u8>) -> Result<Presence, CodecError> {
        self.0.serialize(&mut serde_json::Serializer::with_formatter(into, AsJackson))?;
        Ok(Presence::Present)
    }
}

/// Reads an object, or null where `T` is an option. Serde would read an array too, by the order of fields; Jackson would not.
pub(crate) fn read<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, CodecError> {
    if json.trim_ascii_start().starts_with(b"[") {
        return Err(CodecError::new("an array instead of an object"));
    }
    Ok(serde_json::from_slice(json)?)
}

/// Where Jackson's text differs from serde_json's: hexadecimal digits in upper case, and characters beyond the basic plane
/// as two escapes.
struct AsJackson;

impl Formatter for AsJackson {
    fn write_string_fragment<W: io::Write + ?Sized>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        // Only characters of four bytes lie beyond the basic plane, and only they have bytes of 0xF0 and more.
        if !fragment.as_bytes().iter().any(|&byte| byte >= 0xF0) {
            return writer.write_all(fragment.as_bytes());
        }
        for character in fragment.chars() {
            let mut units = [0; 2];
            match character.encode_utf16(&mut units) {
                [_] => writer.write_all(character.encode_utf8(&mut [0; 4]).as_bytes())?,
                pair => {
                    for unit in pair {
                        write!(writer, "\\u{unit:04X}")?;
                    }
                }
            }
        }
        Ok(())
    }

    fn write_char_escape<W: io::Write + ?Sized>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()> {
        let text: &[u8] = match escape {
            CharEscape::Quote => b"\\\"",
            CharEscape::ReverseSolidus => b"\\\\",
            CharEscape::Solidus => b"/",
            CharEscape::Backspace => b"\\b",
            CharEscape::FormFeed => b"\\f",
            CharEscape::LineFeed => b"\\n",
            CharEscape::CarriageReturn => b"\\r",
            CharEscape::Tab => b"\\t",
            CharEscape::AsciiControl(byte) => return write!(writer, "\\u{byte:04X}"),
        };
        writer.write_all(text)
    }
}

/// A text that borrows from the JSON where that has no escapes. Ordered as Java orders strings: by UTF-16 units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// Borrows where it can.
        struct TextVisitor;

        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(TextVisitor)
    }
}

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl Ord for Text<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        // The two orders differ only where a surrogate meets a unit above the surrogates.
        if self.0.is_ascii() || other.0.is_ascii() {
            self.0.cmp(&other.0)
        } else {
            self.0.encode_utf16().cmp(other.0.encode_utf16())
        }
    }
}

impl PartialOrd for Text<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

/// Reads a Java primitive, for which null is 0 or false.
pub(crate) fn primitive<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_as_jackson_escapes_it() {
        let mut json = Vec::new();
        Jackson(Text::from("a\u{1f}\u{7f}/\"\\\u{8}\u{c}\n\r\t😀ä\u{2028}")).encode(&mut json).unwrap();
        assert_eq!(
            String::from_utf8(json).unwrap(),
            "\"a\\u001F\u{7f}/\\\"\\\\\\b\\f\\n\\r\\t\\uD83D\\uDE00ä\u{2028}\""
        );
    }

    #[test]
    fn an_array_is_no_object() {
        let refusal = Jackson::<Option<crate::ereignis::Befund<'_>>>::decode(Some(b" [\"P1\",\"B1\"]")).err();
        assert_eq!(refusal, Some(CodecError::new("an array instead of an object")));
    }

    #[test]
    fn text_is_ordered_as_java_orders_it() {
        for (lower, higher) in [("a", "b"), ("a", "ab"), ("Z", "ä"), ("z", "😀"), ("😀", "\u{ffee}"), ("ä", "😀")]
        {
            assert!(Text::from(lower) < Text::from(higher), "{lower} {higher}");
        }
    }

    #[test]
    fn text_borrows_unless_it_has_escapes() {
        let borrowed: Text<'_> = serde_json::from_str(r#""ab""#).unwrap();
        let owned: Text<'_> = serde_json::from_str(r#""a\nb""#).unwrap();
        assert!(matches!(borrowed.0, Cow::Borrowed("ab")));
        assert!(matches!(owned.0, Cow::Owned(text) if text == "a\nb"));
    }
}
