//! Three instances; one sleeps through its session, one dies and loses its folder, one more comes.

use anyhow::{Context, Result, ensure};
use weir_tests::{Broker, Host, topics};

use crate::crash::{IMPATIENT, setup};
use crate::flow::Flow;
use crate::grown::{self, Grown};
use crate::projekt::{create_topics, wait_caught_up};
use crate::rebalance::wait_tasks;

#[test]
fn a_zombie_a_lost_folder_and_a_newcomer_while_records_flow() -> Result<()> {
    let input = Grown::new(3)?;
    let dir = tempfile::tempdir()?;
    let broker = Broker::start_with(&dir.path().join("broker"), IMPATIENT)?;
    create_topics(&broker)?;
    topics::produce_all(&broker.bootstrap_servers(), &input.tables)?;
    let states = ["a", "b", "c", "d"].map(|name| dir.path().join(name));
    let setup = |state: usize| setup(&broker, &states[state], "exactly-once").set("app.threads", "2");
    let start = |state: usize| Host::start(&setup(state));
    let flow = Flow::new(&broker, &input.streams)?;
    let story = || -> Result<()> {
        let (mut lost, mut steady) = (start(1)?, start(2)?);
        wait_tasks(&lost, 4..=4)?;
        // It falls asleep amid a commit: all is with the broker but the transaction's end.
        let mut sleeper = Host::start(&setup(0).fault("commit.records-flushed:5:STOP"))?;
        sleeper.wait_stopped()?;
        wait_tasks(&lost, 4..=4)?;
        wait_tasks(&steady, 4..=4)?;
        flow.wait(2, 6)?;
        lost.kill()?;
        std::fs::remove_dir_all(&states[1])?;
        wait_tasks(&steady, 8..=8)?;
        flow.wait(3, 6)?;
        // It still believes in its tasks, and goes on with a commit of records that others have processed meanwhile.
        sleeper.signal("CONT")?;
        let mut newcomer = start(3)?;
        for host in [&sleeper, &newcomer, &steady] {
            wait_tasks(host, 2..=3)?;
        }
        ensure!(sleeper.log().contains("the commit failed"), "its commit was not refused: {}", sleeper.log());
        flow.wait(6, 6)?;
        wait_caught_up(&broker)?;
        for host in [&mut sleeper, &mut newcomer, &mut steady] {
            ensure!(host.terminate()?.success(), "{}", host.log());
        }
        Ok(())
    };
    let logs = || states.iter().map(|state| std::fs::read_to_string(state.with_extension("log")).unwrap_or_default());
    let all_logs = || logs().collect::<Vec<_>>().join("\n----\n");
    flow.during(story).with_context(all_logs)?;
    input.assert_last(&broker).with_context(all_logs)?;
    grown::assert_chain(&broker).with_context(all_logs)
}
