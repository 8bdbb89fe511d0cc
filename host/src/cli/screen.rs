//! Stderr: log lines and progress bars that do not disturb each other.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};

use indicatif::MultiProgress;

use super::{Color, Global, LogFormat};
use crate::telemetry::logging;

/// Stderr of this process.
#[derive(Clone, Debug)]
pub(super) struct Screen {
    /// Bars that are on it.
    bars: MultiProgress,
    /// Whether bars can be drawn.
    draws: bool,
    /// Whether the user wants to read only what is wrong.
    quiet: bool,
}

impl Screen {
    /// Stderr; `quiet` draws no bars.
    pub(super) fn new(quiet: bool) -> Self {
        Self { bars: MultiProgress::new(), draws: io::stderr().is_terminal() && !quiet, quiet }
    }

    /// Whether the user wants to read only what is wrong.
    pub(super) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Where bars go, if they can be drawn.
    pub(super) fn bars(&self) -> Option<&MultiProgress> {
        self.draws.then_some(&self.bars)
    }

    /// Writes whole lines, above the bars.
    pub(super) fn write(&self, lines: &[u8]) -> io::Result<()> {
        self.bars.suspend(|| io::stderr().write_all(lines))
    }

    /// Sets up logging to this screen; `usual` is the verbosity without `-v` and `-q`.
    pub(super) fn start_logging(
        &self,
        global: &Global,
        usual: i16,
        env: &BTreeMap<String, String>,
    ) -> Result<(), logging::Error> {
        let options = logging::Options {
            format: match global.log_format {
                LogFormat::Text => logging::Format::Text,
                LogFormat::Json => logging::Format::Json,
            },
            verbosity: usual + i16::from(global.verbose) - i16::from(global.quiet),
            colours: colours(global.color, io::stderr().is_terminal(), env),
            filter: env.get("WEIR_LOG").cloned(),
        };
        let screen = self.clone();
        logging::init(&options, move |line: &[u8]| screen.write(line))
    }
}

/// Whether to use colours (<https://no-color.org>).
fn colours(wish: Color, terminal: bool, env: &BTreeMap<String, String>) -> bool {
    let set = |name: &str| env.get(name).is_some_and(|value| !value.is_empty());
    match wish {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => terminal && !set("NO_COLOR") && env.get("TERM").is_none_or(|term| term != "dumb"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_that_want_them() {
        let check = |wish, terminal, env: &[(&str, &str)], expected| {
            let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            assert_eq!(colours(wish, terminal, &env), expected, "{wish:?}, terminal {terminal}, {env:?}");
        };
        check(Color::Auto, true, &[("TERM", "xterm")], true);
        check(Color::Auto, true, &[("NO_COLOR", "")], true);
        check(Color::Auto, true, &[("NO_COLOR", "1")], false);
        check(Color::Auto, true, &[("TERM", "dumb")], false);
        check(Color::Auto, false, &[], false);
        check(Color::Always, false, &[("NO_COLOR", "1")], true);
        check(Color::Never, true, &[], false);
    }
}
