//! The group member: rebalances, offsets, leaving, and members that the group has gone on without.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use weir::kafka::{ClientSettings, SourceConsumer, TransactionalProducer};
use weir::model::TopicPartition;
use weir_tests::topics;

use super::{Event, Member, PATIENCE, bootstrap, join, join_with, locked, settings, wait_until};

/// Polls the members until `done`.
fn poll_until(what: &str, consumers: &[&Arc<SourceConsumer>], mut done: impl FnMut() -> Result<bool>) -> Result<()> {
    wait_until(what, || {
        for consumer in consumers {
            consumer.poll(Duration::from_millis(5))?;
        }
        done()
    })
}

/// Partitions that the member has now.
fn partitions(member: &Arc<Mutex<Member>>) -> Vec<i32> {
    locked(member).queues.keys().map(|partition| partition.partition).collect()
}

/// Takes what is there from all queues of the member: counts by value.
fn take(member: &Arc<Mutex<Member>>, seen: &mut BTreeMap<String, usize>) -> Result<()> {
    for queue in locked(member).queues.values_mut() {
        let mut read = super::Read::default();
        while read.take(queue)? > 0 {}
        for value in read.values() {
            *seen.entry(value).or_default() += 1;
        }
    }
    Ok(())
}

/// A producer of transactions that is ready.
fn producer(app: &str, bootstrap: &str, id: &str) -> Result<TransactionalProducer> {
    let producer = TransactionalProducer::new(&settings(app, bootstrap), id)?;
    producer.init(PATIENCE)?;
    Ok(producer)
}

#[test]
fn two_members_share_and_one_takes_over() -> Result<()> {
    let bootstrap = bootstrap()?;
    topics::create(&bootstrap, &[("share-a", 4, &[]), ("share-b", 4, &[])])?;
    let (first, one) = join("share", &bootstrap, None, &["share-a", "share-b"])?;
    poll_until("the first assignment", &[&first], || Ok(partitions(&one).len() == 8))?;

    let (second, two) = join("share", &bootstrap, None, &["share-a", "share-b"])?;
    poll_until("a share for each", &[&first, &second], || {
        Ok(partitions(&one).len() == 4 && partitions(&two).len() == 4)
    })?;
    // Range: the same partition numbers of both topics.
    for member in [&one, &two] {
        let member = locked(member);
        let of = |topic: &str| -> Vec<i32> {
            member.queues.keys().filter(|p| &*p.topic == topic).map(|p| p.partition).collect()
        };
        assert_eq!(of("share-a"), of("share-b"));
    }
    let values: Vec<String> = (0..400).map(|i| format!("v{i}")).collect();
    let records: Vec<_> = values.iter().zip(0..).map(|(value, i)| (i % 4, "k", Some(value.as_str()), 1)).collect();
    topics::produce(&bootstrap, "share-a", &records)?;
    let mut seen = BTreeMap::new();
    poll_until("all records", &[&first, &second], || {
        take(&one, &mut seen)?;
        take(&two, &mut seen)?;
        Ok(seen.len() == 400)
    })?;
    assert!(seen.values().all(|count| *count == 1));

    // The first leaves: the other one has everything again, at once and not after a session time-out.
    let start = Instant::now();
    first.leave(PATIENCE)?;
    poll_until("all partitions", &[&second], || Ok(partitions(&two).len() == 8))?;
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert_eq!(
        locked(&one).events,
        [Event::Assigned(8), Event::Revoked(8, false), Event::Assigned(4), Event::Revoked(4, false)]
    );
    second.leave(PATIENCE)?;
    Ok(())
}

#[test]
fn reading_goes_on_after_every_reassignment() -> Result<()> {
    let bootstrap = bootstrap()?;
    topics::create(&bootstrap, &[("reassign", 2, &[])])?;
    topics::produce(&bootstrap, "reassign", &[(0, "k", Some("a"), 1), (1, "k", Some("b"), 1)])?;
    let (member, state) = join("reassign", &bootstrap, None, &["reassign"])?;
    for round in 0..3 {
        // Without committed offsets each assignment begins at 0: everything comes once in each.
        let mut seen = BTreeMap::new();
        poll_until("the records", &[&member], || {
            take(&state, &mut seen)?;
            Ok(seen.len() == 2 + round)
        })?;
        assert!(seen.values().all(|count| *count == 1), "round {round}: {seen:?}");
        topics::produce(&bootstrap, "reassign", &[(0, "k", Some(&round.to_string()), 1)])?;
        // Another member comes and goes: two rebalances, the partitions are split and assigned anew.
        let (other, its) = join("reassign", &bootstrap, None, &["reassign"])?;
        poll_until("a share", &[&member, &other], || Ok(partitions(&its).len() == 1))?;
        other.leave(PATIENCE)?;
        poll_until("both partitions", &[&member], || Ok(partitions(&state).len() == 2))?;
    }
    member.leave(PATIENCE)?;
    Ok(())
}

#[test]
fn offsets_and_metadata_are_committed_with_the_transaction() -> Result<()> {
    let bootstrap = bootstrap()?;
    topics::create(&bootstrap, &[("offsets-in", 2, &[]), ("offsets-out", 1, &[])])?;
    let (member, state) = join("offsets", &bootstrap, None, &["offsets-in"])?;
    poll_until("an assignment", &[&member], || Ok(partitions(&state).len() == 2))?;
    let both = [TopicPartition::new("offsets-in", 0), TopicPartition::new("offsets-in", 1)];
    let committed = member.committed(&both, PATIENCE)?;
    assert!(committed.iter().all(|c| c.offset.is_none() && c.metadata.is_empty()), "{committed:?}");

    let producer = producer("offsets", &bootstrap, "offsets-0")?;
    let record = weir::model::Record { value: Some("out".into()), timestamp: 7, ..Default::default() };
    producer.begin()?;
    producer.send("offsets-out", Some(0), &record, Some(3))?;
    producer.send("offsets-out", Some(0), &record, Some(4))?;
    let group = member.group_metadata()?;
    producer.send_offsets(
        &[(both[0].clone(), 17, "commit 1 ü".to_owned()), (both[1].clone(), 0, String::new())],
        &group,
        PATIENCE,
    )?;
    producer.commit(PATIENCE)?;
    assert_eq!(producer.take_delivered(), BTreeMap::from([(3, 0), (4, 1)]));
    let committed = member.committed(&both, PATIENCE)?;
    let got: Vec<_> = committed.iter().map(|c| (c.offset, c.metadata.as_str())).collect();
    assert_eq!(got, [(Some(17), "commit 1 ü"), (Some(0), "")]);

    // An aborted one leaves nothing: neither offsets nor output nor what was delivered.
    producer.begin()?;
    producer.send("offsets-out", Some(0), &record, Some(3))?;
    producer.send_offsets(&[(both[0].clone(), 99, "no".to_owned())], &group, PATIENCE)?;
    let start = Instant::now();
    producer.abort(PATIENCE)?;
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert!(producer.take_delivered().is_empty());
    assert_eq!(member.committed(&both, PATIENCE)?.first().and_then(|c| c.offset), Some(17));
    assert_eq!(topics::read(&bootstrap, "offsets-out")?.len(), 2);
    member.leave(PATIENCE)?;
    Ok(())
}

#[test]
fn the_group_refuses_offsets_of_an_earlier_generation() -> Result<()> {
    let bootstrap = bootstrap()?;
    topics::create(&bootstrap, &[("stale", 2, &[])])?;
    let (zombie, state) = join("stale", &bootstrap, None, &["stale"])?;
    poll_until("an assignment", &[&zombie], || Ok(partitions(&state).len() == 2))?;
    let old = zombie.group_metadata()?;
    let producer = producer("stale", &bootstrap, "stale-0")?;
    let (other, its) = join("stale", &bootstrap, None, &["stale"])?;
    poll_until("a share for each", &[&zombie, &other], || {
        Ok(partitions(&state).len() == 1 && partitions(&its).len() == 1)
    })?;

    let partition = TopicPartition::new("stale", 0);
    producer.begin()?;
    let error =
        producer.send_offsets(&[(partition.clone(), 5, String::new())], &old, PATIENCE).err().context("accepted")?;
    assert!(error.is_stale_member(), "{error:?}");
    assert!(!error.is_fatal() && !error.is_fenced() && !error.unknown_outcome(), "{error:?}");
    producer.abort(PATIENCE)?;
    assert_eq!(other.committed(std::slice::from_ref(&partition), PATIENCE)?.first().and_then(|c| c.offset), None);

    // With the present generation it is accepted.
    producer.begin()?;
    producer.send_offsets(&[(partition.clone(), 5, String::new())], &zombie.group_metadata()?, PATIENCE)?;
    producer.commit(PATIENCE)?;
    assert_eq!(other.committed(&[partition], PATIENCE)?.first().and_then(|c| c.offset), Some(5));
    zombie.leave(PATIENCE)?;
    other.leave(PATIENCE)?;
    Ok(())
}

#[test]
fn a_member_that_stopped_polling_has_lost_its_partitions() -> Result<()> {
    let bootstrap = bootstrap()?;
    topics::create(&bootstrap, &[("stalled", 1, &[])])?;
    // The shortest that the broker allows.
    let properties =
        [("bootstrap.servers", bootstrap.as_str()), ("session.timeout.ms", "6000"), ("max.poll.interval.ms", "6000")];
    let properties = properties.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let (stalled, state) = join_with(&ClientSettings::new("stalled", properties), None, &["stalled"])?;
    assert!(stalled.group_metadata().err().context("a place in a group")?.is_stale_member());
    poll_until("an assignment", &[&stalled], || Ok(partitions(&state).len() == 1))?;
    let producer = producer("stalled", &bootstrap, "stalled-0")?;
    let partition = TopicPartition::new("stalled", 0);
    let commit = |offset| {
        producer.begin()?;
        let group = stalled.group_metadata()?;
        producer.send_offsets(&[(partition.clone(), offset, String::new())], &group, PATIENCE)?;
        producer.commit(PATIENCE)
    };
    commit(1)?;

    // It stops polling: the group drops it, and refuses what it wants to commit before it has heard of that.
    let mut refused = None;
    wait_until("the refusal", || {
        refused = commit(1).err();
        Ok(refused.is_some())
    })?;
    let error = refused.context("committed")?;
    assert!(error.is_stale_member(), "{error:?}");
    producer.abort(PATIENCE)?;
    assert_eq!(locked(&state).events, [Event::Assigned(1)]);
    let (other, its) = join("stalled", &bootstrap, None, &["stalled"])?;
    poll_until("the partition", &[&other], || Ok(partitions(&its).len() == 1))?;
    assert!(commit(7).is_err());
    assert_eq!(other.committed(std::slice::from_ref(&partition), PATIENCE)?.first().and_then(|c| c.offset), Some(1));

    poll_until("the loss", &[&stalled, &other], || Ok(locked(&state).events.len() > 1))?;
    assert_eq!(locked(&state).events.get(1), Some(&Event::Revoked(1, true)));
    stalled.leave(PATIENCE)?;
    other.leave(PATIENCE)?;
    Ok(())
}

#[test]
fn nothing_fetched_before_a_seek_comes_after_it() -> Result<()> {
    let bootstrap = bootstrap()?;
    topics::create(&bootstrap, &[("seek", 1, &[])])?;
    let values: Vec<String> = (0..300).map(|i| format!("v{i}")).collect();
    let records: Vec<_> = values.iter().map(|value| (0, "k", Some(value.as_str()), 1)).collect();
    topics::produce(&bootstrap, "seek", &records)?;
    let (member, state) = join("seek", &bootstrap, None, &["seek"])?;
    poll_until("an assignment", &[&member], || Ok(partitions(&state).len() == 1))?;
    let partition = TopicPartition::new("seek", 0);
    let mut queue = locked(&state).queues.remove(&partition).context("a queue")?;
    for at in [250, 10, 0, 299, 300, 120] {
        // Some records are handed out, more are taken from librdkafka, others still in its queue.
        let mut records = VecDeque::new();
        wait_until("records", || {
            queue.poll(100, 50, &mut records)?;
            Ok(!records.is_empty())
        })?;
        assert_eq!(member.seek(&[(partition.clone(), at)], PATIENCE)?.len(), 0);
        let mut read = super::Read::default();
        read.until(&mut queue, 300)?;
        assert_eq!(read.offsets(), (at..300).collect::<Vec<_>>());
        assert_eq!(member.seek(&[(partition.clone(), 0)], PATIENCE)?.len(), 0);
    }
    drop(queue);
    member.leave(PATIENCE)?;
    // A partition that is not read any more refuses.
    let refused = member.seek(&[(partition.clone(), 0)], PATIENCE)?;
    assert_eq!(refused.iter().map(|(of, _)| of).collect::<Vec<_>>(), [&partition]);
    Ok(())
}

#[test]
fn a_second_process_with_the_same_instance_id_takes_over() -> Result<()> {
    let bootstrap = bootstrap()?;
    topics::create(&bootstrap, &[("static", 1, &[])])?;
    let (first, one) = join("static", &bootstrap, Some("i-1"), &["static"])?;
    poll_until("an assignment", &[&first], || Ok(partitions(&one).len() == 1))?;
    let (second, two) = join("static", &bootstrap, Some("i-1"), &["static"])?;
    let mut fenced = None;
    wait_until("the fencing", || {
        second.poll(Duration::from_millis(5))?;
        fenced = fenced.take().or_else(|| first.poll(Duration::from_millis(5)).err());
        Ok(fenced.is_some())
    })?;
    let error = fenced.context("no error")?;
    assert!(error.is_fatal() && error.is_fenced(), "{error:?}");
    poll_until("the partition", &[&second], || Ok(partitions(&two).len() == 1))?;
    second.leave(PATIENCE)?;
    Ok(())
}

#[test]
fn a_member_may_assign_less_than_it_was_given() -> Result<()> {
    use weir::kafka::RebalanceListener;

    /// Takes nothing.
    struct Nothing(Mutex<Vec<usize>>);

    impl RebalanceListener for Nothing {
        fn assigned(&self, partitions: Vec<TopicPartition>) -> Vec<(TopicPartition, i64)> {
            locked(&self.0).push(partitions.len());
            Vec::new()
        }

        fn revoked(&self, _: Vec<TopicPartition>, _: bool) {}
    }

    let bootstrap = bootstrap()?;
    topics::create(&bootstrap, &[("nothing", 2, &[])])?;
    topics::produce(&bootstrap, "nothing", &[(0, "k", Some("v"), 1)])?;
    let listener = Arc::new(Nothing(Mutex::default()));
    let consumer = SourceConsumer::new(&settings("nothing", &bootstrap), None, Arc::clone(&listener) as _)?;
    consumer.subscribe(&["nothing"])?;
    poll_until("an assignment", &[&consumer], || Ok(*locked(&listener.0) == [2]))?;
    // Nothing is fetched: a record on the main queue would be an error.
    for _ in 0..50 {
        consumer.poll(Duration::from_millis(5))?;
    }
    consumer.leave(PATIENCE)?;
    Ok(())
}
