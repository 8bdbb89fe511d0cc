//! A network that loses, delays and holds what a commit consists of, between the host and a real broker.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use weir_tests::host::TIMEOUT;
use weir_tests::proxy::{Api, Frame, Harm};
use weir_tests::{Broker, Host, Proxy, Setup, is_slow_run, topics};

use crate::crash::{self, IMPATIENT};
use crate::grown::{self, Grown};
use crate::projekt::{create_topics, wait_caught_up};
use crate::rewind::fence;

/// The requests of a transaction, in its order.
const STEPS: [Api; 5] =
    [Api::AddPartitionsToTxn, Api::Produce, Api::AddOffsetsToTxn, Api::TxnOffsetCommit, Api::EndTxn];
/// Both frames of a request.
const FRAMES: [Frame; 2] = [Frame::Request, Frame::Answer];

/// The host behind a proxy.
struct Behind {
    /// The input, and what Kafka Streams makes of it.
    input: Grown,
    /// The proxy.
    proxy: Proxy,
    /// The broker.
    broker: Broker,
    /// Holds everything.
    dir: tempfile::TempDir,
}

impl Behind {
    /// A broker with the tables' records.
    fn new(copies: i64) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let input = Grown::new(copies)?;
        let proxy = Proxy::start()?;
        let broker = Broker::start_behind(&dir.path().join("broker"), IMPATIENT, Some(&proxy))?;
        create_topics(&broker)?;
        topics::produce_all(&broker.bootstrap_servers(), &input.tables)?;
        Ok(Self { input, proxy, broker, dir })
    }

    /// A host that knows the broker by the proxy's address only, and waits for an answer no longer than 3 s.
    fn setup<'a>(&self, state: &'a Path, guarantee: &str) -> Setup<'a> {
        let mut setup = crash::setup(&self.broker, state, guarantee);
        setup.bootstrap = self.proxy.bootstrap_servers();
        setup.set("kafka.socket.timeout.ms", "3000")
    }

    /// Does each harm once while records flow; then the outputs must be right, and so must the state: locally, and in the
    /// changelogs, of which another folder is made for the last records.
    fn suffer(&self, guarantee: &str, harms: &[(Frame, Api, Harm)]) -> Result<()> {
        let parts = self.input.parts(harms.len() + 2);
        let state = self.dir.path().join("state");
        let mut host = Host::start(&self.setup(&state, guarantee))?;
        host.wait_ready()?;
        let mut parts = parts.into_iter();
        let mut next = || parts.next().context("the input is used up");
        for harm in harms {
            let (frame, api, how) = *harm;
            self.proxy.harm(frame, api, how);
            topics::produce_all(&self.broker.bootstrap_servers(), next()?)?;
            let suffered = self.proxy.wait_done(TIMEOUT).and_then(|()| wait_caught_up(&self.broker));
            suffered.with_context(|| format!("{harm:?}: {}", host.log()))?;
        }
        topics::produce_all(&self.broker.bootstrap_servers(), next()?)?;
        wait_caught_up(&self.broker).with_context(|| host.log())?;
        ensure!(host.terminate()?.success(), "{}", host.log());
        std::fs::remove_dir_all(&state)?;
        for part in parts {
            topics::produce_all(&self.broker.bootstrap_servers(), part)?;
        }
        let mut anew = Host::start(&self.setup(&state, guarantee))?;
        wait_caught_up(&self.broker).with_context(|| anew.log())?;
        ensure!(anew.terminate()?.success(), "{}", anew.log());
        self.input.assert_last(&self.broker).with_context(|| anew.log())?;
        if guarantee == "exactly-once" {
            grown::assert_chain(&self.broker).with_context(|| anew.log())?;
        }
        Ok(())
    }
}

/// Each frame of each step suffers each of these.
fn each(harms: &[Harm]) -> Vec<(Frame, Api, Harm)> {
    let mut all = Vec::new();
    for api in STEPS {
        for frame in FRAMES {
            all.extend(harms.iter().map(|harm| (frame, api, *harm)));
        }
    }
    all
}

#[test]
fn connections_are_cut_at_each_step_of_a_commit() -> Result<()> {
    Behind::new(2)?.suffer("exactly-once", &each(&[Harm::Cut, Harm::CutAll]))
}

#[test]
fn frames_are_lost_or_late_at_each_step_of_a_commit() -> Result<()> {
    Behind::new(2)?.suffer("exactly-once", &each(&[Harm::Lose, Harm::Delay(Duration::from_millis(1500))]))
}

#[test]
fn nor_does_the_state_suffer_under_at_least_once() -> Result<()> {
    Behind::new(1)?.suffer("at-least-once", &each(&[Harm::Cut, Harm::Lose]))
}

/// Everything stands still for longer than sessions, transactions and requests may last.
#[test]
fn everything_is_held_at_a_step_of_a_commit() -> Result<()> {
    let hold = |seconds| Harm::Hold(Duration::from_secs(seconds));
    let last = [(Frame::Answer, Api::TxnOffsetCommit), (Frame::Request, Api::EndTxn), (Frame::Answer, Api::EndTxn)];
    let long = last.map(|(frame, api)| (frame, api, hold(if is_slow_run() { 60 } else { 13 })));
    let mut harms = long.to_vec();
    if is_slow_run() {
        harms.extend(each(&[hold(13)]).into_iter().filter(|(frame, api, _)| !last.contains(&(*frame, *api))));
    }
    Behind::new(1)?.suffer("exactly-once", &harms)
}

/// The end of a transaction gets no answer, and the producer is fenced before it asks again: only the group's offsets tell
/// what became of the commit.
#[test]
fn what_became_of_a_commit_is_found_out() -> Result<()> {
    let behind = Behind::new(1)?;
    let state = behind.dir.path().join("state");
    let mut host = Host::start(&behind.setup(&state, "exactly-once"))?;
    host.wait_ready()?;
    let cases = [
        (Frame::Answer, "the last commit went through"),
        (Frame::Request, "the last commit did not go through"),
        (Frame::Answer, "the last commit went through"),
    ];
    for ((lost, says), part) in cases.into_iter().zip(behind.input.parts(cases.len())) {
        let said = host.log().len();
        behind.proxy.harm(lost, Api::EndTxn, Harm::Lose);
        topics::produce_all(&behind.broker.bootstrap_servers(), part)?;
        behind.proxy.wait_done(TIMEOUT).with_context(|| host.log())?;
        fence(&behind.broker, &host)?;
        wait_caught_up(&behind.broker).with_context(|| host.log())?;
        ensure!(host.log()[said..].contains(says), "{lost:?} is lost, but not '{says}': {}", host.log());
    }
    behind.input.assert_last(&behind.broker).with_context(|| host.log())?;
    grown::assert_chain(&behind.broker).with_context(|| host.log())?;
    ensure!(host.terminate()?.success(), "{}", host.log());
    Ok(())
}
