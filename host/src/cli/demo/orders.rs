//! The order status service: a topic in memory, and answers from it.

use std::time::{Duration, Instant};

use anyhow::ensure;
use serde::Serialize;

use super::Props;
use super::cluster::NewRecord;
use super::narration::number;
use super::random::Random;
use super::stage::Stage;
use super::tries::{self, Try};
use crate::cli::Output;
use crate::cli::client::Client;
use crate::cli::table::{Table, print, print_json};

/// The topology file.
pub(super) const TOPOLOGY: &str = include_str!("../../../../plugins/orders/weir.toml");

/// The topic.
const TOPIC: &str = "orders";
/// Orders.
const ORDERS: u64 = 5_000;
/// Every so-manieth order is deleted again.
const DELETED: u64 = 50;
/// States of an order, one after the other.
const STATUS: &[&str] = &["CREATED", "PAID", "PACKED", "SHIPPED", "DELIVERED"];
/// Who orders.
const CUSTOMERS: &[&str] = &["Anna Schäfer", "Jörg Müller", "Käthe Weiß", "Björn Groß", "Zoë Fuchs", "Lea Vogel"];
/// 3 March 2025, eight in the morning in Berlin.
const MORNING: i64 = 1_740_985_200_000;

/// How often the instance is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request and its answer.
#[derive(Debug, Serialize)]
struct Answered {
    /// Path and query.
    request: String,
    /// HTTP status.
    status: u16,
    /// The text.
    answer: String,
}

/// Plays it.
pub(super) fn play(props: &Props, stage: &Stage) -> anyhow::Result<()> {
    let records = records();
    let held = ORDERS - ORDERS / DELETED;
    props.narration.say(&format!(
        "The order status service, on a Kafka inside this process (librdkafka's mock cluster, {}).

     {} records of {} orders, {} of them deleted in the end",
        props.cluster.bootstrap_servers(),
        number(records.len() as u64),
        number(ORDERS),
        number(ORDERS / DELETED)
    ));
    props.cluster.create(&[TOPIC])?;
    props.cluster.fill(&records, stage, props.narration.progress("filling the topic", records.len() as u64))?;

    let least = held.to_string();
    let began = Instant::now();
    stage.enter(&props.topology(&[("app.id", "demo-orders"), ("http.ready.min_records", &least)])?)?;
    wait_for(props, stage, "/ready", "Ready", began)?;
    let seconds = began.elapsed().as_secs_f64();
    props.narration.say(&format!("     ready after {seconds:.1} s: {} orders in memory", number(held)));

    let moved = Instant::now();
    props.cluster.write(&record(7, "RETURNED", MORNING + 86_400_000))?;
    wait_for(props, stage, &path(7), "RETURNED", moved)?;
    let millis = moved.elapsed().as_millis();
    props.narration.say(&format!("     an order was returned: written to the topic, and answered {millis} ms later\n"));

    let tries = tries();
    let answers = tries::check(&tries, &props.url())?;
    let answered = tries.iter().zip(answers).map(|(one, answer)| Answered {
        request: one.path.clone(),
        status: one.status,
        answer,
    });
    show(answered.collect(), props.output)?;
    if !props.exit {
        tries::show(&tries, &props.url(), &props.narration);
        props.narration.say("Ctrl-C ends it.");
        stage.serve_on()?;
    }
    Ok(())
}

/// Waits until the answer to `path` is `text`.
fn wait_for(props: &Props, stage: &Stage, path: &str, text: &str, began: Instant) -> anyhow::Result<()> {
    let client = Client::new(&props.url());
    loop {
        let answer = client.answer(path)?;
        if answer.status == 200 && answer.body == text.as_bytes() {
            return Ok(());
        }
        let body = String::from_utf8_lossy(&answer.body);
        ensure!(began.elapsed() < PATIENCE, "GET {path} should answer {text:?}, but still says {body:?}");
        stage.pause(LOOK)?;
    }
}

/// Prints what was asked and answered.
fn show(answered: Vec<Answered>, output: Output) -> anyhow::Result<()> {
    match output {
        Output::Table => {
            let mut table = Table::new(["request", "status", "answer"]);
            for Answered { request, status, answer } in answered {
                table.row([request, status.to_string(), answer]);
            }
            Ok(print(&table.render())?)
        }
        Output::Json => print_json(&answered),
    }
}

/// The route's path for an order.
fn path(number: u64) -> String {
    format!("/api/order/status?orderId={}", key(number))
}

/// What to try.
fn tries() -> Vec<Try> {
    vec![
        Try::new("/ready", 200, "Ready", "503 with the number loaded, before the table is full"),
        Try::new(path(7), 200, "RETURNED", "the order that was returned"),
        Try::new(path(DELETED), 404, "Order not found", "an order that was deleted"),
        Try::new("/api/order/status", 400, "Missing orderId parameter", "no order named"),
    ]
}

/// An order's key.
fn key(number: u64) -> String {
    format!("O{number:07}")
}

/// A record that says where an order stands.
fn record(number: u64, status: &str, timestamp: i64) -> NewRecord {
    let key = key(number);
    let mut random = Random::new(number);
    let value = format!(
        r#"{{"orderId":"{key}","status":"{status}","customer":"{}","cents":{},"changedAt":{timestamp}}}"#,
        random.pick(CUSTOMERS),
        random.between(500, 90_000)
    );
    NewRecord { topic: TOPIC, key, value: Some(value), timestamp }
}

/// All records, in the order in which they arrive: each order goes through some states, and some are deleted.
fn records() -> Vec<NewRecord> {
    let mut random = Random::new(3);
    let states: Vec<usize> = (1..=ORDERS).map(|_| usize::try_from(random.between(1, 5)).unwrap_or(1)).collect();
    let mut records = Vec::new();
    let mut timestamp = MORNING;
    for (place, status) in STATUS.iter().enumerate() {
        for (number, states) in (1..=ORDERS).zip(&states) {
            if place < *states {
                timestamp += 1;
                records.push(record(number, status, timestamp));
            }
        }
    }
    for number in (1..=ORDERS).filter(|number| number % DELETED == 0) {
        timestamp += 1;
        records.push(NewRecord { topic: TOPIC, key: key(number), value: None, timestamp });
    }
    records
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::cli::demo::cluster::assert_fits;

    #[test]
    fn every_order_is_there_but_those_deleted() {
        let mut last: BTreeMap<String, Option<String>> = BTreeMap::new();
        let records = records();
        assert_fits(&records).unwrap();
        for record in records {
            last.insert(record.key, record.value);
        }
        assert_eq!(last.len() as u64, ORDERS);
        assert_eq!(last.values().filter(|value| value.is_some()).count() as u64, ORDERS - ORDERS / DELETED);
        let value: serde_json::Value = serde_json::from_str(last[&key(7)].as_deref().unwrap()).unwrap();
        assert_eq!(value["orderId"], "O0000007");
        assert!(STATUS.contains(&value["status"].as_str().unwrap()));
    }
}
