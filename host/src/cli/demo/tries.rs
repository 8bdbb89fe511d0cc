//! Requests for the reader to try, each of which the demo has tried itself.

use anyhow::{Context as _, ensure};

use super::narration::Narration;
use crate::cli::client::{Answer, Client};

/// A request and what it must give.
pub(super) struct Try {
    /// Path and query.
    pub(super) path: String,
    /// Status of the answer.
    pub(super) status: u16,
    /// What the body holds.
    pub(super) body: &'static str,
    /// What it shows, for people.
    pub(super) shows: &'static str,
}

impl Try {
    /// A request.
    pub(super) fn new(path: impl Into<String>, status: u16, body: &'static str, shows: &'static str) -> Self {
        Self { path: path.into(), status, body, shows }
    }
}

/// Makes the requests to `url`; the answers' bodies. An error if one isn't what it must be.
pub(super) fn check(tries: &[Try], url: &str) -> anyhow::Result<Vec<String>> {
    let client = Client::new(url);
    let ask = |Try { path, status, body, .. }: &Try| {
        let Answer { status: found, body: bytes } = client.answer(path).with_context(|| format!("GET {path}"))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        ensure!(
            found == *status && text.contains(body),
            "GET {path} should give {status} with {body:?}, but gives {found} with {text:?}"
        );
        Ok(text)
    };
    tries.iter().map(ask).collect()
}

/// Shows them as lines for a shell, and how it all ends.
pub(super) fn show(tries: &[Try], url: &str, narration: &Narration) {
    let command =
        |path: &str| if path.contains('?') { format!("curl '{url}{path}'") } else { format!("curl {url}{path}") };
    let width = tries.iter().map(|one| command(&one.path).chars().count()).max().unwrap_or(0);
    let lines: Vec<String> =
        tries.iter().map(|one| format!("  {:<width$}  # {}", command(&one.path), one.shows)).collect();
    narration.say(&format!("\nIt goes on serving. In another terminal, try\n\n{}\n", lines.join("\n")));
}
