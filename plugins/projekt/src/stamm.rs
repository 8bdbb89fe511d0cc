//! Rows of the two tables, in the field order of their JSON.

use serde::{Deserialize, Serialize};

use crate::jackson::{Text, primitive};

/// A housing unit: the building that a project is about.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Wirtschaftseinheit<'a> {
    /// Its id.
    #[serde(borrow)]
    id: Option<Text<'a>>,
    /// Its name.
    #[serde(borrow)]
    name: Option<Text<'a>>,
    /// Street and number.
    #[serde(borrow)]
    strasse: Option<Text<'a>>,
    /// Postal code.
    #[serde(borrow)]
    plz: Option<Text<'a>>,
    /// Town.
    #[serde(borrow)]
    ort: Option<Text<'a>>,
    /// Owner.
    #[serde(borrow)]
    eigentuemer: Option<Text<'a>>,
    /// Year of construction.
    #[serde(deserialize_with = "primitive")]
    baujahr: i32,
    /// How many flats it has.
    #[serde(deserialize_with = "primitive")]
    einheiten: i32,
    /// Counts the changes of the row.
    #[serde(deserialize_with = "primitive")]
    version: i32,
}

/// A rented object: the flat that a project is about.
#[derive(Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Mietobjekt<'a> {
    /// Its id.
    #[serde(borrow)]
    id: Option<Text<'a>>,
    /// What it is called.
    #[serde(borrow)]
    bezeichnung: Option<Text<'a>>,
    /// Area in square decimetres.
    #[serde(deserialize_with = "primitive")]
    flaeche_dm2: i32,
    /// How many rooms it has.
    #[serde(deserialize_with = "primitive")]
    zimmer: i32,
    /// Floor.
    #[serde(deserialize_with = "primitive")]
    etage: i32,
    /// Tenant.
    #[serde(borrow)]
    mieter: Option<Text<'a>>,
    /// Monthly rent in cents.
    #[serde(deserialize_with = "primitive")]
    kaltmiete_cent: i64,
    /// Counts the changes of the row.
    #[serde(deserialize_with = "primitive")]
    version: i32,
}
