//! Versions that must not become active: refused with the reason, while the active one goes on.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use weir_tests::host::{TIMEOUT, plugin};
use weir_tests::{Broker, Host, Setup, topics, wait};

use crate::load::{self, Load};
use crate::projekt::create_topics;

/// The smallest component: of another world, since it exports nothing.
pub(crate) const EMPTY_COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

/// A core module that imports `fd_write` of WASI.
pub(crate) fn wasi_module() -> Vec<u8> {
    let (module, name) = ("wasi_snapshot_preview1", "fd_write");
    // One type: a function without parameters and results.
    let mut bytes = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0".to_vec();
    let mut imports = vec![1, module.len() as u8];
    imports.extend_from_slice(module.as_bytes());
    imports.push(name.len() as u8);
    imports.extend_from_slice(name.as_bytes());
    imports.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(&[2, imports.len() as u8]);
    bytes.extend(imports);
    bytes
}

/// What is active, and how long the registry's topic is.
fn registry(broker: &Broker, host: &Host) -> Result<(Value, i64)> {
    let active = host.status()?["plugins"].clone();
    Ok((active, topics::end(&broker.bootstrap_servers(), "projekt-plugins", 0)?))
}

/// A version that is refused: its bytes, the stage that it does not reach, and what the refusal says.
type Refused<'a> = (&'a str, Vec<u8>, &'a str, &'a [&'a str]);

#[test]
fn what_is_no_better_version_is_refused_while_records_flow() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let broker = Broker::start(&dir.path().join("broker"))?;
    create_topics(&broker)?;
    load::write_rows(&broker)?;
    let state = dir.path().join("state");
    let mut host = Host::start(&Setup::new("projekt", broker.bootstrap_servers(), &state).set("app.threads", "4"))?;
    host.wait_ready()?;
    let load = Load::start(&broker, 0);
    load::wait_flowing(&broker)?;
    let before = registry(&broker, &host)?;

    let first = fs::read(plugin("projekt")?)?;
    let cases: [Refused<'_>; 8] = [
        (
            "an image",
            b"\x89PNG\r\n\x1a\n".to_vec(),
            "valid",
            &["not a valid WebAssembly file", "build the plugin again"],
        ),
        ("half a file", first.get(..first.len() / 2).context("half")?.to_vec(), "valid", &["WebAssembly"]),
        ("nothing", Vec::new(), "received", &["there are no bytes", "give a .wasm file"]),
        ("far too much", vec![0; 33 << 20], "received", &["34603008 bytes", "may have 33554432"]),
        ("another world", EMPTY_COMPONENT.to_vec(), "conforms", &["weir:plugin/lifecycle", "build it with weir-guest"]),
        ("a forbidden import", wasi_module(), "conforms", &["wasi_snapshot_preview1", "fd_write"]),
        (
            "a foreign plugin",
            fs::read(plugin("orders")?)?,
            "functions",
            &["joiner projekt.mit_wirtschaftseinheit", "aggregator projekt.plus_status", "transformer projekt.ausgabe"],
        ),
        ("a lacking plugin", fs::read(plugin("projekt-lacking")?)?, "functions", &["transformer projekt.ausgabe"]),
    ];
    for (name, bytes, stage, says) in cases {
        let (code, answer) = host.deploy("projekt", &bytes).context(name)?;
        ensure!(code == 422 && answer["code"] == "plugin-refused" && answer["stage"] == stage, "{name}: {answer}");
        let text = format!("{}; {}", answer["reason"], answer["remedy"]);
        for words in says {
            ensure!(text.contains(words), "{name}: '{words}' is not in {text}");
        }
    }
    // The command line says the same.
    let file = dir.path().join("half.wasm");
    fs::write(&file, first.get(..100).context("a hundred bytes")?)?;
    let file = file.to_str().context("a path")?;
    let ended = host.command(&["plugin", "deploy", file, "--name", "projekt"])?;
    ensure!(ended.code == Some(1) && ended.stdout.is_empty(), "{ended:?}");
    ensure!(ended.stderr.starts_with("error: plugin projekt refused, not 'valid': "), "{ended:?}");

    let (code, answer) = host.deploy("projekte", &first)?;
    ensure!(code == 404 && answer["plugins"][0] == "projekt", "{code} {answer}");
    let long = "/v1/plugins/projekt/versions?message=".to_owned() + &"a".repeat(5 << 10);
    let (code, answer) = host.post(&long, &fs::read(plugin("projekt-v2")?)?)?;
    ensure!(code == 422 && answer["remedy"] == "shorten the message", "{code} {answer}");
    let ended = host.command(&["plugin", "rollback", "projekt"])?;
    ensure!(ended.code == Some(1) && ended.stderr.contains("nothing to roll back to"), "{ended:?}");
    let ended = host.command(&["plugin", "deploy", "no-such.wasm", "--name", "projekt"])?;
    ensure!(ended.code == Some(1) && ended.stderr.contains("cannot read no-such.wasm"), "{ended:?}");

    assert_eq!(registry(&broker, &host)?, before);
    let processed = host.metric("weir_records_processed_total")?;
    wait::until("more records", TIMEOUT, || {
        let now = host.metric("weir_records_processed_total")?;
        ensure!(now > processed, "{now} processed");
        Ok(())
    })?;
    host.wait_ready()?;
    load::wait_counts(&broker, load.stop()?).with_context(|| host.log())?;
    let ended = host.terminate()?;
    ensure!(ended.success(), "SIGTERM ended it with {ended}: {}", host.log());
    Ok(())
}
