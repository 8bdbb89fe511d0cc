//! The command line: one file a command.
//!
//! Data goes to stdout, everything else to stderr. Errors are values until they reach [`main`], which prints the chain
//! once; `exit` decides the exit code.

mod check;
mod client;
mod demo;
mod exit;
mod plugin;
mod progress;
mod query;
mod run;
mod screen;
mod serve;
mod status;
mod table;
mod wait;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use client::Client;
use exit::Exit;
use screen::Screen;

/// Arguments of the program.
#[derive(Debug, Parser)]
#[command(name = "weir", version, about, propagate_version = true, max_term_width = 100)]
struct Arguments {
    /// Options of every command.
    #[command(flatten)]
    global: Global,
    /// What to do.
    #[command(subcommand)]
    command: Command,
}

/// Options of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
struct Global {
    /// Form of what goes to stdout (and of errors on stderr)
    #[arg(short, long, global = true, value_enum, default_value_t)]
    output: Output,
    /// Base URL of the instance that client commands talk to
    #[arg(long, global = true, env = "WEIR_SERVER", value_name = "URL", default_value = "http://127.0.0.1:8080")]
    server: String,
    /// Says more: -v details, -vv everything; WEIR_LOG=weir::kafka=debug,… chooses by module
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
    /// Says less: -q only warnings and no progress, -qq only errors
    #[arg(short, long, global = true, action = ArgAction::Count)]
    quiet: u8,
    /// Colours on stderr; `auto`: on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    color: Color,
    /// Form of log lines
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    log_format: LogFormat,
}

/// Form of what goes to stdout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Color {
    /// On a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Form of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// What to do.
#[derive(Debug, Subcommand)]
enum Command {
    /// Runs a topology until it is asked to stop (SIGTERM, SIGINT)
    Run(run::RunArgs),
    /// Checks a topology file and prints what would run
    Check(check::CheckArgs),
    /// Shows a topology at work on a Kafka inside this process: no broker needed
    Demo(demo::DemoArgs),
    /// Inspects, deploys and rolls back plugins
    #[command(subcommand)]
    Plugin(plugin::PluginCommand),
    /// Prints one entry of a store
    Query(query::QueryArgs),
    /// Prints the state of an instance
    Status,
    /// Waits for an instance
    #[command(subcommand)]
    Wait(wait::WaitCommand),
}

/// What commands need besides their own arguments.
#[derive(Debug)]
struct Context {
    /// Form of what goes to stdout.
    output: Output,
    /// The instance to talk to.
    client: Client,
    /// Where log lines and progress go.
    screen: Screen,
    /// The environment, for overrides.
    env: std::collections::BTreeMap<String, String>,
}

/// Runs the program with the process's arguments and says how it went.
pub fn main() -> ExitCode {
    run_with(std::env::args_os())
}

/// Runs the program with these arguments.
fn run_with(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let Arguments { global, command } = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        // Help and version too are errors to clap; it knows where each goes.
        Err(error) => {
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Success };
            return exit.after(error.print());
        }
    };
    let output = global.output;
    match execute(global, command) {
        Ok(()) => Exit::Success.into(),
        Err(error) => exit::report(&error, output),
    }
}

/// Sets up what commands share, then runs one.
fn execute(global: Global, command: Command) -> anyhow::Result<()> {
    let env: std::collections::BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let screen = Screen::new(global.quiet > 0);
    // A server tells what it does; other commands log only what is wrong (the demo tells its story itself).
    let usual = if matches!(command, Command::Run(_)) { 0 } else { -1 };
    screen.start_logging(&global, usual, &env)?;
    let context = Context { output: global.output, client: Client::new(&global.server), screen, env };
    match command {
        Command::Run(args) => run::run(&args, &context),
        Command::Check(args) => check::run(&args, &context),
        Command::Demo(args) => demo::run(&args, &context),
        Command::Plugin(command) => plugin::run(command, &context),
        Command::Query(args) => query::run(&args, &context),
        Command::Status => status::run(&context),
        Command::Wait(command) => wait::run(&command, &context),
    }
}

/// An override of the topology file: `PATH=VALUE`.
fn parse_override(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((path, value)) if !path.trim().is_empty() => Ok((path.trim().to_owned(), value.to_owned())),
        _ => Err("an override is PATH=VALUE, for example app.threads=2".to_owned()),
    }
}

#[cfg(test)]
mod tests;
