//! What can go wrong between Weir and Kafka. Callers branch on the methods, never on the text.

use std::time::Duration;

use rdkafka::error::{KafkaError, RDKafkaError, RDKafkaErrorCode as Code};

use crate::model::TopicPartition;

/// An error of a Kafka client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// librdkafka refuses a setting.
    #[error("Kafka setting \"{key}\": {reason}")]
    Setting {
        /// librdkafka's name of it.
        key: String,
        /// Why it is refused.
        reason: String,
    },

    /// A client could not be made.
    #[error("cannot make the Kafka client '{client}': {reason}")]
    Client {
        /// What the client is for.
        client: &'static str,
        /// librdkafka's words.
        reason: String,
    },

    /// A topic or partition does not exist.
    #[error("{name} does not exist on the broker")]
    Missing {
        /// The topic, or partition as `topic-3`.
        name: String,
    },

    /// A partition was to be read from an offset that its log does not have.
    #[error("{partition}: offset {offset} is not in the log: {reason}")]
    OffsetOutOfRange {
        /// The partition.
        partition: TopicPartition,
        /// The offset asked for.
        offset: i64,
        /// librdkafka's words.
        reason: String,
    },

    /// A partition cannot be read on.
    #[error("{partition} cannot be read at offset {offset}: {reason}")]
    Partition {
        /// The partition.
        partition: TopicPartition,
        /// Where the reader stood; negative where it is not known.
        offset: i64,
        /// Kafka's code.
        code: Code,
        /// librdkafka's words.
        reason: String,
    },

    /// A record came outside its partition's own queue: going on would lose it.
    #[error("{partition}: the record at offset {offset} came outside the partition's own queue")]
    Stray {
        /// The partition.
        partition: TopicPartition,
        /// The record's offset.
        offset: i64,
    },

    /// The consumer reports an error that it does not repair by itself.
    #[error("consumer '{client}': {reason}")]
    Consumer {
        /// What the consumer is for.
        client: &'static str,
        /// Kafka's code.
        code: Code,
        /// librdkafka's words.
        reason: String,
        /// Whether the client is unusable from now on.
        fatal: bool,
    },

    /// A request failed.
    #[error("{what}: {code}")]
    Request {
        /// What was asked for.
        what: String,
        /// Kafka's code.
        code: Code,
    },

    /// Something did not come to its end in time.
    #[error("{what}: not done within {after:?}")]
    Timeout {
        /// What it was.
        what: String,
        /// The time it had.
        after: Duration,
    },

    /// A record is larger than the producer or the topic allows.
    #[error("a record of {size} bytes for topic '{topic}' is larger than {setting} allows{}", Limit(*.limit))]
    TooLarge {
        /// The topic it was for.
        topic: String,
        /// Bytes of key, value and headers.
        size: usize,
        /// The limit, where it is ours and so known.
        limit: Option<usize>,
        /// The setting to raise.
        setting: &'static str,
    },

    /// A record did not reach its topic.
    #[error("a record for {partition} was not delivered: {code}")]
    Delivery {
        /// Where it was to go; partition -1: none was chosen yet.
        partition: TopicPartition,
        /// Kafka's code.
        code: Code,
    },

    /// The client that sends is unusable.
    #[error("producer '{producer}' is unusable: {reason}")]
    Producer {
        /// The transactional id, or what the producer is for.
        producer: String,
        /// Kafka's code.
        code: Code,
        /// librdkafka's words.
        reason: String,
    },

    /// A step of a transaction failed; unless it is fatal or retriable, the transaction must be aborted.
    #[error("transaction of '{transactional_id}': {step} failed: {reason}")]
    Transaction {
        /// The transactional id.
        transactional_id: String,
        /// Which step.
        step: &'static str,
        /// Kafka's error, for its flags.
        error: RDKafkaError,
        /// librdkafka's words.
        reason: String,
    },

    /// Nobody knows whether the transaction was committed: ask the group's offsets, with a new producer of the same id.
    #[error("transaction of '{transactional_id}': whether it was committed is unknown: {reason}")]
    UnknownOutcome {
        /// The transactional id.
        transactional_id: String,
        /// Kafka's code.
        code: Code,
        /// librdkafka's words.
        reason: String,
        /// Whether the producer is unusable anyway.
        fatal: bool,
        /// Whether it is still under way: another call to commit waits for it.
        resumable: bool,
    },
}

/// The known limit, as the end of a sentence.
struct Limit(Option<usize>);

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.map_or(Ok(()), |limit| write!(f, " ({limit} bytes)"))
    }
}

impl Error {
    /// The client that reported it is of no further use, or going on would lose a record.
    pub fn is_fatal(&self) -> bool {
        match self {
            Self::Stray { .. } | Self::Producer { .. } => true,
            Self::Consumer { fatal, .. } | Self::UnknownOutcome { fatal, .. } => *fatal,
            Self::Transaction { error, .. } => error.is_fatal(),
            _ => false,
        }
    }

    /// The same call may succeed later.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Timeout { .. } => true,
            Self::Request { code, .. } | Self::Partition { code, .. } | Self::Consumer { code, fatal: false, .. } => {
                is_transient(*code)
            }
            Self::Transaction { error, .. } => error.is_retriable(),
            _ => false,
        }
    }

    /// It did not come to its end in time, and the very same call takes it up again.
    pub fn can_be_resumed(&self) -> bool {
        match self {
            Self::Timeout { .. } => true,
            Self::Transaction { error, .. } => error.is_retriable(),
            Self::UnknownOutcome { resumable, .. } => *resumable,
            _ => false,
        }
    }

    /// Another client has taken over our transactional id or group instance id.
    pub fn is_fenced(&self) -> bool {
        self.code().is_some_and(|code| {
            matches!(code, Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch | Code::FencedInstanceId)
        })
    }

    /// The group has gone on without this member: what it wanted to commit now belongs to others.
    pub fn is_stale_member(&self) -> bool {
        self.code().is_some_and(|code| {
            matches!(
                code,
                Code::IllegalGeneration | Code::UnknownMemberId | Code::FencedInstanceId | Code::RebalanceInProgress
            )
        })
    }

    /// Whether a commit took place is not known.
    pub fn unknown_outcome(&self) -> bool {
        matches!(self, Self::UnknownOutcome { .. })
    }

    /// Kafka's code, where there is one.
    fn code(&self) -> Option<Code> {
        match self {
            Self::Partition { code, .. }
            | Self::Consumer { code, .. }
            | Self::Request { code, .. }
            | Self::Delivery { code, .. }
            | Self::Producer { code, .. }
            | Self::UnknownOutcome { code, .. } => Some(*code),
            Self::Transaction { error, .. } => Some(error.code()),
            _ => None,
        }
    }

    /// A failed request, `what` for people.
    pub(super) fn request(what: impl Into<String>, error: &KafkaError) -> Self {
        let what = what.into();
        match error {
            KafkaError::ClientConfig(_, reason, key, _) => Self::Setting { key: key.clone(), reason: reason.clone() },
            other => Self::Request { what, code: other.rdkafka_error_code().unwrap_or(Code::Fail) },
        }
    }

    /// A client that could not be made.
    pub(super) fn client(client: &'static str, error: KafkaError) -> Self {
        match error {
            KafkaError::ClientConfig(_, reason, key, _) => Self::Setting { key, reason },
            KafkaError::ClientCreation(reason) => Self::Client { client, reason },
            other => Self::Client { client, reason: other.to_string() },
        }
    }
}

/// Errors as a simulation makes them.
#[cfg(test)]
impl Error {
    /// Another producer has taken over the transactional id.
    pub(crate) fn fenced(transactional_id: &str) -> Self {
        let (producer, reason) = (transactional_id.to_owned(), "fenced".to_owned());
        Self::Producer { producer, code: Code::ProducerFenced, reason }
    }

    /// The group has gone on without the member.
    pub(crate) fn stale_member() -> Self {
        Self::Request { what: "adding offsets".to_owned(), code: Code::IllegalGeneration }
    }

    /// A record was not delivered.
    pub(crate) fn delivery(partition: TopicPartition) -> Self {
        Self::Delivery { partition, code: Code::MessageTimedOut }
    }

    /// The answer to the end of a transaction is missing, or was that the producer is fenced.
    pub(crate) fn lost_end(transactional_id: &str, fenced: bool, resumable: bool) -> Self {
        let code = if fenced { Code::ProducerFenced } else { Code::OperationTimedOut };
        let (id, reason) = (transactional_id.to_owned(), code.to_string());
        Self::UnknownOutcome { transactional_id: id, code, reason, fatal: fenced, resumable }
    }
}

/// Errors that librdkafka repairs by itself, or that a later attempt may not meet.
pub(super) fn is_transient(code: Code) -> bool {
    is_connection(code)
        || matches!(
            code,
            Code::OperationTimedOut
                | Code::TimedOutQueue
                | Code::RequestTimedOut
                | Code::WaitingForCoordinator
                | Code::WaitCache
                | Code::Retry
                | Code::LeaderNotAvailable
                | Code::NotLeaderForPartition
                | Code::BrokerNotAvailable
                | Code::ReplicaNotAvailable
                | Code::NetworkException
                | Code::CoordinatorLoadInProgress
                | Code::CoordinatorNotAvailable
                | Code::NotCoordinator
                | Code::NotController
                | Code::RebalanceInProgress
                | Code::UnstableOffsetCommit
                | Code::KafkaStorageError
                | Code::FencedLeaderEpoch
                | Code::UnknownLeaderEpoch
                | Code::OffsetNotAvailable
                | Code::ConcurrentTransactions
                | Code::ThrottlingQuotaExceeded
                | Code::NotEnoughReplicas
                | Code::NotEnoughReplicasAfterAppend
        )
}

/// Errors that say that the broker cannot be reached.
pub(super) fn is_connection(code: Code) -> bool {
    matches!(
        code,
        Code::BrokerTransportFailure
            | Code::AllBrokersDown
            | Code::Resolve
            | Code::SSL
            | Code::Authentication
            | Code::BrokerDestroy
            | Code::DestroyBroker
            | Code::UnknownBroker
    )
}

/// Errors that say that a topic or partition is not there.
pub(super) fn is_missing(code: Code) -> bool {
    matches!(code, Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition | Code::UnknownTopicId)
}
