//! The project aggregate: two joiners, six aggregators over one state, and the output's filter and header.
//!
//! Values are JSON, read and written as Jackson's data binding reads and writes Java records: fields in declared order,
//! nulls written, unknown fields ignored, a missing or null field is null, or 0 and false for numbers and truth values.
//! It is stricter in one thing: a field of another type, a field that is there twice, and text after the value are
//! rejected, where Jackson converts, takes the last one, and ignores.

mod aggregat;
mod ausgabe;
mod ereignis;
mod jackson;
mod stamm;
mod verknuepft;

pub use aggregat::{
    PlusAufgabe, PlusBefund, PlusDurchfuehrung, PlusGruppe, PlusProjekt, PlusStatus, ProjektAggregat, ProjektState,
};
pub use ausgabe::Ausgabe;
pub use jackson::Jackson;
pub use verknuepft::{MitMietobjekt, MitWirtschaftseinheit};

/// The plugin's version; the variants are built of the same sources.
const VERSION: &str = if cfg!(feature = "v2") {
    concat!(env!("CARGO_PKG_VERSION"), "+v2")
} else if cfg!(feature = "lacking") {
    concat!(env!("CARGO_PKG_VERSION"), "+lacking")
} else {
    env!("CARGO_PKG_VERSION")
};

#[cfg(not(feature = "lacking"))]
weir_guest::export! {
    name: "projekt",
    version: VERSION,
    joiners: [MitWirtschaftseinheit, MitMietobjekt],
    aggregates: [
        ProjektState: [PlusProjekt, PlusStatus, PlusBefund, PlusAufgabe, PlusDurchfuehrung, PlusGruppe],
    ],
    transformers: [Ausgabe],
}

#[cfg(feature = "lacking")]
weir_guest::export! {
    name: "projekt",
    version: VERSION,
    joiners: [MitWirtschaftseinheit, MitMietobjekt],
    aggregates: [
        ProjektState: [PlusProjekt, PlusStatus, PlusBefund, PlusAufgabe, PlusDurchfuehrung, PlusGruppe],
    ],
}
