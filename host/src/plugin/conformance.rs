//! Whether a component is a plugin: its exports and imports against `wit/`, with an explanation for people.

use std::collections::BTreeMap;

use wit_component::DecodedWasm;
use wit_parser::{InterfaceId, PackageName, Resolve, SourceMap, World, WorldItem, WorldKey};

use super::description::Kind;
use super::error::Error;
use super::interface_diff::{self, Interface};

/// The files of `wit/`, as this host was built with.
pub(super) const WIT: [(&str, &str); 5] = [
    ("types.wit", include_str!("../../../wit/types.wit")),
    ("joiner.wit", include_str!("../../../wit/joiner.wit")),
    ("aggregator.wit", include_str!("../../../wit/aggregator.wit")),
    ("transformer.wit", include_str!("../../../wit/transformer.wit")),
    ("view.wit", include_str!("../../../wit/view.wit")),
];

/// What a plugin may import, for messages.
pub(super) const MAY_IMPORT: &str = "a plugin may import weir:plugin/log and, if it has views, weir:plugin/stores";

/// The interface every plugin exports.
const LIFECYCLE: &str = "lifecycle";

/// The host's side of `wit/`.
pub(super) struct Contract {
    /// Resolves its types.
    resolve: Resolve,
    /// Its interfaces by name.
    interfaces: BTreeMap<String, InterfaceId>,
    /// The version it speaks, as in `0.1`.
    track: String,
}

/// A component that is a plugin.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Conforming {
    /// Kinds that it exports.
    pub(super) kinds: Vec<Kind>,
    /// Names of the interfaces that it imports.
    pub(super) imports: Vec<String>,
}

/// An export or import of a component.
struct Item<'a> {
    /// Its full name, as the component has it.
    name: String,
    /// The interface, where it is one of `weir:plugin`, and its short name.
    ours: Option<(&'a str, InterfaceId)>,
    /// Whether it is of the namespace `weir`.
    weir: bool,
    /// Whether its package's version is one that this host speaks.
    spoken: bool,
    /// Whether it is a function or interface, not a mere type.
    callable: bool,
}

impl Contract {
    /// Reads the embedded files.
    pub(super) fn new() -> Result<Self, Error> {
        let broken = |reason: String| Error::Engine { reason };
        let mut sources = SourceMap::new();
        for (name, text) in WIT {
            sources.push_str(name, text);
        }
        let group = sources.parse().map_err(|(_, e)| broken(e.to_string()))?;
        let mut resolve = Resolve::default();
        let package = resolve.push_group(group).map_err(|e| broken(e.to_string()))?;
        let package = resolve.packages.get(package).ok_or_else(|| broken("wit/ has no package".to_owned()))?;
        let interfaces = package.interfaces.iter().map(|(name, id)| (name.clone(), *id)).collect();
        let track = track(&package.name);
        Ok(Self { interfaces, track, resolve })
    }

    /// Checks a component; all that is wrong with it at once.
    pub(super) fn check(&self, component: &[u8]) -> Result<Conforming, Vec<String>> {
        let (resolve, world) = match wit_component::decode(component) {
            Ok(DecodedWasm::Component(resolve, world)) => (resolve, world),
            Ok(DecodedWasm::WitPackage(..)) => {
                return Err(vec!["it is a WIT package in binary form: interfaces without code".to_owned()]);
            }
            Err(e) => return Err(vec![format!("its interfaces cannot be read: {e:#}")]),
        };
        let Some(world) = resolve.worlds.get(world) else {
            return Err(vec!["its interfaces cannot be read: it has no world".to_owned()]);
        };
        let mut problems = Vec::new();
        let kinds = self.check_exports(&resolve, world, &mut problems);
        let imports = self.check_imports(&resolve, world, &kinds, &mut problems);
        if problems.is_empty() { Ok(Conforming { kinds, imports }) } else { Err(problems) }
    }

    /// Checks what a component exports; gives the kinds found.
    fn check_exports(&self, resolve: &Resolve, world: &World, problems: &mut Vec<String>) -> Vec<Kind> {
        let exports: Vec<Item<'_>> = world.exports.iter().map(|(key, it)| self.item(resolve, key, it)).collect();
        if !exports.iter().any(|export| export.weir) {
            let callable: Vec<&str> = exports.iter().filter(|e| e.callable).map(|e| &*e.name).collect();
            let exported = if callable.is_empty() { "nothing".to_owned() } else { callable.join(", ") };
            problems.push(format!("it is of another world: it exports {exported}; {}", self.must_export()));
            return Vec::new();
        }
        let mut kinds = Vec::new();
        let mut lifecycle = false;
        for export in exports.iter().filter(|export| export.weir) {
            let name = &export.name;
            let kind = Kind::ALL.into_iter().find(|kind| export.ours.is_some_and(|(ours, _)| ours == kind.interface()));
            match export.ours {
                Some((LIFECYCLE, _)) => lifecycle = true,
                Some(("types", _)) => {}
                Some((interface @ ("log" | "stores"), _)) => {
                    problems.push(format!("it exports {name}: weir:plugin/{interface} is for plugins to import"));
                    continue;
                }
                Some(_) if kind.is_some() => kinds.extend(kind),
                _ => {
                    let known = self.must_export();
                    problems.push(format!(
                        "it exports {name}, which this host doesn't know: built for a newer host? ({known})"
                    ));
                    continue;
                }
            }
            self.compare(resolve, export, interface_diff::exported, problems);
        }
        kinds.sort_unstable();
        if !lifecycle {
            problems.push(format!("it lacks weir:plugin/lifecycle ('describe' and 'init'); {}", self.must_export()));
        } else if kinds.is_empty() {
            problems.push(format!("it exports no kind of function; {}", self.must_export()));
        }
        kinds
    }

    /// Checks what a component imports; gives the names.
    fn check_imports(
        &self,
        resolve: &Resolve,
        world: &World,
        kinds: &[Kind],
        problems: &mut Vec<String>,
    ) -> Vec<String> {
        let mut imports = Vec::new();
        for import in world.imports.iter().map(|(key, it)| self.item(resolve, key, it)).filter(|it| it.callable) {
            let name = &import.name;
            match import.ours {
                Some(("log" | "types", _)) => self.compare(resolve, &import, interface_diff::imported, problems),
                Some(("stores", _)) if kinds.contains(&Kind::View) => {
                    self.compare(resolve, &import, interface_diff::imported, problems);
                }
                Some(("stores", _)) => {
                    problems.push(format!("it imports {name}, but exports no view: only views may read stores"));
                }
                _ => problems.push(format!("it imports {name}, which plugins may not: {}", import_hint(name))),
            }
            imports.push(import.name);
        }
        imports
    }

    /// Compares an interface of `weir:plugin` with ours of the same name.
    fn compare(
        &self,
        resolve: &Resolve,
        item: &Item<'_>,
        differences: fn(Interface<'_>, Interface<'_>) -> Vec<String>,
        problems: &mut Vec<String>,
    ) {
        let name = &item.name;
        if !item.spoken {
            problems.push(format!("{name}: this host speaks version {} of weir:plugin", self.track));
            return;
        }
        let Some((short, theirs)) = item.ours else { return };
        let Some(&ours) = self.interfaces.get(short) else { return };
        let ours = Interface { resolve: &self.resolve, id: ours };
        let theirs = Interface { resolve, id: theirs };
        problems.extend(differences(ours, theirs).into_iter().map(|difference| format!("{name}: {difference}")));
    }

    /// Finds out what an export or import is.
    fn item<'a>(&'a self, resolve: &Resolve, key: &WorldKey, item: &WorldItem) -> Item<'a> {
        let name = resolve.name_world_key(key);
        let callable = !matches!(item, WorldItem::Type { .. });
        let foreign = Item { name, ours: None, weir: false, spoken: false, callable };
        let WorldItem::Interface { id, .. } = item else { return foreign };
        let Some(interface) = resolve.interfaces.get(*id) else { return foreign };
        let Some(package) = interface.package.and_then(|id| resolve.packages.get(id)) else { return foreign };
        let weir = package.name.namespace == "weir";
        let known = interface.name.as_ref().filter(|_| weir && package.name.name == "plugin");
        let ours = known.and_then(|name| self.interfaces.get_key_value(name)).map(|(name, _)| (&**name, *id));
        Item { ours, weir, spoken: track(&package.name) == self.track, ..foreign }
    }

    /// What a plugin must export, for messages.
    fn must_export(&self) -> String {
        let kinds: Vec<&str> = Kind::ALL.into_iter().map(Kind::interface).collect();
        let track = &self.track;
        format!("a plugin exports weir:plugin/lifecycle and one or more of {} (version {track})", kinds.join(", "))
    }
}

/// The part of a package's version that compatible ones share.
fn track(package: &PackageName) -> String {
    package.version.as_ref().map(PackageName::version_compat_track_string).unwrap_or_default()
}

/// What may help against an import that is refused.
fn import_hint(name: &str) -> String {
    let wasi = name.strip_prefix("wasi:").and_then(|rest| rest.split(['/', '@']).next());
    let reason = match wasi {
        Some("clocks") => "plugins have no clock: time is the record's timestamp",
        Some("random") => "plugins have no random numbers: the same input must give the same output",
        Some("filesystem" | "sockets" | "http") => "plugins have no files and no network",
        Some(_) => "plugins don't run under WASI: Rust plugins are built for wasm32-unknown-unknown",
        None => "plugins are pure",
    };
    format!("{reason}; {MAY_IMPORT}")
}

#[cfg(test)]
mod tests;
