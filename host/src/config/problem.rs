//! What is wrong with a topology file, for people.

use std::fmt;

use serde::Serialize;

/// One thing that is wrong, where it stands, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file; for an override the override itself (`--set app.threads=x`, `WEIR_APP__THREADS`).
    pub file: String,
    /// Line, from 1; 0 where there are none (an override, a file that cannot be read).
    pub line: usize,
    /// Column in characters, from 1; 0 where there are none.
    pub column: usize,
    /// What is wrong.
    pub what: String,
    /// What would be right; empty where `what` says it.
    pub remedy: String,
}

impl fmt::Display for Problem {
    /// As compilers write it, so that editors find the place: `weir.toml:12:1: what; remedy`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.what)?,
            line => write!(f, "{}:{line}:{}: {}", self.file, self.column, self.what)?,
        }
        if self.remedy.is_empty() { Ok(()) } else { write!(f, "; {}", self.remedy) }
    }
}

/// All that is wrong with a topology file, in the file's order; never empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(transparent)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    /// One problem a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}
