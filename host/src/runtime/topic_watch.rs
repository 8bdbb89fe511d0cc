//! Looks from time to time whether the topics are still those that the instance started with.
//!
//! On an error of its own: tries again at the next round, since whoever reads the topics tells what is wrong with the broker. On stop:
//! ends with the handle, after the question that is under way.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

use crate::kafka::TopicAdmin;

use super::Error;
use super::instance::Shared;
use super::topics::Topics;

/// How often it looks.
const INTERVAL: Duration = Duration::from_secs(5);
/// How long one question may take.
const QUESTION: Duration = Duration::from_secs(5);

/// The watch's handle. Dropping it ends the thread.
pub(super) struct TopicWatch {
    /// Closed to end the thread.
    alive: Option<Sender<()>>,
    /// The thread.
    thread: Option<JoinHandle<()>>,
}

impl TopicWatch {
    /// Starts the thread; what it finds changed ends the instance.
    pub(super) fn start(admin: TopicAdmin, topics: Topics, shared: Arc<Shared>) -> Result<Self, Error> {
        let (alive, ended) = crossbeam_channel::bounded(0);
        let name = "topic-watch".to_owned();
        let thread = std::thread::Builder::new()
            .name(name.clone())
            .spawn(move || run(&admin, &topics, &shared, &ended))
            .map_err(|source| Error::Thread { name, source })?;
        Ok(Self { alive: Some(alive), thread: Some(thread) })
    }
}

impl Drop for TopicWatch {
    fn drop(&mut self) {
        self.alive = None;
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

/// Looks until something has changed, or the handle is gone.
fn run(admin: &TopicAdmin, topics: &Topics, shared: &Shared, ended: &Receiver<()>) {
    let names: Vec<&str> = topics.names().collect();
    while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        match admin.describe(&names, QUESTION).map(|now| topics.check(&now)) {
            Ok(Ok(())) => {}
            Ok(Err(changed)) => {
                shared.fail(changed);
                return;
            }
            Err(error) => tracing::debug!("cannot look at the topics: {}", super::chain(&error)),
        }
    }
}
