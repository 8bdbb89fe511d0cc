//! Tables and documents on stdout.

use std::io::{self, Write};

use serde::Serialize;

/// Columns for people: as wide as their widest cell, two blanks apart.
#[derive(Debug)]
pub(super) struct Table {
    /// The heading, then the rows.
    lines: Vec<Vec<String>>,
}

impl Table {
    /// A table with this heading.
    pub(super) fn new<const N: usize>(heading: [&str; N]) -> Self {
        Self { lines: vec![heading.iter().map(|cell| cell.to_uppercase()).collect()] }
    }

    /// Adds a row.
    pub(super) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.lines.push(cells.into());
    }

    /// As text.
    pub(super) fn render(&self) -> String {
        let columns = self.lines.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column| {
            self.lines.iter().filter_map(|line| line.get(column)).map(|cell: &String| cell.chars().count()).max()
        };
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        let mut text = String::new();
        for line in &self.lines {
            let cells: Vec<String> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            text += cells.join("  ").trim_end();
            text.push('\n');
        }
        text
    }
}

/// Writes text to stdout.
pub(super) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes a document to stdout, for programs.
pub(super) fn print_json(document: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(document)?;
    Ok(print(&(text + "\n"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let mut table = Table::new(["name", "n"]);
        table.row(["längstes".to_owned(), "1".to_owned()]);
        table.row(["x".to_owned(), String::new()]);
        assert_eq!(table.render(), "NAME      N\nlängstes  1\nx\n");
    }
}
