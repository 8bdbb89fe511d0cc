//! SIGTERM: an end within the bound, with exit code 0, whatever it was doing.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::Value;
use weir_tests::host::TIMEOUT;
use weir_tests::{Broker, Host, Setup, topics, wait};

use super::{task, terminate};
use crate::load::{self, Load};
use crate::projekt::create_topics;

/// What orchestrators give a process to stop.
const BOUND: Duration = Duration::from_secs(30);

/// Ends it with SIGTERM, in time.
fn ensure_stops(host: &mut Host) -> Result<()> {
    let start = Instant::now();
    terminate(host)?;
    ensure!(start.elapsed() < BOUND, "it took {:?}: {}", start.elapsed(), host.log());
    Ok(())
}

/// The restore of a task's table.
fn restore<'a>(status: &'a Value, id: &str, store: &str) -> Result<&'a Value> {
    let restores = task(status, id)?["restore"].as_array().context("restores")?;
    restores.iter().find(|restore| restore["store"] == store).with_context(|| format!("{store} in {restores:?}"))
}

#[test]
fn sigterm_ends_it_while_records_flow_and_in_the_middle_of_a_restore() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut broker = Broker::start(&dir.path().join("broker"))?;
    let bootstrap = broker.bootstrap_servers();
    create_topics(&broker)?;
    load::write_rows(&broker)?;
    let rows = topics::end(&bootstrap, "mietobjekte", 0)?;
    let state = dir.path().join("state");
    let setup = Setup::new("projekt", bootstrap.clone(), &state).set("app.threads", "4");

    // An open transaction on a table's topic: nobody may read on, so that the restore cannot end.
    let writer: BaseProducer = topics::client(&bootstrap).set("transactional.id", "someone").create()?;
    writer.init_transactions(BOUND)?;
    writer.begin_transaction()?;
    let row = BaseRecord::to("mietobjekte").partition(0).key("P").payload("{}");
    writer.send(row).map_err(|(error, _)| error)?;
    writer.flush(BOUND)?;
    let mut host = Host::start(&setup)?;
    let waits = format!("waits for an open transaction at offset {rows} (last stable offset)");
    host.wait_status("a restore that cannot end", |status| {
        let restore = restore(status, "0_0", "mietobjekte")?;
        ensure!(restore["waits_for"].as_str().is_some_and(|says| says.starts_with(&waits)), "{restore}");
        Ok(())
    })?;
    super::ensure_not_ready(&host, &format!("mietobjekte {waits}"))?;
    ensure_stops(&mut host)?;

    // What had been read is not read again.
    let mut host = Host::start(&setup)?;
    host.wait_status("the restore's beginning", |status| {
        let restore = restore(status, "0_0", "mietobjekte")?;
        ensure!(restore["start"] == rows && restore["records"] == 0, "{restore}");
        Ok(())
    })?;
    writer.commit_transaction(BOUND)?;
    host.wait_ready()?;

    let load = Load::start(&broker, 0);
    load::wait_flowing(&broker)?;
    ensure_stops(&mut host)?;
    let mut host = Host::start(&setup)?;
    let rounds = load.stop()?;
    load::wait_counts(&broker, rounds).with_context(|| host.log())?;

    // Without a broker nothing can be committed: what was processed since the last commit is done again after the next start.
    let load = Load::start(&broker, rounds);
    let processed = host.metric("weir_records_processed_total")?;
    wait::until("more records", TIMEOUT, || {
        let now = host.metric("weir_records_processed_total")?;
        ensure!(now > processed, "{now} processed");
        Ok(())
    })?;
    broker.kill()?;
    drop(load);
    ensure_stops(&mut host)
}
