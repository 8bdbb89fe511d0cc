//! Log lines: text for people, JSON for machines, always on stderr (stdout is for data).

use std::io::{self, Write};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// Form of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// How much is logged, and how.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Form of a line.
    pub format: Format,
    /// Steps of detail above the usual (`-v`, `-vv`), or below it (`-q`, `-qq`).
    pub verbosity: i16,
    /// Whether text lines are coloured.
    pub colours: bool,
    /// Directives as of `WEIR_LOG` (`weir::kafka=debug,weir=info`); they replace the verbosity.
    pub filter: Option<String>,
}

/// Logging that could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directives are none.
    #[error("WEIR_LOG is '{filter}', which is no list of directives such as 'weir=debug' or 'weir::kafka=trace,info'")]
    Filter {
        /// As given.
        filter: String,
        /// What is wrong with it.
        source: ParseError,
    },
    /// It was set up before.
    #[error("logging is set up already")]
    Twice(#[source] TryInitError),
}

/// Where lines go: a place that takes one whole line a call, so that it can put it above a progress bar.
pub trait LineSink: Fn(&[u8]) -> io::Result<()> + Clone + Send + Sync + 'static {}

impl<F: Fn(&[u8]) -> io::Result<()> + Clone + Send + Sync + 'static> LineSink for F {}

/// Sets up logging for the whole process; lines go to `sink`.
pub fn init(options: &Options, sink: impl LineSink) -> Result<(), Error> {
    let filter = filter(options)?;
    let writer = LineWriter(sink);
    match options.format {
        Format::Text => tracing_subscriber::fmt()
            // A log that cannot be written, on a full disk for example, must not end the process: the complaint would.
            .log_internal_errors(false)
            .with_env_filter(filter)
            .with_ansi(options.colours)
            .with_writer(writer)
            .finish()
            .try_init(),
        Format::Json => tracing_subscriber::fmt()
            // A log that cannot be written, on a full disk for example, must not end the process: the complaint would.
            .log_internal_errors(false)
            .json()
            .flatten_event(true)
            .with_env_filter(filter)
            .with_writer(writer)
            .finish()
            .try_init(),
    }
    .map_err(Error::Twice)
}

/// What passes.
fn filter(options: &Options) -> Result<EnvFilter, Error> {
    if let Some(filter) = options.filter.as_ref().filter(|filter| !filter.trim().is_empty()) {
        return EnvFilter::builder().parse(filter).map_err(|source| Error::Filter { filter: filter.clone(), source });
    }
    let directives = match options.verbosity {
        ..=-2 => "error",
        -1 => "warn",
        0 => "warn,weir=info",
        1 => "info,weir=debug",
        2.. => "debug,weir=trace",
    };
    Ok(EnvFilter::new(directives))
}

/// Hands whole lines to a sink.
#[derive(Clone, Debug)]
struct LineWriter<S>(S);

impl<S: LineSink> Write for LineWriter<S> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        (self.0)(line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a, S: LineSink> MakeWriter<'a> for LineWriter<S> {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// What a logger with `options` writes of one event at each level.
    fn logged(options: &Options) -> String {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = {
            let lines = lines.clone();
            move |line: &[u8]| {
                lines.lock().unwrap().extend_from_slice(line);
                Ok(())
            }
        };
        let subscriber = tracing_subscriber::fmt()
            // A log that cannot be written, on a full disk for example, must not end the process: the complaint would.
            .log_internal_errors(false)
            .with_env_filter(filter(options).unwrap())
            .with_ansi(false)
            .with_writer(LineWriter(sink))
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::error!("e");
            tracing::warn!("w");
            tracing::info!("i");
            tracing::debug!("d");
            tracing::info!(target: "elsewhere", "o");
        });
        let text = String::from_utf8(lines.lock().unwrap().clone()).unwrap();
        text.lines().filter_map(|line| line.chars().last()).collect()
    }

    #[test]
    fn verbosity_chooses_what_passes() {
        for (verbosity, passes) in [(-2, "e"), (-1, "ew"), (0, "ewi"), (1, "ewido"), (5, "ewido")] {
            assert_eq!(logged(&Options { verbosity, ..Options::default() }), passes, "verbosity {verbosity}");
        }
    }

    #[test]
    fn directives_replace_the_verbosity() {
        let options = |filter: &str| Options { filter: Some(filter.to_owned()), verbosity: -2, ..Options::default() };
        assert_eq!(logged(&options("elsewhere=info")), "o");
        assert_eq!(logged(&options(" ")), "e", "nothing in it is nothing said");
        let refused = filter(&options("weir=loud")).unwrap_err().to_string();
        assert!(refused.contains("'weir=loud'"), "{refused}");
    }
}
