//! `weir plugin`: inspects a file; lists, deploys and rolls back on an instance.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use clap::Subcommand;
use serde::{Deserialize, Serialize};

use super::table::{Table, print, print_json};
use super::{Context, Output, client};
use crate::http::path_segment;
use crate::model::PluginStatus;
use crate::plugin::{self, Inspection};
use crate::registry::{Activation, Transition};

/// Digits of a digest that people see.
const SHORT: usize = 12;

/// What to do with plugins.
#[derive(Debug, Subcommand)]
pub(super) enum PluginCommand {
    /// Checks a plugin's file and prints what it holds; needs no instance
    Inspect {
        /// The plugin
        file: PathBuf,
    },
    /// Prints the active plugins of an instance
    List,
    /// Prints a plugin's active version and its history
    Show {
        /// Its name in the topology
        name: String,
    },
    /// Checks a version, and makes it the active one on all instances
    Deploy {
        /// The plugin
        file: PathBuf,
        /// Its name in the topology
        #[arg(long)]
        name: String,
        /// Words for the history
        #[arg(short, long, default_value = "")]
        message: String,
    },
    /// Makes the version before the active one the active one again
    Rollback {
        /// Its name in the topology
        name: String,
    },
}

/// `GET /v1/plugins`.
#[derive(Debug, Serialize, Deserialize)]
struct Plugins {
    /// Active plugins.
    plugins: Vec<PluginStatus>,
}

/// `GET /v1/plugins/{plugin}`.
#[derive(Debug, Serialize, Deserialize)]
struct Plugin {
    /// As it is active.
    #[serde(flatten)]
    status: PluginStatus,
    /// What happened to it.
    history: Vec<Transition>,
}

/// Does it.
pub(super) fn run(command: PluginCommand, context: &Context) -> anyhow::Result<()> {
    match command {
        PluginCommand::Inspect { file } => {
            let inspection =
                plugin::inspect(&read(&file)?).with_context(|| format!("{} is no plugin", file.display()))?;
            show(context, &inspection, in_words)
        }
        PluginCommand::List => {
            let plugins: Plugins = context.client.get_json("/v1/plugins")?;
            show(context, &plugins, |plugins| active(&plugins.plugins))
        }
        PluginCommand::Show { name } => {
            let plugin: Plugin = context.client.get_json(&format!("/v1/plugins/{}", path_segment(&name)))?;
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
            show(context, &plugin, |plugin| history(plugin, i64::try_from(now).unwrap_or(i64::MAX)))
        }
        PluginCommand::Deploy { file, name, message } => {
            let bytes = read(&file)?;
            let path = format!("/v1/plugins/{}/versions", path_segment(&name));
            let query: &[(&str, &str)] = if message.is_empty() { &[] } else { &[("message", &message)] };
            tracing::info!("sending {} bytes to {}", bytes.len(), context.client.server());
            let activation = client::parse(&context.client.post(&path, query, &bytes)?)?;
            show(context, &activation, |activation| told(activation, "deployed"))
        }
        PluginCommand::Rollback { name } => {
            let path = format!("/v1/plugins/{}/rollback", path_segment(&name));
            let activation = client::parse(&context.client.post(&path, &[], &[])?)?;
            show(context, &activation, |activation| told(activation, "rolled back"))
        }
    }
}

/// The bytes of a file.
fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}

/// Prints a document, or words made of it.
fn show<T: Serialize>(context: &Context, document: &T, words: impl FnOnce(&T) -> String) -> anyhow::Result<()> {
    match context.output {
        Output::Json => print_json(document),
        Output::Table => Ok(print(&words(document))?),
    }
}

/// The beginning of a digest.
fn short(digest: &str) -> String {
    digest.get(..SHORT).unwrap_or(digest).to_owned()
}

/// The active plugins in a table.
pub(super) fn active(plugins: &[PluginStatus]) -> String {
    let mut table = Table::new(["plugin", "version", "digest", "generation", "previous", "file"]);
    for plugin in plugins {
        let other = |digest: &Option<String>| digest.as_deref().map(short).unwrap_or_default();
        table.row([
            plugin.plugin.clone(),
            plugin.version.clone(),
            short(&plugin.digest),
            plugin.generation.to_string(),
            other(&plugin.previous),
            other(&plugin.file_digest),
        ]);
    }
    table.render()
}

/// A plugin and its history in words.
fn history(plugin: &Plugin, now_ms: i64) -> String {
    let mut table = Table::new(["generation", "digest", "how", "ago", "by", "message"]);
    for step in &plugin.history {
        table.row([
            step.generation.to_string(),
            short(&step.digest),
            format!("{:?}", step.kind).to_lowercase(),
            ago(now_ms.saturating_sub(step.at_ms)),
            step.by.clone(),
            step.message.clone(),
        ]);
    }
    format!("{}\n{}", active(std::slice::from_ref(&plugin.status)), table.render())
}

/// A time span in its largest unit.
fn ago(millis: i64) -> String {
    let seconds = millis.max(0) / 1000;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// What a deployment came to, in words.
fn told(activation: &Activation, done: &str) -> String {
    let Activation { plugin, digest, version, generation, previous, already_active, waits_for } = activation;
    let digest = short(digest);
    let mut text = if *already_active {
        format!("{plugin} {version} ({digest}) was active already, since generation {generation}\n")
    } else {
        format!("{plugin} {done}: version {version} ({digest}) is active, generation {generation}\n")
    };
    if let Some(previous) = previous {
        text += &format!("weir plugin rollback {plugin} goes back to {}\n", short(previous));
    }
    if let Some(reason) = waits_for {
        text += &format!("this instance does not run it yet: {reason}\n");
    }
    text
}

/// An inspected plugin in words.
fn in_words(inspection: &Inspection) -> String {
    let Inspection { digest, size, form, kinds, imports, description } = inspection;
    let list = |items: Vec<String>| if items.is_empty() { "none".to_owned() } else { items.join(", ") };
    let kinds = list(kinds.iter().map(ToString::to_string).collect());
    let mut text = format!(
        "{} {}\n  digest   {digest}\n  size     {size} bytes, a {}\n  kinds    {kinds}\n  imports  {}\n  states   {}\n\n",
        description.name,
        description.version,
        match form {
            plugin::Form::Module => "core module",
            plugin::Form::Component => "component",
        },
        list(imports.clone()),
        list(description.states.iter().map(|state| format!("{} version {}", state.name, state.version)).collect()),
    );
    let mut table = Table::new(["function", "kind", "state", "doc"]);
    for function in &description.functions {
        let state = function.state.clone().unwrap_or_default();
        table.row([function.name.clone(), function.kind.to_string(), state, function.doc.clone()]);
    }
    text += &table.render();
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Generation;

    #[test]
    fn the_past_is_told_in_its_largest_unit() {
        let told: Vec<String> = [-5, 119_999, 120_000, 7_200_000, 172_800_000].map(ago).into();
        assert_eq!(told, ["0 s", "119 s", "2 min", "2 h", "2 d"]);
    }

    #[test]
    fn a_deployment_is_told_with_the_way_back() {
        let activation = Activation {
            plugin: "projekt".to_owned(),
            digest: "0123456789abcdef".to_owned(),
            version: "2.0.0".to_owned(),
            generation: Generation(17),
            previous: Some("fedcba9876543210".to_owned()),
            already_active: false,
            waits_for: None,
        };
        let expected = "\
projekt deployed: version 2.0.0 (0123456789ab) is active, generation 17
weir plugin rollback projekt goes back to fedcba987654
";
        assert_eq!(told(&activation, "deployed"), expected);
        let again = Activation { already_active: true, previous: None, ..activation };
        let expected = "projekt 2.0.0 (0123456789ab) was active already, since generation 17\n";
        assert_eq!(told(&again, "deployed"), expected);
    }
}
