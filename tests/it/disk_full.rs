//! A full disk: the state stops cleanly, says so, and goes on by itself when there is room.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use weir_tests::host::TIMEOUT;
use weir_tests::{Broker, Host, Setup, topics, wait};

use crate::crash::{IMPATIENT, setup};
use crate::grown::{self, Grown};
use crate::projekt::{PARTITIONS, create_topics, wait_caught_up};

/// Size of the disk, in MiB: more than what must be free before a store is opened again.
const SIZE: u64 = 96;
/// What is left of it when the program starts on a full one, in MiB: enough to begin with.
const LITTLE: u64 = 3;
/// Longest file where files are limited: less than a log needs.
const LIMIT: u64 = 4096;

/// Bytes of a large row: some are more than what a log has reserved.
const LARGE: usize = 400_000;

/// What is full.
enum Disk {
    /// A file system of its own under the state folder, in a mount namespace of the program's; needs root, or a kernel that gives
    /// users a namespace. With the way to get there.
    Small(Vec<String>),
    /// Any disk, with a limit on the length of the program's files, as quotas have it: works for everyone.
    Limited,
}

impl Disk {
    /// A small file system, where that is permitted.
    fn small() -> Self {
        let ways = [["unshare", "-m"].as_slice(), ["unshare", "-r", "-m"].as_slice()];
        for way in ways {
            let tried = Command::new(way[0]).args(&way[1..]).args(["mount", "-t", "tmpfs", "tmpfs", "/mnt"]).output();
            if tried.is_ok_and(|tried| tried.status.success()) {
                return Self::Small(way.iter().map(|word| (*word).to_owned()).collect());
            }
        }
        eprintln!("no file system can be mounted here: files are limited instead");
        Self::Limited
    }

    /// The command through which the program starts; `full`: on a disk that has next to nothing left.
    fn through(&self, state: &Path, full: bool) -> Result<Vec<String>> {
        fs::create_dir_all(state)?;
        let left = if full { LITTLE } else { SIZE };
        let mut through = Vec::new();
        let script = match self {
            Self::Small(way) => {
                through.extend(way.iter().cloned());
                let balloon = format!("head -c {}m /dev/zero > \"$0/balloon\"", SIZE - left);
                format!("mount -t tmpfs -o size={SIZE}m tmpfs \"$0\" && {balloon} && exec \"$@\"")
            }
            // A write that is too much fails, instead of ending the program with a signal.
            Self::Limited => "trap '' XFSZ; exec \"$@\"".to_owned(),
        };
        through.extend(["sh".to_owned(), "-c".to_owned(), script, state.display().to_string()]);
        Ok(through)
    }

    /// Leaves no room.
    fn fill(&self, host: &Host, state: &Path) -> Result<()> {
        match self {
            Self::Small(_) => {
                let mut balloon = File::options().append(true).create(true).open(inside(host, state))?;
                loop {
                    match balloon.write(&[0; 4096]) {
                        Ok(_) => {}
                        Err(error) if error.kind() == ErrorKind::StorageFull => return Ok(()),
                        Err(error) => return Err(error.into()),
                    }
                }
            }
            Self::Limited => limit(host, &LIMIT.to_string()),
        }
    }

    /// Makes room.
    fn make_room(&self, host: &Host, state: &Path) -> Result<()> {
        match self {
            Self::Small(_) => Ok(fs::remove_file(inside(host, state))?),
            Self::Limited => limit(host, "unlimited"),
        }
    }

    /// What the system says.
    fn words(&self) -> &'static str {
        match self {
            Self::Small(_) => "No space left on device",
            Self::Limited => "File too large",
        }
    }
}

/// The file that fills the disk, as seen through the program's process.
fn inside(host: &Host, state: &Path) -> PathBuf {
    let state = state.strip_prefix("/").unwrap_or(state);
    PathBuf::from(format!("/proc/{}/root", host.pid())).join(state).join("balloon")
}

/// Limits the length of the files that the program writes from now on.
fn limit(host: &Host, bytes: &str) -> Result<()> {
    let pid = host.pid().to_string();
    let set = Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={bytes}:")]).status()?;
    ensure!(set.success(), "prlimit: {set}");
    Ok(())
}

/// Waits until something has stopped for lack of room; it must be alive, not ready, and say why.
fn wait_full(host: &Host, disk: &Disk) -> Result<()> {
    wait::until("a full disk", TIMEOUT, || {
        let (code, body) = host.get("/readyz?verbose")?;
        ensure!(code == 503 && body.contains("disk full: cannot "), "{code} {body}");
        ensure!(body.contains(disk.words()) && body.contains(" free: "), "{body}");
        Ok(())
    })
    .with_context(|| host.log())?;
    ensure!(host.get("/livez")? == (200, "ok".to_owned()));
    Ok(())
}

/// The tasks' reasons, where they have some.
fn reasons(status: &Value) -> Vec<&str> {
    let tasks = status["tasks"].as_array().into_iter().flatten();
    tasks.filter_map(|task| task["reason"].as_str()).filter(|reason| !reason.is_empty()).collect()
}

/// Writes large rows of no project to each partition of a table.
fn write_large_rows(broker: &Broker) -> Result<()> {
    let value = "x".repeat(LARGE);
    let keys: Vec<(i32, String)> = (0..5 * PARTITIONS).map(|row| (row % PARTITIONS, format!("large-{row}"))).collect();
    let rows: Vec<_> =
        keys.iter().map(|(partition, key)| (*partition, key.as_str(), Some(value.as_str()), 1)).collect();
    topics::produce(&broker.bootstrap_servers(), "wirtschaftseinheiten", &rows)
}

/// Once at a commit, once (on a disk of its own) at a start that must restore: each time with state that is right afterwards, in the same process.
fn stops_and_goes_on(disk: &Disk) -> Result<()> {
    let input = Grown::new(2)?;
    let parts = input.parts(3);
    let dir = tempfile::tempdir()?;
    let broker = Broker::start_with(&dir.path().join("broker"), IMPATIENT)?;
    create_topics(&broker)?;
    topics::produce_all(&broker.bootstrap_servers(), &input.tables)?;
    topics::produce_all(&broker.bootstrap_servers(), parts[0])?;
    let state = dir.path().join("state");
    let setup =
        setup(&broker, &state, "exactly-once").set("state.memory", "224 MiB").set("plugins.projekt.memory", "16 MiB");

    let mut host = Host::start_through(&setup, &disk.through(&state, false)?)?;
    host.wait_ready()?;
    wait_caught_up(&broker).with_context(|| host.log())?;
    disk.fill(&host, &state)?;
    write_large_rows(&broker)?;
    topics::produce_all(&broker.bootstrap_servers(), parts[1])?;
    wait_full(&host, disk)?;
    let status = host.status()?;
    ensure!(status["state"] == "failed", "{status}");
    let folder = state.display().to_string();
    ensure!(reasons(&status).iter().any(|reason| reason.contains(&folder)), "{status}");
    disk.make_room(&host, &state)?;
    wait_caught_up(&broker).with_context(|| host.log())?;
    host.wait_ready()?;
    if matches!(disk, Disk::Limited) {
        // Under such a limit nothing starts: the memory of plugins is a file, too.
        topics::produce_all(&broker.bootstrap_servers(), parts[2])?;
        wait_caught_up(&broker).with_context(|| host.log())?;
        input.assert_last(&broker).with_context(|| host.log())?;
        grown::assert_chain(&broker).with_context(|| host.log())?;
        ensure!(host.terminate()?.success(), "{}", host.log());
        return Ok(());
    }
    ensure!(host.terminate()?.success(), "{}", host.log());

    // A file system in a namespace is gone with the program. Elsewhere the stores go, too: everything is read anew.
    for entry in fs::read_dir(&state)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("0_")) {
            fs::remove_dir_all(path)?;
        }
    }
    topics::produce_all(&broker.bootstrap_servers(), parts[2])?;
    let mut host = Host::start_through(&setup, &disk.through(&state, true)?)?;
    wait_full(&host, disk)?;
    disk.make_room(&host, &state)?;
    host.wait_ready()?;
    wait_caught_up(&broker).with_context(|| host.log())?;
    input.assert_last(&broker).with_context(|| host.log())?;
    grown::assert_chain(&broker).with_context(|| host.log())?;
    ensure!(host.terminate()?.success(), "{}", host.log());
    Ok(())
}

#[test]
fn a_full_disk_stops_tasks_until_there_is_room() -> Result<()> {
    stops_and_goes_on(&Disk::small())
}

#[test]
fn files_that_may_not_grow_stop_tasks_until_they_may() -> Result<()> {
    stops_and_goes_on(&Disk::Limited)
}

#[test]
fn a_global_table_goes_on_after_a_full_disk() -> Result<()> {
    let disk = Disk::small();
    let dir = tempfile::tempdir()?;
    let broker = Broker::start(&dir.path().join("broker"))?;
    topics::create(&broker.bootstrap_servers(), &[("orders", 1, &[("cleanup.policy", "compact")])])?;
    let write = |number: usize, status: &str| {
        let padding = if status == "LATE" { LARGE } else { 0 };
        let value = json!({ "status": status, "customer": "x".repeat(padding) }).to_string();
        let key = format!("O{number}");
        topics::produce(&broker.bootstrap_servers(), "orders", &[(0, &key, Some(&value), 1_000)])
    };
    write(1, "NEW")?;
    let state = dir.path().join("state");
    let setup = Setup::new("orders", broker.bootstrap_servers(), &state);
    let mut host = Host::start_through(&setup, &disk.through(&state, false)?)?;
    host.wait_ready()?;
    disk.fill(&host, &state)?;
    // The log has room reserved for the first ones.
    let full = wait::until("a full disk", TIMEOUT, || {
        write(2, "LATE")?;
        wait_full_now(&host, &disk)
    });
    full.with_context(|| host.log())?;
    let ask = |order: &str| host.get(&format!("/api/order/status?orderId={order}"));
    ensure!(ask("O1")? == (200, "NEW".to_owned()), "what it has it tells all the same");
    write(3, "LAST")?;
    disk.make_room(&host, &state)?;
    wait::until("all orders", TIMEOUT, || {
        ensure!(ask("O3")? == (200, "LAST".to_owned()) && ask("O2")? == (200, "LATE".to_owned()), "not yet");
        Ok(())
    })
    .with_context(|| host.log())?;
    host.wait_ready()?;
    ensure!(host.terminate()?.success(), "{}", host.log());
    Ok(())
}

/// Whether it says that the disk is full.
fn wait_full_now(host: &Host, disk: &Disk) -> Result<()> {
    let (code, body) = host.get("/readyz?verbose")?;
    ensure!(code == 503 && body.contains("disk full: cannot ") && body.contains(disk.words()), "{code} {body}");
    Ok(())
}
