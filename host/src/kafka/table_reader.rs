//! Reads tables and changelogs: committed records, from explicit offsets, outside any group.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError;

use super::client::{self, Client, ConsumerState};
use super::{ClientSettings, Error, PartitionQueue, Waker};
use crate::model::TopicPartition;

/// A consumer whose partitions come and go one by one.
pub struct TableReader {
    /// rdkafka's consumer.
    client: Arc<Client>,
}

impl TableReader {
    /// A reader of nothing yet.
    pub fn new(settings: &ClientSettings) -> Result<Arc<Self>, Error> {
        let client = client::consumer(&settings.table_reader(), ConsumerState::new("tables", None))?;
        Ok(Arc::new(Self { client: Arc::new(client) }))
    }

    /// Connects, and asks where `topics` are: about what librdkafka 2.12 has not heard of when it is to be read, it asks up to a
    /// second later. Whoever reads finds out what is wrong with a topic.
    pub fn prepare(&self, topics: &[&str], timeout: Duration) {
        for topic in topics {
            if let Err(error) = self.client.fetch_metadata(Some(topic), timeout) {
                tracing::debug!(target: "weir::kafka", topic, %error, "cannot ask where the topic is");
                return;
            }
        }
    }

    /// Starts reading each partition at its offset (absolute), in a queue of its own; returns them in order. None of them may
    /// be open.
    pub fn open(
        self: &Arc<Self>,
        partitions: &[(TopicPartition, i64)],
        waker: &Waker,
    ) -> Result<Vec<PartitionQueue>, Error> {
        let split = |(partition, _): &(TopicPartition, i64)| {
            PartitionQueue::split(Arc::clone(&self.client), partition, Arc::clone(waker))
        };
        let queues = partitions.iter().map(split).collect::<Result<Vec<_>, _>>()?;
        let list = client::offsets(partitions)?;
        self.client.incremental_assign(&list).map_err(|error| assignment("open", &error))?;
        Ok(queues)
    }

    /// Stops reading the partitions. Drop their queues: they bring nothing more.
    pub fn close(&self, partitions: &[TopicPartition]) -> Result<(), Error> {
        if partitions.is_empty() {
            return Ok(());
        }
        let list = client::names(partitions);
        self.client.incremental_unassign(&list).map_err(|error| assignment("close", &error))
    }

    /// Serves the reader's main queue; call it regularly, from any thread. Returns errors that it does not overcome by itself.
    pub fn poll(&self, timeout: Duration) -> Result<(), Error> {
        client::serve(&self.client, None, timeout)
    }
}

/// An assignment that librdkafka refuses.
fn assignment(what: &str, error: &KafkaError) -> Error {
    Error::request(format!("{what} partitions: {error}"), error)
}
