//! From a file's bytes to a checked topology.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, str};

use crate::config::{Origins, Place, Problem, Problems, Report, merge, parse_document};

use super::{Topology, check, read};

/// Reads and checks the topology file `file`. `set` are pairs of path and value from the command line, `env` the process's
/// environment, of which names such as `WEIR_APP__THREADS` count.
pub fn load(file: &Path, set: &[(String, String)], env: &BTreeMap<String, String>) -> Result<Topology, Problems> {
    match fs::read(file) {
        Ok(bytes) => parse(&bytes, file, set, env),
        Err(error) => Err(unreadable(file, format!("it cannot be read: {error}"), "name a topology file")),
    }
}

/// Checks the content of a topology file; `file` is what messages call it, and what paths in it are relative to.
pub fn parse(
    bytes: &[u8],
    file: &Path,
    set: &[(String, String)],
    env: &BTreeMap<String, String>,
) -> Result<Topology, Problems> {
    let text = match str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let line = bytes.iter().take(error.valid_up_to()).filter(|byte| **byte == b'\n').count() + 1;
            return Err(unreadable(file, format!("line {line} is no UTF-8 text"), "save the file as UTF-8"));
        }
    };
    let mut report = Report::new(Origins::new(file, text));
    let (mut root, errors) = parse_document(text, Place::default());
    let understood = errors.iter().all(|error| error.harmless);
    for error in errors {
        report.problem(error.place, error.message, error.remedy);
    }
    if !understood {
        // What follows from misread text would only hide the error.
        return Err(report.into_problems());
    }
    merge(&mut root, &mut report, set, env);
    let topology = read::topology(file, &root, &report);
    check::check(&topology, &report);
    let (warnings, origins) = report.finish()?;
    Ok(Topology { warnings, origins, ..topology })
}

/// The one problem of a file that is no text.
fn unreadable(file: &Path, what: String, remedy: &str) -> Problems {
    Problems(vec![Problem { file: file.display().to_string(), line: 0, column: 0, what, remedy: remedy.to_owned() }])
}
