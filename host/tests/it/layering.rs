//! The rules of the source tree, read from the source itself: who may use whom, where each library lives, how long a file
//! may be, and what stays out of all files. `ARCHITECTURE.md` gives the reasons.

mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use source::{Path as Named, paths, tokens};

/// The libraries that only some top-level modules may name: a change of one of them then concerns these alone.
const HOMES: &[(&str, &[&str])] = &[
    ("rdkafka", &["kafka"]),
    ("rdkafka_sys", &["kafka"]),
    ("rocksdb", &["store"]),
    ("librocksdb_sys", &["store"]),
    ("wasmtime", &["plugin"]),
    ("wit_component", &["plugin"]),
    ("wit_parser", &["plugin"]),
    ("wasmparser", &["plugin"]),
    // Errors that callers only print; everywhere else they are types.
    ("anyhow", &["cli", "main"]),
    ("axum", &["http", "cli"]),
    // No async on the data path.
    ("tokio", &["http", "cli", "main"]),
];

/// Files that may call `thread::sleep`, with the reason why there is nothing to wait for instead.
const SLEEPERS: &[(&str, &str)] = &[
    ("host/src/cli/wait.rs", "another process gets ready and can only be asked"),
    ("host/src/plugin/engine.rs", "the epoch is a clock: it ticks when time has passed, and for no other reason"),
    ("host/src/store/database.rs", "RocksDB tells nobody when another process lets go of its lock"),
    ("tests/src/broker.rs", "another process opens a port, or ends, without telling us"),
    ("tests/src/wait.rs", "the one place where tests ask other processes again and again"),
];

/// The most lines that a file may have, `tests.rs` files aside.
const LONGEST_FILE: usize = 500;

/// The modules of `lib.rs` with their levels, as its `// Level n` comments give them.
type Levels = BTreeMap<String, u32>;

#[test]
fn the_source_keeps_the_rules() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let lib = fs::read_to_string(root.join("host/src/lib.rs")).unwrap();
    let (levels, mut breaches) = levels(&lib);
    let mut sleepers: BTreeSet<&str> = SLEEPERS.iter().map(|(file, _)| *file).collect();
    let mut modules = BTreeSet::new();

    for file in rust_files(&root) {
        let text = fs::read_to_string(root.join(&file)).unwrap();
        breaches.extend(check_length(&file, &text));
        breaches.extend(check_content(&file, &text));
        if sleeps(&text).next().is_some() {
            sleepers.remove(file.as_str());
        }
        if let Some(inner) = file.strip_prefix("host/src/") {
            modules.insert(top_module(inner).to_owned());
            breaches.extend(check_host(inner, &text, &levels));
        }
    }

    for file in sleepers.into_iter().filter(|file| root.join(file).exists()) {
        breaches.push(format!("{file}: listed in SLEEPERS, but it doesn't sleep"));
    }
    for module in levels.keys().filter(|module| !modules.contains(*module)) {
        breaches.push(format!("host/src/lib.rs: {module} has no file"));
    }
    assert!(modules.len() > 10, "the source was not found, only {modules:?}");
    assert!(breaches.is_empty(), "{} breaches:\n{}", breaches.len(), breaches.join("\n"));
}

/// All Rust files of the project, relative to its root, sorted.
pub(crate) fn rust_files(root: &Path) -> Vec<String> {
    let mut folders: Vec<PathBuf> = ["host", "guest-sdk", "plugins", "tests"].map(PathBuf::from).into();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(root.join(&folder)) else { continue };
        for entry in entries.map(Result::unwrap) {
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                if entry.file_name() != "target" {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path.to_str().unwrap().to_owned());
            }
        }
    }
    files.sort();
    files
}

/// Reads the levels out of `lib.rs`; also whatever is wrong with them.
fn levels(lib: &str) -> (Levels, Vec<String>) {
    let mut levels = Levels::new();
    let mut breaches = Vec::new();
    let mut current = None;
    for (number, line) in (1..).zip(lib.lines()) {
        if let Some(level) = line.strip_prefix("// Level ") {
            let level: Option<u32> = level.trim().parse().ok();
            if level.is_none() || level <= current {
                breaches.push(format!("host/src/lib.rs:{number}: levels must be numbers that rise"));
            }
            current = level;
        } else if let Some((_, module)) = line.split_once("mod ").filter(|(before, _)| !before.contains("//")) {
            let module = module.trim_end_matches(';').to_owned();
            match current {
                Some(level) => drop(levels.insert(module, level)),
                None => breaches.push(format!("host/src/lib.rs:{number}: {module} stands under no `// Level`")),
            }
        }
    }
    (levels, breaches)
}

/// The top-level module that a file below `host/src` belongs to.
fn top_module(file: &str) -> &str {
    let first = file.split('/').next().unwrap_or(file);
    first.strip_suffix(".rs").unwrap_or(first)
}

/// How many modules deep a file below `host/src` is: 1 for `store/mod.rs`, 2 for `store/database.rs`.
fn depth(file: &str) -> usize {
    let parts = file.split('/').count();
    if file.ends_with("/mod.rs") { parts - 1 } else { parts }
}

/// The levels and the homes, for one file below `host/src`.
fn check_host(file: &str, text: &str, levels: &Levels) -> Vec<String> {
    let own = top_module(file);
    let is_root = matches!(own, "lib" | "main");
    if !is_root && !levels.contains_key(own) {
        return vec![format!("host/src/{file}: module {own} is not in lib.rs")];
    }
    let own_level = levels.get(own).copied().unwrap_or(u32::MAX);
    let mut breaches = Vec::new();
    for path in paths(&tokens(text)) {
        let at = format!("host/src/{file}:{}", path.line);
        if let Some(used) = module_used(&path, own, depth(file), levels) {
            match levels.get(used) {
                None if own != "lib" => breaches.push(format!("{at}: {used} is not a module of lib.rs")),
                Some(level) if *level >= own_level => {
                    breaches.push(format!("{at}: {own} (level {own_level}) uses {used} (level {level})"));
                }
                _ => {}
            }
        } else if let Some((library, homes)) = HOMES.iter().find(|(library, _)| path.segments[0] == *library)
            && !homes.contains(&own)
        {
            breaches.push(format!("{at}: {own} uses {library}, which only {} may", homes.join(" and ")));
        }
    }
    breaches
}

/// The other top-level module that a path leads to, if it leads to one.
fn module_used<'a>(path: &'a Named, own: &str, depth: usize, levels: &Levels) -> Option<&'a str> {
    let first = path.segments[0].as_str();
    let supers = path.segments.iter().take_while(|segment| *segment == "super").count();
    let used = if first == "crate" || (first == "weir" && own == "main") {
        path.segments.get(1)
    } else if supers > 0 && supers == depth + path.inline_modules {
        path.segments.get(supers)
    } else if own == "lib" && levels.contains_key(first) {
        Some(&path.segments[0])
    } else {
        None
    };
    used.map(String::as_str).filter(|used| *used != own)
}

/// The length of any file.
fn check_length(file: &str, text: &str) -> Option<String> {
    let lines = text.lines().count();
    let is_tests = file.ends_with("/tests.rs");
    (lines > LONGEST_FILE && !is_tests)
        .then(|| format!("{file}: {lines} lines, {LONGEST_FILE} at most: two ideas in one?"))
}

/// What no file may hold: unfinished code, and waiting by the clock.
fn check_content(file: &str, text: &str) -> Vec<String> {
    let mut breaches = Vec::new();
    for pair in tokens(text).windows(2) {
        let word = pair[0].text.as_str();
        if matches!(word, "todo" | "unimplemented" | "dbg") && pair[1].text == "!" {
            breaches.push(format!("{file}:{}: {word}!", pair[0].line));
        }
    }
    if !SLEEPERS.iter().any(|(sleeper, _)| *sleeper == file) {
        breaches.extend(sleeps(text).map(|line| format!("{file}:{line}: sleeps instead of waiting for something")));
    }
    breaches
}

/// The lines that name a sleep, a thread's or an async one.
fn sleeps(text: &str) -> impl Iterator<Item = usize> {
    let is_sleep = |path: &Named| {
        path.segments.last().is_some_and(|last| last == "sleep")
            && path.segments.iter().any(|segment| segment == "thread" || segment == "time")
    };
    paths(&tokens(text)).into_iter().filter(move |path| is_sleep(path)).map(|path| path.line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small project's levels.
    const LIB: &str = "//! mod not_this;\n// Level 0\npub mod model;\n// Level 3\npub mod kafka;\nmod store;\n// Level 9\npub mod cli;\n";

    /// Checks the breaches of one file against the ends of what is said.
    fn check(file: &str, text: &str, expected: &[&str]) {
        let (levels, wrong) = levels(LIB);
        assert_eq!(wrong, Vec::<String>::new());
        let mut breaches = check_host(file, text, &levels);
        breaches.extend(check_content(file, text));
        assert_eq!(breaches.len(), expected.len(), "{text}: {breaches:?}");
        for (breach, end) in breaches.iter().zip(expected) {
            assert!(breach.ends_with(end), "{text}: {breach} doesn't end with {end}");
        }
    }

    #[test]
    fn lower_levels_may_be_used() {
        check("kafka/mod.rs", "use crate::model::Record; use self::x; use super::model::Y;", &[]);
        check("cli/run.rs", "use crate::{kafka::A, store}; fn f() { crate::cli::g() }", &[]);
        check("store/database.rs", "use super::kafka::A; mod tests { use super::super::cli; }", &[]);
        check("main.rs", "use weir::cli; fn main() { cli::run() }", &[]);
    }

    #[test]
    fn the_same_level_and_higher_ones_are_refused() {
        check("kafka/mod.rs", "use crate::store::Error;", &["kafka (level 3) uses store (level 3)"]);
        check("model/a.rs", "\nfn f(x: &crate::cli::X) {}", &["model (level 0) uses cli (level 9)"]);
        check(
            "model/a.rs",
            "use crate::{a::B, kafka::{C, d::E}};",
            &[
                "a is not a module of lib.rs",
                "model (level 0) uses kafka (level 3)",
                "model (level 0) uses kafka (level 3)",
            ],
        );
        check("kafka/mod.rs", "use super::store::Error;", &["uses store (level 3)"]);
        check("store/a/b.rs", "use super::super::super::cli;", &["uses cli (level 9)"]);
        check("store/a.rs", "mod tests { use super::super::super::cli; }", &["uses cli (level 9)"]);
        check("kafka/mod.rs", "#[cfg(test)]\nmod tests { use crate::store::X; }", &["uses store (level 3)"]);
    }

    #[test]
    fn libraries_stay_in_their_homes() {
        check("kafka/producer.rs", "use rdkafka::ClientConfig;", &[]);
        check("store/mod.rs", "use {bytes::Bytes, rdkafka::Offset};", &["store uses rdkafka, which only kafka may"]);
        check("cli/a.rs", "fn f() -> anyhow::Result<()> { rocksdb::DB::open() }", &["which only store may"]);
        check("store/mod.rs", "impl From<::wasmtime::Error> for E {}", &["which only plugin may"]);
        check("model/a.rs", "use anyhow as a;", &["which only cli and main may"]);
    }

    #[test]
    fn unfinished_code_and_sleeping_are_refused() {
        check("store/a.rs", "fn f() { todo!(\"later\"); dbg!(x) }", &[": todo!", ": dbg!"]);
        check("store/a.rs", "// todo!\nfn f() { \"dbg!\"; todo(); }", &[]);
        check("store/a.rs", "use std::thread::{self, sleep};", &["a.rs:1: sleeps instead of waiting for something"]);
        check("store/a.rs", "fn f() { thread::sleep(x); }", &["sleeps instead of waiting for something"]);
        check(
            "store/a.rs",
            "async fn f() { tokio::time::sleep(x).await }",
            &["store uses tokio, which only http and cli and main may", "sleeps instead of waiting for something"],
        );
    }

    #[test]
    fn a_module_without_a_level_is_refused() {
        assert_eq!(levels("pub mod a;\n").1, ["host/src/lib.rs:1: a stands under no `// Level`"]);
        assert_eq!(
            levels("// Level 1\nmod a;\n// Level 1\n").1,
            ["host/src/lib.rs:3: levels must be numbers that rise"]
        );
        check("other/mod.rs", "", &["module other is not in lib.rs"]);
    }

    #[test]
    fn long_files_are_refused_except_tests() {
        let long = "\n".repeat(LONGEST_FILE + 1);
        assert_eq!(check_length("a/b.rs", &long).unwrap(), "a/b.rs: 501 lines, 500 at most: two ideas in one?");
        assert_eq!(check_length("a/tests.rs", &long), None);
        assert_eq!(check_length("a/b.rs", &"\n".repeat(LONGEST_FILE)), None);
    }
}
