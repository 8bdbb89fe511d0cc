//! Compares an interface of a component with the one of the same name in `wit/`, and says where they part.
//!
//! wasmtime and wit-component check the same when they bind, but say it in terms of indices and byte offsets.

use wit_parser::{Function, InterfaceId, Resolve, Type, TypeDefKind};

/// An interface and what resolves its types.
#[derive(Clone, Copy)]
pub(super) struct Interface<'a> {
    /// Resolves types.
    pub(super) resolve: &'a Resolve,
    /// The interface.
    pub(super) id: InterfaceId,
}

impl<'a> Interface<'a> {
    /// Its functions, by name.
    fn functions(self) -> impl Iterator<Item = (&'a str, &'a Function)> {
        self.resolve.interfaces.get(self.id).into_iter().flat_map(|it| &it.functions).map(|(name, f)| (&**name, f))
    }

    /// The function called `name`.
    fn function(self, name: &str) -> Option<&'a Function> {
        self.functions().find(|(n, _)| *n == name).map(|(_, f)| f)
    }
}

/// Differences of an exported interface: it must have exactly our functions.
pub(super) fn exported(ours: Interface<'_>, theirs: Interface<'_>) -> Vec<String> {
    let lacking = ours
        .functions()
        .filter(|(name, _)| theirs.function(name).is_none())
        .map(|(name, _)| format!("function {name} is missing"));
    lacking.chain(imported(ours, theirs)).collect()
}

/// Differences of an imported interface: it may have some of our functions.
pub(super) fn imported(ours: Interface<'_>, theirs: Interface<'_>) -> Vec<String> {
    theirs
        .functions()
        .filter_map(|(name, found)| match ours.function(name) {
            None => Some(format!("function {name} is not in this host's version")),
            Some(wanted) => Comparison { ours: ours.resolve, theirs: theirs.resolve }
                .functions(wanted, found)
                .err()
                .map(|Differs { at, wanted, found }| format!("{name}{at} must be {wanted}, not {found}")),
        })
        .collect()
}

/// The first difference of two functions.
struct Differs {
    /// Where, from the function on.
    at: String,
    /// What ours has there.
    wanted: String,
    /// What theirs has.
    found: String,
}

/// A comparison of types of two origins.
struct Comparison<'a> {
    /// Resolves our types.
    ours: &'a Resolve,
    /// Resolves theirs.
    theirs: &'a Resolve,
}

impl Comparison<'_> {
    /// Parameters, results, and whether the function is async.
    fn functions(&self, wanted: &Function, found: &Function) -> Result<(), Differs> {
        same(" as a whole", &format!("{:?}", wanted.kind), &format!("{:?}", found.kind))?;
        let params = |f: &Function| names(f.params.iter().map(|p| &*p.name));
        same("'s parameters", &params(wanted), &params(found))?;
        for (ours, theirs) in wanted.params.iter().zip(&found.params) {
            self.types(&format!(", parameter {}", ours.name), &ours.ty, &theirs.ty)?;
        }
        self.optional("'s result", wanted.result.as_ref(), found.result.as_ref())
    }

    /// Types that may be absent.
    fn optional(&self, at: &str, wanted: Option<&Type>, found: Option<&Type>) -> Result<(), Differs> {
        match (wanted, found) {
            (None, None) => Ok(()),
            (Some(wanted), Some(found)) => self.types(at, wanted, found),
            _ => same(at, &self.told(self.ours, wanted), &self.told(self.theirs, found)),
        }
    }

    /// Types by structure: what they are called doesn't matter.
    fn types(&self, at: &str, wanted: &Type, found: &Type) -> Result<(), Differs> {
        let (wanted, found) = (unaliased(self.ours, *wanted), unaliased(self.theirs, *found));
        let kinds = (kind(self.ours, &wanted), kind(self.theirs, &found));
        let (Some(ours), Some(theirs)) = kinds else {
            return if kinds.0.is_none() && kinds.1.is_none() && wanted == found {
                Ok(())
            } else {
                self.differ(at, &wanted, &found)
            };
        };
        match (ours, theirs) {
            (TypeDefKind::Record(a), TypeDefKind::Record(b)) => {
                let list = |r: &wit_parser::Record| names(r.fields.iter().map(|f| &*f.name));
                same(&format!("{at}: fields"), &list(a), &list(b))?;
                for (a, b) in a.fields.iter().zip(&b.fields) {
                    self.types(&format!("{at}, field {}", a.name), &a.ty, &b.ty)?;
                }
                Ok(())
            }
            (TypeDefKind::Variant(a), TypeDefKind::Variant(b)) => {
                let list = |v: &wit_parser::Variant| names(v.cases.iter().map(|c| &*c.name));
                same(&format!("{at}: cases"), &list(a), &list(b))?;
                for (a, b) in a.cases.iter().zip(&b.cases) {
                    self.optional(&format!("{at}, case {}", a.name), a.ty.as_ref(), b.ty.as_ref())?;
                }
                Ok(())
            }
            (TypeDefKind::Enum(a), TypeDefKind::Enum(b)) => {
                let list = |e: &wit_parser::Enum| names(e.cases.iter().map(|c| &*c.name));
                same(&format!("{at}: cases"), &list(a), &list(b))
            }
            (TypeDefKind::Flags(a), TypeDefKind::Flags(b)) => {
                let list = |f: &wit_parser::Flags| names(f.flags.iter().map(|f| &*f.name));
                same(&format!("{at}: flags"), &list(a), &list(b))
            }
            (TypeDefKind::Tuple(a), TypeDefKind::Tuple(b)) if a.types.len() == b.types.len() => {
                a.types.iter().zip(&b.types).try_for_each(|(a, b)| self.types(&format!("{at}, in the tuple"), a, b))
            }
            (TypeDefKind::List(a), TypeDefKind::List(b)) => self.types(&format!("{at}, in the list"), a, b),
            (TypeDefKind::Option(a), TypeDefKind::Option(b)) => self.types(&format!("{at}, in the option"), a, b),
            (TypeDefKind::Result(a), TypeDefKind::Result(b)) => {
                self.optional(&format!("{at}, in ok"), a.ok.as_ref(), b.ok.as_ref())?;
                self.optional(&format!("{at}, in err"), a.err.as_ref(), b.err.as_ref())
            }
            // Resources, streams and what may come: `wit/` has none, so that they never match.
            _ => self.differ(at, &wanted, &found),
        }
    }

    /// The two differ here.
    fn differ(&self, at: &str, wanted: &Type, found: &Type) -> Result<(), Differs> {
        Err(Differs {
            at: at.to_owned(),
            wanted: self.told(self.ours, Some(wanted)),
            found: self.told(self.theirs, Some(found)),
        })
    }

    /// A type for people, as WIT writes it.
    fn told(&self, resolve: &Resolve, ty: Option<&Type>) -> String {
        let Some(ty) = ty else { return "nothing".to_owned() };
        let inner = |ty: &Type| self.told(resolve, Some(ty));
        let Type::Id(id) = ty else { return format!("{ty:?}").to_lowercase() };
        let Some(def) = resolve.types.get(*id) else { return "a type".to_owned() };
        match (&def.kind, &def.name) {
            (kind, Some(name)) => format!("{} {name}", kind.as_str()),
            (TypeDefKind::List(ty), None) => format!("list<{}>", inner(ty)),
            (TypeDefKind::Option(ty), None) => format!("option<{}>", inner(ty)),
            (TypeDefKind::Tuple(tuple), None) => {
                format!("tuple<{}>", tuple.types.iter().map(inner).collect::<Vec<_>>().join(", "))
            }
            (TypeDefKind::Result(result), None) => {
                let part = |ty: &Option<Type>| ty.as_ref().map_or_else(|| "_".to_owned(), inner);
                format!("result<{}, {}>", part(&result.ok), part(&result.err))
            }
            (kind, None) => kind.as_str().to_owned(),
        }
    }
}

/// Whether two texts are the same; else the difference.
fn same(at: &str, wanted: &str, found: &str) -> Result<(), Differs> {
    if wanted == found {
        return Ok(());
    }
    Err(Differs { at: at.to_owned(), wanted: wanted.to_owned(), found: found.to_owned() })
}

/// Names as a list for people.
fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    format!("({})", names.collect::<Vec<_>>().join(", "))
}

/// The type behind `use` and `type` aliases.
fn unaliased(resolve: &Resolve, mut ty: Type) -> Type {
    while let Some(TypeDefKind::Type(target)) = kind(resolve, &ty) {
        ty = *target;
    }
    ty
}

/// What a type that is no primitive consists of.
fn kind<'a>(resolve: &'a Resolve, ty: &Type) -> Option<&'a TypeDefKind> {
    match ty {
        Type::Id(id) => resolve.types.get(*id).map(|def| &def.kind),
        _ => None,
    }
}
