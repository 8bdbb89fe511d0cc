//! The edge of the engine: all that stream threads and assignments have effects on, or are told by, as traits.
//!
//! Behind it are Kafka's clients and RocksDB in an instance ([`live`]), and a log and stores in memory in a simulation. Calls carry
//! batches (or are one an output), so that a dynamic call costs nothing that shows.

mod live;

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::kafka::{Committed, Error, GroupMember, LogRange, Polled, Waker};
use crate::model::{
    Checkpoint, FunctionIndex, Generation, Logic, Record, StateRead, StateWrite, StoreIndex, TaskId, TopicPartition,
};
use crate::plan::StorePlan;
use crate::store::{self, StoreSpec};
use crate::view::Catalog;

pub(super) use live::{ProducerFactory, StateFolder};

/// Tells the time.
pub(super) type Clock = Box<dyn Fn() -> Instant + Send + Sync>;

/// Gets the answer to a question about a log.
pub(super) type Answer = Box<dyn FnOnce(Result<LogRange, String>) + Send>;

/// The group member that streams are read through, as far as tasks and assignments use it.
pub(super) trait Source: Send + Sync {
    /// Gives the partition a queue of its own; before it is assigned.
    fn split(&self, partition: &TopicPartition, waker: &Waker) -> Result<Box<dyn Queue>, Error>;

    /// What the group has committed for each partition, in order; an error as long as some of it is not certain.
    fn committed(&self, partitions: &[TopicPartition], timeout: Duration) -> Result<Vec<Committed>, Error>;

    /// Goes to these offsets; what was fetched before is not delivered any more.
    fn seek(
        &self,
        partitions: &[(TopicPartition, i64)],
        timeout: Duration,
    ) -> Result<Vec<(TopicPartition, Error)>, Error>;

    /// The member's place in the group, as of the present assignment.
    fn place(&self) -> Result<Place, Error>;

    /// Who this member is to others of the group, if there may be others.
    fn member(&self) -> Option<GroupMember> {
        None
    }
}

/// A member's place in a generation of its group. Only who gave it can read it.
#[derive(Clone)]
pub(super) struct Place(Arc<dyn Any + Send + Sync>);

impl Place {
    /// Carries `place`.
    pub(super) fn new(place: impl Any + Send + Sync) -> Self {
        Self(Arc::new(place))
    }

    /// What it carries, for who gave it.
    pub(super) fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

/// Reads tables and changelogs: committed records, from explicit offsets, outside any group.
pub(super) trait Reader: Send + Sync {
    /// Starts reading each partition at its offset, in a queue of its own; returns them in order.
    fn open(&self, partitions: &[(TopicPartition, i64)], waker: &Waker) -> Result<Vec<Box<dyn Queue>>, Error>;

    /// Stops reading the partitions.
    fn close(&self, partitions: &[TopicPartition]) -> Result<(), Error>;
}

/// One partition's fetched records.
pub(super) trait Queue: Send {
    /// Appends what is there now, without waiting: up to so many records and bytes, but at least one record.
    fn poll(&mut self, max_records: usize, max_bytes: usize, into: &mut VecDeque<Record>) -> Result<Polled, Error>;
}

/// Makes producers.
pub(super) trait Producers: Send + Sync {
    /// A producer of transactions; it does not connect yet.
    fn transactions(&self, transactional_id: &str) -> Result<Box<dyn Transactions>, Error>;

    /// A producer of outputs outside transactions.
    fn outputs(&self) -> Result<Box<dyn Outputs>, Error>;
}

/// One stream thread's transactions. The errors and what may be done after them are those of
/// [`crate::kafka::TransactionalProducer`].
pub(super) trait Transactions: Send {
    /// Fences earlier producers of the same id and ends what they left open.
    fn init(&self, timeout: Duration) -> Result<(), Error>;

    /// Opens a transaction.
    fn begin(&self) -> Result<(), Error>;

    /// Queues a record. `partition` `None`: by the key. `tag`: what its delivered offset counts for.
    fn send(&self, topic: &str, partition: Option<i32>, record: &Record, tag: Option<u32>) -> Result<(), Error>;

    /// Adds the group's offsets and their metadata to the transaction.
    fn send_offsets(
        &self,
        offsets: &[(TopicPartition, i64, String)],
        place: &Place,
        timeout: Duration,
    ) -> Result<(), Error>;

    /// Waits until all records are delivered.
    fn flush(&self, timeout: Duration) -> Result<(), Error>;

    /// Commits.
    fn commit(&self, timeout: Duration) -> Result<(), Error>;

    /// Highest delivered offset of each tag since the last call.
    fn take_delivered(&self) -> BTreeMap<u32, i64>;

    /// Serves delivery reports.
    fn poll(&self);
}

/// Outputs outside transactions.
pub(super) trait Outputs: Send {
    /// Queues a record; its partition is that of its key.
    fn send(&self, topic: &str, record: &Record) -> Result<(), Error>;

    /// Waits until the broker has all records; the first failure since the last flush is the error.
    fn flush(&self, timeout: Duration) -> Result<(), Error>;

    /// Whether records are on their way.
    fn has_unsent(&self) -> bool;

    /// Whether another one must be made.
    fn is_unusable(&self) -> bool;

    /// Serves delivery reports.
    fn poll(&self);
}

/// Tells where logs begin and end, without anyone waiting for it.
pub(super) trait LogRanges: Send + Sync {
    /// Asks for a log's range.
    fn ask(&self, partition: TopicPartition, answer: Answer);

    /// Watches exactly these partitions from now on.
    fn watch(&self, partitions: Vec<TopicPartition>);

    /// The watched partition's log end, as last asked.
    fn end(&self, partition: &TopicPartition) -> Option<i64>;
}

/// The instance's state folder.
pub(super) trait Folder: Send + Sync {
    /// The instance's id, which the folder keeps.
    fn instance_id(&self) -> &str;

    /// Records a transactional id, durably, before a producer uses it.
    fn record_transactional_id(&self, id: &str) -> Result<(), store::Error>;

    /// Where a task's stores are, for people.
    fn path(&self, task: TaskId) -> PathBuf;

    /// Opens a task's stores.
    fn open(&self, task: TaskId, specs: &[StoreSpec]) -> Result<Arc<dyn Stores>, store::Error>;
}

/// The stores of one task. The promises are those of [`crate::store::TaskStores`].
pub(super) trait Stores: StateRead + Send + Sync {
    /// The last checkpoint written.
    fn checkpoint(&self) -> Checkpoint;

    /// Applies `writes` and sets the checkpoint, all or nothing.
    fn commit(&self, writes: &[StateWrite], checkpoint: &Checkpoint) -> Result<(), store::Error>;

    /// Applies `writes` of a restore, which a crash may lose until [`Self::persist`].
    fn restore(&self, writes: &[StateWrite]) -> Result<(), store::Error>;

    /// Makes restored rows durable, then sets the checkpoint.
    fn persist(&self, checkpoint: &Checkpoint) -> Result<(), store::Error>;

    /// Drops all entries of a store, and the checkpoint's offsets of its topic.
    fn clear(&self, store: StoreIndex) -> Result<(), store::Error>;

    /// Why nothing can be written: there was no room on the disk. It stays so until [`Self::reopen`].
    fn lacks_room(&self) -> Option<String> {
        None
    }

    /// Whether there is room on the disk now.
    fn has_room(&self) -> bool {
        true
    }

    /// Opens them anew, as they were last written.
    fn reopen(&self) -> Result<(), store::Error> {
        Ok(())
    }

    /// Bytes that the rows of stores in memory take.
    fn memory_bytes(&self) -> u64 {
        0
    }

    /// Lets queries read one of them.
    fn show(self: Arc<Self>, catalog: &Catalog, store: &StorePlan, partition: i32, index: StoreIndex);
}

/// The active versions of all plugins.
pub(super) trait Plugins: Send + Sync {
    /// When they became active.
    fn generation(&self) -> Generation;

    /// Instances for one thread.
    fn logic(self: Arc<Self>) -> Box<dyn Logic + Send>;

    /// Version of the state type that `function` keeps; 0 unless it is an aggregator.
    fn state_version(&self, function: FunctionIndex) -> u32;
}
