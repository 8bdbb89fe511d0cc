//! Asks the broker where logs begin and end, so that no stream thread waits for an answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

use crate::kafka::LogEnds;
use crate::model::TopicPartition;

use super::Error;
use super::edge::{Answer, LogRanges};

/// How long one question may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How often the ends of watched partitions are asked, for the lag.
const LAG_INTERVAL: Duration = Duration::from_secs(2);
/// Questions that may wait.
const QUEUE: usize = 4096;

/// A question.
enum Question {
    /// Where does this log begin and end?
    Range(TopicPartition, Answer),
    /// End.
    Stop,
}

/// The prober's handle. Dropping it ends the thread.
pub(super) struct Prober {
    /// Where questions go.
    questions: Sender<Question>,
    /// Log ends of watched partitions, as of the last round. Held for single look-ups only.
    ends: Arc<Mutex<BTreeMap<TopicPartition, Option<i64>>>>,
    /// The thread.
    thread: Option<JoinHandle<()>>,
}

impl Prober {
    /// Starts the thread.
    pub(super) fn start(log_ends: LogEnds) -> Result<Self, Error> {
        let (questions, receiver) = crossbeam_channel::bounded(QUEUE);
        let ends = Arc::new(Mutex::new(BTreeMap::new()));
        let watched = Arc::clone(&ends);
        let thread = std::thread::Builder::new()
            .name("prober".to_owned())
            .spawn(move || run(&log_ends, &receiver, &watched))
            .map_err(|source| Error::Thread { name: "prober".to_owned(), source })?;
        Ok(Self { questions, ends, thread: Some(thread) })
    }
}

impl LogRanges for Prober {
    /// `answer` runs on the prober's thread.
    fn ask(&self, partition: TopicPartition, answer: Answer) {
        // The only way to fail is that the process ends.
        let _ended = self.questions.send(Question::Range(partition, answer));
    }

    fn watch(&self, partitions: Vec<TopicPartition>) {
        let Ok(mut ends) = self.ends.lock() else { return };
        let before = std::mem::take(&mut *ends);
        *ends = partitions
            .into_iter()
            .map(|partition| {
                let end = before.get(&partition).copied().flatten();
                (partition, end)
            })
            .collect();
    }

    fn end(&self, partition: &TopicPartition) -> Option<i64> {
        self.ends.lock().ok()?.get(partition).copied().flatten()
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        let _ended = self.questions.send(Question::Stop);
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

/// Answers questions; between them, asks for the ends of watched partitions.
fn run(log_ends: &LogEnds, questions: &Receiver<Question>, ends: &Mutex<BTreeMap<TopicPartition, Option<i64>>>) {
    let mut next_round = Instant::now() + LAG_INTERVAL;
    loop {
        match questions.recv_deadline(next_round) {
            Ok(Question::Range(partition, answer)) => {
                answer(log_ends.of(&partition, TIMEOUT).map_err(|error| error.to_string()));
            }
            Ok(Question::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let watched: Vec<TopicPartition> =
                    ends.lock().map(|ends| ends.keys().cloned().collect()).unwrap_or_default();
                for partition in watched {
                    if !questions.is_empty() {
                        break;
                    }
                    let Ok(range) = log_ends.of(&partition, TIMEOUT) else { break };
                    if let Ok(mut ends) = ends.lock()
                        && let Some(end) = ends.get_mut(&partition)
                    {
                        *end = Some(range.end);
                    }
                }
                next_round = Instant::now() + LAG_INTERVAL;
            }
        }
    }
}
