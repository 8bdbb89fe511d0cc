//! Queries over several partitions.

use std::path::Path;

use super::*;
use crate::model::{Checkpoint, StateWrite};
use crate::store::{Resources, StoreKind, StoreSpec};

/// A partitioner that tests can see through: the key's last byte.
fn last_byte(key: &[u8], partitions: i32) -> i32 {
    key.last().map_or(0, |byte| i32::from(*byte - b'0') % partitions)
}

/// Stores of one task with one store `s`, holding these keys, each with itself as value.
fn holding(dir: &Path, kind: StoreKind, keys: &[&str]) -> Arc<TaskStores> {
    let spec = StoreSpec { name: "s".to_owned(), kind, topic: "t".to_owned() };
    let stores = TaskStores::open(dir, &[spec], &Resources::new(8 << 20, 1)).unwrap();
    let writes: Vec<StateWrite> = keys
        .iter()
        .map(|key| {
            let key = Bytes::copy_from_slice(key.as_bytes());
            let entry = Entry { timestamp: 1, version: 0, value: key.clone() };
            StateWrite { store: StoreIndex(0), key, entry: Some(entry) }
        })
        .collect();
    stores.commit(&writes, &Checkpoint::default()).unwrap();
    Arc::new(stores)
}

/// A catalog with store `s` of three partitions, of which 0 and 2 are open.
fn two_of_three(root: &Path) -> Catalog {
    let catalog = Catalog::new(last_byte);
    catalog.declare("s", "table", 3);
    catalog.declare("other", "aggregate", 3);
    let zero = holding(&root.join("0_0"), StoreKind::RocksDb, &["a0", "c0", "odd1"]);
    let two = holding(&root.join("0_2"), StoreKind::Memory { max_bytes: 10_000 }, &["b2", "d2"]);
    catalog.open("s", "table", 0, zero, StoreIndex(0));
    catalog.open("s", "table", 2, two, StoreIndex(0));
    catalog
}

#[test]
fn a_key_is_found_wherever_it_is_open() {
    let root = tempfile::tempdir().unwrap();
    let catalog = two_of_three(root.path());
    let get = |key: &str| catalog.get("s", key.as_bytes()).map(|found| found.map(|entry| entry.value));
    assert_eq!(get("a0").unwrap().unwrap(), "a0");
    assert_eq!(get("b2").unwrap().unwrap(), "b2");
    assert_eq!(get("odd1").unwrap().unwrap(), "odd1", "partitioned by someone else's rule");
    assert_eq!(get("x2").unwrap(), None, "its partition is here and lacks it");
    assert_eq!(
        get("x1").unwrap_err().to_string(),
        "partition 1 of store 's' is not open on this instance; ask the one that owns it, or wait until it is restored here"
    );
    catalog.close("s", 2);
    catalog.close("s", 2);
    assert!(matches!(get("b2"), Err(QueryError::NotHere { partition: 2, .. })));
}

#[test]
fn an_unknown_store_is_answered_with_those_there_are() {
    let root = tempfile::tempdir().unwrap();
    let catalog = two_of_three(root.path());
    let error = catalog.get("nope", b"k").unwrap_err();
    assert_eq!(error.to_string(), "there is no store 'nope'; the topology has other, s");
    let error = Catalog::new(last_byte).scan("s", b"", None, 1).unwrap_err();
    assert_eq!(error.to_string(), "there is no store 's'; the topology has none");
}

#[test]
fn scans_merge_partitions_and_name_those_missing() {
    let root = tempfile::tempdir().unwrap();
    let catalog = two_of_three(root.path());
    let keys = |prefix: &str, from: Option<&str>, limit| {
        let scan = catalog.scan("s", prefix.as_bytes(), from.map(str::as_bytes), limit).unwrap();
        assert_eq!(scan.missing, [1]);
        scan.rows.iter().map(|(key, _)| String::from_utf8_lossy(key).into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(keys("", None, 99), ["a0", "b2", "c0", "d2", "odd1"]);
    assert_eq!(keys("", None, 3), ["a0", "b2", "c0"]);
    assert_eq!(keys("", Some("c0"), 2), ["c0", "d2"]);
    assert_eq!(keys("o", None, 99), ["odd1"]);
    assert!(matches!(catalog.scan("other", b"", None, 1), Err(QueryError::NotHere { .. })));
}

#[test]
fn a_global_table_is_asked_whatever_the_key() {
    let root = tempfile::tempdir().unwrap();
    let catalog = Catalog::new(last_byte);
    catalog.declare("s", "global-table", 0);
    assert_eq!(
        catalog.get("s", b"a7").unwrap_err().to_string(),
        "global table 's' is not open on this instance; ask the one that owns it, or wait until it is restored here"
    );
    let kind = StoreKind::Memory { max_bytes: 10_000 };
    catalog.open("s", "global-table", -1, holding(root.path(), kind, &["a7", "b8"]), StoreIndex(0));
    assert_eq!(catalog.get("s", b"a7").unwrap().unwrap().value, "a7");
    assert_eq!(catalog.get("s", b"a8").unwrap(), None);
    let scan = catalog.scan("s", b"", None, 9).unwrap();
    assert_eq!((scan.rows.len(), scan.missing), (2, vec![]));
    assert_eq!(catalog.count("s").unwrap(), (2, true));
    let listed = catalog.list();
    assert_eq!(listed[0].partitions, [0; 0]);
    assert_eq!((listed[0].entries, listed[0].exact), (2, true));
}

#[test]
fn the_list_has_what_is_declared_and_what_is_open() {
    let root = tempfile::tempdir().unwrap();
    let listed = two_of_three(root.path()).list();
    assert_eq!(listed.len(), 2);
    assert_eq!((listed[0].store.as_str(), listed[0].kind.as_str()), ("other", "aggregate"));
    assert_eq!((listed[0].partitions.len(), listed[0].entries), (0, 0));
    assert_eq!(listed[1].partitions, [0, 2]);
    assert_eq!((listed[1].entries, listed[1].exact), (5, true));
}

#[test]
fn closing_lets_the_database_go() {
    let root = tempfile::tempdir().unwrap();
    let catalog = Catalog::new(last_byte);
    catalog.open("s", "table", 0, holding(root.path(), StoreKind::RocksDb, &["a0"]), StoreIndex(0));
    catalog.close("s", 0);
    holding(root.path(), StoreKind::RocksDb, &["b0"]);
}
