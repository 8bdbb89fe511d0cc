//! The group member that streams are read through.
//!
//! The group says which partitions are ours; the listener says which of them are really read, and from where. Eager
//! rebalances, range assignment: equal partition numbers of co-partitioned topics come to one member.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rdkafka::consumer::{Consumer, ConsumerGroupMetadata};
use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::{Offset, TopicPartitionList};

use super::client::{self, Client, ConsumerState, locked};
use super::error::is_missing;
use super::{ClientSettings, Error, GroupMember, PartitionQueue, Waker, native};
use crate::model::TopicPartition;

/// How long one poll waits while the group is left.
const LEAVE_STEP: Duration = Duration::from_millis(20);

/// Decides what a rebalance means. Called in the thread that polls, which waits for it; the consumer's other methods may be
/// called meanwhile, from any thread.
pub trait RebalanceListener: Send + Sync {
    /// Partitions of subscribed topics that are ours now (all of them). Returns what to really assign, with start offsets
    /// (absolute); each of these must have been split.
    fn assigned(&self, partitions: Vec<TopicPartition>) -> Vec<(TopicPartition, i64)>;

    /// All partitions are taken away; `lost`: others may own them already.
    fn revoked(&self, partitions: Vec<TopicPartition>, lost: bool);
}

/// What the group has committed for a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The partition.
    pub partition: TopicPartition,
    /// The next offset to process; `None`: never committed, or expired.
    pub offset: Option<i64>,
    /// The metadata committed with it, as it was.
    pub metadata: String,
}

/// The member's place in the group's present generation: what a transaction needs to commit offsets. Cloning shares it.
#[derive(Clone)]
pub struct GroupMetadata(Arc<ConsumerGroupMetadata>);

impl GroupMetadata {
    /// Weir's form.
    pub(super) fn new(inner: ConsumerGroupMetadata) -> Self {
        Self(Arc::new(inner))
    }

    /// rdkafka's form.
    pub(super) fn inner(&self) -> &ConsumerGroupMetadata {
        &self.0
    }
}

/// The group member. The listener is let go by [`Self::leave`]: until then the two may hold each other.
pub struct SourceConsumer {
    /// rdkafka's consumer.
    client: Arc<Client>,
    /// A subscribed topic, to ask a broker about when the connection was lost.
    probe_topic: Mutex<Option<String>>,
}

impl SourceConsumer {
    /// A member of the group `app.id`; does not connect before it subscribes. With an id it is a static member: a new life under
    /// the same id gets the partitions that the last one had, at once.
    pub fn new(
        settings: &ClientSettings,
        group_instance_id: Option<&str>,
        listener: Arc<dyn RebalanceListener>,
    ) -> Result<Arc<Self>, Error> {
        let state = ConsumerState::new("source", Some(listener));
        let client = client::consumer(&settings.source_consumer(group_instance_id), state)?;
        Ok(Arc::new(Self { client: Arc::new(client), probe_topic: Mutex::new(None) }))
    }

    /// Joins the group, once it is polled.
    pub fn subscribe(&self, topics: &[&str]) -> Result<(), Error> {
        *locked(&self.probe_topic) = topics.first().map(|topic| (*topic).to_owned());
        self.client.subscribe(topics).map_err(|error| Error::request(format!("subscribe: {error}"), &error))
    }

    /// Serves rebalances and errors; returns early when it has served something. Errors that librdkafka goes on trying to
    /// overcome are remembered in [`Self::connection_error`]; the others are returned.
    pub fn poll(&self, timeout: Duration) -> Result<(), Error> {
        let topic = locked(&self.probe_topic).clone();
        client::serve(&self.client, topic.as_deref(), timeout)
    }

    /// Gives the partition a queue of its own; call it before the partition is assigned.
    pub fn split(self: &Arc<Self>, partition: &TopicPartition, waker: Waker) -> Result<PartitionQueue, Error> {
        PartitionQueue::split(Arc::clone(&self.client), partition, waker)
    }

    /// What the group has committed for each partition, in order. Waits for transactions that are about to commit offsets.
    pub fn committed(&self, partitions: &[TopicPartition], timeout: Duration) -> Result<Vec<Committed>, Error> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let what = || "committed offsets of the group".to_owned();
        let answer = self.client.committed_offsets(client::names(partitions), timeout);
        let answer = answer.map_err(|error| Error::request(what(), &error))?;
        let state = self.client.context();
        state.connection.answered(state.role(), false);
        partitions.iter().map(|partition| committed(&answer, partition)).collect()
    }

    /// Goes back (or on) to these offsets (absolute), in partitions that are assigned. What was fetched before is not delivered
    /// any more; for that, call it from the thread that polls their queues. Returns those that could not be set, each with why: one
    /// whose offset was out of range is not fetched any more, and refuses.
    pub fn seek(
        &self,
        partitions: &[(TopicPartition, i64)],
        timeout: Duration,
    ) -> Result<Vec<(TopicPartition, Error)>, Error> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let sought = self.client.seek_partitions(client::offsets(partitions)?, timeout);
        let sought = sought.map_err(|error| Error::request(format!("seek: {error}"), &error))?;
        let mut refused = Vec::new();
        for (partition, _) in partitions {
            let element = sought.find_partition(&partition.topic, partition.partition);
            match element.map_or(Ok(()), |element| element.error()) {
                Ok(()) => self.client.context().tell_seek(partition),
                Err(error) => {
                    refused.push((partition.clone(), Error::request(format!("seek in {partition}"), &error)));
                }
            }
        }
        Ok(refused)
    }

    /// The member's place in the group, as of the present assignment. When nothing is assigned, an error that says that the
    /// member is stale: there is nothing it may commit.
    pub fn group_metadata(&self) -> Result<GroupMetadata, Error> {
        self.client.context().group().ok_or_else(|| Error::Consumer {
            client: "source",
            code: Code::UnknownMemberId,
            reason: "it is no member of the group now".to_owned(),
            fatal: false,
        })
    }

    /// Who this member is to the group now; `None` while it is no member.
    pub fn member(&self) -> Option<GroupMember> {
        GroupMember::of(&self.client)
    }

    /// Unsubscribes, waits until the revocation has been served, and leaves the group: others get the partitions at once, also
    /// those of a static member. The listener is let go.
    pub fn leave(&self, timeout: Duration) -> Result<(), Error> {
        let start = Instant::now();
        let state = self.client.context();
        self.client.unsubscribe();
        self.poll_until("leaving the group", start, timeout, || !state.is_assigned())?;
        state.forget_listener();
        // A static member that is closed before it has asked to leave stays.
        self.poll_until("leaving the group", start, timeout, || native::has_left(&self.client))?;
        self.close(start, timeout)
    }

    /// Gives all partitions back and goes without leaving the group: a static member's partitions wait for it until its session
    /// ends. The listener has its say as in a revocation, and is let go.
    pub fn stay(&self, timeout: Duration) -> Result<(), Error> {
        let start = Instant::now();
        self.give_up(false);
        self.close(start, timeout)
    }

    /// Gives all partitions up as lost, after an error that ended the membership. The listener is told, and let go.
    pub fn abandon(&self) {
        self.give_up(true);
    }

    /// Takes everything away, as the group would.
    fn give_up(&self, lost: bool) {
        let state = self.client.context();
        if state.is_assigned() {
            // What is read, which is less than the group's assignment; nobody needs the rest.
            let partitions = self.client.assignment().map(|list| client::partitions(&list)).unwrap_or_default();
            state.revoke(&self.client, partitions, lost);
        }
        state.forget_listener();
    }

    /// Ends the client; waits for its request to leave, if there is one.
    fn close(&self, start: Instant, timeout: Duration) -> Result<(), Error> {
        self.client.close_queue().map_err(|error| Error::request("leaving the group", &error))?;
        self.poll_until("leaving the group", start, timeout, || self.client.closed())
    }

    /// Polls until `done`.
    fn poll_until(&self, what: &str, start: Instant, timeout: Duration, done: impl Fn() -> bool) -> Result<(), Error> {
        while !done() {
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Err(Error::Timeout { what: what.to_owned(), after: timeout });
            }
            self.poll(left.min(LEAVE_STEP))?;
        }
        Ok(())
    }

    /// Ends what is left of this static member's last life: the group keeps the partitions that it had, and a new life gets
    /// these and no others, whatever it subscribes to. Needed when the subscription has changed since.
    pub fn end_last_life(
        settings: &ClientSettings,
        group_instance_id: &str,
        topics: &[&str],
        timeout: Duration,
    ) -> Result<(), Error> {
        let start = Instant::now();
        let state = ConsumerState::new("source", None);
        let client = Arc::new(client::consumer(&settings.source_consumer(Some(group_instance_id)), state)?);
        let member = Self { client, probe_topic: Mutex::new(None) };
        member.subscribe(topics)?;
        member.poll_until("joining the group", start, timeout, || member.client.context().is_assigned())?;
        member.leave(timeout.saturating_sub(start.elapsed()))
    }

    /// Why the broker cannot be reached now, or which topic is missing; `None` once it answers again.
    pub fn connection_error(&self) -> Option<String> {
        self.client.context().connection.error()
    }
}

/// One partition of the group's answer.
fn committed(answer: &TopicPartitionList, partition: &TopicPartition) -> Result<Committed, Error> {
    let element = answer.find_partition(&partition.topic, partition.partition);
    let Some(element) = element else {
        return Ok(Committed { partition: partition.clone(), offset: None, metadata: String::new() });
    };
    if let Err(error) = element.error() {
        return Err(match error.rdkafka_error_code() {
            Some(code) if is_missing(code) => Error::Missing { name: partition.to_string() },
            _ => Error::request(format!("committed offset of {partition}"), &error),
        });
    }
    let offset = match element.offset() {
        Offset::Offset(offset) => Some(offset),
        _ => None,
    };
    Ok(Committed { partition: partition.clone(), offset, metadata: element.metadata().to_owned() })
}
