//! What must be true of the cluster before an instance starts: topics that exist, counts that fit, internal topics made.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::kafka::{self, NewTopic, TopicAdmin, TopicDescription};
use crate::plan::{self, Plan, StoreOrigin};

use super::Error;
use super::instance::Shared;
use super::supervisor::Cluster;
use super::topics::Topics;

/// How long one question may take.
const QUESTION: Duration = Duration::from_secs(5);
/// How long making internal topics may take.
const CREATE: Duration = Duration::from_secs(60);
/// How long a topic may be missing before that is an error: it may just have been created.
const MISSING: Duration = Duration::from_secs(5);

/// Partition counts of the topology's topics.
pub(super) type Counts = BTreeMap<String, i32>;

/// Asks until the broker answers; the status says what is wrong meanwhile. `None`: told to stop.
fn until_answered<T>(
    admin: &TopicAdmin,
    shared: &Shared,
    mut ask: impl FnMut() -> Result<T, kafka::Error>,
) -> Result<Option<T>, Error> {
    let mut told = None;
    loop {
        match ask() {
            Ok(answer) => {
                shared.set_waits_for(None);
                return Ok(Some(answer));
            }
            Err(error) if error.is_retriable() => {
                // The client knows which broker it was.
                let reason = admin.connection_error().unwrap_or_else(|| super::chain(&error));
                let reason = format!("cannot reach the broker (kafka.\"bootstrap.servers\"): {reason}");
                if told.as_ref() != Some(&reason) {
                    tracing::warn!("{reason}; trying again until it answers");
                }
                shared.set_waits_for(Some(reason.clone()));
                told = Some(reason);
            }
            Err(source) => return Err(Error::Kafka { doing: "cannot ask for the topics".to_owned(), source }),
        }
        if shared.is_stopping() {
            return Ok(None);
        }
    }
}

/// Waits until the broker answers, and asks for the topics that the topology's owner makes. `None`: told to stop.
pub(super) fn reach(plan: &Plan, admin: &TopicAdmin, shared: &Shared) -> Result<Option<Counts>, Error> {
    let external: BTreeSet<&str> = plan
        .source_topics()
        .chain(plan.output_topics())
        .chain(plan.global_tables.iter().map(|table| table.topic.as_str()))
        .collect();
    let external: Vec<&str> = external.into_iter().collect();
    let counts = all_of(&external, admin, shared, |topics| admin.partition_counts(topics, QUESTION))?;
    if let Some(counts) = &counts {
        plan::tasks(plan, counts)?;
    }
    Ok(counts)
}

/// Checks the topology's topics, and makes internal ones. `None`: told to stop.
pub(super) fn check(
    plan: &Plan,
    admin: &TopicAdmin,
    cluster: Cluster,
    shared: &Shared,
    counts: &Counts,
) -> Result<Option<Topics>, Error> {
    warn_of_retention(plan, admin, cluster);
    let mut internal = plan::internal_topics(plan, counts);
    if cluster == Cluster::Kafka {
        internal.push(plan::registry_topic(&plan.app_id));
        internal.extend((plan.standby > 0).then(|| plan::control_topic(&plan.app_id)));
    }
    let wanted: Vec<NewTopic> = internal
        .into_iter()
        .map(|topic| NewTopic { name: topic.name, partitions: topic.partitions, config: topic.config })
        .collect();
    let names: Vec<&str> = wanted.iter().map(|topic| topic.name.as_str()).collect();
    let Some(found) = until_answered(admin, shared, || admin.partition_counts(&names, QUESTION))? else {
        return Ok(None);
    };
    let mut missing = Vec::new();
    for (topic, found) in wanted.into_iter().zip(found) {
        match found {
            None => missing.push(topic),
            Some(found) if found != topic.partitions => {
                return Err(Error::PartitionCount {
                    topic: topic.name,
                    found,
                    wanted: topic.partitions,
                    why: "as many as the inputs of its tasks; if these were changed, the state must be made anew: \
                          use another app.id, or delete the internal topic and the state folder"
                        .to_owned(),
                });
            }
            Some(_) => {}
        }
    }
    if !missing.is_empty() {
        let names: Vec<&str> = missing.iter().map(|topic| topic.name.as_str()).collect();
        tracing::info!(topics = names.join(" "), "creating internal topics");
        let Some(()) = until_answered(admin, shared, || admin.create(&missing, CREATE))? else { return Ok(None) };
    }
    let Some(found) = describe(plan, admin, cluster, shared, counts)? else { return Ok(None) };
    Ok(Some(Topics::new(plan, &found)))
}

/// What the broker says of the topics that are read; of the embedded one, which tells no ids, what is known already.
fn describe(
    plan: &Plan,
    admin: &TopicAdmin,
    cluster: Cluster,
    shared: &Shared,
    counts: &Counts,
) -> Result<Option<BTreeMap<String, TopicDescription>>, Error> {
    if cluster == Cluster::Embedded {
        let known =
            |(topic, count): (&String, &i32)| (topic.clone(), TopicDescription { partitions: *count, id: None });
        return Ok(Some(counts.iter().map(known).collect()));
    }
    let names: BTreeSet<&str> = plan.source_topics().chain(plan.store_topics()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    all_of(&names, admin, shared, |names| admin.describe(names, QUESTION))
}

/// What the broker says of topics that must be there. Waits a moment for those that are not: they may just have been made, and a
/// broker that was just started may not have heard of them.
fn all_of<T>(
    topics: &[&str],
    admin: &TopicAdmin,
    shared: &Shared,
    ask: impl Fn(&[&str]) -> Result<Vec<Option<T>>, kafka::Error>,
) -> Result<Option<BTreeMap<String, T>>, Error> {
    let mut since: Option<Instant> = None;
    loop {
        let Some(found) = until_answered(admin, shared, || ask(topics))? else { return Ok(None) };
        let (there, missing): (Vec<_>, Vec<_>) = topics.iter().zip(found).partition(|(_, found)| found.is_some());
        if missing.is_empty() {
            let named = there.into_iter().filter_map(|(topic, found)| Some(((*topic).to_owned(), found?)));
            return Ok(Some(named.collect()));
        }
        let missing: Vec<String> = missing.into_iter().map(|(topic, _)| (*topic).to_owned()).collect();
        if since.get_or_insert_with(Instant::now).elapsed() > MISSING || shared.is_stopping() {
            return Err(Error::MissingTopics { topics: missing });
        }
        shared.set_waits_for(Some(format!("missing on the broker: {}", missing.join(", "))));
        std::thread::park_timeout(Duration::from_millis(200));
    }
}

/// A table whose topic forgets rows by age may differ when it is rebuilt.
fn warn_of_retention(plan: &Plan, admin: &TopicAdmin, cluster: Cluster) {
    if cluster == Cluster::Embedded {
        return;
    }
    let tables = plan.subtopologies.iter().flat_map(|part| &part.stores).filter_map(|store| match &store.origin {
        StoreOrigin::Table { topic } => Some(topic.as_str()),
        StoreOrigin::Changelog { .. } => None,
    });
    for topic in tables.chain(plan.global_tables.iter().map(|table| table.topic.as_str())) {
        if let Ok(Some(policy)) = admin.cleanup_policy(topic, QUESTION)
            && policy != "compact"
        {
            tracing::warn!(
                topic,
                policy,
                "the table's topic is not compacted: rows that its retention deletes are missing when the table is rebuilt"
            );
        }
    }
}
