//! Records of the six stream topics: what the aggregate needs of them.

use serde::{Deserialize, Serialize};

use crate::jackson::{Text, primitive};

/// A project was created or changed; goes into the aggregate whole, in the field order of its JSON.
#[derive(Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Projekt<'a> {
    /// The project's id.
    #[serde(borrow)]
    projekt_id: Option<Text<'a>>,
    /// Created or changed.
    #[serde(borrow)]
    art: Option<Text<'a>>,
    /// Its name.
    #[serde(borrow)]
    name: Option<Text<'a>>,
    /// What is to be done.
    #[serde(borrow)]
    beschreibung: Option<Text<'a>>,
    /// When, in milliseconds since the epoch.
    #[serde(deserialize_with = "primitive")]
    erstellt_am: i64,
    /// Budget in cents.
    #[serde(deserialize_with = "primitive")]
    budget_cent: i64,
    /// Who answers for it.
    #[serde(borrow)]
    verantwortlich: Option<Text<'a>>,
    /// Counts the changes of the project.
    #[serde(deserialize_with = "primitive")]
    version: i32,
}

/// When a project was created: read of a project that is in the aggregate already.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Erstellt {
    /// When, in milliseconds since the epoch.
    #[serde(deserialize_with = "primitive")]
    pub(crate) erstellt_am: i64,
}

/// A project's status, as reported.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Status<'a> {
    /// The status; must be there.
    #[serde(borrow)]
    pub(crate) status: Option<Text<'a>>,
    /// When, in milliseconds since the epoch.
    #[serde(deserialize_with = "primitive")]
    pub(crate) geaendert_am: i64,
}

/// A finding.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Befund<'a> {
    /// Its id; must be there.
    #[serde(borrow)]
    pub(crate) befund_id: Option<Text<'a>>,
    /// How bad it is.
    #[serde(borrow)]
    pub(crate) schwere: Option<Text<'a>>,
}

/// A task to do.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Aufgabe<'a> {
    /// Its id; must be there.
    #[serde(borrow)]
    pub(crate) aufgabe_id: Option<Text<'a>>,
    /// Whether it is done.
    #[serde(deserialize_with = "primitive")]
    pub(crate) erledigt: bool,
}

/// Work done by a company.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Durchfuehrung<'a> {
    /// Its id; must be there.
    #[serde(borrow)]
    pub(crate) durchfuehrung_id: Option<Text<'a>>,
    /// The company.
    #[serde(borrow)]
    pub(crate) firma: Option<Text<'a>>,
}

/// A group of people.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Gruppe<'a> {
    /// Its id; must be there.
    #[serde(borrow)]
    pub(crate) gruppe_id: Option<Text<'a>>,
    /// Its name.
    #[serde(borrow)]
    pub(crate) name: Option<Text<'a>>,
}
