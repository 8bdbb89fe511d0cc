//! The edge of a running instance: Kafka's clients, the state folder, plugins.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{Folder, Outputs, Place, Plugins, Producers, Queue, Reader, Source, Stores, Transactions};
use crate::kafka::{
    ClientSettings, Committed, Error, GroupMember, GroupMetadata, OutputProducer, PartitionQueue, Polled,
    SourceConsumer, TableReader, TransactionalProducer, Waker,
};
use crate::model::{
    Checkpoint, FunctionIndex, Generation, Logic, Record, StateWrite, StoreIndex, TaskId, TopicPartition,
};
use crate::plan::StorePlan;
use crate::plugin::PluginSet;
use crate::store::{self, Resources, StateDir, StoreSpec, TaskStores};
use crate::view::Catalog;

impl Source for Arc<SourceConsumer> {
    fn split(&self, partition: &TopicPartition, waker: &Waker) -> Result<Box<dyn Queue>, Error> {
        Ok(Box::new(SourceConsumer::split(self, partition, Arc::clone(waker))?))
    }

    fn committed(&self, partitions: &[TopicPartition], timeout: Duration) -> Result<Vec<Committed>, Error> {
        SourceConsumer::committed(self, partitions, timeout)
    }

    fn seek(
        &self,
        partitions: &[(TopicPartition, i64)],
        timeout: Duration,
    ) -> Result<Vec<(TopicPartition, Error)>, Error> {
        SourceConsumer::seek(self, partitions, timeout)
    }

    fn place(&self) -> Result<Place, Error> {
        self.group_metadata().map(Place::new)
    }

    fn member(&self) -> Option<GroupMember> {
        SourceConsumer::member(self)
    }
}

impl Reader for Arc<TableReader> {
    fn open(&self, partitions: &[(TopicPartition, i64)], waker: &Waker) -> Result<Vec<Box<dyn Queue>>, Error> {
        let queues = TableReader::open(self, partitions, waker)?;
        Ok(queues.into_iter().map(|queue| Box::new(queue) as Box<dyn Queue>).collect())
    }

    fn close(&self, partitions: &[TopicPartition]) -> Result<(), Error> {
        TableReader::close(self, partitions)
    }
}

impl Queue for PartitionQueue {
    fn poll(&mut self, max_records: usize, max_bytes: usize, into: &mut VecDeque<Record>) -> Result<Polled, Error> {
        Self::poll(self, max_records, max_bytes, into)
    }
}

/// Makes producers; those of transactions that the start has connected already come first.
pub(in crate::runtime) struct ProducerFactory {
    /// Settings of all producers.
    settings: ClientSettings,
    /// Connected, by transactional id: each for whoever asks first.
    connected: Mutex<BTreeMap<String, TransactionalProducer>>,
}

impl ProducerFactory {
    /// A factory with these producers ready.
    pub(in crate::runtime) fn new(
        settings: ClientSettings,
        connected: BTreeMap<String, TransactionalProducer>,
    ) -> Self {
        Self { settings, connected: Mutex::new(connected) }
    }
}

impl Producers for ProducerFactory {
    fn transactions(&self, transactional_id: &str) -> Result<Box<dyn Transactions>, Error> {
        let mut connected = self.connected.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Box::new(match connected.remove(transactional_id) {
            Some(producer) => producer,
            None => TransactionalProducer::new(&self.settings, transactional_id)?,
        }))
    }

    fn outputs(&self) -> Result<Box<dyn Outputs>, Error> {
        Ok(Box::new(OutputProducer::new(&self.settings)?))
    }
}

impl Transactions for TransactionalProducer {
    fn init(&self, timeout: Duration) -> Result<(), Error> {
        Self::init(self, timeout)
    }

    fn begin(&self) -> Result<(), Error> {
        Self::begin(self)
    }

    fn send(&self, topic: &str, partition: Option<i32>, record: &Record, tag: Option<u32>) -> Result<(), Error> {
        Self::send(self, topic, partition, record, tag)
    }

    fn send_offsets(
        &self,
        offsets: &[(TopicPartition, i64, String)],
        place: &Place,
        timeout: Duration,
    ) -> Result<(), Error> {
        let group: &GroupMetadata = place.get().ok_or_else(|| Error::Client {
            client: "transactions",
            reason: "the place in the group is another cluster's".to_owned(),
        })?;
        Self::send_offsets(self, offsets, group, timeout)
    }

    fn flush(&self, timeout: Duration) -> Result<(), Error> {
        Self::flush(self, timeout)
    }

    fn commit(&self, timeout: Duration) -> Result<(), Error> {
        Self::commit(self, timeout)
    }

    fn take_delivered(&self) -> BTreeMap<u32, i64> {
        Self::take_delivered(self)
    }

    fn poll(&self) {
        Self::poll(self);
    }
}

impl Outputs for OutputProducer {
    fn has_unsent(&self) -> bool {
        Self::has_unsent(self)
    }

    fn send(&self, topic: &str, record: &Record) -> Result<(), Error> {
        Self::send(self, topic, None, record)
    }

    fn flush(&self, timeout: Duration) -> Result<(), Error> {
        Self::flush(self, timeout)
    }

    fn is_unusable(&self) -> bool {
        Self::is_unusable(self)
    }

    fn poll(&self) {
        Self::poll(self);
    }
}

/// The state folder, and what its databases share.
pub(in crate::runtime) struct StateFolder {
    /// The folder.
    pub(in crate::runtime) dir: Arc<StateDir>,
    /// Memory of all stores.
    pub(in crate::runtime) resources: Resources,
}

impl Folder for StateFolder {
    fn instance_id(&self) -> &str {
        self.dir.instance_id()
    }

    fn record_transactional_id(&self, id: &str) -> Result<(), store::Error> {
        self.dir.record_transactional_id(id)
    }

    fn path(&self, task: TaskId) -> PathBuf {
        self.dir.task_dir(task)
    }

    fn open(&self, task: TaskId, specs: &[StoreSpec]) -> Result<Arc<dyn Stores>, store::Error> {
        Ok(Arc::new(TaskStores::open(&self.path(task), specs, &self.resources)?))
    }
}

impl Stores for TaskStores {
    fn checkpoint(&self) -> Checkpoint {
        Self::checkpoint(self)
    }

    fn commit(&self, writes: &[StateWrite], checkpoint: &Checkpoint) -> Result<(), store::Error> {
        Self::commit(self, writes, checkpoint)
    }

    fn restore(&self, writes: &[StateWrite]) -> Result<(), store::Error> {
        Self::restore(self, writes)
    }

    fn persist(&self, checkpoint: &Checkpoint) -> Result<(), store::Error> {
        Self::persist(self, checkpoint)
    }

    fn clear(&self, store: StoreIndex) -> Result<(), store::Error> {
        Self::clear(self, store)
    }

    fn lacks_room(&self) -> Option<String> {
        Self::lacks_room(self)
    }

    fn has_room(&self) -> bool {
        Self::has_room(self)
    }

    fn reopen(&self) -> Result<(), store::Error> {
        Self::reopen(self)
    }

    fn memory_bytes(&self) -> u64 {
        Self::memory_bytes(self)
    }

    fn show(self: Arc<Self>, catalog: &Catalog, store: &StorePlan, partition: i32, index: StoreIndex) {
        catalog.open(&store.name, store.origin.kind(), partition, self, index);
    }
}

impl Plugins for PluginSet {
    fn generation(&self) -> Generation {
        Self::generation(self)
    }

    fn logic(self: Arc<Self>) -> Box<dyn Logic + Send> {
        Box::new(Self::logic(&self))
    }

    fn state_version(&self, function: FunctionIndex) -> u32 {
        Self::state_version(self, function)
    }
}
