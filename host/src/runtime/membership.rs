//! The instance as a member of the group: what it was before this run, and how its membership ends.
//!
//! It is a static member under the id that its state folder keeps. So a process that was killed is back in its place at once, without
//! waiting for the end of its old session, and without a rebalance of the others.

use std::collections::{BTreeMap, BTreeSet};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::config::OnStop;
use crate::kafka::{self, ClientSettings, SourceConsumer, TransactionalProducer};
use crate::store::StateDir;

use super::Error;

/// How long leaving the group may take: less than the process has to stop.
const LEAVE: Duration = Duration::from_secs(18);
/// How long ending the membership of an earlier run may take: others answer within their heartbeats.
const END_LAST_LIFE: Duration = Duration::from_secs(30);
/// How long ending a predecessor's transaction may take, at start.
const INIT: Duration = Duration::from_secs(10);
/// Transactions of predecessors that are ended at once: each needs a client.
const AT_ONCE: usize = 16;

/// Makes sure that the group will give partitions of `topics`, and not of what an earlier run was subscribed to.
///
/// The broker gives a static member that comes back what it had, without asking what it wants now.
pub(super) fn end_outdated(settings: &ClientSettings, dir: &StateDir, topics: &[&str]) -> Result<(), Error> {
    let wanted: BTreeSet<String> = topics.iter().map(|topic| (*topic).to_owned()).collect();
    let before = dir.subscription();
    if before.as_ref() == Some(&wanted) {
        return Ok(());
    }
    if before.is_some() {
        tracing::info!("the topology has other inputs than at the last run: leaving the group first");
        let ended = SourceConsumer::end_last_life(settings, dir.instance_id(), topics, END_LAST_LIFE);
        if let Err(source) = ended {
            if source.is_fenced() {
                return Err(fenced(dir, source));
            }
            return Err(Error::Kafka { doing: "cannot end the membership of an earlier run".to_owned(), source });
        }
    }
    dir.record_subscription(&wanted)?;
    Ok(())
}

/// The transactional id of stream thread `index` of an application on a state folder: the same in every run.
pub(super) fn transactional_id(app: &str, instance: &str, index: usize) -> String {
    format!("{app}-{instance}-{index}")
}

/// Transactions that an earlier run may have left open, being ended while the instance starts.
///
/// Each holds readers of its partitions back, and the group's offsets, until it is ended or times out; ending one takes about a
/// second (librdkafka asks the coordinator in steps of half a second), which the start needs for other things anyway.
pub(super) struct LeftTransactions(JoinHandle<Vec<TransactionalProducer>>);

impl LeftTransactions {
    /// Begins to end them: all that the folder knows of.
    pub(super) fn end(settings: &ClientSettings, dir: &StateDir) -> Self {
        let (settings, ids) = (settings.clone(), dir.transactional_ids());
        Self(std::thread::spawn(move || {
            let (settings, mut ended) = (&settings, Vec::new());
            for some in ids.chunks(AT_ONCE) {
                std::thread::scope(|scope| {
                    let ends = some.iter().map(|id| scope.spawn(move || end_transaction(settings, id)));
                    let ends: Vec<_> = ends.collect();
                    ended.extend(ends.into_iter().filter_map(|end| end.join().ok()?));
                });
            }
            ended
        }))
    }

    /// Waits until they are ended, and forgets those that are not `own`, the ids of this run's threads. Returns the connected
    /// producers of these, by id.
    pub(super) fn ended(self, dir: &StateDir, own: &BTreeSet<String>) -> BTreeMap<String, TransactionalProducer> {
        let ended = self.0.join().unwrap_or_default().into_iter().map(|producer| (producer.id().to_owned(), producer));
        let (own, others): (BTreeMap<_, _>, BTreeMap<_, _>) = ended.partition(|(id, _)| own.contains(id));
        let others: Vec<String> = others.into_keys().collect();
        if let Err(error) = dir.forget_transactional_ids(&others) {
            tracing::warn!("cannot forget transactional ids of an earlier run: {}", super::chain(&error));
        }
        own
    }
}

/// Ends what is open under a transactional id, if that goes well: with the producer that did.
fn end_transaction(settings: &ClientSettings, id: &str) -> Option<TransactionalProducer> {
    let ended = TransactionalProducer::new(settings, id).and_then(|producer| producer.init(INIT).map(|()| producer));
    match &ended {
        Ok(_) => tracing::debug!(transactional_id = id, "ended what an earlier run may have left open"),
        Err(error) => {
            tracing::warn!(transactional_id = id, "cannot end what an earlier run left open: {}", super::chain(error));
        }
    }
    ended.ok()
}

/// An error of the group member. Another process in our place is told from all others: nothing here can help.
pub(super) fn error(dir: &StateDir, source: kafka::Error) -> Error {
    if source.is_fenced() {
        return fenced(dir, source);
    }
    Error::Kafka { doing: "the source consumer cannot go on".to_owned(), source }
}

/// Another process has our place in the group.
fn fenced(dir: &StateDir, source: kafka::Error) -> Error {
    Error::Fenced { instance: dir.instance_id().to_owned(), dir: dir.path().to_path_buf(), source }
}

/// Ends the membership: tasks commit and close. `result`: why the instance ends.
pub(super) fn end(source: &SourceConsumer, on_stop: OnStop, result: &Result<(), Error>) -> Result<(), Error> {
    let left = match (result, on_stop) {
        (Err(Error::Fenced { .. }), _) => {
            source.abandon();
            return Ok(());
        }
        // One that fails may not come back soon: others had better take over.
        (Err(_), _) | (Ok(()), OnStop::Leave) => source.leave(LEAVE),
        (Ok(()), OnStop::Stay) => source.stay(LEAVE),
    };
    left.map_err(|source| Error::Kafka { doing: "cannot leave the group".to_owned(), source })
}
