//! Bad input and faults: what is said, what goes on, and that nothing is lost.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use weir_tests::{Broker, Host, Setup, host};

mod guests;
mod outage;
mod start;
mod stop;
mod values;

/// The project's topology, with changes to its text, in `dir`.
fn changed_projekt(dir: &Path, changes: &[(&str, &str)]) -> Result<PathBuf> {
    let mut text = fs::read_to_string(host::root().join("plugins/projekt/weir.toml"))?;
    let file = host::plugin("projekt")?;
    let file = file.to_str().context("a path")?;
    for (from, to) in [("../target/weir/projekt.wasm", file)].iter().chain(changes) {
        ensure!(text.contains(from), "the topology has no {from}");
        text = text.replace(from, to);
    }
    let path = dir.join("projekt.toml");
    fs::write(&path, text)?;
    Ok(path)
}

/// The task with this id in a status.
fn task<'a>(status: &'a Value, id: &str) -> Result<&'a Value> {
    let tasks = status["tasks"].as_array().context("tasks")?;
    tasks.iter().find(|task| task["task"] == id).with_context(|| format!("task {id} in {status}"))
}

/// Waits until a task has failed, and gives its reason.
fn wait_failed(host: &Host, id: &str) -> Result<String> {
    let status = host.wait_status("a failed task", |status| {
        let task = task(status, id)?;
        ensure!(task["state"] == "failed", "{task}");
        Ok(())
    })?;
    Ok(task(&status, id)?["reason"].as_str().context("a reason")?.to_owned())
}

/// Whether it is alive, not ready, and says so with these words.
fn ensure_not_ready(host: &Host, says: &str) -> Result<()> {
    ensure!(host.get("/livez")?.0 == 200, "not alive");
    let (code, body) = host.get("/readyz")?;
    ensure!(code == 503 && body.contains(says), "{code} {body}");
    Ok(())
}

/// Ends it with SIGTERM, which must be a success.
fn terminate(host: &mut Host) -> Result<()> {
    let ended = host.terminate()?;
    ensure!(ended.success(), "SIGTERM ended it with {ended}: {}", host.log());
    Ok(())
}

/// A topology of one stream, `in`, whose values say what the plugin `evil` does; `counts` counts a key's records.
const EVIL: &str = r#"
[app]
id = "evil"
threads = 2

[kafka]
"bootstrap.servers" = "set by the test"

[state]
dir = "set by the test"

[plugins.evil]
file = "EVIL.wasm"
memory = "64 MiB"
call_timeout = "100 ms"

[streams.in]

[transforms.obey]
from = "in"
function = "evil.transform_obey"

[aggregates.counts]
inputs = [{ from = "obey", function = "evil.fold_echo" }]
emit = "each"

[sinks.out]
from = "counts"

[sinks.copy]
from = "obey"
"#;

/// The evil topology, written to `dir`.
fn evil(dir: &Path) -> Result<PathBuf> {
    let file = host::plugin("evil")?;
    let path = dir.join("evil.toml");
    fs::write(&path, EVIL.replace("EVIL.wasm", file.to_str().context("a path")?))?;
    Ok(path)
}

/// A run of the topology at `topology` with its state in `state`.
fn setup<'a>(topology: PathBuf, broker: &Broker, state: &'a Path) -> Setup<'a> {
    Setup { topology, bootstrap: broker.bootstrap_servers(), state, set: Vec::new(), fault: None }
}
