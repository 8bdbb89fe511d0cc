//! Collects all that is wrong while a file is read and checked.

use std::cell::RefCell;

use super::{Origins, Place, Problem, Problems};

/// What was found so far. Shared by the sections that are read, hence the inner mutability.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Where places are.
    pub(crate) origins: Origins,
    /// Problems that refuse the file.
    problems: RefCell<Vec<(Place, Problem)>>,
    /// Things that are probably not meant.
    warnings: RefCell<Vec<(Place, Problem)>>,
}

impl Report {
    /// Nothing found yet.
    pub(crate) fn new(origins: Origins) -> Self {
        Self { origins, ..Self::default() }
    }

    /// Something is wrong.
    pub(crate) fn problem(&self, place: Place, what: impl Into<String>, remedy: impl Into<String>) {
        self.problems.borrow_mut().push((place, self.origins.problem(place, what, remedy)));
    }

    /// Something is probably not meant.
    pub(crate) fn warning(&self, place: Place, what: impl Into<String>, remedy: impl Into<String>) {
        self.warnings.borrow_mut().push((place, self.origins.problem(place, what, remedy)));
    }

    /// The problems, if there are any; else the warnings and the origins.
    pub(crate) fn finish(self) -> Result<(Vec<Problem>, Origins), Problems> {
        if self.problems.borrow().is_empty() {
            Ok((in_order(self.warnings.into_inner()), self.origins))
        } else {
            Err(self.into_problems())
        }
    }

    /// The problems; there are some.
    pub(crate) fn into_problems(self) -> Problems {
        Problems(in_order(self.problems.into_inner()))
    }
}

/// The findings in the order of their places.
fn in_order(mut found: Vec<(Place, Problem)>) -> Vec<Problem> {
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, problem)| problem).collect()
}
