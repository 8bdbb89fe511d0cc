//! Records of the project aggregate, written for as long as a test needs them, and counted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use rdkafka::producer::{BaseProducer, BaseRecord};
use serde_json::{Value, json};
use weir_tests::topics::{self, Failures, TopicRecord};
use weir_tests::{Broker, wait};

use crate::projekt::{OUTPUT, PARTITIONS, outputs};

/// Projects: enough that each partition has some.
const PROJECTS: u64 = 64;
/// Time between two rounds.
const PACE: Duration = Duration::from_millis(150);
/// Timestamp of the first round.
const BEGIN: i64 = 1_700_000_000_000;

/// A thread that writes records of all projects to all stream topics: in each round one of each. Ends when dropped.
pub(crate) struct Load {
    /// Its end stops the thread.
    stop: Sender<()>,
    /// Gives the number of the next round.
    thread: JoinHandle<Result<u64>>,
}

impl Load {
    /// Begins with the round `first`.
    pub(crate) fn start(broker: &Broker, first: u64) -> Self {
        let (stop, stopped) = channel();
        let bootstrap = broker.bootstrap_servers();
        let thread = std::thread::spawn(move || {
            let producer = topics::producer(&bootstrap)?;
            let mut number = first;
            loop {
                write_round(&producer, number)?;
                number += 1;
                match stopped.recv_timeout(PACE) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(number),
                }
            }
        });
        Self { stop, thread }
    }

    /// Stops; the number of rounds written so far, those before the first one included.
    pub(crate) fn stop(self) -> Result<u64> {
        drop(self.stop);
        self.thread.join().map_err(|_| anyhow!("the load's thread panicked"))?
    }
}

/// Writes a row of each table for each project.
pub(crate) fn write_rows(broker: &Broker) -> Result<()> {
    let producer = topics::producer(&broker.bootstrap_servers())?;
    for project in 0..PROJECTS {
        let key = format!("P{project}");
        let row = json!({"id": format!("row of {key}")});
        write(&producer, "wirtschaftseinheiten", &key, &row, BEGIN)?;
        write(&producer, "mietobjekte", &key, &row, BEGIN)?;
    }
    topics::flush(&producer)
}

/// Writes a round: for each project a record to each stream topic.
fn write_round(producer: &BaseProducer<Failures>, number: u64) -> Result<()> {
    let timestamp = BEGIN + i64::try_from(number)? * 1000;
    let id = number % 3;
    let records = [
        ("projekte", json!({"projektId": "P", "erstelltAm": timestamp, "version": number})),
        ("projektstatus", json!({"status": status(number), "geaendertAm": timestamp})),
        ("befunde", json!({"befundId": format!("B{id}"), "schwere": "HOCH"})),
        ("aufgaben", json!({"aufgabeId": format!("A{id}"), "erledigt": number.is_multiple_of(2)})),
        ("durchfuehrungen", json!({"durchfuehrungId": format!("D{id}"), "firma": "Müller"})),
        ("gruppen", json!({"gruppeId": format!("G{id}"), "name": "Dach"})),
    ];
    for project in 0..PROJECTS {
        for (topic, value) in &records {
            write(producer, topic, &format!("P{project}"), value, timestamp)?;
        }
    }
    topics::flush(producer)
}

/// The status in a round: always another one than in the round before.
fn status(number: u64) -> String {
    format!("S{}", number % 2)
}

/// Queues a record; its key decides the partition.
fn write(producer: &BaseProducer<Failures>, topic: &str, key: &str, value: &Value, timestamp: i64) -> Result<()> {
    let value = value.to_string();
    let record = BaseRecord::to(topic).key(key.as_bytes()).payload(value.as_bytes()).timestamp(timestamp);
    topics::send(producer, record)
}

/// Waits until everything is processed; the last output of each project must count every record on the topics once.
///
/// `rounds` of records were written at least: a producer whose broker dies may write a record twice.
pub(crate) fn wait_counts(broker: &Broker, rounds: u64) -> Result<()> {
    crate::projekt::wait_caught_up(broker)?;
    let (expected, got) = (expected(broker)?, outputs(broker)?);
    ensure!(got.len() as u64 == PROJECTS && expected.len() == got.len(), "{} projects", got.len());
    for (key, value) in &got {
        let counts = BTreeMap::from(LISTS.map(|list| (list, value[list]["anzahl"].as_u64().unwrap_or(0))));
        let expected = expected.get(key).with_context(|| format!("{key} is on no topic"))?;
        ensure!(counts == expected.counts, "{key}: counted {counts:?}, on the topics are {:?}", expected.counts);
        ensure!(counts.values().all(|count| *count >= rounds), "{key}: {counts:?} after {rounds} rounds");
        ensure!(value["statusWechsel"] == expected.changes, "{key}: {} changes: {value}", expected.changes);
        ensure!(value["status"] == status(rounds - 1) && value["projekt"]["version"] == rounds - 1, "{key}: {value}");
        let row = json!(format!("row of {key}"));
        ensure!(value["wirtschaftseinheit"]["id"] == row && value["mietobjekt"]["id"] == row, "{key}: {value}");
    }
    Ok(())
}

/// The lists of the aggregate, which have the names of their topics.
const LISTS: [&str; 4] = ["befunde", "aufgaben", "durchfuehrungen", "gruppen"];

/// What the topics hold of a project.
#[derive(Default)]
struct Expected {
    /// Records on each list's topic.
    counts: BTreeMap<&'static str, u64>,
    /// Status records that differ from the one before.
    changes: u64,
    /// The last status.
    status: Option<Value>,
}

/// What the topics hold of each project.
fn expected(broker: &Broker) -> Result<BTreeMap<String, Expected>> {
    let mut projects: BTreeMap<String, Expected> = BTreeMap::new();
    for list in LISTS {
        for (key, _) in topics::read(&broker.bootstrap_servers(), list)?.iter().filter_map(usable) {
            *projects.entry(key).or_default().counts.entry(list).or_default() += 1;
        }
    }
    for (key, value) in topics::read(&broker.bootstrap_servers(), "projektstatus")?.iter().filter_map(usable) {
        let project = projects.entry(key).or_default();
        project.changes += u64::from(project.status.as_ref() != Some(&value["status"]));
        project.status = Some(value["status"].clone());
    }
    Ok(projects)
}

/// Key and value of a record that the topology does not leave out: for a null, or for a value that is no JSON.
fn usable(record: &TopicRecord) -> Option<(String, Value)> {
    let key = String::from_utf8(record.key.as_ref()?.to_vec()).ok()?;
    let value: Value = serde_json::from_slice(record.value.as_ref()?).ok()?;
    (!value.is_null()).then_some((key, value))
}

/// Waits until each partition has outputs.
pub(crate) fn wait_flowing(broker: &Broker) -> Result<()> {
    wait::until("outputs in each partition", weir_tests::host::TIMEOUT, || {
        let partitions: BTreeSet<i32> = records(broker)?.keys().copied().collect();
        ensure!(partitions.len() == usize::try_from(PARTITIONS)?, "only in {partitions:?}");
        Ok(())
    })
}

/// The outputs of each partition in order.
pub(crate) fn records(broker: &Broker) -> Result<BTreeMap<i32, Vec<TopicRecord>>> {
    let mut by_partition: BTreeMap<i32, Vec<TopicRecord>> = BTreeMap::new();
    for record in topics::read(&broker.bootstrap_servers(), OUTPUT)? {
        by_partition.entry(record.partition).or_default().push(record);
    }
    Ok(by_partition)
}
