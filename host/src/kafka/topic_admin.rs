//! Topics: what is there, and creating ours.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rdkafka::admin::{self, AdminClient, AdminOptions, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

use super::error::{is_connection, is_missing, is_transient};
use super::{ClientSettings, Error, LogEnds, TopicDescription, native};
use crate::model::TopicPartition;

/// Pause between two looks at something that is about to be there.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A topic to create, with the broker's default replication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// How many partitions.
    pub partitions: i32,
    /// Topic settings.
    pub config: Vec<(String, String)>,
}

/// Looks at topics and creates them.
pub struct TopicAdmin {
    /// For metadata and log ends.
    ends: LogEnds,
    /// For admin clients, made when one is needed: rarely.
    settings: ClientSettings,
}

impl TopicAdmin {
    /// Does not connect yet.
    pub fn new(settings: &ClientSettings) -> Result<Self, Error> {
        Ok(Self { ends: LogEnds::new(settings)?, settings: settings.clone() })
    }

    /// Which broker could not be reached, and why; `None` once one answers.
    pub fn connection_error(&self) -> Option<String> {
        self.ends.serve();
        self.ends.client().context().connection.error()
    }

    /// Partition count of each topic in order, `None` where it does not exist. Never creates a topic.
    pub fn partition_counts(&self, topics: &[&str], timeout: Duration) -> Result<Vec<Option<i32>>, Error> {
        let deadline = Instant::now() + timeout;
        topics.iter().map(|topic| self.partition_count(topic, timeout, deadline)).collect()
    }

    /// The count of one topic; asks again while it is between leaders.
    fn partition_count(&self, topic: &str, timeout: Duration, deadline: Instant) -> Result<Option<i32>, Error> {
        let what = || format!("metadata of topic '{topic}'");
        loop {
            self.ends.serve();
            let left = deadline.saturating_duration_since(Instant::now());
            let answer = self.ends.client().fetch_metadata(Some(topic), left.max(Duration::from_millis(1)));
            let metadata = answer.map_err(|error| Error::request(what(), &error))?;
            let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else {
                return Ok(None);
            };
            match found.error().map(Code::from) {
                None => return Ok(i32::try_from(found.partitions().len()).ok()),
                Some(code) if is_missing(code) => return Ok(None),
                Some(code) if is_transient(code) => {}
                Some(code) => return Err(Error::Request { what: what(), code }),
            }
            if Instant::now() >= deadline {
                return Err(Error::Timeout { what: what(), after: timeout });
            }
            self.ends.pause(LOOK_EVERY);
        }
    }

    /// Partition count and id of each topic in order, `None` where it does not exist. Never creates a topic.
    pub fn describe(&self, topics: &[&str], timeout: Duration) -> Result<Vec<Option<TopicDescription>>, Error> {
        self.ends.serve();
        // While no broker can be reached, librdkafka 2.12 tries to connect for a pending admin request without any pause, and takes
        // a core for it; a question for metadata waits its turn.
        if let Some(topic) = topics.first() {
            self.partition_counts(&[*topic], timeout)?;
        }
        native::describe_topics(self.ends.client(), topics, timeout)
    }

    /// `cleanup.policy` of a topic; `None` where the broker does not say (the embedded one, or one that does not let us ask).
    pub fn cleanup_policy(&self, topic: &str, timeout: Duration) -> Result<Option<String>, Error> {
        let options = AdminOptions::new().request_timeout(Some(timeout));
        let client = self.client()?;
        let answer = wait(client.describe_configs(&[ResourceSpecifier::Topic(topic)], &options));
        let refused = |code: Code| {
            // The embedded broker does not answer at all.
            if is_connection(code) || is_missing(code) {
                return Err(Error::Request { what: format!("settings of topic '{topic}'"), code });
            }
            tracing::debug!(target: "weir::kafka", topic, %code, "the broker does not tell the topic's settings");
            Ok(None)
        };
        match answer.map(|results| results.into_iter().next()) {
            Ok(Some(Ok(resource))) => Ok(resource.get("cleanup.policy").and_then(|entry| entry.value.clone())),
            Ok(Some(Err(code))) => refused(code),
            Ok(None) => Ok(None),
            Err(error) => refused(admin_code(&error)),
        }
    }

    /// Creates the topics that are missing and waits until every partition of all of them has a leader. Whether an existing
    /// topic is as it should be is for the caller to check.
    pub fn create(&self, topics: &[NewTopic], timeout: Duration) -> Result<(), Error> {
        let start = Instant::now();
        let left = || timeout.saturating_sub(start.elapsed()).max(Duration::from_millis(1));
        let names: Vec<&str> = topics.iter().map(|topic| topic.name.as_str()).collect();
        let counts = self.partition_counts(&names, left())?;
        let missing: Vec<&NewTopic> =
            topics.iter().zip(&counts).filter(|(_, count)| count.is_none()).map(|(topic, _)| topic).collect();
        if !missing.is_empty() {
            self.request(&missing, left())?;
        }
        for (topic, count) in topics.iter().zip(counts) {
            for partition in 0..count.unwrap_or(topic.partitions) {
                self.wait_for_leader(&TopicPartition::new(topic.name.as_str(), partition), timeout, start)?;
            }
        }
        Ok(())
    }

    /// Asks the broker to create `topics`; another instance may be doing the same.
    fn request(&self, topics: &[&NewTopic], timeout: Duration) -> Result<(), Error> {
        let new: Vec<admin::NewTopic<'_>> = topics
            .iter()
            .map(|topic| {
                let new = admin::NewTopic::new(&topic.name, topic.partitions, TopicReplication::Fixed(-1));
                topic.config.iter().fold(new, |new, (key, value)| new.set(key, value))
            })
            .collect();
        let options = AdminOptions::new().request_timeout(Some(timeout)).operation_timeout(Some(timeout));
        let client = self.client()?;
        let results = wait(client.create_topics(&new, &options)).map_err(|error| Error::Request {
            what: format!("create topics {}", list(topics)),
            code: admin_code(&error),
        })?;
        for result in results {
            match result {
                Ok(topic) => tracing::info!(target: "weir::kafka", topic, "created the topic"),
                Err((_, Code::TopicAlreadyExists)) => {}
                Err((topic, code)) => {
                    return Err(Error::Request { what: format!("create topic '{topic}'"), code });
                }
            }
        }
        Ok(())
    }

    /// Waits until the broker answers for the partition's log.
    fn wait_for_leader(&self, partition: &TopicPartition, timeout: Duration, start: Instant) -> Result<(), Error> {
        loop {
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Err(Error::Timeout { what: format!("a leader for {partition}"), after: timeout });
            }
            match self.ends.of(partition, left) {
                Ok(_) => return Ok(()),
                Err(error) if error.is_retriable() || matches!(error, Error::Missing { .. }) => {
                    self.ends.pause(LOOK_EVERY);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// An admin client.
    fn client(&self) -> Result<AdminClient<DefaultClientContext>, Error> {
        self.settings.admin().create().map_err(|error| Error::client("admin", error))
    }
}

/// The names, for people.
fn list(topics: &[&NewTopic]) -> String {
    topics.iter().map(|topic| format!("'{}'", topic.name)).collect::<Vec<_>>().join(", ")
}

/// The code of an admin request that failed: the crate tells it only when it shows the error.
fn admin_code(error: &KafkaError) -> Code {
    match error {
        KafkaError::AdminOp(code) => *code,
        other => other.rdkafka_error_code().unwrap_or(Code::Fail),
    }
}

/// Waits for an answer in this thread. Admin requests have a time-out, so it comes.
fn wait<F: Future>(future: F) -> F::Output {
    /// Unparks the waiting thread.
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let mut future = pin!(future);
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
