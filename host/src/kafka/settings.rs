//! The settings of all clients: the user's, under what Weir owns.
//!
//! Where librdkafka's default does not suit Weir, Weir's is used unless the user sets the property (or an older name of it).

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;

use super::Error;

/// Weir's defaults for every client; each with the properties that, when the user sets them, leave no room for it.
const DEFAULTS: &[(&str, &str, &[&str])] = &[
    // A broker that comes back is found within a second, not ten.
    ("reconnect.backoff.max.ms", "1000", &["reconnect.backoff.ms"]),
    // Brokers close idle connections all the time: nothing to tell.
    ("log.connection.close", "false", &[]),
    // A topic that is deleted or gets partitions is noticed in seconds, not minutes.
    ("topic.metadata.refresh.interval.ms", "10000", &[]),
    ("topic.metadata.propagation.max.ms", "10000", &[]),
];

/// Weir's defaults for consumers.
const CONSUMER_DEFAULTS: &[(&str, &str, &[&str])] = &[
    // One fetch at a time is under way to a broker. While it waits there for new records of some partitions, another whose
    // queue has just been emptied waits too: the wait must be short.
    ("fetch.wait.max.ms", "20", &[]),
    // How soon a partition whose queue was full is fetched again.
    ("fetch.queue.backoff.ms", "2", &[]),
];

/// Weir's defaults for producers.
const PRODUCER_DEFAULTS: &[(&str, &str, &[&str])] = &[
    // A commit waits for it at most once; enough for full batches under load.
    ("linger.ms", "5", &["queue.buffering.max.ms"]),
];

/// Bytes that librdkafka keeps for each message in a queue, besides the message's own.
const MESSAGE_OVERHEAD: usize = 256;
/// A queue holds so many messages however small its share: fetching one by one would be slow.
const LEAST_MESSAGES: usize = 256;
/// Most messages in a queue (librdkafka's own default).
const MOST_MESSAGES: usize = 100_000;

/// What clients may hold in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// What a partition's queue may hold before fetching it pauses. One fetch of as many bytes may come on top, or one batch as its
    /// producer made it, if that is larger.
    pub partition: usize,
    /// What one answer to a fetch may hold, over all partitions: it is kept whole as long as one of its records is in a queue.
    pub answer: usize,
    /// What a producer's queue may hold before sending waits.
    pub producer: usize,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self { partition: 1 << 20, answer: 8 << 20, producer: 16 << 20 }
    }
}

/// Settings of all Kafka clients of an instance.
#[derive(Clone)]
pub struct ClientSettings {
    /// `app.id`: the group's id, and the start of client ids.
    app_id: String,
    /// librdkafka's properties as the user sets them.
    properties: BTreeMap<String, String>,
    /// What clients may hold.
    limits: QueueLimits,
}

impl ClientSettings {
    /// Settings of the application `app_id`, with librdkafka's `properties` (bootstrap.servers, security, …).
    pub fn new(app_id: &str, properties: BTreeMap<String, String>) -> Self {
        Self { app_id: app_id.to_owned(), properties, limits: QueueLimits::default() }
    }

    /// With these bounds of what clients may hold.
    pub fn with_queue_limits(mut self, limits: QueueLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Checks names and values with librdkafka, without connecting.
    pub fn check(&self) -> Result<(), Error> {
        let consumer = self.source_consumer(None).create_native_config();
        let producer = self.output_producer().create_native_config();
        consumer.and(producer).map(drop).map_err(|error| Error::client("check", error))
    }

    /// The group member: reads streams.
    pub(super) fn source_consumer(&self, group_instance_id: Option<&str>) -> ClientConfig {
        let mut config = self.reading_consumer("source");
        config.set("partition.assignment.strategy", "range");
        config.set("group.protocol", "classic");
        if let Some(id) = group_instance_id {
            config.set("group.instance.id", id);
        }
        config
    }

    /// Reads tables and changelogs. Never joins the group; librdkafka wants a group id for `assign` all the same.
    pub(super) fn table_reader(&self) -> ClientConfig {
        self.reading_consumer("tables")
    }

    /// Asks for log ends and metadata; reads nothing.
    pub(super) fn log_ends(&self) -> ClientConfig {
        let mut config = self.base("ends", CONSUMER_DEFAULTS);
        // ListOffsets answers with the last stable offset otherwise.
        config.set("isolation.level", "read_uncommitted");
        config.set("allow.auto.create.topics", "false");
        config
    }

    /// Creates topics.
    pub(super) fn admin(&self) -> ClientConfig {
        self.base("admin", &[])
    }

    /// Changelogs, offsets and, under exactly-once, outputs.
    pub(super) fn transactional_producer(&self, transactional_id: &str) -> ClientConfig {
        let mut config = self.producer("transactions");
        config.set("transactional.id", transactional_id);
        config
    }

    /// Outputs under at-least-once.
    pub(super) fn output_producer(&self) -> ClientConfig {
        let mut config = self.producer("outputs");
        // Successes need no report: a flush counts.
        config.set("delivery.report.only.error", "true");
        config
    }

    /// Appends to a log.
    pub(super) fn log_producer(&self) -> ClientConfig {
        let mut config = self.producer("log");
        config.set("linger.ms", "0").remove("queue.buffering.max.ms");
        config
    }

    /// How long a producer keeps a record before it reports it as undelivered.
    pub(super) fn message_timeout(&self) -> Duration {
        let set = ["message.timeout.ms", "delivery.timeout.ms"].iter().find_map(|key| self.properties.get(*key));
        let millis = set.and_then(|value| value.parse().ok()).unwrap_or(300_000);
        // 0 is "never" to librdkafka.
        Duration::from_millis(if millis == 0 { u64::from(u32::MAX) } else { millis })
    }

    /// A consumer that reads committed records from explicit offsets.
    fn reading_consumer(&self, role: &str) -> ClientConfig {
        let mut config = self.base(role, CONSUMER_DEFAULTS);
        config
            .set("group.id", &self.app_id)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "error")
            .set("isolation.level", "read_committed")
            .set("enable.partition.eof", "true")
            .set("allow.auto.create.topics", "false")
            .set("queued.max.messages.kbytes", self.limits.partition.div_ceil(1000).max(1).to_string())
            .set("queued.min.messages", messages(self.limits.partition).to_string())
            .set("fetch.message.max.bytes", self.limits.partition.clamp(1, 1 << 30).to_string());
        // librdkafka refuses less than its largest message.
        let largest = config.get("message.max.bytes").and_then(|bytes| bytes.parse().ok()).unwrap_or(1_000_000);
        config.set("fetch.max.bytes", self.limits.answer.max(largest).to_string());
        config
    }

    /// An idempotent producer that partitions as Java does.
    fn producer(&self, role: &str) -> ClientConfig {
        let mut config = self.base(role, PRODUCER_DEFAULTS);
        config
            .set("enable.idempotence", "true")
            .set("partitioner", "murmur2_random")
            .set("queue.buffering.max.kbytes", (self.limits.producer / 1024).max(1).to_string());
        set_default(&mut config, "queue.buffering.max.messages", &messages(self.limits.producer).to_string(), &[]);
        config
    }

    /// What all clients have: the user's properties, a client id, defaults.
    fn base(&self, role: &str, defaults: &[(&str, &str, &[&str])]) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.extend(self.properties.clone());
        set_default(&mut config, "client.id", &format!("{}-{role}", self.app_id), &[]);
        for (key, value, others) in DEFAULTS.iter().chain(defaults) {
            set_default(&mut config, key, value, others);
        }
        let debug = self.properties.contains_key("debug");
        config.set_log_level(if debug { RDKafkaLogLevel::Debug } else { RDKafkaLogLevel::Info });
        config
    }
}

/// Messages in a queue of so many bytes whose overhead takes no more than as many again.
fn messages(bytes: usize) -> usize {
    (bytes / MESSAGE_OVERHEAD).clamp(LEAST_MESSAGES, MOST_MESSAGES)
}

/// Sets `key` unless the user has, by this name or one of the `others`.
fn set_default(config: &mut ClientConfig, key: &str, value: &str, others: &[&str]) {
    if config.get(key).is_none() && others.iter().all(|other| config.get(other).is_none()) {
        config.set(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Settings with the given properties.
    fn settings(properties: &[(&str, &str)]) -> ClientSettings {
        ClientSettings::new("app", properties.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    #[test]
    fn owned_properties_win_over_the_users() {
        let settings = settings(&[
            ("isolation.level", "read_uncommitted"),
            ("auto.offset.reset", "earliest"),
            ("enable.auto.commit", "true"),
            ("partitioner", "random"),
        ]);
        let consumer = settings.source_consumer(Some("me"));
        assert_eq!(consumer.get("isolation.level"), Some("read_committed"));
        assert_eq!(consumer.get("auto.offset.reset"), Some("error"));
        assert_eq!(consumer.get("enable.auto.commit"), Some("false"));
        assert_eq!(consumer.get("group.id"), Some("app"));
        assert_eq!(consumer.get("group.instance.id"), Some("me"));
        assert_eq!(settings.table_reader().get("group.instance.id"), None);
        assert_eq!(settings.output_producer().get("partitioner"), Some("murmur2_random"));
        assert_eq!(settings.log_ends().get("isolation.level"), Some("read_uncommitted"));
    }

    #[test]
    fn defaults_give_way_to_the_user_by_any_name() {
        assert_eq!(settings(&[]).output_producer().get("linger.ms"), Some("5"));
        assert_eq!(settings(&[("linger.ms", "50")]).output_producer().get("linger.ms"), Some("50"));
        let aliased = settings(&[("queue.buffering.max.ms", "50")]);
        assert_eq!(aliased.output_producer().get("linger.ms"), None);
        assert_eq!(aliased.log_producer().get("linger.ms"), Some("0"));
        assert_eq!(settings(&[("client.id", "mine")]).table_reader().get("client.id"), Some("mine"));
    }

    #[test]
    fn memory_limits_queues_fetches_and_what_is_to_be_sent() {
        let limits = QueueLimits { partition: 64 << 10, answer: 2 << 20, producer: 3 << 20 };
        let settings = |properties| settings(properties).with_queue_limits(limits);
        let config = settings(&[]).table_reader();
        assert_eq!(config.get("queued.max.messages.kbytes"), Some("66"));
        assert_eq!(config.get("queued.min.messages"), Some("256"));
        assert_eq!(config.get("fetch.message.max.bytes"), Some("65536"));
        assert_eq!(config.get("fetch.max.bytes"), Some("2097152"));
        let large = settings(&[("message.max.bytes", "5000000")]);
        assert_eq!(large.source_consumer(None).get("fetch.max.bytes"), Some("5000000"));
        large.check().unwrap();
        let producer = settings(&[]).transactional_producer("id");
        assert_eq!(producer.get("queue.buffering.max.kbytes"), Some("3072"));
        assert_eq!(producer.get("queue.buffering.max.messages"), Some("12288"));
        settings(&[]).check().unwrap();
    }

    #[test]
    fn librdkafka_checks_names_and_values() {
        settings(&[("bootstrap.servers", "localhost:1")]).check().unwrap();
        let error = settings(&[("no.such.property", "1")]).check().unwrap_err();
        assert_eq!(
            error.to_string(),
            "Kafka setting \"no.such.property\": No such configuration property: \"no.such.property\""
        );
        assert!(
            matches!(settings(&[("linger.ms", "soon")]).check(), Err(Error::Setting { key, .. }) if key == "linger.ms")
        );
    }

    #[test]
    fn a_message_timeout_of_zero_is_none() {
        assert_eq!(settings(&[]).message_timeout(), Duration::from_secs(300));
        assert_eq!(settings(&[("delivery.timeout.ms", "1500")]).message_timeout(), Duration::from_millis(1500));
        assert!(settings(&[("message.timeout.ms", "0")]).message_timeout() > Duration::from_secs(86_400));
    }
}
