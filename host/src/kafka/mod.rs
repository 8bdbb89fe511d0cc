//! Everything that talks to Kafka; the only home of rdkafka.
//!
//! What the modules above get: partitions as queues of their own ([`PartitionQueue`]) whose end is known, a group member that
//! assigns only what its listener says ([`SourceConsumer`]), a reader outside any group ([`TableReader`]), producers whose
//! errors name topic and cause, and log ends that are the broker's, not the client's.
//!
//! Rules that hold throughout: no partition is ever read before it has a queue of its own, nothing is paused, `position()` is
//! never used (librdkafka 2.12.1 moves it over end-of-partition events), start offsets are always explicit and absolute, and an
//! offset outside the log is an error, never a reset.

mod client;
mod embedded_broker;
mod error;
mod group_member;
mod leader_hints;
mod log_ends;
mod native;
mod outbox;
mod output_producer;
mod partition_queue;
mod partitioner;
mod settings;
mod source_consumer;
mod table_reader;
mod topic_admin;
mod topic_log;
mod transactional_producer;

#[cfg(test)]
mod tests;

pub use embedded_broker::EmbeddedBroker;
pub use error::Error;
pub use group_member::GroupMember;
pub use log_ends::{LogEnds, LogRange};
pub use native::TopicDescription;
pub use output_producer::OutputProducer;
pub use partition_queue::{PartitionQueue, Polled, Waker};
pub use partitioner::{murmur2, partition_for_key};
pub use settings::{ClientSettings, QueueLimits};
pub use source_consumer::{Committed, GroupMetadata, RebalanceListener, SourceConsumer};
pub use table_reader::TableReader;
pub use topic_admin::{NewTopic, TopicAdmin};
pub use topic_log::TopicLog;
pub use transactional_producer::TransactionalProducer;
