//! The order status service: its answers to the letter, at every moment of its life, and what it keeps over a restart.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use bytes::Bytes;
use serde_json::Value;
use weir::kafka::{ClientSettings, TransactionalProducer, partition_for_key};
use weir::model::Record;
use weir_tests::host::Answer;
use weir_tests::{Broker, Host, Setup, topics, wait};

/// The topic, and the table's name.
const TOPIC: &str = "orders";
/// Its partitions.
const PARTITIONS: i32 = 3;
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(90);
/// Content type of the service's answers.
const TEXT: &str = "text/plain; charset=utf-8";

/// An order and its status; `None`: it is deleted.
type Order<'a> = (String, Option<&'a str>);

/// An order's key.
fn key(number: usize) -> String {
    format!("O{number:06}")
}

/// The orders of these numbers, all in one status.
fn orders(numbers: std::ops::Range<usize>, status: &str) -> Vec<Order<'_>> {
    numbers.map(|number| (key(number), Some(status))).collect()
}

/// A broker with the topic.
fn broker(dir: &Path) -> Result<Broker> {
    let broker = Broker::start(&dir.join("broker"))?;
    topics::create(&broker.bootstrap_servers(), &[(TOPIC, PARTITIONS, &[("cleanup.policy", "compact")])])?;
    Ok(broker)
}

/// The value that says where an order stands.
fn value(status: &str) -> String {
    format!(r#"{{"customer":"Jörg Müller","status":"{status}","lines":[{{"status":"PACKED"}}]}}"#)
}

/// Writes orders to the topic.
fn write(broker: &Broker, orders: &[Order<'_>]) -> Result<()> {
    let values: Vec<Option<String>> = orders.iter().map(|(_, status)| status.map(value)).collect();
    let records: Vec<(i32, &str, Option<&str>, i64)> = orders
        .iter()
        .zip(&values)
        .map(|((key, _), value)| (partition_for_key(key.as_bytes(), PARTITIONS), key.as_str(), value.as_deref(), 1_000))
        .collect();
    topics::produce(&broker.bootstrap_servers(), TOPIC, &records)
}

/// A producer with an open transaction at the end of each partition, each with one order of status `LATE`.
fn open_transaction(broker: &Broker) -> Result<TransactionalProducer> {
    let properties = [
        ("bootstrap.servers", broker.bootstrap_servers()),
        // The broker must not end it before the test does.
        ("transaction.timeout.ms", "600000".to_owned()),
    ];
    let settings = ClientSettings::new("late", properties.map(|(name, value)| (name.to_owned(), value)).into());
    let producer = TransactionalProducer::new(&settings, "late-0")?;
    producer.init(PATIENCE)?;
    producer.begin()?;
    for partition in 0..PARTITIONS {
        let record = Record {
            key: Some(Bytes::from(format!("late-{partition}"))),
            value: Some(value("LATE").into()),
            timestamp: 2_000,
            ..Record::default()
        };
        producer.send(TOPIC, Some(partition), &record, None)?;
    }
    producer.flush(PATIENCE)?;
    Ok(producer)
}

/// The service with its state in `state`.
fn setup<'a>(broker: &Broker, state: &'a Path) -> Setup<'a> {
    Setup::new("orders", broker.bootstrap_servers(), state)
}

/// The answer for an order.
fn ask(host: &Host, order: &str) -> Result<(u16, String)> {
    host.get(&format!("/api/order/status?orderId={order}"))
}

/// An answer of the service.
fn text(status: u16, body: &str) -> Answer {
    Answer { status, content_type: Some(TEXT.to_owned()), body: body.to_owned() }
}

/// Waits until a path has this answer; fails at once if it has one that it must never have before.
fn wait_answer(host: &Host, path: &str, expected: &Answer, never: Option<&Answer>) -> Result<()> {
    let found = wait::until(path, PATIENCE, || {
        let answer = host.answer(path)?;
        ensure!(answer == *expected || Some(&answer) == never, "it is {answer:?}, not yet {expected:?}");
        Ok(answer)
    })
    .with_context(|| host.log())?;
    ensure!(found == *expected, "{path} must not answer {found:?} yet");
    Ok(())
}

/// Waits until an order has this status, whatever it had before.
fn wait_status(host: &Host, order: &str, expected: (u16, &str)) -> Result<()> {
    wait_answer(host, &format!("/api/order/status?orderId={order}"), &text(expected.0, expected.1), None)
}

/// Waits until it says that it is ready.
fn wait_ready(host: &Host) -> Result<()> {
    wait_answer(host, "/ready", &text(200, "Ready"), None)
}

/// The restores of the table's partitions.
fn restores(host: &Host) -> Result<Vec<Value>> {
    let status = host.status()?;
    let parts = status.pointer("/global_tables/0/restore").and_then(Value::as_array).context("no table")?.clone();
    ensure!(parts.len() == PARTITIONS as usize, "{status}");
    Ok(parts)
}

/// The sum of a number over all partitions.
fn sum(parts: &[Value], member: &str) -> Result<i64> {
    let number =
        |part: &Value| part.get(member).and_then(Value::as_i64).with_context(|| format!("no {member}: {part}"));
    parts.iter().map(number).sum()
}

/// Everything that an instance holds: key and status.
fn copy(host: &Host) -> Result<BTreeMap<String, String>> {
    let mut rows = BTreeMap::new();
    let mut page = Some(format!("/v1/stores/{TOPIC}/keys?limit=1000"));
    while let Some(path) = page {
        let (status, body) = host.get(&path)?;
        ensure!(status == 200, "{path}: {status} {body}");
        let listing: Value = serde_json::from_str(&body)?;
        for entry in listing.get("entries").and_then(Value::as_array).context("entries")? {
            let text = |at| entry.pointer(at).and_then(Value::as_str).map(str::to_owned).context(entry.to_string());
            rows.insert(text("/key")?, text("/value/status")?);
        }
        page = listing.get("next").and_then(Value::as_str).map(str::to_owned);
    }
    Ok(rows)
}

#[test]
fn answers_are_to_the_letter_before_during_and_after_the_restore() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut broker = broker(dir.path())?;
    write(&broker, &orders(0..30, "CREATED"))?;
    write(&broker, &[(key(1), Some("SHIPPED")), (key(2), Some("IN ÜBERGABE")), (key(3), None)])?;
    let late = open_transaction(&broker)?;

    // Before: the broker is away, nothing is known yet.
    broker.stop()?;
    let state = dir.path().join("first");
    let mut first = Host::start(&setup(&broker, &state))?;
    wait_answer(&first, "/ready", &text(503, "Not ready: loaded 0 orders"), None)?;
    let before = first.answer("/api/order/status?orderId=O000001")?;
    ensure!(before.status == 503, "{before:?}");
    ensure!(before.content_type.as_deref() == Some("application/problem+json"), "{before:?}");
    ensure!(first.get("/livez")? == (200, "ok".to_owned()) && first.get("/readyz")?.0 == 503);

    // During: each partition waits for the transaction at its end.
    broker.restart()?;
    let ready = text(200, "Ready");
    wait_answer(&first, "/ready", &text(503, "Not ready: loaded 29 orders"), Some(&ready))?;
    wait::until("the transaction is named", PATIENCE, || {
        let (status, waits) = first.get("/readyz")?;
        ensure!(status == 503 && waits.matches("waits for an open transaction at offset ").count() == 3, "{waits}");
        Ok(())
    })?;
    let the_letter = |host: &Host| -> Result<()> {
        let get = |query: &str| host.answer(&format!("/api/order/status{query}"));
        ensure!(get("?orderId=O000000")? == text(200, "CREATED"));
        ensure!(get("?orderId=O000001")? == text(200, "SHIPPED"));
        ensure!(get("?x=1&orderId=O000002&orderId=O000000")? == text(200, "IN ÜBERGABE"));
        ensure!(get("?orderId=O000003")? == text(404, "Order not found"), "a deleted order");
        ensure!(get("?orderId=nobody%27s")? == text(404, "Order not found"));
        for query in ["", "?", "?orderId", "?orderId=", "?orderid=O000001", "?order=O000001"] {
            ensure!(get(query)? == text(400, "Missing orderId parameter"), "{query}");
        }
        Ok(())
    };
    the_letter(&first).context("during the restore")?;
    ensure!(ask(&first, "late-0")? == (404, "Order not found".to_owned()), "it is not committed");

    // After.
    late.commit(PATIENCE)?;
    wait_answer(&first, "/ready", &ready, None)?;
    first.wait_ready()?;
    the_letter(&first).context("after the restore")?;
    for partition in 0..PARTITIONS {
        wait_status(&first, &format!("late-{partition}"), (200, "LATE"))?;
    }

    // A second instance has the same full copy, and its own idea of when it has enough.
    let state = dir.path().join("second");
    let mut second = Host::start(&setup(&broker, &state).set("http.ready.min_records", "33"))?;
    wait_answer(&second, "/ready", &text(503, "Not ready: loaded 32 orders"), Some(&ready))?;
    second.wait_ready()?;
    the_letter(&second).context("on the second instance")?;
    let both = [&first, &second];
    ensure!(copy(&first)?.len() == 32 && copy(&first)? == copy(&second)?);

    // Changes reach both at once: a new order, a new status, a deletion.
    write(&broker, &[(key(100), Some("NEW")), (key(0), Some("PAID")), (key(1), None)])?;
    for host in both {
        wait_status(host, &key(100), (200, "NEW"))?;
        wait_status(host, &key(0), (200, "PAID"))?;
        wait_status(host, &key(1), (404, "Order not found"))?;
    }
    ensure!(first.answer("/ready")? == ready);
    ensure!(second.answer("/ready")? == text(503, "Not ready: loaded 32 orders"), "one came, one went");
    write(&broker, &[(key(1), Some("AGAIN"))])?;
    wait_answer(&second, "/ready", &ready, None)?;
    wait_status(&first, &key(1), (200, "AGAIN"))?;
    ensure!(copy(&first)?.len() == 33 && copy(&first)? == copy(&second)?);
    ensure!(topics::read(&broker.bootstrap_servers(), TOPIC)?.len() == 40, "an instance wrote to the topic");

    for host in [&mut first, &mut second] {
        let ended = host.terminate()?;
        ensure!(ended.success(), "SIGTERM ended it with {ended}: {}", host.log());
    }
    Ok(())
}

#[test]
fn a_later_start_reads_only_what_is_new() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let broker = broker(dir.path())?;
    write(&broker, &orders(0..3_000, "CREATED"))?;
    let state = dir.path().join("state");
    let setup = setup(&broker, &state);
    let start = || -> Result<Host> {
        let host = Host::start(&setup)?;
        wait_ready(&host)?;
        Ok(host)
    };
    let mut expected: BTreeMap<String, String> = (0..3_000).map(|n| (key(n), "CREATED".to_owned())).collect();

    // The first start reads all.
    let mut host = start()?;
    let parts = restores(&host)?;
    ensure!(sum(&parts, "start")? == 0 && sum(&parts, "records")? == 3_000, "{parts:?}");
    ensure!(host.terminate()?.success());

    // The second only what came meanwhile.
    write(&broker, &[(key(7), Some("PAID")), (key(8), None), (key(9), Some("SHIPPED"))])?;
    let mut host = start()?;
    let parts = restores(&host)?;
    ensure!(sum(&parts, "start")? == 3_000 && sum(&parts, "records")? == 3, "{parts:?}");
    expected.insert(key(7), "PAID".to_owned());
    expected.remove(&key(8));
    expected.insert(key(9), "SHIPPED".to_owned());
    ensure!(copy(&host)? == expected);

    // Killed with live changes just applied: these are on disk, too.
    write(&broker, &orders(3_000..3_500, "NEW"))?;
    expected.extend((3_000..3_500).map(|n| (key(n), "NEW".to_owned())));
    for number in 3_000..3_500 {
        wait_status(&host, &key(number), (200, "NEW"))?;
    }
    host.kill()?;
    write(&broker, &[(key(3_500), Some("LAST"))])?;
    expected.insert(key(3_500), "LAST".to_owned());
    let mut host = start()?;
    let parts = restores(&host)?;
    ensure!(sum(&parts, "start")? == 3_503 && sum(&parts, "records")? == 1, "{parts:?}");
    ensure!(copy(&host)? == expected);

    // Killed in the middle of a restore: the next start is right all the same.
    host.kill()?;
    std::fs::remove_dir_all(&state)?;
    let late = open_transaction(&broker)?;
    let mut host = Host::start(&setup)?;
    let loaded = format!("Not ready: loaded {} orders", expected.len());
    wait_answer(&host, "/ready", &text(503, &loaded), Some(&text(200, "Ready")))?;
    host.kill()?;
    late.commit(PATIENCE)?;
    let mut host = start()?;
    expected.extend((0..PARTITIONS).map(|partition| (format!("late-{partition}"), "LATE".to_owned())));
    ensure!(copy(&host)? == expected);
    ensure!(host.terminate()?.success());
    Ok(())
}

/// Waits until it ends by itself, and sees that it never says it is ready.
fn wait_end_unready(host: &mut Host) -> Result<ExitStatus> {
    wait::until("its end", PATIENCE, || match host.answer("/ready") {
        Ok(Answer { status: 503, body, .. }) => bail!("it goes on: {body}"),
        Ok(answer) => Ok(Err(anyhow!("half a table counts as ready: {answer:?}"))),
        // It is gone.
        Err(_) => Ok(Ok(())),
    })??;
    host.wait_end()
}

#[test]
fn a_table_that_does_not_fit_its_memory_ends_with_the_numbers() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let broker = broker(dir.path())?;
    write(&broker, &orders(0..8_000, "CREATED"))?;
    let state = dir.path().join("state");
    let start = |max: &str| Host::start(&setup(&broker, &state).set("global_tables.orders.max_memory", max));

    let mut host = start("1 MiB")?;
    let ended = wait_end_unready(&mut host)?;
    let log = host.log();
    ensure!(ended.code() == Some(1), "{ended}: {log}");
    let error = log.lines().find(|line| line.starts_with("error: ")).context("no error")?;
    ensure!(error.starts_with("error: global table orders: store orders is full: "), "{error}");
    ensure!(error.contains(", and 1048576 are allowed; raise the store's bound, or keep it on disk"), "{error}");

    // With enough of it, the same folder is as good as new.
    let mut host = start("8 MiB")?;
    wait_ready(&host)?;
    ensure!(copy(&host)?.len() == 8_000);
    let status = host.status()?;
    ensure!(status["global_tables"][0]["rows"] == 8_000, "{status}");

    // A table that outgrows it later ends in the same way, and can be started again with more.
    write(&broker, &orders(8_000..40_000, "NEW"))?;
    let ended = host.wait_end()?;
    ensure!(ended.code() == Some(1), "{ended}: {}", host.log());
    ensure!(host.log().contains(", and 8388608 are allowed"), "{}", host.log());
    let mut host = start("16 MiB")?;
    wait_ready(&host)?;
    ensure!(copy(&host)?.len() == 40_000);
    ensure!(host.terminate()?.success());
    Ok(())
}

#[test]
fn a_large_table_takes_the_memory_it_was_given_and_little_more() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let broker = broker(dir.path())?;
    // The same orders twice: what replaces a row must not add to it.
    let status = "X".repeat(1_000);
    for _ in 0..2 {
        write(&broker, &orders(0..40_000, &status))?;
    }
    topics::create(&broker.bootstrap_servers(), &[("empty", PARTITIONS, &[])])?;
    let (small, large) = (dir.path().join("small"), dir.path().join("large"));
    let empty = Host::start(&setup(&broker, &small).set("global_tables.orders.topic", "empty"))?;
    empty.wait_ready()?;
    let host = Host::start(&setup(&broker, &large).set("global_tables.orders.max_memory", "64 MiB"))?;
    wait_ready(&host)?;
    ensure!(ask(&host, &key(39_999))? == (200, status));
    let (least, most) = (empty.peak_memory()? >> 20, host.peak_memory()? >> 20);
    ensure!(most < least + 64 + 64, "{most} MiB with a table of 64 MiB at most, {least} MiB without");
    Ok(())
}
