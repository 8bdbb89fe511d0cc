//! Values given on the command line (`--set app.threads=2`) or in the environment (`WEIR_APP__THREADS=2`).
//!
//! A path is written as in TOML: keys with dots between them, in quotes where a key has dots itself; after `kafka.` the
//! rest is librdkafka's name. A value is TOML if it is valid TOML, else a string, so that nothing needs quotes twice.
//!
//! A variable is a setting if its name begins with `WEIR_` and has two underscores in a row behind that: `__` stands for
//! the dot, and letters are small. `WEIR_KAFKA__BOOTSTRAP_SERVERS` is `kafka.bootstrap.servers` (`_` stands for the dot in
//! librdkafka's names); elsewhere `_` meets a key of the file that has `-` or `.` there. The command line wins over the
//! environment, which wins over the file.

use std::collections::BTreeMap;

use super::document::{Entry, Table, Value, parse, parse_value};
use super::{At, Place, Report, kafka};

/// Merges what the environment and then the command line say into the tree of the file.
pub(crate) fn merge(root: &mut Table, report: &mut Report, set: &[(String, String)], env: &BTreeMap<String, String>) {
    kafka::flatten(root, report);
    for (name, raw) in env {
        let Some(setting) = name.strip_prefix("WEIR_").filter(|setting| setting.contains("__")) else { continue };
        let place = report.origins.add(name.clone(), raw);
        match path_of_variable(setting, root) {
            Some(path) => put(root, &path, value_of(raw, place), report),
            None => report.problem(
                place,
                "it names no setting",
                "write WEIR_, the section, two underscores and the key, such as WEIR_APP__THREADS",
            ),
        }
    }
    for (path, raw) in set {
        let place = report.origins.add(format!("--set {path}={raw}"), raw);
        match path_of(path) {
            Some(path) => put(root, &path, value_of(raw, place), report),
            None => report.problem(
                place,
                format!("{path:?} names no setting"),
                "write keys with dots between them, such as --set app.threads=2",
            ),
        }
    }
}

/// The value that `raw` states.
fn value_of(raw: &str, place: Place) -> At<Value> {
    let value = parse_value(raw.trim(), place).map_or_else(|| Value::String(raw.to_owned()), |parsed| parsed.value);
    At { value, place }
}

/// The keys of a path as it is written on the command line.
fn path_of(path: &str) -> Option<Vec<String>> {
    // A path is a TOML key, so it is read as one; more than a key (`a = 1 #`) is none.
    let (mut table, errors) = parse(&format!("{path} = 0"), Place::default());
    if path.contains(['=', '\n', '#', '[']) || !errors.is_empty() {
        return None;
    }
    let mut keys = Vec::new();
    while let Some(entry) = table.entries.pop() {
        keys.push(entry.key.value);
        table = match entry.value.value {
            Value::Table(inner) => inner,
            _ => break,
        };
    }
    Some(join_kafka(keys))
}

/// The keys of a variable's name behind `WEIR_`.
fn path_of_variable(setting: &str, root: &Table) -> Option<Vec<String>> {
    let mut table = Some(root);
    let mut keys = Vec::new();
    for part in setting.split("__") {
        if part.is_empty() {
            return None;
        }
        let in_kafka = keys.first().is_some_and(|first| first == "kafka");
        let part = part.to_lowercase();
        let meant = table.and_then(|table| {
            table.entries.iter().find(|entry| entry.key.value.to_lowercase().replace(['-', '.'], "_") == part)
        });
        table = match meant.map(|entry| &entry.value.value) {
            Some(Value::Table(inner)) => Some(inner),
            _ => None,
        };
        keys.push(match meant {
            Some(entry) => entry.key.value.clone(),
            None if in_kafka => part.replace('_', "."),
            None => part,
        });
    }
    Some(join_kafka(keys))
}

/// A path below `kafka` has two keys: the second is librdkafka's name.
fn join_kafka(keys: Vec<String>) -> Vec<String> {
    match keys.split_first() {
        Some((first, rest)) if first == "kafka" && !rest.is_empty() => vec![first.clone(), rest.join(".")],
        _ => keys,
    }
}

/// Puts `value` at `path`.
fn put(table: &mut Table, path: &[String], value: At<Value>, report: &Report) {
    let Some((key, rest)) = path.split_first() else { return };
    let place = value.place;
    if table.entry_mut(key).is_none() {
        let key = At { value: key.clone(), place };
        table.entries.push(Entry { key, value: At { value: Value::Table(Table::default()), place } });
    }
    let Some(entry) = table.entry_mut(key) else { return };
    match &mut entry.value.value {
        _ if rest.is_empty() => entry.value = value,
        Value::Table(inner) => put(inner, rest, value, report),
        other => {
            let what =
                format!("{key} is {} ({}), not a table", other.shown(), report.origins.mention(entry.value.place));
            report.problem(place, what, "set what is there, or write a table there");
        }
    }
}
