//! A stream thread's transactions: changelog records and input offsets of all its tasks, all or nothing.
//!
//! Under exactly-once the outputs are part of the transaction, which opens with the first of them. Under at-least-once
//! outputs go out at once by a producer of their own and are flushed first; the transaction opens only to commit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::config::Guarantee;
use crate::fault;
use crate::kafka;
use crate::model::{CommitId, Generation, Record, TaskId, TopicPartition};
use crate::node::Output;
use crate::task::CommitMetadata;

use super::active_task::ActiveTask;
use super::edge::{Outputs, Place, Transactions};
use super::instance::Instance;

/// How long one attempt to reach the transaction coordinator may take.
const INIT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a commit may take before its outcome counts as unknown.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(60);
/// The same once the instance is asked to stop: what isn't committed by then is processed again after the next start.
const LAST_COMMIT_TIMEOUT: Duration = Duration::from_secs(8);
/// How long a step of a commit waits before it is looked whether the instance is asked to stop.
const SLICE: Duration = Duration::from_secs(1);

/// What a commit left in changelogs: for each task that took part, the position after its last record in each changelog.
pub(super) type Positions = BTreeMap<TaskId, Vec<(TopicPartition, i64)>>;

/// A commit whose outcome isn't known yet.
pub(super) struct Attempt {
    /// Which commit.
    pub(super) commit: CommitId,
    /// Its positions in changelogs, if all its records were delivered.
    pub(super) positions: Option<Positions>,
}

/// A thread's producers.
pub(super) struct Committer {
    /// Shared parts.
    instance: Arc<Instance>,
    /// Stays the same over restarts, so that a predecessor's open transaction is ended at once.
    transactional_id: String,
    /// The producer; `None`: none that works.
    producer: Option<Box<dyn Transactions>>,
    /// A producer that has not reached its coordinator yet.
    connecting: Option<Box<dyn Transactions>>,
    /// For outputs under at-least-once.
    outputs: Option<Box<dyn Outputs>>,
    /// Whether a transaction is open.
    open: bool,
    /// The last commit.
    commit: CommitId,
}

impl Committer {
    /// Producers of thread `index`; nothing is connected yet.
    pub(super) fn new(instance: Arc<Instance>, index: usize) -> Result<Self, super::Error> {
        let id = instance.transactional_id(index);
        instance.folder.record_transactional_id(&id)?;
        let outputs = match instance.options.guarantee {
            Guarantee::ExactlyOnce => None,
            Guarantee::AtLeastOnce => Some(instance.producers.outputs().map_err(|source| super::Error::Kafka {
                doing: "cannot make a producer for outputs".to_owned(),
                source,
            })?),
        };
        Ok(Self {
            instance,
            transactional_id: id,
            producer: None,
            connecting: None,
            outputs,
            open: false,
            commit: CommitId::default(),
        })
    }

    /// Whether there is a producer that works.
    pub(super) fn is_ready(&self) -> bool {
        self.producer.is_some()
    }

    /// Makes a producer and ends what its predecessor left open. Waits for some seconds at most.
    pub(super) fn connect(&mut self) -> Result<(), kafka::Error> {
        if let Some(outputs) = self.outputs.as_mut().filter(|outputs| outputs.is_unusable()) {
            *outputs = self.instance.producers.outputs()?;
        }
        let producer = match self.connecting.take() {
            Some(producer) => producer,
            None => self.instance.producers.transactions(&self.transactional_id)?,
        };
        if let Err(error) = producer.init(INIT_TIMEOUT) {
            // What timed out goes on in the background, and the next call takes it up again.
            self.connecting = Some(producer).filter(|_| error.is_retriable());
            return Err(error);
        }
        fault::point("transactions.ready");
        tracing::info!(id = self.transactional_id, "transactions can begin");
        self.producer = Some(producer);
        self.open = false;
        self.commit = CommitId { producer: uuid::Uuid::new_v4().simple().to_string(), number: 0 };
        Ok(())
    }

    /// Gives the producer up: something failed, and what it has sent is not committed (or nobody knows).
    pub(super) fn disconnect(&mut self) {
        self.producer = None;
        self.open = false;
    }

    /// Whether outputs are still on their way that no commit has waited for.
    pub(super) fn has_unsent(&self) -> bool {
        self.outputs.as_ref().is_some_and(|outputs| outputs.has_unsent())
    }

    /// Gives up everything under way: the tasks are others' now. Outputs of theirs that still wait to be sent would come after
    /// those of whoever has the tasks, who sends the same again.
    pub(super) fn abandon(&mut self) {
        self.disconnect();
        if let Some(outputs) = &mut self.outputs {
            match self.instance.producers.outputs() {
                Ok(new) => *outputs = new,
                Err(error) => tracing::warn!("cannot make a producer for outputs: {}", super::chain(&error)),
            }
        }
    }

    /// Sends outputs: into the transaction, or at once.
    pub(super) fn send(&mut self, outputs: Vec<Output>) -> Result<(), kafka::Error> {
        if outputs.is_empty() {
            return Ok(());
        }
        if let Some(producer) = &self.outputs {
            for output in outputs {
                producer.send(&output.topic, &output.record)?;
            }
            producer.poll();
            fault::point("outputs.sent");
            return Ok(());
        }
        self.begin()?;
        let producer = self.producer.as_ref().ok_or_else(unconnected)?;
        for output in outputs {
            producer.send(&output.topic, None, &output.record, None)?;
        }
        producer.poll();
        fault::point("outputs.sent");
        Ok(())
    }

    /// Serves delivery reports.
    pub(super) fn poll(&self) {
        if let Some(producer) = &self.producer {
            producer.poll();
        }
        if let Some(producer) = &self.outputs {
            producer.poll();
        }
    }

    /// Opens the transaction, if none is open.
    fn begin(&mut self) -> Result<(), kafka::Error> {
        if !self.open
            && let Some(producer) = &self.producer
        {
            producer.begin()?;
            self.open = true;
        }
        Ok(())
    }

    /// Commits all tasks: returns the commit and its positions in changelogs.
    ///
    /// On an error nothing is known but what the attempt says; the producer is given up.
    pub(super) fn commit(
        &mut self,
        tasks: &BTreeMap<TaskId, ActiveTask>,
        group: Option<&Place>,
        generation: Generation,
    ) -> Result<(CommitId, Positions), Box<(kafka::Error, Attempt)>> {
        self.commit.number += 1;
        let mut attempt = Attempt { commit: self.commit.clone(), positions: None };
        match self.try_commit(tasks, group, generation, &mut attempt) {
            Ok(positions) => Ok((attempt.commit, positions)),
            Err(error) => {
                self.disconnect();
                Err(Box::new((error, attempt)))
            }
        }
    }

    /// The steps of a commit, in the order that makes it safe.
    fn try_commit(
        &mut self,
        tasks: &BTreeMap<TaskId, ActiveTask>,
        group: Option<&Place>,
        generation: Generation,
        attempt: &mut Attempt,
    ) -> Result<Positions, kafka::Error> {
        let began = self.instance.now();
        if let Some(outputs) = &self.outputs {
            self.patiently(began, |slice| outputs.flush(slice))?;
        }
        let mut offsets: Vec<(TopicPartition, i64, String)> = Vec::new();
        for task in tasks.values().filter(|task| task.takes_part()) {
            let generation = task.committed_generation(generation);
            offsets.extend(task.stream_positions().into_iter().map(|(tp, at)| {
                let topic = self.instance.topics.id(&tp.topic).cloned();
                let metadata = CommitMetadata { commit: attempt.commit.clone(), generation, topic };
                (tp, at, metadata.encode())
            }));
        }
        let changes = tasks.values().any(|task| task.writes().any(|(_, changelog)| changelog.is_some()));
        let mut positions: Positions =
            tasks.iter().filter(|(_, of)| of.takes_part()).map(|(id, _)| (*id, Vec::new())).collect();
        if offsets.is_empty() && !changes && !self.open {
            return Ok(positions);
        }
        fault::point("commit.outputs-flushed");
        self.begin()?;
        fault::point("commit.transaction-begun");
        let producer = self.producer.as_ref().ok_or_else(unconnected)?;
        let mut tags: Vec<(TaskId, &TopicPartition)> = Vec::new();
        for (id, task) in tasks {
            let mut of_store: BTreeMap<u16, u32> = BTreeMap::new();
            for (write, changelog) in task.writes() {
                let Some(changelog) = changelog else { continue };
                let tag = *of_store.entry(write.store.0).or_insert_with(|| {
                    tags.push((*id, changelog));
                    u32::try_from(tags.len() - 1).unwrap_or(u32::MAX)
                });
                let record = Record {
                    key: Some(write.key.clone()),
                    value: write.entry.as_ref().map(|entry| entry.value.clone()),
                    timestamp: write.entry.as_ref().map_or_else(|| 0, |entry| entry.timestamp),
                    offset: 0,
                    headers: Vec::new(),
                };
                producer.send(&changelog.topic, Some(changelog.partition), &record, Some(tag))?;
            }
            if !of_store.is_empty() {
                fault::point("commit.changelog-sent");
            }
        }
        if !offsets.is_empty() {
            let group = group.ok_or_else(|| kafka::Error::Client {
                client: "source",
                reason: "its place in the group is not known".to_owned(),
            })?;
            self.patiently(began, |slice| producer.send_offsets(&offsets, group, slice))?;
            fault::point("commit.offsets-added");
        }
        self.patiently(began, |slice| producer.flush(slice))?;
        for (tag, last) in producer.take_delivered() {
            if let Some((id, changelog)) = tags.get(tag as usize) {
                positions.entry(*id).or_default().push(((*changelog).clone(), last + 1));
            }
        }
        attempt.positions = Some(positions.clone());
        fault::point("commit.records-flushed");
        self.patiently(began, |slice| producer.commit(slice))?;
        self.open = false;
        fault::point("commit.ended");
        Ok(positions)
    }

    /// How long a commit that began then may still take.
    fn left(&self, began: Instant) -> Duration {
        let whole = if self.instance.shared.is_stopping() { LAST_COMMIT_TIMEOUT } else { COMMIT_TIMEOUT };
        whole.saturating_sub(self.instance.now().saturating_duration_since(began))
    }

    /// Takes up a step again and again for as long as the commit may take, which may become less meanwhile.
    fn patiently(
        &self,
        began: Instant,
        mut step: impl FnMut(Duration) -> Result<(), kafka::Error>,
    ) -> Result<(), kafka::Error> {
        loop {
            match step(SLICE) {
                Err(error) if error.can_be_resumed() && !self.left(began).is_zero() => {}
                result => return result,
            }
        }
    }
}

/// There is no producer that works.
fn unconnected() -> kafka::Error {
    kafka::Error::Client { client: "transactions", reason: "it is not connected".to_owned() }
}
