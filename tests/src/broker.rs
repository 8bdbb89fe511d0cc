//! A real single-node Kafka broker, from Maven's jars, on loopback.
//!
//! It dies with the process that started it, however that ends: a shell between the two waits on a pipe whose other end we
//! hold, and kills the broker when it closes.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::classpath;
use crate::proxy::Proxy;

/// Starts its arguments in the background and prints their pid; then sends them the signal that it reads, KILL at the end of
/// the input, and waits for their end.
const GUARD: &str = r#""$@" </dev/null >>"$LOG" 2>&1 & pid=$!; echo $pid; read -r signal || signal=KILL; kill -"$signal" $pid; wait $pid"#;

/// How long a start or a clean stop may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// Held while the form of a new broker's folder is looked for or made.
static FORMATTING: Mutex<()> = Mutex::new(());

/// A broker; dropping it kills the process.
pub struct Broker {
    /// Its data, settings and log.
    dir: PathBuf,
    /// Where clients connect.
    port: u16,
    /// The running process, if it runs.
    process: Option<Process>,
}

/// A running broker.
struct Process {
    /// The shell that guards it.
    guard: Child,
    /// The broker's own pid.
    pid: u32,
}

impl Broker {
    /// Starts a broker with its data in `dir`; goes on with what is there.
    pub fn start(dir: &Path) -> Result<Self> {
        Self::start_with(dir, "")
    }

    /// The same with more lines for its server.properties.
    pub fn start_with(dir: &Path, properties: &str) -> Result<Self> {
        Self::start_behind(dir, properties, None)
    }

    /// The same with a second address, which leads through a proxy: who connects there is sent back there.
    pub fn start_behind(dir: &Path, properties: &str, proxy: Option<&Proxy>) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let mut last = None;
        // Another process may take a port between our look and the broker's.
        for _ in 0..3 {
            let [port, controller, behind] = free_ports()?;
            let mut text = server_properties(dir, port, controller, properties);
            if let Some(proxy) = proxy {
                text.push_str(&second_listener(port, controller, behind, proxy.port()));
                proxy.lead_to(behind);
            }
            fs::write(dir.join("server.properties"), text)?;
            format(dir)?;
            let mut broker = Self { dir: dir.to_owned(), port, process: None };
            match broker.restart() {
                Ok(()) => return Ok(broker),
                Err(error) if broker.log().contains("Address already in use") => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.context("no attempt")?)
    }

    /// For `bootstrap.servers`.
    pub fn bootstrap_servers(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Starts the broker again after `kill` or `stop`: the same data, the same port.
    pub fn restart(&mut self) -> Result<()> {
        ensure!(self.process.is_none(), "the broker runs");
        classpath::find("java", "openjdk-17-jre-headless")?;
        let mut java = Command::new("sh");
        java.args(["-c", GUARD, "guard", "java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        java.args(["-XX:+ExitOnOutOfMemoryError", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]);
        java.args(["-cp", &classpath::resolve()?, "kafka.Kafka"]).arg(self.dir.join("server.properties"));
        java.env("LOG", self.dir.join("broker.log")).stdin(Stdio::piped()).stdout(Stdio::piped());
        // The shell tells how the broker ended; the log has it.
        let mut guard = java.stderr(Stdio::null()).spawn().context("start a shell")?;
        let mut pid = String::new();
        BufReader::new(guard.stdout.take().context("stdout")?).read_line(&mut pid)?;
        let pid = pid.trim().parse().context("the broker's pid")?;
        self.process = Some(Process { guard, pid });
        self.wait_until_it_answers()
    }

    /// Ends the broker as a crash does.
    pub fn kill(&mut self) -> Result<()> {
        self.end("KILL")
    }

    /// Stops the broker cleanly.
    pub fn stop(&mut self) -> Result<()> {
        self.end("TERM")
    }

    /// Sends the broker a signal: STOP lets it hang, CONT go on.
    pub fn signal(&self, signal: &str) -> Result<()> {
        let pid = self.pid().context("the broker doesn't run")?;
        let sent = Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status()?;
        ensure!(sent.success(), "kill -{signal} {pid}: {sent}");
        Ok(())
    }

    /// The broker's process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(|process| process.pid)
    }

    /// What the broker has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.join("broker.log")).unwrap_or_default()
    }

    /// Waits for the listener, which opens once the broker serves clients.
    fn wait_until_it_answers(&mut self) -> Result<()> {
        let start = Instant::now();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        while TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err() {
            let ended = self.process.as_ref().is_none_or(|process| !process.runs());
            if ended || start.elapsed() > PATIENCE {
                self.process = None;
                let log = self.log();
                let tail: Vec<&str> = log.lines().rev().take(20).collect();
                let tail: Vec<&str> = tail.into_iter().rev().collect();
                bail!("the broker {}:\n{}", if ended { "ended" } else { "does not answer" }, tail.join("\n"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Sends the signal and waits for the end.
    fn end(&mut self, signal: &str) -> Result<()> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        let mut pipe = process.guard.stdin.take().context("the guard's pipe")?;
        writeln!(pipe, "{signal}")?;
        let start = Instant::now();
        while process.guard.try_wait()?.is_none() {
            // A closed pipe does nothing after a signal: the guard no longer reads. Killing is the last resort.
            ensure!(start.elapsed() < PATIENCE, "the broker (pid {}) still runs after SIG{signal}", process.pid);
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Process {
    /// Whether the broker's process is there and is no zombie.
    fn runs(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        // "pid (name) state …"; the name has no parenthesis.
        stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The guard kills the broker when its pipe closes.
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// Three free ports below the kernel's range for outgoing connections: a client that connects to a stopped broker's port from
/// that range can get the very same port and connect to itself.
fn free_ports() -> Result<[u16; 3]> {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let end: u16 = range.split_whitespace().next().and_then(|low| low.parse().ok()).unwrap_or(32_768);
    let (low, high) = if end > 12_000 { (10_000, end) } else { (10_000, 65_000) };
    // Start somewhere else in each process and each call.
    let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.subsec_nanos();
    let offset = (nanos / 1000).wrapping_add(std::process::id().wrapping_mul(7919)) % u32::from(high - low);
    let mut free = (0..high - low)
        .map(|i| low + ((offset + u32::from(i)) % u32::from(high - low)) as u16)
        .filter(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok());
    let mut next = || free.next().context("no free port");
    Ok([next()?, next()?, next()?])
}

/// Gives `dir` the form that the broker wants. The form is the same for all: made once, then copied.
fn format(dir: &Path) -> Result<()> {
    let data = dir.join("data");
    if data.join("meta.properties").exists() {
        return Ok(());
    }
    // One test of this process makes it for all.
    let _one = FORMATTING.lock().unwrap_or_else(PoisonError::into_inner);
    let template = classpath::cache_dir()?.join("formatted-4.4.0");
    if !template.join("meta.properties").exists() {
        let made = classpath::cache_dir()?.join(format!("formatted.{}", std::process::id()));
        fs::create_dir_all(&made)?;
        let properties = made.join("server.properties");
        fs::write(&properties, server_properties(&made, 9092, 9093, ""))?;
        let mut java = Command::new("java");
        java.args(["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", &classpath::resolve()?]);
        java.args(["kafka.tools.StorageTool", "format", "-t", "d2VpcnRlc3Ricm9rZXIwMA", "-c"]).arg(&properties);
        classpath::find("java", "openjdk-17-jre-headless")?;
        let output = java.output().context("start java")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "formatting the test broker's folder failed:\n{said}");
        // Where another process was quicker, its form is as good.
        if fs::rename(made.join("data"), &template).is_err() {
            ensure!(template.join("meta.properties").exists(), "cannot keep {}", template.display());
        }
        fs::remove_dir_all(&made)?;
    }
    copy(&template, &data)
}

/// Copies a folder.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Settings that replace those above them: a listener on `behind`, for which clients are told another port.
fn second_listener(port: u16, controller: u16, behind: u16, told: u16) -> String {
    format!(
        "listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},BEHIND://127.0.0.1:{behind}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},BEHIND://127.0.0.1:{told}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,BEHIND:PLAINTEXT
"
    )
}

/// The broker's settings.
fn server_properties(dir: &Path, port: u16, controller: u16, more: &str) -> String {
    let dir = dir.display();
    format!(
        "process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={dir}/data
num.partitions=8
default.replication.factor=1
min.insync.replicas=1
auto.create.topics.enable=false
# record timestamps may lie years back: never delete by age
log.retention.ms=-1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
# the cleaner's buffer is 128 MiB otherwise: too much for a small heap
log.cleaner.threads=1
log.cleaner.dedupe.buffer.size=16777216
log.cleaner.io.buffer.size=524288
# 9 s otherwise: a broker restarted after a kill waits that long for its old session to end
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
num.network.threads=2
num.io.threads=4
{more}
"
    )
}
