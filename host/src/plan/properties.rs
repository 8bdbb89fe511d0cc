//! Whatever the bytes, a file is refused or gives a plan; nothing panics.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use proptest::sample::Index;

use crate::topology::parse;
use crate::topology::samples::{ORDERS, PROJEKT};

use super::{NodeInput, Plan, describe, describe_json};

/// Words that files consist of, right and wrong.
const WORDS: [&str; 24] = [
    "[",
    "]",
    "[[",
    "{",
    "}",
    "=",
    ".",
    ",",
    "\"",
    "'",
    "\"\"\"",
    "\n",
    "#",
    "\\",
    "app",
    "kafka",
    "projekt-store",
    "ausgabe",
    "\"memory\"",
    "-1",
    "1e400",
    "1979-05-27",
    "true",
    "\u{e9}",
];

/// A change of a text.
#[derive(Clone, Debug)]
enum Edit {
    /// Puts a word somewhere.
    Insert(Index, Index),
    /// Takes some characters away.
    Remove(Index, u8),
    /// Repeats a line elsewhere.
    Repeat(Index, Index),
    /// Swaps two lines.
    Swap(Index, Index),
}

/// Any edit.
fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        any::<(Index, Index)>().prop_map(|(at, word)| Edit::Insert(at, word)),
        any::<(Index, u8)>().prop_map(|(at, count)| Edit::Remove(at, count % 12)),
        any::<(Index, Index)>().prop_map(|(from, to)| Edit::Repeat(from, to)),
        any::<(Index, Index)>().prop_map(|(left, right)| Edit::Swap(left, right)),
    ]
}

/// `text`, changed.
fn edited(text: &str, edits: &[Edit]) -> String {
    let mut text = text.to_owned();
    for edit in edits {
        match edit {
            Edit::Insert(at, word) => {
                let at = text.floor_char_boundary(at.index(text.len() + 1));
                text.insert_str(at, WORDS[word.index(WORDS.len())]);
            }
            Edit::Remove(at, count) => {
                let at = at.index(text.len() + 1);
                text = text.chars().take(at).chain(text.chars().skip(at + usize::from(*count))).collect();
            }
            Edit::Repeat(from, to) | Edit::Swap(from, to) => {
                let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
                if lines.is_empty() {
                    continue;
                }
                let (from, to) = (from.index(lines.len()), to.index(lines.len()));
                match edit {
                    Edit::Swap(..) => lines.swap(from, to),
                    _ => lines.insert(to, lines[from].clone()),
                }
                text = lines.join("\n");
            }
        }
    }
    text
}

/// Parses `bytes`; what comes of it is whole.
fn try_parse(bytes: &[u8], set: &[(String, String)]) {
    match parse(bytes, Path::new("weir.toml"), set, &BTreeMap::new()) {
        Err(problems) => assert!(!problems.0.is_empty()),
        Ok(topology) => {
            let plan = Plan::resolve(&topology);
            let planned: usize = plan.subtopologies.iter().map(|part| part.nodes.len()).sum();
            let declared = topology.nodes.iter().filter(|node| !node.inputs().is_empty()).count();
            assert_eq!(planned, declared);
            for part in &plan.subtopologies {
                for (index, node) in part.nodes.iter().enumerate() {
                    assert!(!node.inputs.is_empty());
                    for input in &node.inputs {
                        match input {
                            NodeInput::Source(source) => assert!(*source < part.sources.len()),
                            NodeInput::Node(earlier) => assert!(*earlier < index),
                        }
                    }
                }
            }
            assert!(!describe(&plan, &topology, None).is_empty());
            assert!(describe_json(&plan, &topology, None).is_object());
        }
    }
}

proptest! {
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        try_parse(&bytes, &[]);
    }

    #[test]
    fn any_words(words in proptest::collection::vec(proptest::sample::select(&WORDS[..]), 0..40)) {
        try_parse(words.concat().as_bytes(), &[]);
    }

    #[test]
    fn files_that_were_right(
        text in proptest::sample::select(&[PROJEKT, ORDERS][..]),
        edits in proptest::collection::vec(edit(), 0..6),
    ) {
        try_parse(edited(text, &edits).as_bytes(), &[]);
    }

    #[test]
    fn any_overrides(path in "[a-z.\"#= ]{0,12}|(app|kafka|streams)\\.[a-z.]{0,8}", value in "\\PC{0,12}") {
        try_parse(ORDERS.as_bytes(), &[(path, value)]);
    }
}
