//! Which Kafka properties are passed through, which Weir owns, and what pasted Java names are called here.

/// What becomes of a property in `[kafka]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Handed to librdkafka as it is, which refuses what it doesn't know.
    Passed,
    /// Set by Weir, since its promises depend on it.
    Owned {
        /// Why.
        reason: &'static str,
        /// What to do instead.
        remedy: &'static str,
    },
    /// A name of the Java client or of Kafka Streams, or an alias.
    Foreign {
        /// What says the same here.
        remedy: &'static str,
    },
}

/// What becomes of the property `name`.
pub(crate) fn standing(name: &str) -> Standing {
    if let Some((_, reason, remedy)) = OWNED.iter().find(|(owned, ..)| *owned == name) {
        return Standing::Owned { reason, remedy };
    }
    match FOREIGN.iter().find(|(foreign, _)| *foreign == name) {
        Some((_, remedy)) => Standing::Foreign { remedy },
        None => Standing::Passed,
    }
}

/// Short for "there is nothing to be set instead".
const REMOVE: &str = "remove it";

/// Why offsets are Weir's.
const OFFSETS: &str = "offsets are committed together with the state that they belong to";

/// Why queue limits are Weir's.
const QUEUES: &str = "the limits of its queues follow from state.memory";

/// Why the group's protocol is Weir's.
const GROUP: &str = "tasks need the same partitions of all their topics";

/// Why delivery is Weir's.
const DELIVERY: &str = "a commit needs to know that everything before it arrived, once and in order";

/// Names that Weir owns, why, and what to do.
const OWNED: [(&str, &str, &str); 26] = [
    ("group.id", "the consumer group is app.id", "remove it, or change app.id"),
    ("group.instance.id", "it follows from the instance's state folder", REMOVE),
    ("group.protocol", GROUP, REMOVE),
    ("group.remote.assignor", GROUP, REMOVE),
    ("partition.assignment.strategy", GROUP, REMOVE),
    ("enable.auto.commit", OFFSETS, "remove it; app.commit_interval says how often"),
    ("auto.commit.enable", OFFSETS, "remove it; app.commit_interval says how often"),
    ("auto.commit.interval.ms", OFFSETS, "set app.commit_interval"),
    ("enable.auto.offset.store", OFFSETS, REMOVE),
    (
        "auto.offset.reset",
        "an offset out of range is an error, never a silent jump",
        "set app.offset_reset, for streams that were never committed",
    ),
    ("isolation.level", "state must not hold what was never committed", REMOVE),
    ("enable.partition.eof", "it tells when a table is full", REMOVE),
    ("transactional.id", "every stream thread has one of its own, after app.id", REMOVE),
    ("enable.idempotence", DELIVERY, REMOVE),
    ("acks", DELIVERY, REMOVE),
    ("request.required.acks", DELIVERY, REMOVE),
    ("delivery.report.only.error", DELIVERY, REMOVE),
    ("partitioner", "records are placed as the Java clients place them (murmur2), or joins would miss", REMOVE),
    ("allow.auto.create.topics", "a mistyped topic must be an error, not a new topic", REMOVE),
    ("queued.max.messages.kbytes", QUEUES, "set state.memory"),
    ("queued.min.messages", QUEUES, "set state.memory"),
    ("fetch.max.bytes", QUEUES, "set state.memory"),
    ("fetch.message.max.bytes", QUEUES, "set state.memory"),
    ("max.partition.fetch.bytes", QUEUES, "set state.memory"),
    ("queue.buffering.max.kbytes", QUEUES, "set state.memory"),
    ("queue.buffering.max.messages", QUEUES, "set state.memory"),
];

/// What replaces a serializer.
const SERDES: &str = "remove it: plugins read and write the records' bytes themselves";

/// What replaces a Java trust store.
const TRUST_STORE: &str = "write \"ssl.ca.location\" with the path of a PEM file (keytool -exportcert -rfc makes one)";

/// What replaces other key stores than PKCS#12.
const KEY_STORE: &str = "remove it: \"ssl.keystore.location\" is PKCS#12; or write \"ssl.certificate.location\" and \"ssl.key.location\" with PEM files";

/// What replaces a Java callback.
const LOGIN: &str = "write \"sasl.oauthbearer.method\" = \"oidc\" with \"sasl.oauthbearer.client.id\", \"sasl.oauthbearer.client.secret\" and \"sasl.oauthbearer.token.endpoint.url\"";

/// Names of other clients, and what says the same here.
const FOREIGN: [(&str, &str); 42] = [
    ("metadata.broker.list", "write \"bootstrap.servers\""),
    ("sasl.jaas.config", "write its user as \"sasl.username\" and its password as \"sasl.password\""),
    ("sasl.login.callback.handler.class", LOGIN),
    ("sasl.login.class", LOGIN),
    ("sasl.client.callback.handler.class", LOGIN),
    ("key.serializer", SERDES),
    ("value.serializer", SERDES),
    ("key.deserializer", SERDES),
    ("value.deserializer", SERDES),
    ("default.key.serde", SERDES),
    ("default.value.serde", SERDES),
    ("ssl.truststore.location", TRUST_STORE),
    ("ssl.truststore.password", "remove it: \"ssl.ca.location\" is a PEM file without a password"),
    ("ssl.truststore.type", "remove it: \"ssl.ca.location\" is a PEM file"),
    ("ssl.truststore.certificates", "write \"ssl.ca.pem\""),
    ("ssl.keystore.type", KEY_STORE),
    ("ssl.keystore.key", "write \"ssl.key.pem\""),
    ("ssl.keystore.certificate.chain", "write \"ssl.certificate.pem\""),
    ("ssl.protocol", "remove it: OpenSSL chooses"),
    ("ssl.enabled.protocols", "remove it: OpenSSL chooses"),
    ("application.id", "set app.id"),
    ("application.server", "set http.listen"),
    ("num.stream.threads", "set app.threads"),
    ("processing.guarantee", "set app.guarantee to \"exactly-once\" or \"at-least-once\""),
    ("commit.interval.ms", "set app.commit_interval, such as \"100 ms\""),
    ("max.task.idle.ms", "set app.max_task_idle, such as \"1 s\""),
    ("state.dir", "set dir in [state]"),
    ("state.cleanup.delay.ms", "set state.cleanup_delay, such as \"10 min\""),
    ("cache.max.bytes.buffering", "set state.memory"),
    ("statestore.cache.max.bytes", "set state.memory"),
    ("num.standby.replicas", "set state.standby, such as 1"),
    ("replication.factor", "remove it: internal topics get the broker's default.replication.factor"),
    ("max.poll.records", "remove it: batches are limited by bytes"),
    ("buffer.memory", "set state.memory"),
    ("max.request.size", "write \"message.max.bytes\""),
    ("max.block.ms", "write \"message.timeout.ms\""),
    ("default.api.timeout.ms", "write \"socket.timeout.ms\""),
    ("fetch.max.wait.ms", "write \"fetch.wait.max.ms\""),
    ("receive.buffer.bytes", "write \"socket.receive.buffer.bytes\""),
    ("send.buffer.bytes", "write \"socket.send.buffer.bytes\""),
    ("interceptor.classes", REMOVE),
    ("metric.reporters", "remove it: metrics are at /metrics"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_there_twice() {
        let mut names: Vec<_> =
            OWNED.iter().map(|(name, ..)| name).chain(FOREIGN.iter().map(|(name, _)| name)).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn ordinary_properties_are_passed_through() {
        for name in [
            "bootstrap.servers",
            "security.protocol",
            "sasl.username",
            "ssl.keystore.location",
            "linger.ms",
            "client.id",
        ] {
            assert_eq!(standing(name), Standing::Passed, "{name}");
        }
    }
}
