//! librdkafka's mock cluster in this process: for the demo, and for tests that need no real broker.
//!
//! It keeps 5 MiB a partition and drops the oldest, creates no topics over the wire, and its transactions are a façade: nothing
//! is ever aborted or hidden, offsets sent with a transaction are thrown away, nobody is fenced.

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, DefaultProducerContext, Producer};

use super::Error;

/// A broker on loopback that lives as long as this value.
pub struct EmbeddedBroker {
    /// The client that the mock cluster belongs to.
    owner: BaseProducer<DefaultProducerContext>,
}

impl EmbeddedBroker {
    /// Starts a broker on a free port.
    pub fn start() -> Result<Self, Error> {
        let mut config = ClientConfig::new();
        config.set("test.mock.num.brokers", "1").set("client.id", "embedded-broker");
        let owner = config.create().map_err(|error| Error::client("embedded broker", error))?;
        Ok(Self { owner })
    }

    /// For `bootstrap.servers`.
    pub fn bootstrap_servers(&self) -> String {
        self.owner.client().mock_cluster().map(|cluster| cluster.bootstrap_servers()).unwrap_or_default()
    }

    /// Creates a topic.
    pub fn create_topic(&self, name: &str, partitions: i32) -> Result<(), Error> {
        let Some(cluster) = self.owner.client().mock_cluster() else {
            return Err(Error::Client { client: "embedded broker", reason: "it has no cluster".to_owned() });
        };
        let created = cluster.create_topic(name, partitions, 1);
        created.map_err(|error| Error::request(format!("create topic '{name}' on the embedded broker"), &error))
    }
}
