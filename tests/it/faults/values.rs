//! Records that cannot be processed: null where Kafka Streams wants none, and values that the plugin cannot read.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use rdkafka::producer::BaseRecord;
use serde_json::Value;
use weir_tests::host::TIMEOUT;
use weir_tests::{Broker, Host, group, topics, wait};

use super::{changed_projekt, ensure_not_ready, setup, task, terminate, wait_failed};
use crate::load::{self, Load};
use crate::projekt::create_topics;

/// Writes a record with or without key and value to partition 0.
fn write(broker: &Broker, topic: &str, key: Option<&str>, value: Option<&str>) -> Result<()> {
    let producer = topics::producer(&broker.bootstrap_servers())?;
    let record = BaseRecord {
        topic,
        partition: Some(0),
        payload: value.map(str::as_bytes),
        key: key.map(str::as_bytes),
        timestamp: Some(1),
        headers: None,
        delivery_opaque: (),
    };
    topics::send(&producer, record)?;
    topics::flush(&producer)
}

/// The metric of records left out, by reason.
fn dropped(host: &Host) -> Result<BTreeMap<String, f64>> {
    let text = host.get("/metrics")?.1;
    let lines =
        text.lines().filter_map(|line| line.strip_prefix("weir_records_dropped_total{reason=\"")?.split_once("\"} "));
    lines.map(|(reason, count)| Ok((reason.to_owned(), count.parse()?))).collect()
}

/// As Kafka Streams 4.4 does: a left join hands a record without a key on without a row (KIP-962) and drops one without a
/// value; an aggregate drops both; a table drops a row without a key. A value that is JSON's null is the plugin's matter, which
/// skips it.
fn nulls_are_left_out_and_counted(broker: &Broker, host: &Host) -> Result<()> {
    write(broker, "projekte", None, Some("{}"))?;
    write(broker, "projekte", Some("P0"), None)?;
    write(broker, "befunde", None, Some(r#"{"befundId": "B"}"#))?;
    write(broker, "befunde", Some("P0"), None)?;
    write(broker, "gruppen", Some("P0"), Some("null"))?;
    write(broker, "mietobjekte", None, Some("{}"))?;
    wait::until("the null records", TIMEOUT, || {
        let dropped = dropped(host)?;
        let expected = [("no_row", 0.0), ("null_key", 3.0), ("null_value", 2.0), ("refused", 0.0), ("skipped", 1.0)];
        ensure!(dropped.iter().map(|(reason, count)| (reason.as_str(), *count)).eq(expected), "{dropped:?}");
        Ok(())
    })
    .with_context(|| host.log())?;
    host.wait_status("the task's own counts", |status| {
        let dropped = &task(status, "0_0")?["dropped"];
        ensure!(dropped["null-key"] == 2 && dropped["null-value"] == 2 && dropped["table-null-key"] == 1, "{dropped}");
        Ok(())
    })?;
    let missed = host.get("/metrics")?.1.lines().filter(|line| line.contains("result=\"null_key\"} 1")).count();
    ensure!(missed == 2, "{missed} joins had no key to look up");
    host.wait_ready()
}

#[test]
fn records_that_cannot_be_processed_are_left_out_or_stop_their_task() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let broker = Broker::start(&dir.path().join("broker"))?;
    let bootstrap = broker.bootstrap_servers();
    create_topics(&broker)?;
    topics::create(&bootstrap, &[("letters", 1, &[])])?;
    load::write_rows(&broker)?;
    let state = dir.path().join("state");
    let setup = setup(changed_projekt(dir.path(), &[])?, &broker, &state)
        .set("app.threads", "4")
        // So long the group waits for a member that was killed.
        .set("kafka.session.timeout.ms", "6000");
    let mut host = Host::start(&setup)?;
    let load = Load::start(&broker, 0);
    load::wait_flowing(&broker)?;
    host.wait_ready()?;
    nulls_are_left_out_and_counted(&broker, &host)?;

    // A value that is no JSON, while records flow.
    let bad = "not at all";
    write(&broker, "projektstatus", Some("P0"), Some(bad))?;
    let reason = wait_failed(&host, "0_0")?;
    let offset = reason.strip_prefix("stopped before projektstatus-0 offset ").and_then(|rest| rest.split_once(':'));
    let (offset, rest) = offset.with_context(|| reason.clone())?;
    let offset: i64 = offset.parse()?;
    ensure!(rest.starts_with(" plugin projekt ") && rest.contains(", function plus_status: "), "{reason}");
    ensure!(rest.contains("expected ident at line 1"), "the reader's own words are not in {reason}");
    ensure_not_ready(&host, &format!("[-]task-0_0 failed: failed: stopped before projektstatus-0 offset {offset}: "))?;
    ensure!(host.status()?["state"] == "failed", "{}", host.status()?["state"]);

    // The other tasks go on; of this one nothing after the record is committed, and nothing is lost.
    let others = |status: &Value| -> Result<u64> {
        let tasks = status["tasks"].as_array().context("tasks")?.iter().filter(|task| task["task"] != "0_0");
        Ok(tasks.filter(|task| task["state"] == "running").filter_map(|task| task["processed"].as_u64()).sum())
    };
    let before = others(&host.status()?)?;
    host.wait_status("other tasks going on", |status| {
        let now = others(status)?;
        ensure!(now > before + 1000, "{now} records, {before} before");
        Ok(())
    })?;
    let committed = || group::committed(&bootstrap, "projekt", "projektstatus", 0);
    ensure!(committed()? == Some(offset), "{:?}", committed()?);
    let again = wait_failed(&host, "0_0")?;
    ensure!(again == reason, "{again}");
    host.kill()?;
    let mut host = Host::start(&setup)?;
    let again = wait_failed(&host, "0_0")?;
    ensure!(again == reason, "{again}");
    ensure!(committed()? == Some(offset), "{:?}", committed()?);
    terminate(&mut host)?;

    // With a place for such records it goes on from there.
    let changed = changed_projekt(
        dir.path(),
        &[
            ("\"projekt.plus_status\" }", "\"projekt.plus_status\", on_error = \"dlq\" }"),
            ("[barrier]", "[dead_letters]\ntopic = \"letters\"\n\n[barrier]"),
        ],
    )?;
    let setup = super::setup(changed, &broker, &state).set("app.threads", "4");
    let mut host = Host::start(&setup)?;
    host.wait_ready()?;
    load::wait_counts(&broker, load.stop()?).with_context(|| host.log())?;
    let letters = topics::read(&bootstrap, "letters")?;
    let letter = letters.first().filter(|_| letters.len() == 1).with_context(|| format!("{letters:?}"))?;
    ensure!(letter.value.as_deref() == Some(bad.as_bytes()) && letter.key.as_deref() == Some(b"P0"), "{letter:?}");
    let header = |name: &str| {
        let found = letter.headers.iter().find(|(other, _)| other == name).and_then(|(_, value)| value.clone());
        String::from_utf8(found.unwrap_or_default().to_vec())
    };
    let place = [header("weir.topic")?, header("weir.partition")?, header("weir.offset")?];
    assert_eq!(place, ["projektstatus".to_owned(), "0".to_owned(), offset.to_string()]);
    assert_eq!([header("weir.plugin")?, header("weir.function")?], ["projekt", "plus_status"]);
    ensure!(rest.ends_with(&header("weir.error")?), "{letter:?}");
    terminate(&mut host)
}
