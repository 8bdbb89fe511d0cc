//! The tree of a file as a topology, unchecked: names may lead nowhere. What cannot be read is reported, and stands there
//! as a placeholder, so that nothing that refers to it is reported too.

use std::path::Path;

use crate::config::{
    AppOptions, At, BarrierOptions, ByteSize, Choices, HttpOptions, NAME_RULE, Origins, PluginOptions, Report, Section,
    StateOptions, Table, is_legal_name, is_legal_topic, read_kafka,
};

use super::{Emit, Input, Node, NodeKind, OnError, StoreKind, Topology, Use, View};

/// Example of a function's name, for messages.
const FUNCTION: &str = "plugin.function";

/// Reads one node.
type Reader = fn(&At<String>, &mut Section<'_>) -> NodeKind;

/// The topology that `root` describes.
pub(super) fn topology(file: &Path, root: &Table, report: &Report) -> Topology {
    let mut root = Section::root(root, report);
    let app = AppOptions::read(root.section("app"));
    let kafka = read_kafka(&root.section("kafka"));
    let state = StateOptions::read(root.section("state"));
    let http = HttpOptions::read(root.section("http"));
    let barrier = BarrierOptions::read(root.section("barrier"));
    let plugin = |(name, section)| PluginOptions::read(name, section, state.memory);
    let plugins = root.named("plugins").into_iter().map(plugin).collect();

    let kinds: [(&'static str, Reader); 7] = [
        ("streams", stream),
        ("tables", table),
        ("global_tables", global_table),
        ("joins", join),
        ("aggregates", aggregate),
        ("transforms", transform),
        ("sinks", sink),
    ];
    let mut nodes = Vec::new();
    for (kind, read) in kinds {
        nodes.extend(root.named(kind).into_iter().map(|(name, section)| node(name, section, read)));
    }
    nodes.sort_by_key(|node| node.place);
    let mut views: Vec<_> = root.named("views").into_iter().map(|(name, section)| view(name, section)).collect();
    views.sort_by_key(|view| view.place);
    let dead_letters = dead_letters(root.section("dead_letters"));
    root.finish();
    Topology {
        file: file.to_owned(),
        app,
        kafka,
        state,
        http,
        barrier,
        plugins,
        nodes,
        views,
        dead_letters,
        warnings: Vec::new(),
        origins: Origins::default(),
    }
}

/// A node: its name, then what `read` makes of the rest.
fn node(name: &At<String>, mut section: Section<'_>, read: Reader) -> Node {
    legal(name, &section);
    let kind = read(name, &mut section);
    section.finish();
    Node { name: name.value.clone(), place: name.place, kind }
}

/// Names become parts of topics' and stores' names.
fn legal(name: &At<String>, section: &Section<'_>) {
    if !is_legal_name(&name.value) {
        section.report.problem(name.place, format!("{:?} is no name", name.value), NAME_RULE);
    }
}

/// `[streams.X]`.
fn stream(name: &At<String>, section: &mut Section<'_>) -> NodeKind {
    NodeKind::Stream { topic: topic(section, name) }
}

/// `[tables.X]`.
fn table(name: &At<String>, section: &mut Section<'_>) -> NodeKind {
    NodeKind::Table { topic: topic(section, name), store: store(section) }
}

/// `[global_tables.X]`.
fn global_table(name: &At<String>, section: &mut Section<'_>) -> NodeKind {
    NodeKind::GlobalTable { topic: topic(section, name), store: store(section) }
}

/// `[joins.X]`.
fn join(_: &At<String>, section: &mut Section<'_>) -> NodeKind {
    let kinds = [("left", true), ("inner", false)];
    let kind = section.choice("kind", &Choices { words: &kinds, unsupported: &["outer"] });
    if section.value("kind").is_none() {
        section
            .lacks("kind", "add kind = \"left\" (a record without a row goes on) or kind = \"inner\" (it is dropped)");
    }
    let misses = [("pass", true), ("drop", false)];
    let miss = section.choice("on_miss", &Choices { words: &misses, unsupported: &["park", "retry", "dlq"] });
    if let (Some(passes), Some(keeps), Some(found)) = (miss, kind, section.value("on_miss"))
        && passes != keeps
    {
        let (kind, miss) = if keeps { ("left", "pass") } else { ("inner", "drop") };
        let what = format!("{} does not go with kind = {kind:?}", section.name("on_miss"));
        section.report.problem(found.place, what, format!("write on_miss = {miss:?}, or leave it out"));
    }
    NodeKind::Join {
        left: section.required_text("left", "a-stream"),
        table: section.required_text("table", "a-table"),
        keeps_unmatched: kind.unwrap_or(true),
        function: function(section),
    }
}

/// `[aggregates.X]`.
fn aggregate(_: &At<String>, section: &mut Section<'_>) -> NodeKind {
    let inputs = section.items("inputs", "[{ from = \"a-stream\", function = \"plugin.function\" }]");
    let words = [("each", Emit::Each), ("batch", Emit::Batch), ("commit", Emit::Commit)];
    NodeKind::Aggregate {
        inputs: inputs.into_iter().map(input).collect(),
        emit: section.choice("emit", &Choices { words: &words, unsupported: &[] }).unwrap_or_default(),
        store: store(section),
    }
}

/// An element of `inputs`.
fn input(mut section: Section<'_>) -> Input {
    let input = Input { from: section.required_text("from", "a-stream"), function: function(&mut section) };
    section.finish();
    input
}

/// `[transforms.X]`.
fn transform(_: &At<String>, section: &mut Section<'_>) -> NodeKind {
    NodeKind::Transform { from: section.required_text("from", "a-stream"), function: function(section) }
}

/// `[sinks.X]`.
fn sink(name: &At<String>, section: &mut Section<'_>) -> NodeKind {
    NodeKind::Sink { from: section.required_text("from", "a-stream"), topic: topic(section, name) }
}

/// `[views.X]`.
fn view(name: &At<String>, mut section: Section<'_>) -> View {
    legal(name, &section);
    let view = View {
        name: name.value.clone(),
        place: name.place,
        route: section.required_text("route", "/api/orders"),
        function: Use { on_error: OnError::Fail, ..function_name(&mut section) },
        stores: section.texts("stores", "[\"orders\"]").unwrap_or_default(),
    };
    section.finish();
    view
}

/// `[dead_letters]`.
fn dead_letters(mut section: Section<'_>) -> Option<At<String>> {
    let there = !section.is_missing();
    let name = section.required_text("topic", "dead-letters");
    legal_topic(&section, &name);
    section.finish();
    there.then_some(name)
}

/// `topic`, or the node's name.
fn topic(section: &mut Section<'_>, name: &At<String>) -> At<String> {
    if section.value("topic").is_none() {
        return name.clone();
    }
    let topic = section.required_text("topic", &name.value);
    legal_topic(section, &topic);
    topic
}

/// Reports a topic's name that Kafka doesn't take.
fn legal_topic(section: &Section<'_>, topic: &At<String>) {
    if !topic.value.is_empty() && !is_legal_topic(&topic.value) {
        let what = format!("{} is {:?}, which Kafka does not take as a topic", section.name("topic"), topic.value);
        section.report.problem(topic.place, what, "use letters, digits, \".\", \"_\" and \"-\", at most 249 of them");
    }
}

/// `store` and `max_memory`.
fn store(section: &mut Section<'_>) -> StoreKind {
    /// Least bound of a memory store.
    const LEAST: ByteSize = ByteSize(1024);
    /// Most, as for the whole process.
    const MOST: ByteSize = ByteSize::mib(64 << 20);
    let words = [("rocksdb", false), ("memory", true)];
    let in_memory = section.choice("store", &Choices { words: &words, unsupported: &[] });
    let given = section.value("max_memory");
    let max_memory = section.bytes("max_memory", LEAST..=MOST, "256 MiB");
    match (in_memory, given) {
        (Some(true), None) => {
            section.lacks("max_memory", "add max_memory = \"256 MiB\", the bound over which the store refuses to grow");
        }
        (Some(false) | None, Some(given)) if section.value("store").is_none() || in_memory.is_some() => {
            let what = format!("{} is for memory stores only", section.name("max_memory"));
            section.report.problem(
                given.place,
                what,
                "add store = \"memory\", or remove it (RocksDB shares state.memory)",
            );
        }
        _ => {}
    }
    match in_memory {
        Some(true) => StoreKind::Memory { max_bytes: max_memory.unwrap_or(LEAST).0 },
        _ => StoreKind::RocksDb,
    }
}

/// `function` and `on_error`.
fn function(section: &mut Section<'_>) -> Use {
    let words = [("fail", OnError::Fail), ("skip", OnError::Skip), ("dlq", OnError::DeadLetter)];
    let on_error = section.choice("on_error", &Choices { words: &words, unsupported: &["retry"] });
    Use { on_error: on_error.unwrap_or_default(), ..function_name(section) }
}

/// `function`: a plugin's name, a dot, a function's name.
fn function_name(section: &mut Section<'_>) -> Use {
    let name = section.required_text("function", FUNCTION);
    let (plugin, function) = name.value.split_once('.').unwrap_or_default();
    if !name.value.is_empty() && (plugin.is_empty() || function.is_empty()) {
        let what = format!("{} is {:?}", section.name("function"), name.value);
        section.report.problem(
            name.place,
            what,
            "write the plugin's name, a dot and the function's name: \"plugin.function\"",
        );
    }
    Use { place: name.place, plugin: plugin.to_owned(), function: function.to_owned(), on_error: OnError::default() }
}
