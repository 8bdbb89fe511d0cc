//! Where values come from: the file or an override, and the place there.

use std::path::{Path, PathBuf};

use super::Problem;

/// Where something stands. Places are ordered as the file is; those in overrides come after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// 0: the file; else the number of an override, from 1.
    origin: usize,
    /// Byte offset in the text there.
    offset: usize,
}

impl Place {
    /// The place at `offset` of the same origin.
    pub(crate) fn at(self, offset: usize) -> Self {
        Self { offset, ..self }
    }
}

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Where it stands.
    pub place: Place,
}

/// A value given on the command line or in the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Override {
    /// How messages name it.
    label: String,
    /// The value as it was given.
    raw: String,
}

/// The texts that places point into. Kept with the topology, for problems that show only later (a plugin's file is missing).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origins {
    /// The topology file.
    file: PathBuf,
    /// Its content.
    text: String,
    /// What overrides it.
    overrides: Vec<Override>,
}

impl Origins {
    /// A file and its content.
    pub(crate) fn new(file: &Path, text: &str) -> Self {
        Self { file: file.to_owned(), text: text.to_owned(), overrides: Vec::new() }
    }

    /// Adds an override; its place.
    pub(crate) fn add(&mut self, label: String, raw: &str) -> Place {
        self.overrides.push(Override { label, raw: raw.to_owned() });
        Place { origin: self.overrides.len(), offset: 0 }
    }

    /// What was given, if `place` is that of an override's whole value.
    pub(crate) fn raw(&self, place: Place) -> Option<&str> {
        match place.offset {
            0 => self.given(place).map(|given| given.raw.as_str()),
            _ => None,
        }
    }

    /// The path written at `path.place`: relative to the file if it stands there, else to the working directory.
    pub(crate) fn resolve(&self, path: &At<String>) -> PathBuf {
        match self.given(path.place) {
            Some(_) => PathBuf::from(&path.value),
            None => self.file.parent().unwrap_or(Path::new("")).join(&path.value),
        }
    }

    /// A problem at `place`.
    pub(crate) fn problem(&self, place: Place, what: impl Into<String>, remedy: impl Into<String>) -> Problem {
        let (file, line, column) = match self.given(place) {
            Some(given) => (given.label.clone(), 0, 0),
            None => {
                let (before, _) = self.text.split_at(self.text.floor_char_boundary(place.offset));
                let line = before.rsplit('\n').next().unwrap_or(before);
                let number = before.matches('\n').count() + 1;
                (self.file.display().to_string(), number, line.chars().count() + 1)
            }
        };
        Problem { file, line, column, what: what.into(), remedy: remedy.into() }
    }

    /// How a message refers to `place` in passing: `line 12`, or the override.
    pub(crate) fn mention(&self, place: Place) -> String {
        let problem = self.problem(place, "", "");
        match problem.line {
            0 => problem.file,
            line => format!("line {line}"),
        }
    }

    /// The override that `place` is in.
    fn given(&self, place: Place) -> Option<&Override> {
        self.overrides.get(place.origin.checked_sub(1)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_the_file_has_line_and_column() {
        let origins = Origins::new(Path::new("a/weir.toml"), "[app]\nid = \"ä\" # ü\n");
        let place = Place::default().at("[app]\nid = \"ä\" ".len());
        assert_eq!(origins.problem(place, "w", "r").to_string(), "a/weir.toml:2:10: w; r");
        assert_eq!(origins.mention(place), "line 2");
        assert_eq!(origins.problem(Place::default().at(9_999), "w", "").to_string(), "a/weir.toml:3:1: w");
    }

    #[test]
    fn paths_are_relative_to_where_they_stand() {
        let mut origins = Origins::new(Path::new("a/weir.toml"), "");
        let place = origins.add("--set state.dir=s".to_owned(), "s");
        assert_eq!(origins.resolve(&At { value: "s".to_owned(), place }), Path::new("s"));
        assert_eq!(origins.resolve(&At { value: "s".to_owned(), place: Place::default() }), Path::new("a/s"));
        assert_eq!(origins.problem(place, "w", "r").to_string(), "--set state.dir=s: w; r");
    }
}
