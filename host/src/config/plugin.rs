//! `[plugins.*]`: components, their limits and their configuration.

use std::path::PathBuf;
use std::time::Duration;

use super::document::Value;
use super::section::Section;
use super::{At, ByteSize, Place};

/// `[plugins.X]`.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginOptions {
    /// `file`: the component, relative to the topology file. Required.
    pub file: PathBuf,
    /// Where `file` stands.
    pub(crate) file_place: Place,
    /// `memory`: most linear memory of one instance. Default 64 MiB, or an eighth of `state.memory` where that is less.
    pub memory: ByteSize,
    /// `call_timeout`: most CPU time of a call, for its first record; the host adds a share for each other. Default 100 ms.
    pub call_timeout: Duration,
    /// `config`: whatever the plugin's `init` wants, as JSON. Default `{}`.
    pub config: serde_json::Value,
}

impl PluginOptions {
    /// Default of `memory`.
    const MEMORY: ByteSize = ByteSize::mib(64);
    /// Most `memory`: what 32-bit WebAssembly can address.
    const MAX_MEMORY: ByteSize = ByteSize::mib(4096);
    /// Default of `call_timeout`.
    const CALL_TIMEOUT: Duration = Duration::from_millis(100);
    /// Longest `call_timeout`: a stalled thread must not look dead to the group (`max.poll.interval.ms` is 5 min).
    const MAX_CALL_TIMEOUT: Duration = Duration::from_secs(60);

    /// The section's options, and the plugin's name. `all`: the memory of the process.
    pub(crate) fn read(name: &At<String>, mut section: Section<'_>, all: ByteSize) -> (String, Self) {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if name.value.is_empty() || name.value.len() > 100 || !name.value.chars().all(legal) {
            let remedy =
                "use letters, digits, \"_\" and \"-\", at most 100 of them: a function is named \"plugin.function\"";
            section.report.problem(name.place, format!("{:?} is no name for a plugin", name.value), remedy);
        }
        let file = section.required_text("file", &format!("{}.wasm", name.value));
        let memory = section.bytes("memory", ByteSize::mib(1)..=Self::MAX_MEMORY, "64 MiB");
        let call_timeout =
            section.duration("call_timeout", Duration::from_millis(1)..=Self::MAX_CALL_TIMEOUT, "100 ms");
        let options = Self {
            file: section.report.origins.resolve(&file),
            file_place: file.place,
            memory: memory.unwrap_or(Self::MEMORY.min(ByteSize(all.0 / 8))),
            call_timeout: call_timeout.unwrap_or(Self::CALL_TIMEOUT),
            config: read_config(&mut section),
        };
        section.finish();
        (name.value.clone(), options)
    }
}

/// `config` as JSON.
fn read_config(section: &mut Section<'_>) -> serde_json::Value {
    let empty = || serde_json::Value::Object(serde_json::Map::new());
    let Some(found) = section.value("config") else { return empty() };
    let Value::Table(_) = &found.value else {
        section.wrong(found, "config", "a table, such as config = { currency = \"EUR\" }");
        return empty();
    };
    found.value.to_json().unwrap_or_else(|number| {
        let what = format!("{} holds {number}, which JSON cannot say", section.name("config"));
        section.report.problem(found.place, what, "plugins get their configuration as JSON: write a finite number");
        empty()
    })
}
