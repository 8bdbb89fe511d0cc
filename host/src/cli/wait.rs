//! `weir wait`: until an instance is ready.

use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};

use super::{Context, client};

/// How often to ask.
const INTERVAL: Duration = Duration::from_millis(500);

/// What to wait for.
#[derive(Debug, Subcommand)]
pub(super) enum WaitCommand {
    /// Until /readyz answers 200; exit code 75 if that takes too long
    Ready(ReadyArgs),
}

/// Arguments of `weir wait ready`.
#[derive(Debug, Args)]
pub(super) struct ReadyArgs {
    /// How long to wait at most: a number with ms, s, m or h
    #[arg(long, default_value = "5m", value_parser = parse_duration)]
    timeout: Duration,
}

/// It was not ready in time.
#[derive(Debug, thiserror::Error)]
#[error("not ready after {seconds} s:\n{answer}")]
pub(super) struct NotReady {
    /// How long it was waited.
    pub(super) seconds: u64,
    /// What the instance said last.
    pub(super) answer: String,
}

/// A duration as people type it.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let millis: u64 = match unit.trim_start() {
        "ms" => 1,
        "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err("a duration is a number with ms, s, m or h, for example 5m".to_owned()),
    };
    let number = number.parse::<u64>().map_err(|error| error.to_string())?;
    number.checked_mul(millis).map(Duration::from_millis).ok_or_else(|| "that is too long".to_owned())
}

/// Waits.
pub(super) fn run(WaitCommand::Ready(args): &WaitCommand, context: &Context) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        let answer = context.client.answer("/readyz");
        let left = args.timeout.saturating_sub(began.elapsed());
        match answer {
            Ok(answer) if answer.status == 200 => return Ok(()),
            // An instance that has just been started may not listen yet.
            Ok(_) | Err(client::Error::Unreachable { .. }) if !left.is_zero() => sleep(INTERVAL.min(left)),
            Ok(answer) => {
                let answer = String::from_utf8_lossy(&answer.body).trim_end().to_owned();
                return Err(NotReady { seconds: args.timeout.as_secs(), answer }.into());
            }
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_a_number_and_a_unit() {
        for (text, millis) in [("5m", 300_000), ("10 s", 10_000), ("250ms", 250), ("2h", 7_200_000), ("0s", 0)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "5", "m", "-1s", "1.5h", "1d", "99999999999999999h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
