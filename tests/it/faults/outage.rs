//! The broker is not there at the start, or goes away later.

use anyhow::{Context, Result, ensure};
use weir_tests::host::TIMEOUT;
use weir_tests::{Broker, Host, Setup, wait};

use super::{ensure_not_ready, terminate};
use crate::load::{self, Load};
use crate::projekt::create_topics;

/// Waits until it is not ready and says so with these words; it must be alive all the while.
fn wait_not_ready(host: &Host, says: &str) -> Result<()> {
    wait::until("not ready", TIMEOUT, || ensure_not_ready(host, says)).with_context(|| host.log())
}

/// Starts without a broker, goes on when it comes, outlives its loss, and goes on again.
fn without_a_broker(guarantee: &str) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut broker = Broker::start(&dir.path().join("broker"))?;
    create_topics(&broker)?;
    load::write_rows(&broker)?;
    broker.stop()?;
    let state = dir.path().join("state");
    let setup = Setup::new("projekt", broker.bootstrap_servers(), &state)
        .set("app.guarantee", guarantee)
        .set("app.threads", "4");
    let mut host = Host::start(&setup)?;
    let says = format!("cannot reach the broker (kafka.\"bootstrap.servers\"): {}", broker.bootstrap_servers());
    wait_not_ready(&host, &says)?;
    let status = host.status()?;
    ensure!(status["state"] == "starting" && status["tasks"].as_array().is_some_and(Vec::is_empty), "{status}");
    // It may be stopped while it waits.
    terminate(&mut host)?;
    let mut host = Host::start(&setup)?;
    wait_not_ready(&host, &broker.bootstrap_servers())?;
    broker.restart()?;
    host.wait_ready()?;
    let load = Load::start(&broker, 0);
    load::wait_flowing(&broker)?;

    for _ in 0..2 {
        let processed = host.metric("weir_records_processed_total")?;
        broker.kill()?;
        wait_not_ready(&host, &broker.bootstrap_servers())?;
        let status = host.status()?;
        ensure!(status["waits_for"].as_array().is_some_and(|waits| !waits.is_empty()), "{status}");
        broker.restart()?;
        host.wait_ready()?;
        wait::until("more records", TIMEOUT, || {
            let now = host.metric("weir_records_processed_total")?;
            ensure!(now > processed + 1000.0, "{now} after {processed}");
            Ok(())
        })
        .with_context(|| host.log())?;
    }
    load::wait_counts(&broker, load.stop()?).with_context(|| host.log())?;
    host.wait_ready()?;
    // What librdkafka would make of a broker without leaders (see `kafka/leader_hints.rs`).
    ensure!(!host.log().contains("METADATAUPDATE"), "{}", host.log());
    terminate(&mut host)
}

#[test]
fn nothing_is_lost_or_doubled_when_the_broker_is_away() -> Result<()> {
    without_a_broker("exactly-once")
}

#[test]
fn nor_in_the_state_under_at_least_once() -> Result<()> {
    without_a_broker("at-least-once")
}
