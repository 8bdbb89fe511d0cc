//! Reads the keys of one table, each as what it should be, and finds the keys that nobody asked for.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::document::{Table, Value};
use super::quantity::{ByteSize, Readable, parse_duration};
use super::{At, Place, Report, nearest};

/// A table of the file that is being read. Whoever reads it ends with `finish`.
pub(crate) struct Section<'a> {
    /// The table; absent if the file doesn't have it, or has something else there.
    table: Option<&'a Table>,
    /// Whether the file has nothing there.
    missing: bool,
    /// Where it stands.
    pub(crate) place: Place,
    /// Keys that lead to it, with dots; empty for the whole file.
    path: String,
    /// Keys that were asked for.
    known: Vec<&'static str>,
    /// Where problems go.
    pub(crate) report: &'a Report,
}

/// What a key with a few legal words may be.
pub(crate) struct Choices<'c, T> {
    /// The words, and what they mean.
    pub(crate) words: &'c [(&'c str, T)],
    /// Words that Weir's documentation has but this version doesn't do.
    pub(crate) unsupported: &'c [&'c str],
}

impl<'a> Section<'a> {
    /// The whole file.
    pub(crate) fn root(table: &'a Table, report: &'a Report) -> Self {
        Self {
            table: Some(table),
            missing: false,
            place: Place::default(),
            path: String::new(),
            known: Vec::new(),
            report,
        }
    }

    /// `value`, which must be a table, as the section `path`.
    fn of(value: &'a At<Value>, place: Place, path: String, report: &'a Report) -> Self {
        let table = match &value.value {
            Value::Table(table) => Some(table),
            other => {
                let remedy = format!("write a table: [{path}]");
                report.problem(value.place, format!("{path} is {}", other.shown()), remedy);
                None
            }
        };
        Self { table, missing: false, place, path, known: Vec::new(), report }
    }

    /// Whether the file has nothing there.
    pub(crate) fn is_missing(&self) -> bool {
        self.missing
    }

    /// How messages call `key`: `app.threads`.
    pub(crate) fn name(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// The value of `key`, as it stands.
    pub(crate) fn value(&mut self, key: &'static str) -> Option<&'a At<Value>> {
        self.know(key);
        self.table?.get(key)
    }

    /// `key` is asked for.
    fn know(&mut self, key: &'static str) {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
    }

    /// All entries, whatever their keys.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a At<String>, &'a At<Value>)> + use<'a> {
        self.table.into_iter().flat_map(|table| table.entries.iter().map(|entry| (&entry.key, &entry.value)))
    }

    /// The table at `key`: without keys if the file doesn't have it.
    pub(crate) fn section(&mut self, key: &'static str) -> Section<'a> {
        self.know(key);
        let path = self.name(key);
        let entry = self.entries().find(|(name, _)| name.value == key);
        match entry {
            Some((name, value)) => Section::of(value, name.place, path, self.report),
            None => {
                Section { table: None, missing: true, place: self.place, path, known: Vec::new(), report: self.report }
            }
        }
    }

    /// The tables at `key`, each with its name.
    pub(crate) fn named(&mut self, key: &'static str) -> Vec<(&'a At<String>, Section<'a>)> {
        let parent = self.section(key);
        let child = |(name, value): (&'a At<String>, _)| {
            (name, Section::of(value, name.place, parent.name(&name.value), parent.report))
        };
        parent.entries().map(child).collect()
    }

    /// The tables in the array at `key`, which must be there and hold some.
    pub(crate) fn items(&mut self, key: &'static str, example: &str) -> Vec<Section<'a>> {
        let Some(found) = self.value(key) else {
            self.lacks(key, &format!("add {key} = {example}"));
            return Vec::new();
        };
        let Value::Array(items) = &found.value else {
            self.wrong(found, key, format!("an array, such as {key} = {example}"));
            return Vec::new();
        };
        if items.is_empty() {
            self.report.problem(
                found.place,
                format!("{} is empty", self.name(key)),
                format!("write {key} = {example}"),
            );
        }
        let path = self.name(key);
        let section = |(index, item): (usize, &'a At<Value>)| {
            Section::of(item, item.place, format!("{path}[{index}]"), self.report)
        };
        items.iter().enumerate().map(section).collect()
    }

    /// The texts in the array at `key`.
    pub(crate) fn texts(&mut self, key: &'static str, example: &str) -> Option<Vec<At<String>>> {
        let found = self.value(key)?;
        let texts = match &found.value {
            Value::Array(items) => items.iter().map(|item| self.text_of(item)).collect(),
            _ => None,
        };
        if texts.is_none() {
            self.wrong(found, key, format!("an array of strings, such as {key} = {example}"));
        }
        texts
    }

    /// The text at `key`.
    pub(crate) fn text(&mut self, key: &'static str, example: &str) -> Option<At<String>> {
        let found = self.value(key)?;
        let text = self.text_of(found);
        if text.is_none() {
            self.wrong(found, key, format!("a string, such as {key} = {example:?}"));
        }
        text
    }

    /// The text at `key`, which must be there; empty if it isn't.
    pub(crate) fn required_text(&mut self, key: &'static str, example: &str) -> At<String> {
        let there = self.value(key).is_some();
        match self.text(key, example) {
            Some(text) if text.value.is_empty() => {
                self.report.problem(
                    text.place,
                    format!("{} is empty", self.name(key)),
                    format!("write {key} = {example:?}"),
                );
                text
            }
            Some(text) => text,
            None => {
                if !there {
                    self.lacks(key, &format!("add {key} = {example:?}"));
                }
                At { value: String::new(), place: self.place }
            }
        }
    }

    /// One of a few words at `key`.
    pub(crate) fn choice<T: Copy>(&mut self, key: &'static str, choices: &Choices<'_, T>) -> Option<T> {
        let found = self.value(key)?;
        let text = self.text_of(found).map(|text| text.value).unwrap_or_default();
        let meant = choices.words.iter().find(|(word, _)| *word == text);
        if meant.is_none() {
            let words = list(choices.words.iter().map(|(word, _)| format!("{word:?}")), "or");
            if choices.unsupported.contains(&text.as_str()) {
                let what = format!("{} is {text:?}, which this version does not support", self.name(key));
                self.report.problem(found.place, what, format!("write {words}"));
            } else {
                self.wrong(found, key, words);
            }
        }
        meant.map(|(_, meaning)| *meaning)
    }

    /// The duration at `key`.
    pub(crate) fn duration(
        &mut self,
        key: &'static str,
        legal: RangeInclusive<Duration>,
        example: &str,
    ) -> Option<Duration> {
        let (from, to) = (Readable(*legal.start()), Readable(*legal.end()));
        let wanted = format!("a duration from {from} to {to}, such as {example:?} (ms, s, min, h, d)");
        self.quantity(key, parse_duration, &legal, wanted)
    }

    /// The amount of bytes at `key`.
    pub(crate) fn bytes(
        &mut self,
        key: &'static str,
        legal: RangeInclusive<ByteSize>,
        example: &str,
    ) -> Option<ByteSize> {
        let wanted =
            format!("a size from {} to {}, such as {example:?} (B, KiB, MiB, GiB)", legal.start(), legal.end());
        self.quantity(key, ByteSize::parse, &legal, wanted)
    }

    /// What `parse` makes of the text at `key`, if it is `legal`.
    fn quantity<T: PartialOrd>(
        &mut self,
        key: &'static str,
        parse: impl Fn(&str) -> Option<T>,
        legal: &RangeInclusive<T>,
        wanted: String,
    ) -> Option<T> {
        let found = self.value(key)?;
        let quantity =
            self.text_of(found).and_then(|text| parse(&text.value)).filter(|quantity| legal.contains(quantity));
        if quantity.is_none() {
            self.wrong(found, key, wanted);
        }
        quantity
    }

    /// The whole number at `key`.
    pub(crate) fn integer(&mut self, key: &'static str, legal: RangeInclusive<u64>) -> Option<u64> {
        let found = self.value(key)?;
        let number = match &found.value {
            Value::Integer(number) => u64::try_from(*number).ok().filter(|number| legal.contains(number)),
            _ => None,
        };
        if number.is_none() {
            self.wrong(found, key, format!("a whole number from {} to {}", legal.start(), legal.end()));
        }
        number
    }

    /// `found`, the value of `key`, is not what it should be.
    pub(crate) fn wrong(&self, found: &At<Value>, key: &str, wanted: impl fmt::Display) {
        let what = format!("{} is {}", self.name(key), found.value.shown());
        self.report.problem(found.place, what, format!("write {wanted}"));
    }

    /// `key` must be there and isn't. Not said of a section that is no table, or not there: that is said elsewhere.
    pub(crate) fn lacks(&self, key: &str, remedy: &str) {
        if self.table.is_some() {
            self.report.problem(self.place, format!("[{}] lacks {key}", self.path), remedy);
        }
    }

    /// Reports the keys that nobody asked for.
    pub(crate) fn finish(self) {
        let is_root = self.path.is_empty();
        let shown = |known: &str| if is_root { format!("[{known}]") } else { known.to_owned() };
        for (key, value) in self.entries() {
            if self.known.contains(&key.value.as_str()) {
                continue;
            }
            let name = &key.value;
            let what = match &value.value {
                Value::Table(_) if is_root => format!("unknown section [{name}]"),
                _ if is_root => format!("{name} stands outside of the sections"),
                _ => format!("unknown key {name} in [{}]", self.path),
            };
            let remedy = match nearest(name, self.known.iter().copied()) {
                Some(near) => format!("did you mean {}?", shown(near)),
                None => format!("there are {}", list(self.known.iter().map(|known| shown(known)), "and")),
            };
            self.report.problem(key.place, what, remedy);
        }
    }

    /// `found` as text. An override is what was given, even if it looks like a number.
    pub(crate) fn text_of(&self, found: &At<Value>) -> Option<At<String>> {
        let text = match &found.value {
            Value::String(text) => text,
            Value::Array(_) | Value::Table(_) => return None,
            _ => self.report.origins.raw(found.place)?,
        };
        Some(At { value: text.to_owned(), place: found.place })
    }
}

/// `words` as a list for people: `a, b or c`.
pub(crate) fn list(words: impl IntoIterator<Item = String>, last: &str) -> String {
    let mut words: Vec<String> = words.into_iter().collect();
    match words.pop() {
        Some(end) if !words.is_empty() => format!("{} {last} {end}", words.join(", ")),
        only => only.unwrap_or_default(),
    }
}
