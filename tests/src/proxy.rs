//! A TCP proxy before a real broker that knows the frames of Kafka's protocol: which request it is, and which one an answer is
//! for. It does its harm at a chosen frame.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::wait;

/// Kinds of requests, by the protocol's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// Records.
    Produce = 0,
    /// A producer begins, and ends what an earlier one left open.
    InitProducerId = 22,
    /// The transaction will have records in these partitions.
    AddPartitionsToTxn = 24,
    /// It will have offsets of this group.
    AddOffsetsToTxn = 25,
    /// It is committed or aborted.
    EndTxn = 26,
    /// The offsets.
    TxnOffsetCommit = 28,
}

/// A request, or its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// From the client.
    Request,
    /// From the broker, which has done what it was asked for.
    Answer,
}

/// What happens to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// It is lost, and its connection is cut.
    Cut,
    /// It is lost, and all connections are cut.
    CutAll,
    /// It is lost; the connection stays.
    Lose,
    /// It comes so late, and so does what follows on its connection.
    Delay(Duration),
    /// It and everything else, on all connections, waits for so long.
    Hold(Duration),
}

/// The harm to come.
#[derive(Clone, Copy, Debug)]
struct Rule {
    /// To a request or an answer.
    frame: Frame,
    /// Of this kind.
    api: Api,
    /// The harm.
    harm: Harm,
}

/// The proxy. Its connections are cut when it is dropped.
pub struct Proxy {
    /// Where clients connect.
    port: u16,
    /// What its threads share.
    shared: Arc<Shared>,
}

/// What the threads share.
#[derive(Default)]
struct Shared {
    /// Everything that changes.
    state: Mutex<State>,
    /// Told of its changes.
    changed: Condvar,
}

/// What changes.
#[derive(Default)]
struct State {
    /// The broker's port.
    broker: u16,
    /// The harm to come, once.
    rule: Option<Rule>,
    /// Until then nothing passes.
    held: Option<Instant>,
    /// Both ends of each connection.
    connections: Vec<TcpStream>,
    /// The proxy is gone.
    over: bool,
}

impl Proxy {
    /// A proxy that leads nowhere yet.
    pub fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared::default());
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming() {
                if accepting.state().over {
                    return;
                }
                // A client whose connection fails comes again.
                let _failed = client.and_then(|client| connect(&accepting, client));
            }
        });
        Ok(Self { port, shared })
    }

    /// Where clients connect.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// For `bootstrap.servers`.
    pub fn bootstrap_servers(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Leads to the broker at this port from now on.
    pub fn lead_to(&self, broker: u16) {
        self.shared.state().broker = broker;
    }

    /// Does harm to the next frame of this kind.
    pub fn harm(&self, frame: Frame, api: Api, harm: Harm) {
        self.shared.state().rule = Some(Rule { frame, api, harm });
    }

    /// Waits until the harm is done (a delay or a hold: has begun).
    pub fn wait_done(&self, timeout: Duration) -> Result<()> {
        let state = self.shared.state();
        let waited = self.shared.changed.wait_timeout_while(state, timeout, |state| state.rule.is_some());
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match state.rule {
            Some(rule) => bail!("no such frame within {timeout:?}: {rule:?}"),
            None => Ok(()),
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.state().over = true;
        self.shared.cut_all();
        // Wakes the thread that accepts.
        let _refused = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl Shared {
    /// What changes.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cuts all connections.
    fn cut_all(&self) {
        for connection in self.state().connections.drain(..) {
            let _gone = connection.shutdown(Shutdown::Both);
        }
        self.changed.notify_all();
    }

    /// What is to happen to a frame. Waits while everything is held.
    fn judge(&self, frame: Frame, api: Option<i16>) -> Option<Harm> {
        let mut state = self.state();
        let due = state.rule.filter(|rule| rule.frame == frame && api == Some(rule.api as i16));
        if due.is_some() {
            state.rule = None;
            self.changed.notify_all();
        }
        if let Some(Harm::Hold(time)) = due.map(|rule| rule.harm) {
            state.held = Some(Instant::now() + time);
        }
        while let Some(left) = state.held.and_then(|until| until.checked_duration_since(Instant::now())) {
            if state.over {
                break;
            }
            let waited = self.changed.wait_timeout(state, left.max(Duration::from_millis(1)));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        due.map(|rule| rule.harm)
    }
}

/// Requests of a connection that are not answered: their kinds by their correlation ids.
type Asked = Arc<Mutex<BTreeMap<[u8; 4], i16>>>;

/// Connects a client with the broker.
fn connect(shared: &Arc<Shared>, client: TcpStream) -> io::Result<()> {
    let broker = TcpStream::connect((Ipv4Addr::LOCALHOST, shared.state().broker))?;
    client.set_nodelay(true)?;
    broker.set_nodelay(true)?;
    shared.state().connections.extend([client.try_clone()?, broker.try_clone()?]);
    let asked = Asked::default();
    let ways = [(Frame::Request, client.try_clone()?, broker.try_clone()?), (Frame::Answer, broker, client)];
    for (frame, from, to) in ways {
        let (shared, asked) = (Arc::clone(shared), Arc::clone(&asked));
        thread::spawn(move || {
            // An end of any kind is the end of the connection.
            let _ended = copy(&shared, &asked, frame, &from, &to);
            let _gone = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
        });
    }
    Ok(())
}

/// Copies frames one way until the connection ends.
fn copy(shared: &Shared, asked: &Asked, kind: Frame, mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
    loop {
        let mut length = [0; 4];
        from.read_exact(&mut length)?;
        let mut frame = length.to_vec();
        let body = u64::from(u32::from_be_bytes(length));
        if from.take(body).read_to_end(&mut frame)? as u64 != body {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match shared.judge(kind, api(asked, kind, &frame)) {
            None | Some(Harm::Hold(_)) => {}
            Some(Harm::Cut) => return Ok(()),
            Some(Harm::CutAll) => shared.cut_all(),
            Some(Harm::Lose) => continue,
            Some(Harm::Delay(time)) => wait::moment(time),
        }
        to.write_all(&frame)?;
    }
}

/// The kind of request that a frame is, or is the answer to. After the length, a request has kind (2 bytes), version (2) and
/// correlation id (4), an answer the correlation id.
fn api(asked: &Asked, kind: Frame, frame: &[u8]) -> Option<i16> {
    let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
    match kind {
        Frame::Request => {
            let api = i16::from_be_bytes(frame.get(4..6)?.try_into().ok()?);
            asked.insert(frame.get(8..12)?.try_into().ok()?, api);
            Some(api)
        }
        Frame::Answer => asked.remove(frame.get(4..8)?),
    }
}
