//! Core module → component, with the hints that its toolchains don't give.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wasmparser::{Parser, Payload, Validator};
use wit_component::ComponentEncoder;

use super::conformance::MAY_IMPORT;
use super::error::Error;

/// What the bytes of a plugin are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// A core module, as Rust's wasm32-unknown-unknown builds it: made a component here.
    Module,
    /// A component.
    Component,
}

/// Gives the component in or around `bytes`.
pub(super) fn componentize(bytes: &[u8]) -> Result<(Form, Cow<'_, [u8]>), Error> {
    let form = form(bytes)?;
    Validator::new().validate_all(bytes).map_err(|e| Error::Invalid { reason: e.to_string() })?;
    match form {
        Form::Component => Ok((form, Cow::Borrowed(bytes))),
        Form::Module => {
            let problems = module_problems(bytes).map_err(|e| Error::Invalid { reason: e.to_string() })?;
            if !problems.is_empty() {
                return Err(Error::Nonconforming { problems });
            }
            let component = encode(bytes).map_err(|reason| Error::Nonconforming {
                problems: vec![format!("the module cannot be made a component: {reason}")],
            })?;
            Ok((form, Cow::Owned(component)))
        }
    }
}

/// What the bytes are, by their first eight.
fn form(bytes: &[u8]) -> Result<Form, Error> {
    if Parser::is_component(bytes) {
        return Ok(Form::Component);
    }
    if Parser::is_core_wasm(bytes) {
        return Ok(Form::Module);
    }
    let text = bytes.trim_ascii_start();
    let reason = if bytes.is_empty() {
        "the file is empty".to_owned()
    } else if text.starts_with(b"(module") || text.starts_with(b"(component") {
        "it is WebAssembly in text form; wat2wasm or wasm-tools parse gives the binary form".to_owned()
    } else if bytes.starts_with(b"\0asm") {
        "it begins like WebAssembly, but in a version that is unknown".to_owned()
    } else {
        let start = bytes.get(..4).unwrap_or(bytes).escape_ascii();
        format!("it begins with \"{start}\" instead of \"\\x00asm\"")
    };
    Err(Error::Invalid { reason })
}

/// wit-component's encoder; it finds the world in the module's custom section.
fn encode(module: &[u8]) -> Result<Vec<u8>, String> {
    ComponentEncoder::default()
        .validate(true)
        .module(module)
        .and_then(|mut encoder| encoder.encode())
        .map_err(|e| format!("{e:#}"))
}

/// What keeps a module from becoming a component, where the encoder's own words would not help.
fn module_problems(module: &[u8]) -> wasmparser::Result<Vec<String>> {
    let mut typed = false;
    let mut foreign: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for payload in Parser::new(0).parse_all(module) {
        match payload? {
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    let import = import?;
                    if !is_interface(import.module) {
                        foreign.entry(import.module).or_default().push(import.name);
                    }
                }
            }
            Payload::CustomSection(section) => typed |= section.name().starts_with("component-type"),
            _ => {}
        }
    }
    let mut problems: Vec<String> = foreign.iter().map(|(module, names)| foreign_import(module, names)).collect();
    if !typed {
        problems.push(
            "it is a core module without interface types (custom section 'component-type'): build it with weir-guest or \
             another wit-bindgen, and don't strip custom sections"
                .to_owned(),
        );
    }
    Ok(problems)
}

/// Whether a core import is of a WIT interface, or an intrinsic of the component model: then the encoder judges it.
fn is_interface(module: &str) -> bool {
    module.contains(':') || module.starts_with(['[', '$']) || module.starts_with("cm32p2")
}

/// A core import that no component can have, with its usual cause.
fn foreign_import(module: &str, names: &[&str]) -> String {
    let shown = names.iter().take(3).copied().collect::<Vec<_>>().join(", ");
    let more = if names.len() > 3 { format!(" and {} more", names.len() - 3) } else { String::new() };
    let cause = match module {
        "__wbindgen_placeholder__" | "__wbindgen_externref_xform__" => {
            "a crate was built for JavaScript (wasm-bindgen): mostly getrandom, uuid, chrono or a time crate with its 'js' or \
             'wasmbind' feature on. Turn that feature off; plugins have no random numbers and no clock"
        }
        "wasi_snapshot_preview1" | "wasi_unstable" => {
            "it was built for WASI: build it for wasm32-unknown-unknown. Plugins have no files, clock, network or random \
             numbers"
        }
        "env" if names.iter().any(|name| name.contains("getrandom")) => {
            "getrandom has its 'custom' backend on: turn it off. Plugins have no random numbers"
        }
        "env" => "it calls a C function that nothing defines: a library is missing, or an extern block is left over",
        _ => "it is no interface of weir:plugin",
    };
    format!("it imports {shown}{more} from '{module}': {cause}; {MAY_IMPORT}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Why a module in text form is refused.
    fn refusal(wat: &str) -> String {
        componentize(&wat::parse_str(wat).unwrap()).unwrap_err().to_string()
    }

    #[test]
    fn what_is_not_wasm_is_told_apart() {
        let refusal = |bytes: &[u8]| componentize(bytes).unwrap_err().to_string();
        insta::assert_snapshot!(refusal(b""), @"not a valid WebAssembly file: the file is empty");
        insta::assert_snapshot!(refusal(b"\x7fELF\x02\x01\x01"), @r#"not a valid WebAssembly file: it begins with "\x7fELF" instead of "\x00asm""#);
        insta::assert_snapshot!(refusal(b"  (module)"), @"not a valid WebAssembly file: it is WebAssembly in text form; wat2wasm or wasm-tools parse gives the binary form");
        insta::assert_snapshot!(refusal(b"\0asm\x09\0\0\0"), @"not a valid WebAssembly file: it begins like WebAssembly, but in a version that is unknown");
        insta::assert_snapshot!(refusal(b"\0asm\x01\0\0\0\x01"), @"not a valid WebAssembly file: unexpected end-of-file (at offset 0x9)");
    }

    #[test]
    fn a_truncated_module_is_invalid() {
        let mut bytes = wat::parse_str("(module (func (export \"f\") nop))").unwrap();
        bytes.truncate(bytes.len() - 1);
        insta::assert_snapshot!(componentize(&bytes).unwrap_err().to_string(), @"not a valid WebAssembly file: unexpected end-of-file (at offset 0x1d)");
    }

    #[test]
    fn a_javascript_crate_is_named() {
        let wat = r#"(module (import "__wbindgen_placeholder__" "__wbindgen_describe" (func)))"#;
        insta::assert_snapshot!(refusal(wat), @"
        not a plugin that this host can run:
        - it imports __wbindgen_describe from '__wbindgen_placeholder__': a crate was built for JavaScript (wasm-bindgen): mostly getrandom, uuid, chrono or a time crate with its 'js' or 'wasmbind' feature on. Turn that feature off; plugins have no random numbers and no clock; a plugin may import weir:plugin/log and, if it has views, weir:plugin/stores
        - it is a core module without interface types (custom section 'component-type'): build it with weir-guest or another wit-bindgen, and don't strip custom sections
        ");
    }

    #[test]
    fn wasi_modules_are_told_the_target() {
        let wat = r#"(module
            (import "wasi_snapshot_preview1" "fd_write" (func))
            (import "wasi_snapshot_preview1" "fd_read" (func))
            (import "wasi_snapshot_preview1" "clock_time_get" (func))
            (import "wasi_snapshot_preview1" "random_get" (func))
            (import "env" "strtol" (func)))"#;
        insta::assert_snapshot!(refusal(wat), @"
        not a plugin that this host can run:
        - it imports strtol from 'env': it calls a C function that nothing defines: a library is missing, or an extern block is left over; a plugin may import weir:plugin/log and, if it has views, weir:plugin/stores
        - it imports fd_write, fd_read, clock_time_get and 1 more from 'wasi_snapshot_preview1': it was built for WASI: build it for wasm32-unknown-unknown. Plugins have no files, clock, network or random numbers; a plugin may import weir:plugin/log and, if it has views, weir:plugin/stores
        - it is a core module without interface types (custom section 'component-type'): build it with weir-guest or another wit-bindgen, and don't strip custom sections
        ");
    }

    #[test]
    fn a_module_without_types_is_told_how_to_get_them() {
        insta::assert_snapshot!(refusal("(module)"), @"
        not a plugin that this host can run:
        - it is a core module without interface types (custom section 'component-type'): build it with weir-guest or another wit-bindgen, and don't strip custom sections
        ");
    }
}
