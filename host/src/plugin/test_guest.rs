//! Guests for tests, as WebAssembly text: sound ones, and hostile ones that no compiler makes.

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{LiftLowerAbi, ManglingAndAbi, Resolve, SourceMap};

use super::conformance::WIT;
use super::description::Kind;

/// Where the description lies in a guest's memory.
const DESCRIPTION: usize = 1024;
/// First byte of the guest's heap.
const HEAP: usize = 32 << 10;

/// A plugin in the making: a core module whose hot functions are written by hand.
pub(super) struct Guest {
    /// Name, kind and state type of each function.
    functions: Vec<(&'static str, Kind, Option<&'static str>)>,
    /// Bodies of the exports by the interface's name; a kind without one gets `unreachable`.
    bodies: Vec<(&'static str, &'static str)>,
    /// More items of the module.
    items: String,
    /// Pages of memory to begin with.
    pages: usize,
}

/// Answers with one value a pair: its key, left and right in a row.
pub(super) const JOIN_CONCAT: &str = "
    (local $i i32) (local $out i32)
    (local.set $out (call $alloc (local.get $ends_len)))
    (block $done (loop $next
        (br_if $done (i32.ge_u (i32.mul (local.get $i) (i32.const 3)) (local.get $ends_len)))
        (i32.store (i32.add (local.get $out) (i32.mul (local.get $i) (i32.const 4)))
            (i32.and (i32.const 0x7fffffff)
                (i32.load offset=8 (i32.add (local.get $ends) (i32.mul (local.get $i) (i32.const 12))))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $next)))
    (call $answer (local.get $bytes) (local.get $bytes_len) (local.get $out) (local.get $i))";

impl Guest {
    /// A plugin of these functions.
    pub(super) fn new(functions: &[(&'static str, Kind, Option<&'static str>)]) -> Self {
        Self { functions: functions.to_vec(), bodies: Vec::new(), items: String::new(), pages: 2 }
    }

    /// A plugin with the joiner `concat`, whose `join` has this body.
    ///
    /// Parameters: `$function`, `$bytes`, `$bytes_len`, `$ends`, `$ends_len`.
    pub(super) fn joiner(body: &'static str) -> Self {
        Self::new(&[("concat", Kind::Joiner, None)]).with("joiner", body)
    }

    /// Gives the export of a kind, or `init`, its body.
    pub(super) fn with(mut self, export: &'static str, body: &'static str) -> Self {
        self.bodies.push((export, body));
        self
    }

    /// Adds items (globals, functions, a start section) to the module.
    pub(super) fn items(mut self, items: &str) -> Self {
        self.items.push_str(items);
        self
    }

    /// Begins with this much memory.
    pub(super) fn pages(mut self, pages: usize) -> Self {
        self.pages = pages;
        self
    }

    /// The module with its interface types.
    pub(super) fn build(&self) -> Vec<u8> {
        let has = |kind: Kind| self.functions.iter().any(|(_, k, _)| *k == kind);
        let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| has(*kind)).collect();
        let stores = self.bodies.iter().any(|(_, body)| body.contains("call $get") || body.contains("call $count"));
        let exports: String = kinds.iter().map(|kind| format!("export weir:plugin/{kind}@0.1.0;\n")).collect();
        let stores_import = if stores { "import weir:plugin/stores@0.1.0;" } else { "" };
        let world = format!(
            "package test:guest;
             world guest {{
                import weir:plugin/log@0.1.0;
                {stores_import}
                export weir:plugin/lifecycle@0.1.0;
                {exports}
             }}"
        );
        let mut module = wat::parse_str(self.wat(&kinds, stores)).unwrap();
        let (resolve, world) = resolve_world(&world);
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
        module
    }

    /// The module's text.
    fn wat(&self, kinds: &[Kind], stores: bool) -> String {
        let body = |name: &str| self.bodies.iter().find(|(n, _)| *n == name).map(|(_, body)| *body);
        let init = body("init").unwrap_or("(i32.const 16)");
        let stores = if stores {
            r#"(import "weir:plugin/stores@0.1.0" "get" (func $get (param i32 i32 i32 i32 i32)))
               (import "weir:plugin/stores@0.1.0" "count" (func $count (param i32 i32 i32)))"#
        } else {
            ""
        };
        let exports: String = kinds
            .iter()
            .map(|kind| {
                let (function, params) = match kind {
                    Kind::Joiner => ("join", "$function $bytes $bytes_len $ends $ends_len"),
                    Kind::Aggregator => (
                        "fold",
                        "$every $bytes $bytes_len $ends $ends_len $counts $counts_len $functions $functions_len \
                         $timestamps $timestamps_len",
                    ),
                    Kind::Transformer => (
                        "transform",
                        "$function $bytes $bytes_len $ends $ends_len $timestamps $timestamps_len $headers $headers_len",
                    ),
                    Kind::View => ("answer", "$function $method $method_len $path $path_len $query $query_len"),
                };
                let params: String = params.split(' ').map(|name| format!("(param {name} i32)")).collect();
                let body = body(kind.interface()).unwrap_or("unreachable");
                format!(
                    r#"(func $export_{kind} (export "weir:plugin/{kind}@0.1.0#{function}") {params} (result i32) {body})
                       (func (export "cabi_post_weir:plugin/{kind}@0.1.0#{function}") (param i32)
                           (global.set $heap (i32.const {HEAP})))"#
                )
            })
            .collect();
        format!(
            r#"(module
            (import "weir:plugin/log@0.1.0" "log" (func $log (param i32 i32 i32)))
            {stores}
            (memory (export "memory") {pages})
            (global $heap (mut i32) (i32.const {HEAP}))
            ;; Bytes at the heap's end, eight-aligned; grows the memory or traps.
            (func $alloc (param $size i32) (result i32) (local $at i32)
                (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
                (global.set $heap (i32.add (local.get $at) (local.get $size)))
                (block $fits (loop $grow
                    (br_if $fits (i32.le_u (global.get $heap) (i32.mul (memory.size) (i32.const 65536))))
                    (br_if $grow (i32.ge_s (memory.grow (i32.const 16)) (i32.const 0)))
                    unreachable))
                (local.get $at))
            ;; Four words and two zeros: an answer of fields without refusals.
            (func $answer (param $bytes i32) (param $bytes_len i32) (param $ends i32) (param $ends_len i32)
                (result i32)
                (i32.store (i32.const 64) (local.get $bytes))
                (i32.store (i32.const 68) (local.get $bytes_len))
                (i32.store (i32.const 72) (local.get $ends))
                (i32.store (i32.const 76) (local.get $ends_len))
                (i32.store (i32.const 80) (i32.const 0))
                (i32.store (i32.const 84) (i32.const 0))
                (i32.const 64))
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (call $alloc (local.get 3)))
            (func (export "weir:plugin/lifecycle@0.1.0#describe") (result i32) (i32.const {DESCRIPTION}))
            (func (export "weir:plugin/lifecycle@0.1.0#init") (param $config i32) (param $config_len i32)
                (result i32) {init})
            {exports}
            {items}
            {description}
            (data (i32.const 512) "panic: boom, at src/lib.rs:1:2")
            (data (i32.const 560) "orders")
            (data (i32.const 576) "text/plain")
            (data (i32.const 600) "\ff\fe")
            )"#,
            pages = self.pages,
            items = self.items,
            description = self.description(),
        )
    }

    /// Data of `describe`'s answer: name `guest`, version `1.0`, state type `sum` at version 7.
    fn description(&self) -> String {
        let mut memory = vec![0_u8; 8192];
        let mut texts = 4096;
        let put = |memory: &mut Vec<u8>, at: usize, value: usize| {
            memory[at..at + 4].copy_from_slice(&u32::try_from(value).unwrap().to_le_bytes());
        };
        let mut text = |memory: &mut Vec<u8>, at: usize, text: &str| {
            memory[texts..texts + text.len()].copy_from_slice(text.as_bytes());
            put(memory, at, DESCRIPTION + texts);
            put(memory, at + 4, text.len());
            texts += text.len();
        };
        text(&mut memory, 0, "guest");
        text(&mut memory, 8, "1.0");
        put(&mut memory, 16, DESCRIPTION + 64);
        put(&mut memory, 20, self.functions.len());
        put(&mut memory, 24, DESCRIPTION + 32);
        put(&mut memory, 28, 1);
        text(&mut memory, 32, "sum");
        put(&mut memory, 40, 7);
        for (index, (name, kind, state)) in self.functions.iter().enumerate() {
            let at = 64 + index * 32;
            text(&mut memory, at, name);
            put(&mut memory, at + 8, Kind::ALL.iter().position(|k| k == kind).unwrap());
            text(&mut memory, at + 12, "For tests.");
            if let Some(state) = state {
                put(&mut memory, at + 20, 1);
                text(&mut memory, at + 24, state);
            }
        }
        let escaped: String = memory.iter().map(|byte| format!("\\{byte:02x}")).collect();
        format!("(data (i32.const {DESCRIPTION}) \"{escaped}\")")
    }
}

/// Parses `world` beside the host's own interfaces.
fn resolve_world(world: &str) -> (Resolve, wit_parser::WorldId) {
    let mut sources = SourceMap::new();
    for (name, text) in WIT {
        sources.push_str(name, text);
    }
    let mut resolve = Resolve::default();
    resolve.push_group(sources.parse().unwrap()).unwrap();
    let package = resolve.push_str("guest.wit", world).unwrap();
    let world = resolve.select_world(&[package], None).unwrap();
    (resolve, world)
}

/// A component of the one world in `wit`, all of whose functions trap. `wit` stands alone: it brings its own version of
/// `weir:plugin`, if it has any.
pub(super) fn foreign_component(wit: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("foreign.wit", wit).unwrap();
    let world = resolve.select_world(&[package], None).unwrap();
    dummy_component(&resolve, world)
}

/// A component of `world`, written against the host's own interfaces, all of whose functions trap.
pub(super) fn component(world: &str) -> Vec<u8> {
    let (resolve, world) = resolve_world(world);
    dummy_component(&resolve, world)
}

/// A component of a world, all of whose functions trap.
fn dummy_component(resolve: &Resolve, world: wit_parser::WorldId) -> Vec<u8> {
    let mut module = wit_component::dummy_module(resolve, world, ManglingAndAbi::Legacy(LiftLowerAbi::Sync));
    embed_component_metadata(&mut module, resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().module(&module).unwrap().encode().unwrap()
}
