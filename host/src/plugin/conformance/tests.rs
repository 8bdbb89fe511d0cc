//! Components of every shape against `wit/`; messages as people read them.

use super::super::test_guest::{component, foreign_component};
use super::*;

/// What is wrong with a component.
fn problems(component: &[u8]) -> String {
    Contract::new().unwrap().check(component).map_or_else(|problems| problems.join("\n"), |found| format!("{found:?}"))
}

/// What is wrong with a component of the world `body`, against the host's own interfaces.
fn problems_of(body: &str) -> String {
    problems(&component(&format!("package test:guest; world guest {{ {body} }}")))
}

/// What is wrong with a component built with other interfaces: `interfaces` in a `weir:plugin` of this version.
fn problems_of_other(version: &str, interfaces: &str, body: &str) -> String {
    problems(&foreign_component(&format!(
        "package weir:plugin@{version};
         {interfaces}
         world guest {{ {body} }}"
    )))
}

/// `lifecycle` as the host has it.
const LIFECYCLE: &str = "
    interface lifecycle {
        enum kind { joiner, aggregator, transformer, view }
        record function { name: string, kind: kind, doc: string, state: option<string> }
        record state-type { name: string, version: u32 }
        record description { name: string, version: string, functions: list<function>, states: list<state-type> }
        describe: func() -> description;
        init: func(config: string) -> result<_, string>;
    }";

#[test]
fn plugins_of_one_and_of_all_kinds_conform() {
    insta::assert_snapshot!(problems_of("export weir:plugin/lifecycle@0.1.0; export weir:plugin/joiner@0.1.0;"), @r#"Conforming { kinds: [Joiner], imports: ["weir:plugin/types@0.1.0"] }"#);
    insta::assert_snapshot!(
        problems_of(
            "import weir:plugin/log@0.1.0; import weir:plugin/stores@0.1.0; export weir:plugin/lifecycle@0.1.0;
             export weir:plugin/joiner@0.1.0; export weir:plugin/aggregator@0.1.0;
             export weir:plugin/transformer@0.1.0; export weir:plugin/view@0.1.0;"
        ),
        @r#"Conforming { kinds: [Joiner, Aggregator, Transformer, View], imports: ["weir:plugin/log@0.1.0", "weir:plugin/stores@0.1.0", "weir:plugin/types@0.1.0"] }"#
    );
}

#[test]
fn other_worlds_are_refused() {
    insta::assert_snapshot!(
        problems(&foreign_component(
            "package acme:ads; interface score { rate: func(x: u32) -> u32; } world w { export score; export run: func(); }"
        )),
        @"it is of another world: it exports run, acme:ads/score; a plugin exports weir:plugin/lifecycle and one or more of joiner, aggregator, transformer, view (version 0.1)"
    );
    insta::assert_snapshot!(problems(&foreign_component("package a:b; world w { import f: func(); }")), @"
    it is of another world: it exports nothing; a plugin exports weir:plugin/lifecycle and one or more of joiner, aggregator, transformer, view (version 0.1)
    it imports f, which plugins may not: plugins are pure; a plugin may import weir:plugin/log and, if it has views, weir:plugin/stores
    ");
}

#[test]
fn what_is_lacking_is_named() {
    insta::assert_snapshot!(problems_of("export weir:plugin/joiner@0.1.0;"), @"it lacks weir:plugin/lifecycle ('describe' and 'init'); a plugin exports weir:plugin/lifecycle and one or more of joiner, aggregator, transformer, view (version 0.1)");
    insta::assert_snapshot!(problems_of("export weir:plugin/lifecycle@0.1.0;"), @"it exports no kind of function; a plugin exports weir:plugin/lifecycle and one or more of joiner, aggregator, transformer, view (version 0.1)");
}

#[test]
fn unknown_exports_of_ours_are_refused() {
    let interfaces = format!("{LIFECYCLE} interface windower {{ open: func(); }}");
    insta::assert_snapshot!(problems_of_other("0.1.3", &interfaces, "export lifecycle; export windower;"), @"
    it exports weir:plugin/windower@0.1.3, which this host doesn't know: built for a newer host? (a plugin exports weir:plugin/lifecycle and one or more of joiner, aggregator, transformer, view (version 0.1))
    it exports no kind of function; a plugin exports weir:plugin/lifecycle and one or more of joiner, aggregator, transformer, view (version 0.1)
    ");
    insta::assert_snapshot!(problems_of("export weir:plugin/lifecycle@0.1.0; export weir:plugin/log@0.1.0;"), @"
    it exports weir:plugin/log@0.1.0: weir:plugin/log is for plugins to import
    it exports no kind of function; a plugin exports weir:plugin/lifecycle and one or more of joiner, aggregator, transformer, view (version 0.1)
    ");
}

#[test]
fn foreign_exports_beside_ours_do_not_matter() {
    insta::assert_snapshot!(
        problems_of("export weir:plugin/lifecycle@0.1.0; export weir:plugin/joiner@0.1.0; export run: func();"),
        @r#"Conforming { kinds: [Joiner], imports: ["weir:plugin/types@0.1.0"] }"#
    );
}

#[test]
fn a_compatible_version_conforms_and_another_does_not() {
    let joiner = format!(
        "{LIFECYCLE}
         interface types {{
            record fields {{ bytes: list<u8>, ends: list<u32> }}
            enum verdict {{ skip, reject, fail }}
            record refusal {{ index: u32, verdict: verdict, reason: string }}
         }}
         interface joiner {{
            use types.{{fields, refusal}};
            record joined {{ values: fields, refused: list<refusal> }}
            join: func(function: u32, pairs: fields) -> joined;
         }}"
    );
    insta::assert_snapshot!(problems_of_other("0.1.9", &joiner, "export lifecycle; export joiner;"), @r#"Conforming { kinds: [Joiner], imports: ["weir:plugin/types@0.1.9"] }"#);
    insta::assert_snapshot!(problems_of_other("0.2.0", &joiner, "export lifecycle; export joiner;"), @"
    weir:plugin/lifecycle@0.2.0: this host speaks version 0.1 of weir:plugin
    weir:plugin/joiner@0.2.0: this host speaks version 0.1 of weir:plugin
    weir:plugin/types@0.2.0: this host speaks version 0.1 of weir:plugin
    ");
}

#[test]
fn other_types_are_told_apart() {
    let with_join = |join: &str| {
        let interfaces = format!(
            "{LIFECYCLE}
             interface joiner {{
                record fields {{ bytes: list<u8>, ends: list<u64> }}
                record pair {{ key: list<u8>, left: list<u8> }}
                enum verdict {{ skip, fail }}
                record refusal {{ index: u32, verdict: verdict, reason: string }}
                record right-fields {{ bytes: list<u8>, ends: list<u32> }}
                record joined {{ values: right-fields, refused: list<refusal> }}
                {join}
             }}"
        );
        problems_of_other("0.1.0", &interfaces, "export lifecycle; export joiner;")
    };
    insta::assert_snapshot!(with_join("join: func(function: u32, pairs: fields) -> joined;"), @"weir:plugin/joiner@0.1.0: join, parameter pairs, field ends, in the list must be u32, not u64");
    insta::assert_snapshot!(with_join("join: func(function: u32, pairs: right-fields) -> joined;"), @"weir:plugin/joiner@0.1.0: join's result, field refused, in the list, field verdict: cases must be (skip, reject, fail), not (skip, fail)");
    insta::assert_snapshot!(with_join("join: func(function: u32, pairs: list<pair>) -> joined;"), @"weir:plugin/joiner@0.1.0: join, parameter pairs must be record fields, not list<record pair>");
    insta::assert_snapshot!(with_join("join: func(function: u32) -> joined;"), @"weir:plugin/joiner@0.1.0: join's parameters must be (function, pairs), not (function)");
    insta::assert_snapshot!(with_join("join: func(function: u32, pairs: right-fields);"), @"weir:plugin/joiner@0.1.0: join's result must be record joined, not nothing");
    insta::assert_snapshot!(with_join("merge: func(function: u32);"), @"
    weir:plugin/joiner@0.1.0: function join is missing
    weir:plugin/joiner@0.1.0: function merge is not in this host's version
    ");
}

#[test]
fn imports_of_ours_must_match_too() {
    let interfaces = format!("{LIFECYCLE} interface log {{ log: func(message: string); flush: func(); }}");
    insta::assert_snapshot!(problems_of_other("0.1.0", &interfaces, "import log; export lifecycle;"), @"
    it exports no kind of function; a plugin exports weir:plugin/lifecycle and one or more of joiner, aggregator, transformer, view (version 0.1)
    weir:plugin/log@0.1.0: log's parameters must be (level, message), not (message)
    weir:plugin/log@0.1.0: function flush is not in this host's version
    ");
}

#[test]
fn only_views_import_stores() {
    insta::assert_snapshot!(
        problems_of(
            "import weir:plugin/stores@0.1.0; export weir:plugin/lifecycle@0.1.0; export weir:plugin/joiner@0.1.0;"
        ),
        @"it imports weir:plugin/stores@0.1.0, but exports no view: only views may read stores"
    );
}

#[test]
fn impure_imports_are_refused_with_a_hint() {
    let wasi = |package: &str, interface: &str| {
        problems(&foreign_component(&format!(
            "package {package};
             interface {interface} {{ now: func() -> u64; }}
             world w {{ import {interface}; }}"
        )))
    };
    insta::assert_snapshot!(wasi("wasi:clocks@0.2.0", "wall-clock"), @"
    it is of another world: it exports nothing; a plugin exports weir:plugin/lifecycle and one or more of joiner, aggregator, transformer, view (version 0.1)
    it imports wasi:clocks/wall-clock@0.2.0, which plugins may not: plugins have no clock: time is the record's timestamp; a plugin may import weir:plugin/log and, if it has views, weir:plugin/stores
    ");
    insta::assert_snapshot!(wasi("wasi:random@0.2.0", "random"), @"
    it is of another world: it exports nothing; a plugin exports weir:plugin/lifecycle and one or more of joiner, aggregator, transformer, view (version 0.1)
    it imports wasi:random/random@0.2.0, which plugins may not: plugins have no random numbers: the same input must give the same output; a plugin may import weir:plugin/log and, if it has views, weir:plugin/stores
    ");
    insta::assert_snapshot!(wasi("wasi:sockets@0.2.0", "tcp"), @"
    it is of another world: it exports nothing; a plugin exports weir:plugin/lifecycle and one or more of joiner, aggregator, transformer, view (version 0.1)
    it imports wasi:sockets/tcp@0.2.0, which plugins may not: plugins have no files and no network; a plugin may import weir:plugin/log and, if it has views, weir:plugin/stores
    ");
    insta::assert_snapshot!(wasi("wasi:cli@0.2.0", "environment"), @"
    it is of another world: it exports nothing; a plugin exports weir:plugin/lifecycle and one or more of joiner, aggregator, transformer, view (version 0.1)
    it imports wasi:cli/environment@0.2.0, which plugins may not: plugins don't run under WASI: Rust plugins are built for wasm32-unknown-unknown; a plugin may import weir:plugin/log and, if it has views, weir:plugin/stores
    ");
    insta::assert_snapshot!(wasi("acme:db@1.0.0", "client"), @"
    it is of another world: it exports nothing; a plugin exports weir:plugin/lifecycle and one or more of joiner, aggregator, transformer, view (version 0.1)
    it imports acme:db/client@1.0.0, which plugins may not: plugins are pure; a plugin may import weir:plugin/log and, if it has views, weir:plugin/stores
    ");
}

#[test]
fn a_binary_wit_package_is_no_plugin() {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("p.wit", "package a:b; interface c { d: func(); }").unwrap();
    let bytes = wit_component::encode(&resolve, package).unwrap();
    insta::assert_snapshot!(problems(&bytes), @"it is a WIT package in binary form: interfaces without code");
}
