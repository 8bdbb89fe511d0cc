//! The `weir` program, as a user runs it.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::wait;

/// How long anything may take that should take seconds.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// The project's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The program, as `cargo test --workspace` built it beside this test.
pub fn program() -> Result<PathBuf> {
    let test = std::env::current_exe()?;
    let folder = test.parent().and_then(Path::parent).context("the test has no folder")?;
    let program = folder.join("weir");
    ensure!(program.exists(), "no {}: run `cargo test --workspace`, or `cargo build`", program.display());
    Ok(program)
}

/// A plugin, as `scripts/plugins.sh` builds it.
pub fn plugin(name: &str) -> Result<PathBuf> {
    let file = root().join("plugins/target/weir").join(format!("{name}.wasm"));
    ensure!(file.exists(), "no {}: run scripts/plugins.sh", file.display());
    Ok(file)
}

/// What `Host::start` needs.
pub struct Setup<'a> {
    /// The topology file.
    pub topology: PathBuf,
    /// Kafka.
    pub bootstrap: String,
    /// The state folder; the log lies beside it.
    pub state: &'a Path,
    /// More settings, as `--set`.
    pub set: Vec<(String, String)>,
    /// Where the process shall end itself: see `weir::fault`.
    pub fault: Option<String>,
}

impl<'a> Setup<'a> {
    /// The topology `plugins/NAME/weir.toml` with its state in `state`.
    pub fn new(name: &str, bootstrap: String, state: &'a Path) -> Self {
        let topology = root().join("plugins").join(name).join("weir.toml");
        Self { topology, bootstrap, state, set: Vec::new(), fault: None }
    }

    /// With one more setting.
    #[must_use]
    pub fn set(mut self, path: &str, value: &str) -> Self {
        self.set.push((path.to_owned(), value.to_owned()));
        self
    }

    /// With a fault: `NAME[:N][:STOP]`, NAME one of `weir::fault::POINTS`.
    #[must_use]
    pub fn fault(mut self, fault: &str) -> Self {
        self.fault = Some(fault.to_owned());
        self
    }
}

/// An answer over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// The header `content-type`, if there is one.
    pub content_type: Option<String>,
    /// The body.
    pub body: String,
}

/// The answer to a GET of `url`, whatever the status.
pub fn get(url: &str) -> Result<Answer> {
    let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(TIMEOUT)).build();
    let agent: ureq::Agent = config.into();
    let mut answer = agent.get(url).call()?;
    let content_type = answer.headers().get("content-type").and_then(|value| value.to_str().ok()).map(str::to_owned);
    Ok(Answer { status: answer.status().as_u16(), content_type, body: answer.body_mut().read_to_string()? })
}

/// A running `weir run`. Killed when dropped.
pub struct Host {
    /// The process.
    child: Child,
    /// Its port.
    port: u16,
    /// What it logged, over all runs on this state folder.
    log: PathBuf,
}

impl Host {
    /// Starts the program; returns once it answers `/livez`.
    pub fn start(setup: &Setup<'_>) -> Result<Self> {
        Self::start_through(setup, &[])
    }

    /// The same through a command that ends by executing its arguments.
    pub fn start_through(setup: &Setup<'_>, through: &[String]) -> Result<Self> {
        let mut host = Self::spawn_through(setup, through)?;
        wait::until("/livez", TIMEOUT, || {
            if let Some(status) = host.child.try_wait()? {
                // Nothing to wait for any more.
                return Ok(Err(anyhow::anyhow!("weir ended with {status}:\n{}", host.log())));
            }
            host.get("/livez").map(|_| Ok(()))
        })??;
        Ok(host)
    }

    /// Starts the program, and waits for nothing.
    pub fn spawn(setup: &Setup<'_>) -> Result<Self> {
        Self::spawn_through(setup, &[])
    }

    /// The same through a command.
    fn spawn_through(setup: &Setup<'_>, through: &[String]) -> Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let log = setup.state.with_extension("log");
        let file = File::options().create(true).append(true).open(&log)?;
        let mut command = match through {
            [] => Command::new(program()?),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(program()?);
                command
            }
        };
        command.arg("run").arg(&setup.topology);
        command.args(["--set", &format!("kafka.bootstrap.servers={}", setup.bootstrap)]);
        command.args(["--set", &format!("state.dir={}", setup.state.display())]);
        command.args(["--set", &format!("http.listen=127.0.0.1:{port}")]);
        for (path, value) in &setup.set {
            command.args(["--set", &format!("{path}={value}")]);
        }
        if let Some(fault) = &setup.fault {
            command.env("WEIR_FAULT", fault);
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).spawn()?;
        Ok(Self { child, port, log })
    }

    /// Its base URL.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The most memory that it had so far, in bytes.
    pub fn peak_memory(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
        Ok(line.trim().trim_end_matches("kB").trim().parse::<u64>()? * 1024)
    }

    /// Status code and body of a GET, whatever the status.
    pub fn get(&self, path: &str) -> Result<(u16, String)> {
        let Answer { status, body, .. } = self.answer(path)?;
        Ok((status, body))
    }

    /// The answer to a GET, whatever the status.
    pub fn answer(&self, path: &str) -> Result<Answer> {
        get(&format!("{}{path}", self.url()))
    }

    /// The status.
    pub fn status(&self) -> Result<Value> {
        Ok(serde_json::from_str(&self.get("/v1/status")?.1)?)
    }

    /// Waits until `/readyz` says so.
    pub fn wait_ready(&self) -> Result<()> {
        wait::until("ready", TIMEOUT, || {
            let (code, body) = self.get("/readyz?verbose")?;
            ensure!(code == 200, "{body}");
            Ok(())
        })
        .with_context(|| self.log())
    }

    /// Waits for a status that `done` accepts; its error says what is missing.
    pub fn wait_status(&self, what: &str, done: impl Fn(&Value) -> Result<()>) -> Result<Value> {
        wait::until(what, TIMEOUT, || {
            let status = self.status()?;
            done(&status)?;
            Ok(status)
        })
        .with_context(|| self.log())
    }

    /// SIGKILL.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// SIGTERM, and how it ended.
    pub fn terminate(&mut self) -> Result<ExitStatus> {
        self.signal("TERM")?;
        self.wait_end()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: &str) -> Result<()> {
        let sent = Command::new("kill").args([&format!("-{signal}"), &self.pid().to_string()]).status()?;
        ensure!(sent.success(), "kill -{signal} {}: {sent}", self.pid());
        Ok(())
    }

    /// Waits until it has ended.
    pub fn wait_end(&mut self) -> Result<ExitStatus> {
        let status = wait::until("the end of weir", TIMEOUT, || self.child.try_wait()?.context("it runs"));
        status.with_context(|| self.log())
    }

    /// Waits until a SIGSTOP has stopped it.
    pub fn wait_stopped(&self) -> Result<()> {
        let stat = format!("/proc/{}/stat", self.pid());
        let stopped = wait::until("a stopped process", TIMEOUT, || {
            let stat = std::fs::read_to_string(&stat)?;
            ensure!(stat.contains(") T "), "{stat}");
            Ok(())
        });
        stopped.with_context(|| self.log())
    }

    /// What it logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Whether a process was ended by SIGKILL.
pub fn was_killed(status: ExitStatus) -> bool {
    status.signal() == Some(9)
}
