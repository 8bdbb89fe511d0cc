//! Commands of the program, and what can be asked of a running one.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::host::{Host, TIMEOUT, program};
use crate::wait;

/// How a command ended, and what it said.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; `None`: a signal.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it logged.
    pub stderr: String,
}

/// Runs the program with these arguments to its end.
pub fn weir(arguments: &[&str]) -> Result<Ended> {
    let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let mut command = Command::new(program()?);
    command.args(arguments).stdin(Stdio::null()).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
    let mut child = command.spawn()?;
    let ended = wait::until("the end of the command", TIMEOUT, || child.try_wait()?.context("it runs"));
    if ended.is_err() {
        child.kill()?;
        child.wait()?;
    }
    let (stdout, stderr) = (whole(&mut stdout)?, whole(&mut stderr)?);
    let ended = ended.with_context(|| format!("weir {}: {stderr}", arguments.join(" ")))?;
    Ok(Ended { code: ended.code(), stdout, stderr })
}

/// The text of a file.
fn whole(file: &mut File) -> Result<String> {
    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text)?;
    Ok(text)
}

impl Host {
    /// Runs a client command against this instance.
    pub fn command(&self, arguments: &[&str]) -> Result<Ended> {
        let url = self.url();
        weir(&[arguments, &["--server", &url]].concat())
    }

    /// The document that a client command prints; it must end well.
    pub fn command_json(&self, arguments: &[&str]) -> Result<Value> {
        let ended = self.command(&[arguments, &["-o", "json"]].concat())?;
        ensure!(ended.code == Some(0), "weir {}: {ended:?}", arguments.join(" "));
        Ok(serde_json::from_str(&ended.stdout)?)
    }

    /// Status code and document of a POST, whatever the status.
    pub fn post(&self, path: &str, body: &[u8]) -> Result<(u16, Value)> {
        let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(TIMEOUT)).build();
        let agent: ureq::Agent = config.into();
        let mut answer = agent.post(format!("{}{path}", self.url())).send(body)?;
        Ok((answer.status().as_u16(), answer.body_mut().read_json()?))
    }

    /// Deploys a version of a plugin over HTTP; status code and document.
    pub fn deploy(&self, plugin: &str, bytes: &[u8]) -> Result<(u16, Value)> {
        self.post(&format!("/v1/plugins/{plugin}/versions"), bytes)
    }

    /// A metric: the sum over all its labels' values.
    pub fn metric(&self, name: &str) -> Result<f64> {
        let text = self.get("/metrics")?.1;
        let lines = text.lines().filter_map(|line| {
            let rest = line.strip_prefix(name).filter(|rest| rest.starts_with([' ', '{']))?;
            rest.rsplit(' ').next()
        });
        let values = lines.map(|value| value.parse::<f64>().with_context(|| format!("{name} {value}")));
        let values: Vec<f64> = values.collect::<Result<_>>()?;
        ensure!(!values.is_empty(), "no metric {name}");
        Ok(values.iter().sum())
    }
}
