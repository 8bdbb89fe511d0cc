//! The Kafka clients on a real broker: what the engine relies on, each claim on its own.

mod admin;
mod group;
mod outage;
mod reading;
mod transactions;

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use weir::kafka::{ClientSettings, LogEnds, PartitionQueue, RebalanceListener, SourceConsumer, Waker};
use weir::model::{Record, TopicPartition};
use weir_tests::Broker;

/// How long a condition is awaited.
const PATIENCE: Duration = Duration::from_secs(60);

/// The broker that these tests share; it ends with the process.
fn bootstrap() -> Result<String> {
    static BROKER: OnceLock<Result<Broker, String>> = OnceLock::new();
    let broker = BROKER.get_or_init(|| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kafka-clients");
        if dir.exists() {
            std::fs::remove_dir_all(&dir).map_err(|error| error.to_string())?;
        }
        Broker::start(&dir).map_err(|error| format!("{error:#}"))
    });
    match broker {
        Ok(broker) => Ok(broker.bootstrap_servers()),
        Err(error) => bail!("{error}"),
    }
}

/// Settings of application `app` on the broker.
fn settings(app: &str, bootstrap: &str) -> ClientSettings {
    ClientSettings::new(app, BTreeMap::from([("bootstrap.servers".to_owned(), bootstrap.to_owned())]))
}

/// The partition's log range, `(begin, end)`.
fn range(bootstrap: &str, topic: &str, partition: i32) -> Result<(i64, i64)> {
    let range = LogEnds::new(&settings("ends", bootstrap))?.of(&TopicPartition::new(topic, partition), PATIENCE)?;
    Ok((range.begin, range.end))
}

/// A waker for this thread.
fn unpark_me() -> Waker {
    let me: Thread = thread::current();
    Arc::new(move || me.unpark())
}

/// Waits until `done`, calling it again whenever this thread is woken, and every few milliseconds.
fn wait_until(what: &str, mut done: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !done()? {
        if start.elapsed() > PATIENCE {
            bail!("waited {PATIENCE:?} for {what}");
        }
        thread::park_timeout(Duration::from_millis(20));
    }
    Ok(())
}

/// What a queue has brought.
#[derive(Default)]
struct Read {
    /// The records.
    records: VecDeque<Record>,
    /// The end that the fetcher has reached, if nothing came after it.
    end: Option<i64>,
}

impl Read {
    /// Takes what is there.
    fn take(&mut self, queue: &mut PartitionQueue) -> Result<usize> {
        let polled = queue.poll(500, 1 << 20, &mut self.records)?;
        if polled.records > 0 || polled.end.is_some() {
            self.end = polled.end;
        }
        Ok(polled.records)
    }

    /// Reads on until the end of the partition is `end`.
    fn until(&mut self, queue: &mut PartitionQueue, end: i64) -> Result<()> {
        let what = format!("end {end} of {}", queue.partition());
        wait_until(&what, || {
            while self.take(queue)? > 0 {}
            Ok(self.end == Some(end))
        })
    }

    /// Offsets of the records.
    fn offsets(&self) -> Vec<i64> {
        self.records.iter().map(|record| record.offset).collect()
    }

    /// Values of the records as text; `-` for null.
    fn values(&self) -> Vec<String> {
        let text = |record: &Record| {
            record.value.as_ref().map_or_else(|| "-".to_owned(), |value| String::from_utf8_lossy(value).into_owned())
        };
        self.records.iter().map(text).collect()
    }
}

/// What a member's listener has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Event {
    /// An assignment of so many partitions.
    Assigned(usize),
    /// A revocation of so many partitions; whether they were lost.
    Revoked(usize, bool),
}

/// A member's state, shared with its listener.
#[derive(Default)]
struct Member {
    /// What happened, in order.
    events: Vec<Event>,
    /// The queues of the partitions that are assigned now.
    queues: BTreeMap<TopicPartition, PartitionQueue>,
    /// The consumer, once there is one.
    consumer: Option<Arc<SourceConsumer>>,
}

/// Reads every partition that it is assigned from the committed offset, 0 without one.
struct Follow {
    /// The member.
    member: Arc<Mutex<Member>>,
    /// Whose thread to wake.
    waker: Waker,
}

impl RebalanceListener for Follow {
    fn assigned(&self, partitions: Vec<TopicPartition>) -> Vec<(TopicPartition, i64)> {
        let mut member = locked(&self.member);
        member.events.push(Event::Assigned(partitions.len()));
        let Some(consumer) = member.consumer.clone() else { return Vec::new() };
        // As in the engine: other threads do the work, while this one waits for them.
        let (offsets, queues) = thread::scope(|scope| {
            let committed = scope.spawn(|| consumer.committed(&partitions, PATIENCE));
            let queues = scope.spawn(|| {
                let split =
                    |p: &TopicPartition| consumer.split(p, Arc::clone(&self.waker)).map(|queue| (p.clone(), queue));
                partitions.iter().map(split).collect::<Result<Vec<_>, _>>()
            });
            (committed.join(), queues.join())
        });
        let (Ok(Ok(offsets)), Ok(Ok(queues))) = (offsets, queues) else { return Vec::new() };
        member.queues.extend(queues);
        offsets.into_iter().map(|committed| (committed.partition, committed.offset.unwrap_or(0))).collect()
    }

    fn revoked(&self, partitions: Vec<TopicPartition>, lost: bool) {
        let mut member = locked(&self.member);
        member.events.push(Event::Revoked(partitions.len(), lost));
        member.queues.clear();
    }
}

/// A member of the group `app`, subscribed.
fn join(
    app: &str,
    bootstrap: &str,
    instance: Option<&str>,
    topics: &[&str],
) -> Result<(Arc<SourceConsumer>, Arc<Mutex<Member>>)> {
    join_with(&settings(app, bootstrap), instance, topics)
}

/// The same with settings of its own.
fn join_with(
    settings: &ClientSettings,
    instance: Option<&str>,
    topics: &[&str],
) -> Result<(Arc<SourceConsumer>, Arc<Mutex<Member>>)> {
    let member = Arc::new(Mutex::new(Member::default()));
    let listener = Arc::new(Follow { member: Arc::clone(&member), waker: unpark_me() });
    let consumer = SourceConsumer::new(settings, instance, listener)?;
    locked(&member).consumer = Some(Arc::clone(&consumer));
    consumer.subscribe(topics)?;
    Ok((consumer, member))
}

/// The lock, whatever happened under it.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
