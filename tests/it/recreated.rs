//! Topics, offsets and folders that are not what they were when a checkpoint was written: recognised, and never wrong state.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use weir_tests::host::TIMEOUT;
use weir_tests::{Host, Setup, group, topics, wait};

use crate::counted::{APP, CHANGELOG, Counted, PARTITIONS, TABLE, ensure_ended, restores, terminate, wait_tasks};

/// Runs it until all is processed, then ends it.
fn run(counted: &Counted, setup: &Setup<'_>) -> Result<()> {
    let mut host = Host::start(setup)?;
    counted.wait_caught_up(&host)?;
    wait_tasks(&host, PARTITIONS as usize)?;
    terminate(&mut host)
}

/// Starts it, and gives the restores of a topic once all tasks run.
fn start(setup: &Setup<'_>, topic: &str) -> Result<(Host, Vec<Value>)> {
    let host = Host::start(setup)?;
    let status = wait_tasks(&host, PARTITIONS as usize)?;
    let restores = restores(&status, topic);
    ensure!(restores.len() == PARTITIONS as usize, "{status}");
    Ok((host, restores))
}

/// Rows of a store.
fn rows(host: &Host, store: &str) -> Result<Option<u64>> {
    let status = host.status()?;
    let stores = status["stores"].as_array().context("stores")?;
    Ok(stores.iter().find(|of| of["store"] == store).and_then(|of| of["entries"].as_u64()))
}

/// A table and a changelog that were made anew have more records than before: only their ids tell.
#[test]
fn a_recreated_table_or_changelog_is_read_anew() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut counted = Counted::start(dir.path(), "")?;
    let state = dir.path().join("state");
    let setup = counted.setup(&state)?;
    counted.feed("in", 3)?;
    run(&counted, &setup)?;
    // What nobody has touched is taken up where it was.
    let (mut host, found) = start(&setup, TABLE)?;
    for restore in &found {
        ensure!(restore["start"] == restore["end"], "read again: {restore}");
    }
    terminate(&mut host)?;

    topics::delete(&counted.bootstrap(), TABLE)?;
    counted.create(TABLE)?;
    counted.write_rows(3)?;
    let (mut host, found) = start(&setup, TABLE)?;
    for restore in &found {
        ensure!(restore["start"] == 0 && restore["records"] == restore["end"], "not read anew: {restore}");
    }
    ensure!(host.log().contains("the topic was deleted and made anew: the store rows is read anew"), "{}", host.log());
    // Its new id is known from then on; the counts have not been touched.
    counted.feed("more", 3)?;
    counted.wait_caught_up(&host)?;
    counted.assert_counts()?;
    terminate(&mut host)?;
    let (mut host, found) = start(&setup, TABLE)?;
    for restore in &found {
        ensure!(restore["start"] == restore["end"], "read anew again: {restore}");
    }
    terminate(&mut host)?;

    // The changelog of one key in each partition is all that is left of the counts.
    topics::delete(&counted.bootstrap(), CHANGELOG)?;
    topics::create(&counted.bootstrap(), &[(CHANGELOG, PARTITIONS, &[("cleanup.policy", "compact")])])?;
    let keys: Vec<String> = (0..PARTITIONS).map(|partition| format!("k{partition}-0")).collect();
    let records: Vec<_> = (0..100).flat_map(|_| (0..).zip(&keys)).collect();
    let records: Vec<_> = records.iter().map(|(partition, key)| (*partition, key.as_str(), Some("77"), 1)).collect();
    topics::produce(&counted.bootstrap(), CHANGELOG, &records)?;
    let (mut host, found) = start(&setup, CHANGELOG)?;
    for restore in &found {
        ensure!(restore["start"] == 0 && restore["records"] == 100, "not read anew: {restore}");
    }
    ensure!(host.log().contains("made anew: the store counts is read anew"), "{}", host.log());
    for key in &keys {
        let (code, body) = host.get(&format!("/v1/stores/counts/keys/{key}"))?;
        ensure!(code == 200 && body.contains("77"), "{code} {body}");
    }
    ensure!(rows(&host, "counts")? == Some(PARTITIONS as u64), "{}", host.status()?);
    terminate(&mut host)
}

#[test]
fn a_recreated_input_stops_the_instance_with_the_reason() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut counted = Counted::start(dir.path(), "")?;
    let state = dir.path().join("state");
    let setup = counted.setup(&state)?;
    counted.feed("in", 3)?;
    counted.feed("more", 3)?;
    run(&counted, &setup)?;
    let says = ["error: the input topic more was deleted and made anew", "kafka-consumer-groups --reset-offsets"];

    // While it is down. The broker forgets the group's offsets with the topic: the folder knows.
    topics::delete(&counted.bootstrap(), "more")?;
    counted.create("more")?;
    counted.feed("more", 9)?;
    let mut host = Host::start(&setup)?;
    ensure_ended(&mut host, 78, &says)?;
    let committed = |topic| group::committed(&counted.bootstrap(), APP, topic, 0);
    ensure!(committed("more")?.is_none(), "something was processed: {:?}", committed("more")?);

    // What the message says: the group's offsets are set, and the state comes back from the changelog.
    for partition in 0..PARTITIONS {
        group::commit(&counted.bootstrap(), APP, "more", partition, 0)?;
    }
    fs::remove_dir_all(&state)?;
    let mut host = Host::start(&setup)?;
    counted.wait_caught_up(&host)?;
    counted.assert_counts()?;

    // While it runs.
    topics::delete(&counted.bootstrap(), "more")?;
    counted.create("more")?;
    ensure_ended(&mut host, 78, &says)
}

#[test]
fn a_changed_partition_count_stops_the_instance_with_the_reason() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut counted = Counted::start(dir.path(), "")?;
    let state = dir.path().join("state");
    let setup = counted.setup(&state)?;
    counted.feed("in", 3)?;
    let mut host = Host::start(&setup)?;
    counted.wait_caught_up(&host)?;
    let more = PARTITIONS + 2;
    for topic in ["in", "more", TABLE] {
        topics::add_partitions(&counted.bootstrap(), topic, more as usize)?;
    }
    ensure_ended(&mut host, 75, &[&format!("has {more} partitions now, and had {PARTITIONS} when this instance")])?;
    // All inputs fit each other; the state does not.
    let mut host = Host::spawn(&setup)?;
    let says = format!("topic {CHANGELOG} has {PARTITIONS} partitions, {more} are needed");
    ensure_ended(&mut host, 78, &[&says, "the state must be made anew"])
}

#[test]
fn a_log_that_no_longer_holds_the_checkpoint_is_read_anew() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut counted = Counted::start(dir.path(), "")?;
    let state = dir.path().join("state");
    let setup = counted.setup(&state)?;
    counted.feed("in", 3)?;
    run(&counted, &setup)?;
    // Rows are written and deleted while it is down: what is left begins behind the checkpoint.
    counted.write_rows(2)?;
    topics::delete_records(&counted.bootstrap(), TABLE, 1, -1)?;
    let end = topics::end(&counted.bootstrap(), TABLE, 1)?;
    let (mut host, found) = start(&setup, TABLE)?;
    let anew = found.iter().find(|restore| restore["partition"] == 1).context("partition 1")?;
    ensure!(anew["start"] == end && anew["records"] == 0, "{anew}");
    ensure!(host.log().contains("the checkpoint is outside the log: the store rows is read anew"), "{}", host.log());
    for (partition, there) in [(0, true), (1, false)] {
        let (code, body) = host.get(&format!("/v1/stores/rows/keys/k{partition}-0"))?;
        ensure!((code == 200) == there, "{partition}: {code} {body}");
    }
    counted.feed("in", 3)?;
    counted.wait_caught_up(&host)?;
    counted.assert_counts()?;
    terminate(&mut host)
}

#[test]
fn the_folder_of_another_partition_is_read_anew() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut counted = Counted::start(dir.path(), "")?;
    let state = dir.path().join("state");
    let setup = counted.setup(&state)?;
    counted.feed("in", 3)?;
    run(&counted, &setup)?;
    let [one, two, aside] = ["0_1", "0_2", "aside"].map(|name| state.join(name));
    fs::rename(&one, &aside)?;
    fs::rename(&two, &one)?;
    fs::rename(&aside, &two)?;
    let (mut host, found) = start(&setup, CHANGELOG)?;
    for restore in &found {
        let swapped = restore["partition"] == 1 || restore["partition"] == 2;
        ensure!((restore["start"] == 0) == swapped, "{restore}");
    }
    ensure!(host.log().contains("holds the state of another partition"), "{}", host.log());
    counted.feed("more", 3)?;
    counted.wait_caught_up(&host)?;
    counted.assert_counts()?;
    terminate(&mut host)
}

/// Damage is told, with what to do, and nothing is done about it in silence: a disk that has begun to fail concerns its owner.
#[test]
fn a_damaged_store_stops_its_task_until_its_folder_is_deleted() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut counted = Counted::start(dir.path(), "")?;
    let state = dir.path().join("state");
    let setup = counted.setup(&state)?;
    counted.feed("in", 3)?;
    run(&counted, &setup)?;
    for file in fs::read_dir(state.join("0_2"))? {
        let file = file?;
        if file.file_name().to_string_lossy().starts_with("MANIFEST-") {
            fs::write(file.path(), "no manifest at all")?;
        }
    }
    let mut host = Host::start(&setup)?;
    counted.feed("more", 3)?;
    host.wait_status("the task whose store is damaged", |status| {
        let tasks = status["tasks"].as_array().context("tasks")?;
        let task = tasks.iter().find(|task| task["task"] == "0_2").context("0_2")?;
        let reason = task["reason"].as_str().unwrap_or_default();
        ensure!(task["state"] == "failed" && reason.contains("the state in"), "{task}");
        ensure!(reason.contains("delete that folder to restore its contents from Kafka"), "{task}");
        Ok(())
    })?;
    terminate(&mut host)?;
    fs::remove_dir_all(state.join("0_2"))?;
    let mut host = Host::start(&setup)?;
    counted.wait_caught_up(&host)?;
    counted.assert_counts()?;
    terminate(&mut host)
}

/// The group's offsets are gone, as after the broker's retention: the folder's copy takes their place.
#[test]
fn expired_offsets_are_replaced_by_the_folders() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut counted = Counted::start(dir.path(), "")?;
    let state = dir.path().join("state");
    let setup = counted.setup(&state)?;
    counted.feed("in", 3)?;
    counted.feed("more", 3)?;
    run(&counted, &setup)?;
    // A group can be deleted once its last member has left it.
    wait::until("the group's deletion", Duration::from_secs(30), || topics::delete_group(&counted.bootstrap(), APP))?;
    ensure!(group::committed(&counted.bootstrap(), APP, "in", 0)?.is_none(), "the offsets are still there");
    counted.feed("in", 3)?;
    let mut host = Host::start(&setup)?;
    wait_tasks(&host, PARTITIONS as usize)?;
    wait::until("the new records", TIMEOUT, || {
        let committed = group::committed(&counted.bootstrap(), APP, "in", 0)?;
        ensure!(committed == Some(topics::end(&counted.bootstrap(), "in", 0)?), "{committed:?}");
        Ok(())
    })
    .with_context(|| host.log())?;
    counted.wait_caught_up(&host)?;
    counted.assert_counts()?;
    terminate(&mut host)?;

    // Without the folder nobody knows what the state contains.
    wait::until("the group's deletion", Duration::from_secs(30), || topics::delete_group(&counted.bootstrap(), APP))?;
    fs::remove_dir_all(&state)?;
    let host = Host::start(&setup)?;
    host.wait_status("tasks that refuse to count again", |status| {
        let tasks = status["tasks"].as_array().context("tasks")?;
        let refuses = |task: &Value| task["reason"].as_str().is_some_and(|reason| reason.contains("would count twice"));
        ensure!(tasks.len() == PARTITIONS as usize && tasks.iter().all(refuses), "{status}");
        Ok(())
    })?;
    Ok(())
}

/// A task that refuses to count again is not given offsets by the commits of others: it would not refuse the next time.
#[test]
fn a_state_without_offsets_is_refused_again_and_again() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let counted = Counted::start(dir.path(), "")?;
    let state = dir.path().join("state");
    let setup = counted.setup(&state)?.set("app.threads", "1");
    // One partition has state.
    topics::produce(&counted.bootstrap(), "in", &[(1, "k1-0", Some("echo"), 1)])?;
    run(&counted, &setup)?;
    wait::until("the group's deletion", Duration::from_secs(30), || topics::delete_group(&counted.bootstrap(), APP))?;
    fs::remove_dir_all(&state)?;
    for round in 1..3 {
        let mut host = Host::start(&setup)?;
        topics::produce(&counted.bootstrap(), "in", &[(0, "k0-0", Some("echo"), 1)])?;
        wait::until("the other partition's record", TIMEOUT, || {
            let committed = group::committed(&counted.bootstrap(), APP, "in", 0)?;
            ensure!(committed == Some(round), "{committed:?}");
            Ok(())
        })
        .with_context(|| host.log())?;
        host.wait_status("the task that refuses to count again", |status| {
            let tasks = status["tasks"].as_array().context("tasks")?;
            let task = tasks.iter().find(|task| task["task"] == "0_1").context("0_1")?;
            let reason = task["reason"].as_str().unwrap_or_default();
            ensure!(task["state"] == "failed" && reason.contains("would count twice"), "{task}");
            Ok(())
        })?;
        let committed = group::committed(&counted.bootstrap(), APP, "in", 1)?;
        ensure!(committed.is_none(), "the group has {committed:?} for it");
        terminate(&mut host)?;
    }
    Ok(())
}

/// Rows alone make commits too: a table's place is kept although no stream moves.
#[test]
fn rows_alone_are_committed() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut counted = Counted::start(dir.path(), "")?;
    let state = dir.path().join("state");
    let setup = counted.setup(&state)?.set("aggregates.counts.emit", "commit");
    counted.feed("in", 1)?;
    let mut host = Host::start(&setup)?;
    counted.wait_caught_up(&host)?;
    wait_tasks(&host, PARTITIONS as usize)?;
    let commits = host.metric("weir_commit_duration_seconds_count")?;
    counted.write_rows(2)?;
    wait::until("a commit of the rows", TIMEOUT, || {
        let now = host.metric("weir_commit_duration_seconds_count")?;
        ensure!(now > commits, "{now} commits");
        Ok(())
    })
    .with_context(|| host.log())?;
    // All of them, by now or a little later; then it is killed.
    let ends: Vec<i64> =
        (0..PARTITIONS).map(|of| topics::end(&counted.bootstrap(), TABLE, of)).collect::<Result<_>>()?;
    host.wait_status("all rows", |status| {
        for restore in restores(status, TABLE) {
            let of = restore["partition"].as_u64().context("partition")?;
            let end = ends.get(usize::try_from(of)?).context("end")?;
            ensure!(restore["position"].as_i64() >= Some(*end), "{restore}");
        }
        Ok(())
    })?;
    let quiet = wait_quiet(&host)?;
    ensure!(quiet > commits, "{quiet} commits");
    host.kill()?;
    let (mut host, found) = start(&setup, TABLE)?;
    for restore in &found {
        ensure!(restore["start"].as_i64() > Some(0) && restore["records"] == 0, "not committed: {restore}");
    }
    terminate(&mut host)
}

/// Waits until there are no further commits; how many there were.
fn wait_quiet(host: &Host) -> Result<f64> {
    let mut last = -1.0;
    let mut same = 0;
    wait::until("no further commits", TIMEOUT, || {
        let now = host.metric("weir_commit_duration_seconds_count")?;
        same = if now == last { same + 1 } else { 0 };
        last = now;
        ensure!(same > 25, "{now} commits");
        Ok(now)
    })
}

/// Whether a folder is there.
fn is_there(state: &Path, task: &str) -> bool {
    state.join(task).exists()
}

/// A task's stores are kept for its return, and deleted when it does not.
#[test]
fn stores_of_tasks_that_have_moved_are_kept_for_a_while() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut counted = Counted::start(dir.path(), "")?;
    let states = ["a", "b"].map(|name| dir.path().join(name));
    counted.feed("in", 3)?;
    let a = Host::start(&counted.setup(&states[0])?.set("state.cleanup_delay", "4 s"))?;
    counted.wait_caught_up(&a)?;
    let tasks: Vec<String> = (0..PARTITIONS).map(|partition| format!("0_{partition}")).collect();
    let there = || tasks.iter().filter(|task| is_there(&states[0], task)).count();
    let setup_b = counted.setup(&states[1])?;
    let mut b = Host::start(&setup_b)?;
    wait_tasks(&a, 2)?;
    wait_tasks(&b, 2)?;
    ensure!(there() == 4, "{} folders are left at once:\n{}", there(), a.log());
    // They come back, and go on where they were.
    terminate(&mut b)?;
    let status = wait_tasks(&a, 4)?;
    for restore in restores(&status, CHANGELOG) {
        // The end of a transaction may be behind it.
        ensure!(restore["start"].as_i64() > Some(0) && restore["records"] == 0, "read again: {restore}");
    }
    // They go, and don't come back.
    let b = Host::start(&setup_b)?;
    wait_tasks(&b, 2)?;
    wait::until("the end of two folders", TIMEOUT, || {
        ensure!(there() == 2, "{} folders", there());
        Ok(())
    })
    .with_context(|| a.log())?;
    wait_tasks(&a, 2)?;
    counted.feed("more", 3)?;
    counted.wait_caught_up(&a)?;
    counted.assert_counts()
}
