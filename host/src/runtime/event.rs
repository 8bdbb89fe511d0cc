//! What a stream thread is told. One closed set; nothing else reaches it.

use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, TrySendError};

use crate::kafka::{LogRange, Waker};
use crate::model::{TaskId, TopicPartition};
use crate::task::CommitMetadata;

use super::edge::{Place, Plugins, Stores};

/// Events that may wait for a thread; senders of more block.
const MAILBOX: usize = 1024;

/// Something for a stream thread to do.
pub(super) enum Event {
    /// Tasks are this thread's now. Answers what to assign.
    Open {
        /// The tasks.
        tasks: Vec<OpenTask>,
        /// The member's place in the group that gave them: their commits carry it and no later one, so that the group refuses
        /// them once it has gone on.
        group: Option<Place>,
        /// Gets what to assign.
        opened: Sender<Vec<Opened>>,
    },
    /// All tasks are taken away: commit (or, when lost, only close), then answer.
    Close {
        /// Others own the partitions already: nothing may be committed.
        lost: bool,
        /// Gets the stores of the tasks, once all are closed: for their return.
        done: Sender<Left>,
    },
    /// An answer of the prober.
    LogRange {
        /// Who asked.
        task: TaskId,
        /// About which log.
        partition: TopicPartition,
        /// When: an answer to an older question is none to the present one.
        asked: Instant,
        /// The answer.
        range: Result<LogRange, String>,
    },
    /// Plugins to go on with, from the next commit.
    Swap(Arc<dyn Plugins>),
    /// End the thread; tasks are closed already.
    Stop,
}

/// The stores of tasks that a thread has closed, still open for their return.
pub(super) type Left = Vec<(TaskId, Arc<dyn Stores>)>;

/// A task for a thread.
pub(super) struct OpenTask {
    /// Its id.
    pub(super) id: TaskId,
    /// Its stores, if they are still open since it was here last.
    pub(super) stores: Option<Arc<dyn Stores>>,
    /// Partitions that it needs and the group has not given.
    pub(super) missing: Vec<String>,
    /// Its stream partitions, by source.
    pub(super) streams: Vec<StreamStart>,
}

/// Where a stream partition starts.
#[derive(Clone, Debug)]
pub(super) struct StreamStart {
    /// Index of its source in the plan.
    pub(super) source: usize,
    /// The partition.
    pub(super) partition: TopicPartition,
    /// Committed offset, if there is one.
    pub(super) committed: Option<i64>,
    /// Where to start without one.
    pub(super) initial: i64,
    /// What the commit left beside it.
    pub(super) metadata: Option<CommitMetadata>,
}

/// A stream partition that has its queue now, and the offset to assign it at.
pub(super) type Opened = (TopicPartition, i64);

/// A thread's way to be reached: its mailbox, and the way to wake it.
#[derive(Clone)]
pub(super) struct Mailbox {
    /// Where events go.
    sender: Sender<Event>,
    /// Wakes the thread.
    pub(super) waker: Waker,
}

impl Mailbox {
    /// A mailbox of a thread that `waker` wakes, and its other end.
    pub(super) fn new(waker: Waker) -> (Self, Receiver<Event>) {
        let (sender, receiver) = crossbeam_channel::bounded(MAILBOX);
        (Self { sender, waker }, receiver)
    }

    /// Sends an event; waits while the mailbox is full. `false`: the thread has ended.
    pub(super) fn send(&self, event: Event) -> bool {
        let event = match self.sender.try_send(event) {
            Ok(()) => {
                (self.waker)();
                return true;
            }
            Err(TrySendError::Disconnected(_)) => return false,
            Err(TrySendError::Full(event)) => event,
        };
        (self.waker)();
        let sent = self.sender.send(event).is_ok();
        (self.waker)();
        sent
    }
}
