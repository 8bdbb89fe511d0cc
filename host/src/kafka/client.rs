//! What all clients share: librdkafka's log lines as ours, and whether the broker can be reached.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::Message;
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{Offset, TopicPartitionList};

use super::Error;
use super::error::{is_connection, is_missing, is_transient};
use super::source_consumer::{GroupMetadata, RebalanceListener};
use crate::model::TopicPartition;

/// A consumer with Weir's state.
pub(super) type Client = BaseConsumer<ConsumerState>;

/// How often a lost connection is tried while it is lost.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// How long such a try may take: it runs in the thread that polls.
const PROBE_TIMEOUT: Duration = Duration::from_millis(100);

/// What a client remembers of its connection. librdkafka reports losses but no recovery.
#[derive(Default)]
pub(super) struct Connection {
    /// Whether `trouble` is set, for a look without the lock.
    in_trouble: AtomicBool,
    /// The loss.
    trouble: Mutex<Option<Trouble>>,
}

/// A connection that is lost, or a topic that is gone.
struct Trouble {
    /// For people.
    reason: String,
    /// Whether a broker's answer ends it; a missing topic is ended by the next assignment only.
    ends_with_answer: bool,
    /// When a broker was last asked.
    probed: Instant,
}

impl Connection {
    /// Notes an error that librdkafka goes on trying to overcome.
    pub(super) fn failed(&self, client: &'static str, code: Code, reason: &str) {
        let mut trouble = locked(&self.trouble);
        // "All brokers are down" says less than the failure of one that comes before it.
        if code == Code::AllBrokersDown && trouble.is_some() {
            return;
        }
        if trouble.is_none() {
            tracing::warn!(target: "weir::kafka", client, "{reason}");
        }
        let ends_with_answer = !is_missing(code);
        *trouble = Some(Trouble { reason: reason.to_owned(), ends_with_answer, probed: Instant::now() });
        self.in_trouble.store(true, Ordering::Relaxed);
    }

    /// A broker has answered; after an `assignment`, missing topics are a matter of the past too.
    pub(super) fn answered(&self, client: &'static str, assignment: bool) {
        if !self.in_trouble.load(Ordering::Relaxed) {
            return;
        }
        let mut trouble = locked(&self.trouble);
        if trouble.as_ref().is_some_and(|t| t.ends_with_answer || assignment) {
            tracing::info!(target: "weir::kafka", client, "the broker answers again");
            *trouble = None;
            self.in_trouble.store(false, Ordering::Relaxed);
        }
    }

    /// What is wrong now.
    pub(super) fn error(&self) -> Option<String> {
        locked(&self.trouble).as_ref().map(|t| t.reason.clone())
    }

    /// Whether a broker should be asked again now.
    fn probe_is_due(&self) -> bool {
        if !self.in_trouble.load(Ordering::Relaxed) {
            return false;
        }
        let mut trouble = locked(&self.trouble);
        let due = trouble.as_mut().filter(|t| t.ends_with_answer && t.probed.elapsed() >= PROBE_EVERY);
        due.map(|t| t.probed = Instant::now()).is_some()
    }
}

/// State of a consumer, reached from librdkafka's events (all served by `poll`).
pub(super) struct ConsumerState {
    /// What the consumer is for.
    role: &'static str,
    /// Its connection.
    pub(super) connection: Connection,
    /// Who decides what is assigned; none outside a group, and after leaving it.
    listener: Mutex<Option<Arc<dyn RebalanceListener>>>,
    /// Whether the group's last word was an assignment (an empty one counts).
    assigned: AtomicBool,
    /// The member's place in the group as of the present assignment.
    group: Mutex<Option<GroupMetadata>>,
    /// For each partition that has a queue: whether it has been sought since its queue was polled.
    sought: Mutex<BTreeMap<TopicPartition, Arc<AtomicBool>>>,
    /// An assignment that failed, until `poll` returns it.
    failure: Mutex<Option<Error>>,
    /// The words of the error event that `poll` is about to return.
    reason: Mutex<String>,
}

impl ConsumerState {
    /// State of the consumer for `role`.
    pub(super) fn new(role: &'static str, listener: Option<Arc<dyn RebalanceListener>>) -> Self {
        Self {
            role,
            connection: Connection::default(),
            listener: Mutex::new(listener),
            assigned: AtomicBool::new(false),
            group: Mutex::new(None),
            sought: Mutex::default(),
            failure: Mutex::new(None),
            reason: Mutex::new(String::new()),
        }
    }

    /// What the consumer is for.
    pub(super) fn role(&self) -> &'static str {
        self.role
    }

    /// Whether the group's last word was an assignment.
    pub(super) fn is_assigned(&self) -> bool {
        self.assigned.load(Ordering::Acquire)
    }

    /// The member's place in the group as of the present assignment; none while nothing is assigned.
    ///
    /// librdkafka would tell the place at this moment. But a member that the group has just dropped has none, and to commit
    /// with none is what tools outside a group do: the broker lets them.
    pub(super) fn group(&self) -> Option<GroupMetadata> {
        locked(&self.group).clone()
    }

    /// Where the partition's queue looks whether it has been sought.
    pub(super) fn watch_seeks(&self, partition: &TopicPartition) -> Arc<AtomicBool> {
        let flag = Arc::new(AtomicBool::new(false));
        locked(&self.sought).insert(partition.clone(), Arc::clone(&flag));
        flag
    }

    /// Tells the partition's queue that it has been sought.
    pub(super) fn tell_seek(&self, partition: &TopicPartition) {
        if let Some(flag) = locked(&self.sought).get(partition) {
            flag.store(true, Ordering::Release);
        }
    }

    /// Lets go of the listener: rebalances are served without it from now on.
    pub(super) fn forget_listener(&self) {
        *locked(&self.listener) = None;
    }

    /// The listener; not locked while it runs, since it may take long.
    fn listener(&self) -> Option<Arc<dyn RebalanceListener>> {
        locked(&self.listener).clone()
    }

    /// Assigns what the listener says.
    fn assign(&self, consumer: &Client, partitions: Vec<TopicPartition>) {
        tracing::info!(target: "weir::kafka", count = partitions.len(), "the group assigns partitions");
        *locked(&self.group) = consumer.group_metadata().map(GroupMetadata::new);
        let wanted = self.listener().map(|listener| listener.assigned(partitions)).unwrap_or_default();
        let result = offsets(&wanted).and_then(|list| {
            consumer.assign(&list).map_err(|e| Error::Request { what: format!("assign: {e}"), code: Code::Fail })
        });
        if let Err(error) = result {
            *locked(&self.failure) = Some(error);
        }
        self.assigned.store(true, Ordering::Release);
        self.connection.answered(self.role, true);
    }

    /// Takes everything away, after the listener has had its say.
    pub(super) fn revoke(&self, consumer: &Client, partitions: Vec<TopicPartition>, lost: bool) {
        tracing::info!(target: "weir::kafka", count = partitions.len(), lost, "partitions are taken away");
        if let Some(listener) = self.listener() {
            listener.revoked(partitions, lost);
        }
        if let Err(error) = consumer.unassign() {
            let what = format!("unassign: {error}");
            *locked(&self.failure) = Some(Error::Request { what, code: Code::Fail });
        }
        *locked(&self.group) = None;
        self.assigned.store(false, Ordering::Release);
    }
}

impl ClientContext for ConsumerState {
    fn log(&self, level: RDKafkaLogLevel, fac: &str, message: &str) {
        log(self.role, level, fac, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        // `poll` returns the same event next, without the words.
        tracing::debug!(target: "weir::kafka", client = self.role, %error, reason);
        reason.clone_into(&mut locked(&self.reason));
    }

    fn stats_raw(&self, _: &[u8]) {}
}

impl ConsumerContext for ConsumerState {
    fn rebalance(&self, consumer: &Client, event: RDKafkaRespErr, list: &mut TopicPartitionList) {
        let partitions = partitions(list);
        if event == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            self.assign(consumer, partitions);
        } else {
            self.revoke(consumer, partitions, consumer.assignment_lost());
        }
    }
}

/// Makes a consumer.
pub(super) fn consumer(config: &rdkafka::ClientConfig, state: ConsumerState) -> Result<Client, Error> {
    let role = state.role;
    config.create_with_context(state).map_err(|error| Error::client(role, error))
}

/// Serves the consumer's own queue: rebalances, errors, log lines. Records must not come this way.
pub(super) fn serve(consumer: &Client, probe_topic: Option<&str>, timeout: Duration) -> Result<(), Error> {
    let state = consumer.context();
    let event = consumer.poll(timeout);
    if let Some(error) = locked(&state.failure).take() {
        return Err(error);
    }
    match event {
        None => {}
        Some(Ok(record)) => {
            let partition = TopicPartition::new(record.topic(), record.partition());
            return Err(Error::Stray { partition, offset: record.offset() });
        }
        Some(Err(error)) => judge(consumer, &error)?,
    }
    if let Some(topic) = probe_topic
        && state.connection.probe_is_due()
        && consumer.fetch_metadata(Some(topic), PROBE_TIMEOUT).is_ok()
    {
        state.connection.answered(state.role, false);
    }
    Ok(())
}

/// Decides what an error event means: to be remembered, told, or returned.
fn judge(consumer: &Client, error: &KafkaError) -> Result<(), Error> {
    let state = consumer.context();
    let client = state.role;
    if let Some((code, reason)) = consumer.client().fatal_error() {
        return Err(Error::Consumer { client, code, reason, fatal: true });
    }
    let code = error.rdkafka_error_code().unwrap_or(Code::Fail);
    let reason = std::mem::take(&mut *locked(&state.reason));
    if is_connection(code) || is_missing(code) {
        state.connection.failed(client, code, &reason);
    } else if is_transient(code) || code == Code::PollExceeded {
        tracing::warn!(target: "weir::kafka", client, "{reason}");
    } else {
        let reason = match code {
            Code::InconsistentGroupProtocol => format!(
                "{reason} (members of the group use another assignor: is another kind of application, such as Kafka Streams, \
                 running under the same id?)"
            ),
            _ => reason,
        };
        return Err(Error::Consumer { client, code, reason, fatal: false });
    }
    Ok(())
}

/// Partitions with absolute offsets, as librdkafka takes them.
pub(super) fn offsets(partitions: &[(TopicPartition, i64)]) -> Result<TopicPartitionList, Error> {
    let mut list = TopicPartitionList::with_capacity(partitions.len());
    for (partition, offset) in partitions {
        list.add_partition_offset(&partition.topic, partition.partition, Offset::Offset(*offset))
            .map_err(|error| Error::request(format!("start offset {offset} of {partition}"), &error))?;
    }
    Ok(list)
}

/// The partitions of a list.
pub(super) fn partitions(list: &TopicPartitionList) -> Vec<TopicPartition> {
    list.elements().iter().map(|element| TopicPartition::new(element.topic(), element.partition())).collect()
}

/// Partitions without offsets.
pub(super) fn names(partitions: &[TopicPartition]) -> TopicPartitionList {
    let mut list = TopicPartitionList::with_capacity(partitions.len());
    for partition in partitions {
        list.add_partition(&partition.topic, partition.partition);
    }
    list
}

/// A librdkafka log line. Its errors are mostly a broker that cannot be reached now, hence a warning at most.
pub(super) fn log(client: &'static str, level: RDKafkaLogLevel, fac: &str, message: &str) {
    // The user's properties go to all clients; librdkafka tells each which of them it has no use for.
    if fac == "CONFWARN" && message.contains("will be ignored") {
        return;
    }
    match level {
        RDKafkaLogLevel::Emerg
        | RDKafkaLogLevel::Alert
        | RDKafkaLogLevel::Critical
        | RDKafkaLogLevel::Error
        | RDKafkaLogLevel::Warning => {
            tracing::warn!(target: "weir::kafka", client, "{fac}: {message}");
        }
        RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
            tracing::info!(target: "weir::kafka", client, "{fac}: {message}");
        }
        RDKafkaLogLevel::Debug => tracing::debug!(target: "weir::kafka", client, "{fac}: {message}"),
    }
}

/// The lock, also after a panic under it: the values here are whole at any time.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
