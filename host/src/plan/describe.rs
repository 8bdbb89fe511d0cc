//! A plan as text: what `weir check` prints.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use crate::topology::Topology;

use super::description::{Description, Function, Kind, Node, Part};
use super::{FunctionKind, MemoryPart, OnError, Plan};

/// `plan`, which is that of `topology`, as text for people. With `counts`, the partitions of each topic, it says how many
/// tasks there are.
pub fn describe(plan: &Plan, topology: &Topology, counts: Option<&BTreeMap<String, i32>>) -> String {
    Description::new(plan, topology, counts).to_string()
}

/// The same as JSON.
pub fn describe_json(plan: &Plan, topology: &Topology, counts: Option<&BTreeMap<String, i32>>) -> serde_json::Value {
    // Fails only for maps whose keys are no strings; there are none.
    serde_json::to_value(Description::new(plan, topology, counts)).unwrap_or_default()
}

impl Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = if self.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", self.threads) };
        writeln!(f, "{}: {}, {threads}, a commit every {}", self.app, self.guarantee, self.commit_interval)?;
        write!(f, "time: {}; barrier: {}", self.time, self.barrier.scope)?;
        if let Some(timeout) = &self.barrier.timeout {
            write!(f, ", at most {timeout}, then {}", self.barrier.on_timeout)?;
        }
        writeln!(f)?;
        writeln!(
            f,
            "on stop: {}; state of tasks that have moved away is kept for {}",
            self.on_stop, self.cleanup_delay
        )?;
        match self.standby {
            0 => {}
            1 => writeln!(f, "standby: state is kept up to date where tasks go when an instance is lost")?,
            losses => {
                writeln!(f, "standby: state is kept up to date where tasks go when up to {losses} instances are lost")?
            }
        }
        for part in &self.subtopologies {
            write!(f, "\n{part}")?;
        }
        let globals = self.global_tables.iter().map(|table| {
            (table.name.clone(), format!("{}, topic {}{}", table.kind, table.topic, partitions(table.partitions)))
        });
        section(f, "\nglobal tables (whole on every instance)", "", globals)?;
        let plugins = self.plugins.iter().map(|plugin| {
            let functions = plugin.functions.iter().map(function).map(|line| format!("\n    {line}"));
            let limits = format!("{}, {} an instance, {} a call", plugin.file, plugin.memory, plugin.call_timeout);
            (plugin.name.clone(), limits + &functions.collect::<String>())
        });
        section(f, "\nplugins", "", plugins)?;
        let views = self.views.iter().map(|view| {
            let function = view.function.as_ref().map(name).unwrap_or_default();
            let stores = if view.stores.is_empty() { "no store".to_owned() } else { view.stores.join(", ") };
            (view.name.clone(), format!("{}, {function}, reads {stores}", view.route))
        });
        section(f, "\nviews", "", views)?;
        let ready = self.ready.iter().map(|ready| {
            (
                ready.route.clone(),
                format!("once {} is restored and holds {} or more rows", ready.table, ready.min_records),
            )
        });
        section(f, "\nreadiness", "", ready)?;
        let topics = self.internal_topics.iter().map(|topic| {
            let partitions = topic.partitions.map_or("as many partitions as tasks".to_owned(), count_partitions);
            let config: String = topic.config.iter().map(|(key, value)| format!(", {key}={value}")).collect();
            (topic.name.clone(), partitions + &config)
        });
        section(f, "\ntopics that Weir makes", "", topics)?;
        if let Some(topic) = &self.dead_letters {
            writeln!(f, "\ndead letters: topic {topic}")?;
        }
        let assumed = if self.memory.partitions_unknown { ", as if each topic had one partition" } else { "" };
        let heading = format!("\nmemory: {} in all{assumed}", self.memory.total);
        section(f, &heading, "", self.memory.parts.iter().map(|part| (part.part.to_owned(), memory_line(part))))
    }
}

impl Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tasks {
            Some(1) => writeln!(f, "sub-topology {}: 1 task", self.index)?,
            Some(tasks) => writeln!(f, "sub-topology {}: {tasks} tasks", self.index)?,
            None => writeln!(f, "sub-topology {}", self.index)?,
        }
        let sources = self.sources.iter().map(|source| {
            (source.name.clone(), format!("{}, topic {}{}", source.kind, source.topic, partitions(source.partitions)))
        });
        section(f, "  reads", "  ", sources)?;
        section(f, "  nodes", "  ", self.nodes.iter().map(|node| (node.name.clone(), node_line(node))))?;
        let stores = self.stores.iter().map(|store| {
            let topic = if store.origin == "table" { "restored from the table's topic" } else { "changelog" };
            (store.name.clone(), format!("{}, {topic} {}", store.kind, store.topic))
        });
        section(f, "  stores", "  ", stores)
    }
}

/// A heading and lines of two columns; nothing without lines.
fn section(
    f: &mut fmt::Formatter<'_>,
    heading: &str,
    indent: &str,
    lines: impl Iterator<Item = (String, String)>,
) -> fmt::Result {
    let lines: Vec<_> = lines.collect();
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    if !lines.is_empty() {
        writeln!(f, "{heading}")?;
    }
    for (name, text) in lines {
        writeln!(f, "{indent}  {name:width$}  {text}")?;
    }
    Ok(())
}

/// What a node does.
fn node_line(node: &Node) -> String {
    let input = node.inputs.first().map(String::as_str).unwrap_or_default();
    let with = node.functions.first().map(|used| format!(": {}", name(used))).unwrap_or_default();
    match &node.kind {
        Kind::Join { table, left } => {
            format!("{} join of {input} with {table}{with}", if *left { "left" } else { "inner" })
        }
        Kind::Aggregate { emit } => {
            let inputs = node.inputs.iter().zip(&node.functions);
            let inputs: String = inputs.map(|(input, used)| format!("\n        {input}: {}", name(used))).collect();
            format!("aggregate, emits {emit}, of{inputs}")
        }
        Kind::Transform => format!("transform of {input}{with}"),
        Kind::Sink { topic } => format!("sink of {input}, topic {topic}"),
    }
}

/// A function's full name, and what happens to what it rejects if that isn't the default.
fn name(used: &Function) -> String {
    match used.on_error {
        OnError::Fail => format!("{}.{}", used.plugin, used.function),
        other => format!("{}.{} (on error: {other})", used.plugin, used.function),
    }
}

/// How much a part may take, and of what.
fn memory_line(part: &MemoryPart) -> String {
    format!("{:4} MiB  {}", part.memory.0 >> 20, part.of)
}

/// A function below its plugin.
fn function(used: &Function) -> String {
    let kind = match used.kind {
        FunctionKind::Joiner => "joiner",
        FunctionKind::Aggregator => "aggregator",
        FunctionKind::Transformer => "transformer",
        FunctionKind::View => "view",
    };
    format!("{kind:11}  {}", used.function)
}

/// `, 8 partitions`, if that is known.
fn partitions(count: Option<i32>) -> String {
    count.map(|count| format!(", {}", count_partitions(count))).unwrap_or_default()
}

/// `8 partitions`.
fn count_partitions(count: i32) -> String {
    if count == 1 { "1 partition".to_owned() } else { format!("{count} partitions") }
}
