//! Topics and the registry's log.

use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use weir::kafka::{Error, LogEnds, NewTopic, TopicAdmin, TopicLog};
use weir::model::TopicPartition;
use weir_tests::topics;

use super::{PATIENCE, bootstrap, settings};

#[test]
fn topics_are_created_once_and_counted() -> Result<()> {
    let bootstrap = bootstrap()?;
    let admin = TopicAdmin::new(&settings("admin", &bootstrap))?;
    assert_eq!(admin.partition_counts(&["admin-a", "admin-b"], PATIENCE)?, [None, None]);
    let topic = |name: &str, partitions| NewTopic {
        name: name.to_owned(),
        partitions,
        config: vec![("cleanup.policy".to_owned(), "compact".to_owned())],
    };
    admin.create(&[topic("admin-a", 3)], PATIENCE)?;
    // There already, with another count: left as it is.
    admin.create(&[topic("admin-a", 5), topic("admin-b", 2)], PATIENCE)?;
    assert_eq!(admin.partition_counts(&["admin-a", "admin-b", "admin-c"], PATIENCE)?, [Some(3), Some(2), None]);
    assert_eq!(admin.cleanup_policy("admin-a", PATIENCE)?.as_deref(), Some("compact"));

    let error =
        admin.create(&[NewTopic { config: vec![("no.such".into(), "1".into())], ..topic("admin-d", 1) }], PATIENCE);
    assert!(error.err().context("created")?.to_string().starts_with("create topic 'admin-d': "));
    let missing =
        LogEnds::new(&settings("admin", &bootstrap))?.of(&TopicPartition::new("admin-e", 0), Duration::from_secs(15));
    assert!(matches!(missing, Err(Error::Missing { .. })), "{missing:?}");
    Ok(())
}

#[test]
fn a_log_yields_what_was_appended_in_order() -> Result<()> {
    let bootstrap = bootstrap()?;
    topics::create(&bootstrap, &[("a-log", 1, &[("cleanup.policy", "compact")])])?;
    let settings = settings("a-log", &bootstrap);
    let mut log = TopicLog::open(&settings, "a-log", PATIENCE)?;
    assert_eq!((log.position(), log.end_at_open()), (0, 0));
    assert_eq!(log.append(b"k1", Some(b"one"))?, 0);
    assert_eq!(log.append(b"k2", None)?, 1);
    let entry =
        |offset, key: &'static str, value: Option<&'static str>| (offset, Bytes::from(key), value.map(Bytes::from));
    assert_eq!(log.next(PATIENCE)?, Some(entry(0, "k1", Some("one"))));
    assert_eq!(log.position(), 1);
    assert_eq!(log.next(PATIENCE)?, Some(entry(1, "k2", None)));
    assert_eq!(log.next(Duration::from_millis(50))?, None);

    let mut second = TopicLog::open(&settings, "a-log", PATIENCE)?;
    assert_eq!(second.end_at_open(), 2);
    assert_eq!(log.append(b"k3", Some(b"three"))?, 2);
    let mut all = Vec::new();
    while let Some((offset, ..)) = second.next(Duration::from_secs(1))? {
        all.push(offset);
    }
    assert_eq!((all, second.position()), (vec![0, 1, 2], 3));
    Ok(())
}
