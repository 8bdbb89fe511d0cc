//! A TOML text as a tree whose keys and values know where they stand, in the text's order.

use serde_json::Value as Json;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{At, Place};

/// Most parts of a dotted key. The parser nests a table for each, and drops them recursively: without a bound a long
/// line of dots would overflow the stack.
const MAX_KEY_PARTS: usize = 16;

/// A TOML value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// A string.
    String(String),
    /// A whole number.
    Integer(i64),
    /// A floating-point number.
    Float(f64),
    /// `true` or `false`.
    Boolean(bool),
    /// A date or time, as text.
    Datetime(String),
    /// An array.
    Array(Vec<At<Value>>),
    /// A table, inline or not.
    Table(Table),
}

/// A TOML table: its entries in the text's order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    /// The entries; no key is there twice.
    pub(crate) entries: Vec<Entry>,
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// The key, and where it is mentioned first.
    pub(crate) key: At<String>,
    /// Its value.
    pub(crate) value: At<Value>,
}

/// Something in a text that is no TOML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    /// Where.
    pub(crate) place: Place,
    /// What.
    pub(crate) message: String,
    /// What would be right; empty where the message says it.
    pub(crate) remedy: &'static str,
    /// Whether the rest of the text was understood nevertheless.
    pub(crate) harmless: bool,
}

impl Table {
    /// The value of `key`.
    pub(crate) fn get(&self, key: &str) -> Option<&At<Value>> {
        self.entries.iter().find(|entry| entry.key.value == key).map(|entry| &entry.value)
    }

    /// The entry of `key`, to be changed.
    pub(crate) fn entry_mut(&mut self, key: &str) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.key.value == key)
    }
}

impl Value {
    /// How messages show it.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::String(text) => shown_text(text),
            Self::Integer(number) => number.to_string(),
            Self::Float(number) => number.to_string(),
            Self::Boolean(value) => value.to_string(),
            Self::Datetime(text) => format!("the time {text}"),
            Self::Array(_) => "an array".to_owned(),
            Self::Table(_) => "a table".to_owned(),
        }
    }

    /// The same as JSON; where a number isn't finite, which JSON cannot say.
    pub(crate) fn to_json(&self) -> Result<Json, f64> {
        Ok(match self {
            Self::String(text) | Self::Datetime(text) => Json::from(text.as_str()),
            Self::Integer(number) => Json::from(*number),
            Self::Float(number) => Json::Number(serde_json::Number::from_f64(*number).ok_or(*number)?),
            Self::Boolean(value) => Json::from(*value),
            Self::Array(items) => Json::Array(items.iter().map(|item| item.value.to_json()).collect::<Result<_, _>>()?),
            Self::Table(table) => Json::Object(
                table
                    .entries
                    .iter()
                    .map(|entry| Ok((entry.key.value.clone(), entry.value.value.to_json()?)))
                    .collect::<Result<_, f64>>()?,
            ),
        })
    }
}

/// `text` in quotes, its end left out if it is long.
pub(crate) fn shown_text(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{:?}", format!("{}…", text.split_at(end).0)),
        None => format!("{text:?}"),
    }
}

/// The tree of a whole document, as far as it is understood, and all errors of syntax. Places are of `origin`.
pub(crate) fn parse(text: &str, origin: Place) -> (Table, Vec<SyntaxError>) {
    if let Some(offset) = long_key(text) {
        let message = format!("a key of more than {MAX_KEY_PARTS} parts");
        return (
            Table::default(),
            vec![SyntaxError {
                place: origin.at(offset),
                message,
                remedy: "write tables one in another",
                harmless: false,
            }],
        );
    }
    let (document, found) = DeTable::parse_recoverable(text);
    let mut errors: Vec<_> = found
        .iter()
        .map(|error| {
            let span = error.span().unwrap_or_default();
            let key = text.get(span.clone()).unwrap_or_default();
            let harmless = error.message() == "duplicate key";
            let (message, remedy) = match harmless {
                true => (format!("{key} is there twice"), "keep one of them"),
                false => (format!("this is no TOML: {}", error.message()), ""),
            };
            SyntaxError { place: origin.at(span.start), message, remedy, harmless }
        })
        .collect();
    let table = convert_table(document.get_ref(), origin, &mut errors);
    (table, errors)
}

/// A lone value, if `text` is one.
pub(crate) fn parse_value(text: &str, origin: Place) -> Option<At<Value>> {
    if long_key(text).is_some() {
        return None;
    }
    let value = DeValue::parse(text).ok()?;
    let mut errors = Vec::new();
    let value = convert(&value, origin, &mut errors);
    errors.is_empty().then_some(value)
}

/// The tree of ours.
fn convert(value: &Spanned<DeValue<'_>>, origin: Place, errors: &mut Vec<SyntaxError>) -> At<Value> {
    let place = origin.at(value.span().start);
    let mut unreadable = |what: &str| {
        let message = format!("the number {what} is out of range");
        errors.push(SyntaxError { place, message, remedy: "write it with fewer digits", harmless: false });
    };
    let value = match value.get_ref() {
        DeValue::String(text) => Value::String(text.clone().into_owned()),
        DeValue::Integer(number) => {
            Value::Integer(i64::from_str_radix(number.as_str(), number.radix()).unwrap_or_else(|_| {
                unreadable(number.as_str());
                0
            }))
        }
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or_else(|_| {
            unreadable(number.as_str());
            0.0
        })),
        DeValue::Boolean(value) => Value::Boolean(*value),
        DeValue::Datetime(time) => Value::Datetime(time.to_string()),
        DeValue::Array(items) => Value::Array(items.iter().map(|item| convert(item, origin, errors)).collect()),
        DeValue::Table(table) => Value::Table(convert_table(table, origin, errors)),
    };
    At { value, place }
}

/// The table of ours: the parser sorts keys by name, we by place.
fn convert_table(table: &DeTable<'_>, origin: Place, errors: &mut Vec<SyntaxError>) -> Table {
    let mut entries: Vec<_> = table
        .iter()
        .map(|(key, value)| Entry {
            key: At { value: key.get_ref().clone().into_owned(), place: origin.at(key.span().start) },
            value: convert(value, origin, errors),
        })
        .collect();
    entries.sort_by_key(|entry| entry.key.place);
    Table { entries }
}

/// Where a key of more than `MAX_KEY_PARTS` parts is. Strings and comments are stepped over.
fn long_key(text: &str) -> Option<usize> {
    let mut dots = 0;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let mut step = first.len_utf8();
        match first {
            '"' | '\'' => step = string_len(rest, first),
            '#' => step = rest.find('\n').unwrap_or(rest.len()),
            '.' => dots += 1,
            '\n' | '=' | ',' | '[' | ']' | '{' | '}' => dots = 0,
            _ => {}
        }
        if dots >= MAX_KEY_PARTS {
            return Some(text.len() - rest.len());
        }
        rest = rest.get(step..).unwrap_or_default();
    }
    None
}

/// Length of the string that `text` begins with, its quotes included; without a closing quote, to the end of the line.
fn string_len(text: &str, quote: char) -> usize {
    let triple: String = [quote; 3].iter().collect();
    let (opening, closing) =
        if text.starts_with(&triple) { (3, triple.as_str()) } else { (1, text.get(..1).unwrap_or_default()) };
    let mut rest = text.get(opening..).unwrap_or_default();
    while let Some(first) = rest.chars().next() {
        if rest.starts_with(closing) {
            return text.len() - rest.len() + opening;
        }
        if first == '\n' && opening == 1 {
            break;
        }
        let escaped = first == '\\' && quote == '"';
        let step = rest.chars().take(if escaped { 2 } else { 1 }).map(char::len_utf8).sum();
        rest = rest.get(step..).unwrap_or_default();
    }
    text.len() - rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys of a table.
    fn keys(table: &Table) -> Vec<&str> {
        table.entries.iter().map(|entry| entry.key.value.as_str()).collect()
    }

    #[test]
    fn entries_keep_the_order_of_the_text() {
        let (table, errors) = parse("z = 1\n[b.x]\n[a]\nk = 0xff\n[b.w]", Place::default());
        assert_eq!(errors, []);
        assert_eq!(keys(&table), ["z", "b", "a"]);
        let Some(At { value: Value::Table(b), .. }) = table.get("b") else { panic!("{table:?}") };
        assert_eq!(keys(b), ["x", "w"]);
        let Some(At { value: Value::Table(a), .. }) = table.get("a") else { panic!("{table:?}") };
        assert_eq!(a.get("k").map(|at| &at.value), Some(&Value::Integer(255)));
    }

    #[test]
    fn all_errors_of_syntax_are_found() {
        let (_, errors) = parse("a = \nb = 1\nb = 2\n[c\n", Place::default());
        assert!(errors.len() >= 3, "{errors:?}");
        let (table, errors) = parse("a = 1\na = 2\nb = 99999999999999999999\n", Place::default());
        let found: Vec<_> = errors.iter().map(|error| (error.message.as_str(), error.harmless)).collect();
        assert_eq!(found, [("a is there twice", true), ("the number 99999999999999999999 is out of range", false)]);
        assert_eq!(keys(&table), ["a", "b"]);
    }

    #[test]
    fn deep_keys_are_refused_before_they_are_parsed() {
        let deep = format!("{}a = 1", "a.".repeat(100_000));
        let (_, errors) = parse(&deep, Place::default());
        assert_eq!(
            errors.iter().map(|error| error.message.as_str()).collect::<Vec<_>>(),
            ["a key of more than 16 parts"]
        );
        assert_eq!(parse_value(&format!("{{ {}a = 1 }}", "a.".repeat(100_000)), Place::default()), None);

        let dots = ".".repeat(40);
        for text in [
            format!("a = \"\\\"{dots}\" # {dots}"),
            format!("a = '\\{dots}'\n# {dots}"),
            format!("a = \"\"\"\n{dots} \\\"\"\" {dots}\n\"\"\""),
            format!("a = [{}]", "1.5, ".repeat(40)),
        ] {
            assert_eq!(parse(&text, Place::default()).1, [], "{text}");
        }
    }

    #[test]
    fn json_keeps_everything_but_what_json_cannot_say() {
        let value = parse_value("{ b = [1, 2.5, true], a = 1979-05-27, c = 'x' }", Place::default()).unwrap();
        assert_eq!(value.value.to_json().unwrap().to_string(), r#"{"a":"1979-05-27","b":[1,2.5,true],"c":"x"}"#);
        assert!(parse_value("[nan]", Place::default()).unwrap().value.to_json().is_err());
    }
}
