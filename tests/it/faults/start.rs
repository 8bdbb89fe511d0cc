//! What cannot start says why, and ends with the exit code of its kind.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use anyhow::{Result, ensure};
use weir_tests::{Broker, Host, Setup, topics};

use super::{changed_projekt, evil, setup, terminate};
use crate::doesnt_swap::{EMPTY_COMPONENT, wasi_module};
use crate::projekt::{PARTITIONS, create_topics};

/// The configuration is wrong.
const CONFIG: i32 = 78;
/// Something is in use: trying again later may help.
const IN_USE: i32 = 75;

/// Runs it to its end, which must come by itself with this exit code and these words.
fn ensure_refused(setup: &Setup<'_>, code: i32, says: &[&str]) -> Result<()> {
    let mut host = Host::spawn(setup)?;
    let ended = host.wait_end()?;
    let log = host.log();
    ensure!(ended.code() == Some(code), "ended with {ended}, not with {code}:\n{log}");
    for words in says {
        ensure!(log.contains(words), "'{words}' is not in:\n{log}");
    }
    ensure!(log.contains("\nerror: ") || log.starts_with("error: "), "no error in:\n{log}");
    Ok(())
}

/// A state folder of its own in `dir`.
fn state(dir: &Path, name: &str) -> std::path::PathBuf {
    dir.join(name)
}

#[test]
fn topics_and_plugins_that_do_not_fit_end_it_with_the_reason() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let broker = Broker::start(&dir.path().join("broker"))?;
    create_topics(&broker)?;
    let bootstrap = broker.bootstrap_servers();
    topics::create(&bootstrap, &[("few", 4, &[]), ("in", 1, &[]), ("out", 1, &[]), ("copy", 1, &[])])?;

    let other = state(dir.path(), "missing");
    let projekt = Setup::new("projekt", bootstrap.clone(), &other);
    let missing = projekt.set("streams.befunde.topic", "absent").set("sinks.projekt-aggregate.topic", "gone");
    ensure_refused(
        &missing,
        CONFIG,
        &["missing on the broker: ", "absent", "gone", "create them, or correct the names"],
    )?;

    let other = state(dir.path(), "unequal");
    let unequal = Setup::new("projekt", bootstrap.clone(), &other).set("streams.befunde.topic", "few");
    let counts =
        ["projekte", "projektstatus", "aufgaben", "durchfuehrungen", "gruppen", "wirtschaftseinheiten", "mietobjekte"];
    let counts: Vec<String> = counts.iter().map(|topic| format!("{topic} {PARTITIONS}")).collect();
    let counts: Vec<&str> = counts.iter().map(String::as_str).chain(["few 4"]).collect();
    ensure_refused(&unequal, CONFIG, &counts)?;

    let cases: [(&str, Vec<u8>, &[&str]); 4] = [
        ("text", b"no wasm at all".to_vec(), &["not 'valid': not a valid WebAssembly file"]),
        ("world", EMPTY_COMPONENT.to_vec(), &["not 'conforms': ", "it exports nothing"]),
        ("wasi", wasi_module(), &["not 'conforms': ", "fd_write"]),
        ("lacking", fs::read(weir_tests::host::plugin("projekt-lacking")?)?, &["transformer projekt.ausgabe: "]),
    ];
    for (name, bytes, says) in cases {
        let file = dir.path().join(format!("{name}.wasm"));
        fs::write(&file, bytes)?;
        let other = state(dir.path(), name);
        // An application of its own: the registry keeps what an earlier one has run.
        let setup = Setup::new("projekt", bootstrap.clone(), &other)
            .set("app.id", name)
            .set("plugins.projekt.file", &file.display().to_string());
        let always = ["the plugins cannot be loaded", "plugin projekt refused, "];
        ensure_refused(&setup, CONFIG, &[&always, says].concat())?;
    }

    let topology = evil(dir.path())?;
    let cases: [(&str, &str, &[&str]); 3] = [
        ("refuse", "out of tea", &["cannot be started: ", "out of tea", "[plugins.NAME.config]"]),
        ("start", "trap", &["cannot be started: ", "a trap on purpose", "src/deed.rs"]),
        ("start", "spin", &["cannot be started: ", "CPU time"]),
    ];
    for (key, value, says) in cases {
        let other = state(dir.path(), value);
        let setup = setup(topology.clone(), &broker, &other)
            .set("app.id", &format!("init-{}", value.replace(' ', "-")))
            .set(&format!("plugins.evil.config.{key}"), value);
        ensure_refused(&setup, CONFIG, &[&["plugin evil refused, not 'init ok': "], says].concat())?;
    }
    Ok(())
}

#[test]
fn a_port_or_a_state_folder_that_cannot_be_had_ends_it_with_the_reason() -> Result<()> {
    let dir = tempfile::tempdir()?;
    // Nobody is there: none of these looks at the broker first.
    let nowhere = "127.0.0.1:1".to_owned();
    let topology = changed_projekt(dir.path(), &[])?;
    let run =
        |state| Setup { topology: topology.clone(), bootstrap: nowhere.clone(), state, set: Vec::new(), fault: None };

    let taken = TcpListener::bind("127.0.0.1:0")?;
    let address = taken.local_addr()?.to_string();
    let unused = state(dir.path(), "unused");
    let setup = run(&unused).set("http.listen", &address);
    ensure_refused(
        &setup,
        IN_USE,
        &[&format!("cannot listen on {address} (http.listen)"), "another process has the port"],
    )?;
    ensure!(!unused.exists(), "the state folder was made for nothing");

    let first = state(dir.path(), "first");
    let mut host = Host::start(&run(&first))?;
    let pid = host.pid();
    let log = first.with_extension("log");
    let mut second = Host::spawn(&run(&first))?;
    let ended = second.wait_end()?;
    let said = fs::read_to_string(log)?;
    ensure!(ended.code() == Some(IN_USE), "ended with {ended}:\n{said}");
    let locked = format!("state folder {} is in use by process {pid}; stop it, or give", first.display());
    ensure!(said.contains(&locked), "'{locked}' is not in:\n{said}");
    // The first one has not noticed; without a broker it ends as soon as it is asked to.
    ensure!(host.get("/livez")?.0 == 200, "the first one is dead");
    terminate(&mut host)?;

    let other = run(&first).set("app.id", "another");
    ensure_refused(&other, CONFIG, &["belongs to the application 'projekt', not to 'another'"])?;

    let identity = first.join("weir.json");
    fs::write(&identity, r#"{"format": 99}"#)?;
    let says = format!("{} has format 99, this version of Weir knows 1; use the later version", identity.display());
    ensure_refused(&run(&first), CONFIG, &[&says])?;

    // The tests may run as root, for whom every folder can be written: a file is in the way.
    let blocked = state(dir.path(), "blocked");
    fs::write(&blocked, "")?;
    let says = format!("cannot create {}; state.dir must be a folder that this user may write", blocked.display());
    ensure_refused(&run(&blocked), CONFIG, &[&says])?;
    Ok(())
}
