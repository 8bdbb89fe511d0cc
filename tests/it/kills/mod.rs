//! SIGKILL at each fault point, and at any other moment: nothing is lost, nothing counts twice, the order is kept.
//!
//! The input comes in small parts, always while no process runs: then the order across topics is that of Kafka Streams, as if
//! all of it had been there from the beginning.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use weir_tests::topics::{self, InputRecord};
use weir_tests::{Broker, Host, Setup};

use crate::crash::{self, IMPATIENT};
use crate::grown::Grown;
use crate::projekt::{create_topics, wait_caught_up};

mod points;
mod random;

/// A broker, an input that comes in parts, and a state folder that outlives the processes on it.
struct Lives {
    /// The input, and what Kafka Streams makes of it.
    input: Grown,
    /// Stream records fed so far.
    fed: usize,
    /// The broker.
    broker: Broker,
    /// The state folder.
    state: PathBuf,
    /// The guarantee of outputs.
    guarantee: &'static str,
    /// Holds everything.
    _dir: tempfile::TempDir,
}

impl Lives {
    /// A broker with the tables' records of an input of so many copies.
    fn new(copies: i64, guarantee: &'static str) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let input = Grown::new(copies)?;
        let broker = Broker::start_with(&dir.path().join("broker"), IMPATIENT)?;
        create_topics(&broker)?;
        topics::produce_all(&broker.bootstrap_servers(), &input.tables)?;
        Ok(Self { input, fed: 0, broker, state: dir.path().join("state"), guarantee, _dir: dir })
    }

    /// A life on the state folder.
    fn setup(&self) -> Setup<'_> {
        // The dead are waited for as shortly as the broker allows.
        setup(&self.broker, &self.state, self.guarantee)
    }

    /// Stream records that are still to be fed.
    fn left(&self) -> &[InputRecord] {
        &self.input.streams[self.fed..]
    }

    /// Writes the next records to their topics.
    fn feed(&mut self, count: usize) -> Result<()> {
        let part = self.left().get(..count).context("the input is used up")?;
        topics::produce_all(&self.broker.bootstrap_servers(), part)?;
        self.fed += count;
        Ok(())
    }

    /// A life that nothing disturbs, until everything is processed.
    fn live_in_peace(&self) -> Result<()> {
        let mut host = Host::start(&self.setup())?;
        host.wait_ready()?;
        wait_caught_up(&self.broker).with_context(|| host.log())?;
        ensure!(host.terminate()?.success(), "{}", host.log());
        Ok(())
    }

    /// Feeds the rest, lives on to its end, and compares all outputs with Kafka Streams'.
    fn end(&mut self) -> Result<()> {
        self.feed(self.left().len())?;
        self.live_in_peace()?;
        self.input.assert_last(&self.broker)?;
        if self.guarantee == "exactly-once" {
            self.input.assert_all(&self.broker)
        } else {
            self.input.assert_none_missing(&self.broker)
        }
    }
}

/// The project aggregate on an `IMPATIENT` broker, with sessions as short as that allows.
fn setup<'a>(broker: &Broker, state: &'a Path, guarantee: &str) -> Setup<'a> {
    let mut setup = crash::setup(broker, state, guarantee);
    setup.set.retain(|(path, _)| path != "kafka.session.timeout.ms");
    setup.set("kafka.session.timeout.ms", "1500")
}
