//! `[kafka]`: librdkafka's properties, passed through, but for those that Weir owns.

use std::collections::BTreeMap;

use super::document::{Entry, Table, Value};
use super::kafka_names::{Standing, standing};
use super::section::Section;
use super::{At, Report, nearest};

/// Makes the tables under `[kafka]` flat: `bootstrap.servers` without quotes is a table `bootstrap` in TOML.
/// Done before overrides are merged, so that an override meets the property whichever way the file writes it.
pub(crate) fn flatten(root: &mut Table, report: &Report) {
    let Some(entry) = root.entry_mut("kafka") else { return };
    let Value::Table(nested) = &mut entry.value.value else { return };
    let mut flat = Table::default();
    collect(std::mem::take(nested), "", &mut flat, report);
    *nested = flat;
}

/// Moves the entries of `nested`, which stands at `prefix`, to `flat`.
fn collect(nested: Table, prefix: &str, flat: &mut Table, report: &Report) {
    for Entry { key, value } in nested.entries {
        let name = format!("{prefix}{}", key.value);
        match value.value {
            Value::Table(table) if !table.entries.is_empty() => collect(table, &format!("{name}."), flat, report),
            _ if flat.get(&name).is_some() => {
                report.problem(key.place, format!("[kafka] has {name} twice"), "keep one of them");
            }
            _ => flat.entries.push(Entry { key: At { value: name, place: key.place }, value }),
        }
    }
}

/// The properties of the flattened section.
pub(crate) fn read(section: &Section<'_>) -> BTreeMap<String, String> {
    let mut properties = BTreeMap::new();
    for (key, found) in section.entries() {
        match standing(&key.value) {
            Standing::Passed => {}
            Standing::Owned { reason, remedy } => {
                let what = format!("[kafka] has {}, which Weir sets itself: {reason}", key.value);
                section.report.problem(key.place, what, remedy);
                continue;
            }
            Standing::Foreign { remedy } => {
                let what = format!("[kafka] has {}, which is no property of librdkafka", key.value);
                section.report.problem(key.place, what, remedy);
                continue;
            }
        }
        let value = match &found.value {
            Value::String(text) | Value::Datetime(text) => text.clone(),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            Value::Boolean(value) => value.to_string(),
            Value::Array(_) | Value::Table(_) => {
                let remedy = format!("a string or a number, such as \"{}\" = \"…\" (lists with commas)", key.value);
                section.wrong(found, &key.value, remedy);
                continue;
            }
        };
        properties.insert(key.value.clone(), value);
    }
    require_servers(section, &properties);
    properties
}

/// Without `bootstrap.servers` there is no broker to ask.
fn require_servers(section: &Section<'_>, properties: &BTreeMap<String, String>) {
    const SERVERS: &str = "bootstrap.servers";
    // Named, but refused above: said already.
    let refused = section.entries().any(|(key, _)| key.value == SERVERS || key.value == "metadata.broker.list");
    if properties.get(SERVERS).is_some_and(|servers| !servers.is_empty())
        || (refused && !properties.contains_key(SERVERS))
    {
        return;
    }
    let slip = section.entries().find(|(key, _)| nearest(&key.value, [SERVERS]).is_some() && key.value != SERVERS);
    match slip {
        Some((key, _)) => section.report.problem(
            key.place,
            format!("unknown key {} in [kafka], and bootstrap.servers is missing", key.value),
            "did you mean bootstrap.servers?",
        ),
        None => section.report.problem(
            section.place,
            "[kafka] lacks bootstrap.servers",
            "add \"bootstrap.servers\" = \"localhost:9092\" to [kafka], or run with --set kafka.bootstrap.servers=HOST:PORT",
        ),
    }
}
