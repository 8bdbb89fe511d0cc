//! The engine's edge in a simulation: what it asks for becomes effects on the world.

mod folder;
mod outputs;
mod reading;
mod transactions;

use bytes::Bytes;

use super::logic::OUT;
use super::wire::Wire;
use crate::kafka::Error;
use crate::model::TopicPartition;
use crate::runtime::edge::{Outputs, Producers, Transactions};

pub(super) use folder::SimulatedFolder;
pub(super) use reading::{SimulatedLogRanges, SimulatedReader, SimulatedSource};

/// Makes producers.
pub(super) struct SimulatedProducers(pub(super) Wire);

impl Producers for SimulatedProducers {
    fn transactions(&self, transactional_id: &str) -> Result<Box<dyn Transactions>, Error> {
        Ok(Box::new(transactions::Producer::new(self.0.clone(), transactional_id)))
    }

    fn outputs(&self) -> Result<Box<dyn Outputs>, Error> {
        Ok(Box::new(outputs::Producer::new(self.0.clone())))
    }
}

/// The partition of a key: keys say it, as in `1x`.
pub(super) fn partition_of(key: Option<&Bytes>) -> i32 {
    key.and_then(|key| key.first()).map_or(0, |digit| i32::from(digit - b'0'))
}

/// The partition of an output.
fn output(topic: &str, partition: Option<i32>, key: Option<&Bytes>) -> TopicPartition {
    debug_assert!(partition.is_some() || topic == OUT);
    TopicPartition::new(topic, partition.unwrap_or_else(|| partition_of(key)))
}

/// Something did not come to its end in time.
fn timeout(what: &str) -> Error {
    Error::Timeout { what: what.to_owned(), after: std::time::Duration::from_secs(1) }
}
