//! `weir demo`, as a newcomer runs it: no broker, no files of its own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use weir_tests::host::{get, plugin, program};
use weir_tests::wait;

/// How long a demo may take, in a debug build on a busy machine.
const LIMIT: Duration = Duration::from_secs(90);

/// A running demo. Killed when dropped.
struct Demo {
    /// The process.
    child: Child,
    /// Its folder: output, narration, and its own temporary files.
    dir: PathBuf,
}

impl Demo {
    /// Starts `weir demo` with these arguments.
    fn start(dir: &Path, args: &[&str]) -> Result<Self> {
        let temporary = dir.join("tmp");
        std::fs::create_dir_all(&temporary)?;
        let plugins = plugin("projekt")?;
        let plugins = plugins.parent().context("no folder")?;
        let mut command = Command::new(program()?);
        command.args(["demo", "--listen", "127.0.0.1:0", "--plugins"]).arg(plugins).args(args);
        command.env("TMPDIR", temporary).stdin(Stdio::null());
        let child = command.stdout(File::create(dir.join("out"))?).stderr(File::create(dir.join("err"))?).spawn()?;
        Ok(Self { child, dir: dir.to_owned() })
    }

    /// What is on stdout.
    fn output(&self) -> Result<String> {
        Ok(std::fs::read_to_string(self.dir.join("out"))?)
    }

    /// What is on stderr.
    fn narration(&self) -> String {
        std::fs::read_to_string(self.dir.join("err")).unwrap_or_default()
    }

    /// Waits until it has ended; it must leave nothing behind.
    fn wait_end(&mut self) -> Result<ExitStatus> {
        let ended = wait::until("the end of the demo", LIMIT, || self.child.try_wait()?.context("it runs"));
        let ended = ended.with_context(|| self.narration())?;
        let left: Vec<_> = std::fs::read_dir(self.dir.join("tmp"))?.collect();
        ensure!(left.is_empty(), "left behind: {left:?}");
        Ok(ended)
    }

    /// Waits until the narration holds `text`.
    fn wait_for(&self, text: &str) -> Result<String> {
        wait::until(text, LIMIT, || Some(self.narration()).filter(|told| told.contains(text)).context("not yet"))
            .with_context(|| self.narration())
    }

    /// Sends a signal.
    fn signal(&self, signal: &str) -> Result<()> {
        let sent = Command::new("kill").args([&format!("-{signal}"), &self.child.id().to_string()]).status()?;
        ensure!(sent.success(), "kill -{signal}: {sent}");
        Ok(())
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// The URLs of the `curl` lines.
fn curls(narration: &str) -> Vec<String> {
    let lines = narration.lines().filter_map(|line| line.trim().strip_prefix("curl "));
    lines.map(|line| line.split('#').next().unwrap_or(line).trim().trim_matches('\'').to_owned()).collect()
}

#[test]
fn projects_lack_their_rows_without_the_barrier_only() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut demo = Demo::start(dir.path(), &["--exit", "-o", "json"])?;
    let ended = demo.wait_end()?;
    ensure!(ended.success(), "{ended}: {}", demo.narration());
    let comparison: Value = serde_json::from_str(&demo.output()?)?;
    let (without, with) = (&comparison["without_barrier"], &comparison["with_barrier"]);
    ensure!(with["missing"] == 0 && with["joined"] == with["projekte"], "{comparison}");
    ensure!(without["projekte"] == with["projekte"] && without["projekte"] == 4_000, "{comparison}");
    // Every row is later than every project, so it is no matter of luck.
    ensure!(without["missing"] == 4_000 && without["joined"] == 0, "{comparison}");
    let told = demo.narration();
    ensure!(!told.contains("WARN") && !told.contains("ERROR") && !told.contains("error"), "{told}");
    Ok(())
}

#[test]
fn the_demo_of_orders_serves_on_until_it_is_interrupted() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut demo = Demo::start(dir.path(), &["orders"])?;
    let told = demo.wait_for("Ctrl-C ends it.")?;
    let answers: Vec<(u16, String)> =
        curls(&told).iter().map(|url| get(url).map(|answer| (answer.status, answer.body))).collect::<Result<_>>()?;
    let expected = [(200, "Ready"), (200, "RETURNED"), (404, "Order not found"), (400, "Missing orderId parameter")];
    ensure!(answers == expected.map(|(status, body)| (status, body.to_owned())), "{answers:?}\n{told}");
    let output = demo.output()?;
    let lines: Vec<Vec<&str>> = output.lines().map(|line| line.split_whitespace().collect()).collect();
    ensure!(lines.first() == Some(&vec!["REQUEST", "STATUS", "ANSWER"]), "{output}");
    ensure!(lines.get(1) == Some(&vec!["/ready", "200", "Ready"]) && lines.len() == 5, "{output}");
    demo.signal("INT")?;
    let ended = demo.wait_end()?;
    ensure!(ended.success(), "{ended}: {}", demo.narration());
    Ok(())
}

#[test]
fn a_demo_that_is_stopped_too_early_is_no_success() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut demo = Demo::start(dir.path(), &["--exit"])?;
    demo.wait_for("1. Without the barrier")?;
    demo.signal("TERM")?;
    let ended = demo.wait_end()?;
    ensure!(ended.code() == Some(130), "{ended}: {}", demo.narration());
    ensure!(demo.narration().ends_with("error: stopped before the demo was over\n"), "{}", demo.narration());
    ensure!(demo.output()?.is_empty());
    Ok(())
}

#[test]
fn without_its_plugin_it_says_how_to_get_it() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("none");
    let folder = folder.to_str().context("a path")?;
    let ended = Command::new(program()?).args(["demo", "--listen", "127.0.0.1:0", "--plugins", folder]).output()?;
    let told = String::from_utf8(ended.stderr)?;
    ensure!(ended.status.code() == Some(1), "{told}");
    let expected =
        format!("error: there is no plugin {folder}/projekt.wasm; `make demo` builds it (or scripts/plugins.sh");
    ensure!(told.starts_with(&expected), "{told}");
    Ok(())
}
