//! A task's stores: commits, restores, crashes, reopening.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{copy, create_dir_all, read_dir, remove_dir_all, write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::model::{Checkpoint, Entry, StateRead as _, StateWrite, StoreIndex, TopicPartition};

mod model;
mod topology;

/// A store on disk, filled from the topic `t-<name>`.
fn on_disk(name: &str) -> StoreSpec {
    StoreSpec { name: name.to_owned(), kind: StoreKind::RocksDb, topic: format!("t-{name}") }
}

/// A store in memory, filled from the topic `t-<name>`.
fn in_memory(name: &str, max_bytes: u64) -> StoreSpec {
    StoreSpec { kind: StoreKind::Memory { max_bytes }, ..on_disk(name) }
}

/// Little memory for all databases of a test.
fn resources() -> Resources {
    Resources::new(8 << 20, 1)
}

/// Opens the stores, which must work.
fn open(dir: &Path, specs: &[StoreSpec]) -> TaskStores {
    TaskStores::open(dir, specs, &resources()).unwrap()
}

/// A write of `key` to the store number `store`; no value: its removal.
fn put(store: u16, key: &str, value: Option<&str>) -> StateWrite {
    let entry = value.map(|value| Entry {
        timestamp: value.len() as i64,
        version: u32::from(store),
        value: Bytes::copy_from_slice(value.as_bytes()),
    });
    StateWrite { store: StoreIndex(store), key: Bytes::copy_from_slice(key.as_bytes()), entry }
}

/// A checkpoint that is at `offset` in partition 0 of these topics.
fn at(topics: &[&str], offset: i64) -> Checkpoint {
    let tables = topics.iter().map(|topic| (TopicPartition::new(*topic, 0), offset)).collect();
    Checkpoint { tables, ..Checkpoint::default() }
}

/// The entries of a store, as text.
fn all(stores: &TaskStores, store: u16) -> Vec<(String, String)> {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    let found = stores.scan(StoreIndex(store), None, b"", usize::MAX).unwrap();
    found.iter().map(|(key, entry)| (text(key), text(&entry.value))).collect()
}

/// Pairs of text.
fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// The folder as a process leaves it that dies now: a copy of its files, taken while the database is open.
fn crash(dir: &Path, to: &Path) {
    let names = || -> BTreeSet<OsString> { read_dir(dir).unwrap().map(|file| file.unwrap().file_name()).collect() };
    loop {
        create_dir_all(to).unwrap();
        let before = names();
        let files = before.iter().filter(|name| *name != "LOCK");
        let copied: Result<Vec<u64>, _> = files.map(|name| copy(dir.join(name), to.join(name))).collect();
        // Files that come or go while they are copied are of different moments.
        if copied.is_ok() && names() == before {
            return;
        }
        remove_dir_all(to).unwrap();
    }
}

#[test]
fn a_commit_is_read_back_and_survives_a_crash() {
    let root = tempfile::tempdir().unwrap();
    let specs = [on_disk("d"), in_memory("m", 10_000)];
    let stores = open(&root.path().join("a"), &specs);
    assert_eq!(stores.checkpoint(), Checkpoint::default());
    let first = [put(0, "k", Some("one")), put(0, "gone", Some("x")), put(1, "k", Some("two"))];
    stores.commit(&first, &at(&["t-d", "t-m"], 3)).unwrap();
    let second =
        [put(0, "k", Some("three")), put(0, "gone", None), put(0, "", Some("empty key")), put(1, "e", Some(""))];
    stores.commit(&second, &at(&["t-d", "t-m"], 4)).unwrap();

    crash(&root.path().join("a"), &root.path().join("b"));
    let crashed = open(&root.path().join("b"), &specs);
    drop(stores);
    let reopened = open(&root.path().join("a"), &specs);
    for stores in [&crashed, &reopened] {
        assert_eq!(stores.checkpoint(), at(&["t-d", "t-m"], 4));
        assert_eq!(all(stores, 0), pairs(&[("", "empty key"), ("k", "three")]));
        assert_eq!(all(stores, 1), pairs(&[("e", ""), ("k", "two")]));
        let entry = Entry { timestamp: 5, version: 0, value: Bytes::from_static(b"three") };
        assert_eq!(stores.get(StoreIndex(0), b"k").unwrap(), Some(entry));
        assert_eq!(stores.get(StoreIndex(0), b"gone").unwrap(), None);
    }
}

#[test]
fn a_crash_in_the_middle_of_a_commit_leaves_the_one_before() {
    let root = tempfile::tempdir().unwrap();
    let (dir, copied) = (root.path().join("a"), root.path().join("b"));
    let stores = open(&dir, &[on_disk("d"), in_memory("m", 10_000)]);
    stores.commit(&[put(0, "k", Some("old")), put(1, "k", Some("old"))], &at(&["t-d"], 1)).unwrap();
    stores.commit(&[put(0, "k", Some("new")), put(1, "k", Some("new"))], &at(&["t-d"], 2)).unwrap();
    crash(&dir, &copied);
    // The log loses its last byte, as if the process had died while writing it.
    let log = read_dir(&copied)
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "log"));
    let log = log.max().unwrap();
    let bytes = std::fs::read(&log).unwrap();
    write(&log, &bytes[..bytes.len() - 1]).unwrap();
    let crashed = open(&copied, &[on_disk("d"), in_memory("m", 10_000)]);
    assert_eq!(crashed.checkpoint(), at(&["t-d"], 1));
    assert_eq!(all(&crashed, 0), pairs(&[("k", "old")]));
    assert_eq!(all(&crashed, 1), pairs(&[("k", "old")]));
}

#[test]
fn a_checkpoint_never_covers_rows_that_a_crash_loses() {
    let rows = [put(0, "k", Some("v")), put(1, "k", Some("v"))];
    // Each way to write to the log after a restore wrote without it.
    let ways: [fn(&TaskStores); 3] = [
        |stores| stores.persist(&at(&["t-d", "t-m"], 7)).unwrap(),
        |stores| stores.commit(&[put(0, "later", Some("x"))], &at(&["t-d", "t-m"], 7)).unwrap(),
        |stores| stores.clear(StoreIndex(2)).unwrap(),
    ];
    let specs = [on_disk("d"), in_memory("m", 10_000), on_disk("cleared")];
    for way in ways {
        let root = tempfile::tempdir().unwrap();
        let (dir, before, after) = (root.path().join("a"), root.path().join("b"), root.path().join("c"));
        let stores = open(&dir, &specs);
        stores.restore(&rows).unwrap();
        assert_eq!(all(&stores, 0), pairs(&[("k", "v")]));
        crash(&dir, &before);
        let crashed = open(&before, &specs);
        assert_eq!(
            (crashed.checkpoint(), all(&crashed, 0)),
            (Checkpoint::default(), vec![]),
            "not persisted, not covered"
        );

        way(&stores);
        crash(&dir, &after);
        let crashed = open(&after, &specs);
        assert_eq!(crashed.checkpoint(), stores.checkpoint());
        assert_eq!(crashed.get(StoreIndex(0), b"k").unwrap().unwrap().value, "v");
        assert_eq!(all(&crashed, 1), pairs(&[("k", "v")]));
    }
}

#[test]
fn a_cleared_store_has_no_offset_either() {
    let root = tempfile::tempdir().unwrap();
    let (dir, copied) = (root.path().join("a"), root.path().join("b"));
    let specs = [on_disk("d"), in_memory("m", 10_000)];
    let stores = open(&dir, &specs);
    stores.commit(&[put(0, "k", Some("v")), put(1, "k", Some("v"))], &at(&["t-d", "t-m"], 7)).unwrap();
    stores.clear(StoreIndex(0)).unwrap();
    assert_eq!((all(&stores, 0), all(&stores, 1).len()), (vec![], 1));
    stores.clear(StoreIndex(1)).unwrap();
    stores.commit(&[put(1, "n", Some("v"))], &at(&["t-m"], 1)).unwrap();
    crash(&dir, &copied);
    for stores in [&stores, &open(&copied, &specs)] {
        assert_eq!(stores.checkpoint(), at(&["t-m"], 1));
        assert_eq!((all(stores, 0), all(stores, 1)), (vec![], pairs(&[("n", "v")])));
    }
}

#[test]
fn many_keys_are_read_at_once_in_their_order() {
    let root = tempfile::tempdir().unwrap();
    let stores = open(root.path(), &[on_disk("d"), in_memory("m", 1 << 20), on_disk("next")]);
    let name = |n: usize| format!("key-{n:03}");
    for store in [0, 1] {
        let writes: Vec<_> = (0..300).step_by(2).map(|n| put(store, &name(n), Some(&name(n)))).collect();
        stores.restore(&writes).unwrap();
    }
    stores.persist(&Checkpoint::default()).unwrap();
    stores.commit(&[put(2, "key-001", Some("another store's"))], &Checkpoint::default()).unwrap();
    let keys: Vec<Bytes> = [7, 298, 0, 1, 298, 299].iter().map(|n| Bytes::from(name(*n))).collect();
    for store in [0, 1] {
        let found = stores.multi_get(StoreIndex(store), &keys).unwrap();
        let found: Vec<_> = found.into_iter().map(|entry| entry.map(|entry| entry.value)).collect();
        assert_eq!(
            found,
            [None, Some(name(298)), Some(name(0)), None, Some(name(298)), None].map(|v| v.map(Bytes::from))
        );
        assert_eq!(stores.multi_get(StoreIndex(store), &[]).unwrap(), []);
    }
}

#[test]
fn scans_are_the_same_from_disk_and_memory() {
    let root = tempfile::tempdir().unwrap();
    let stores = open(root.path(), &[on_disk("d"), in_memory("m", 1 << 20), on_disk("next")]);
    let keys = ["", "a", "a\u{7f}", "aa", "b", "b1", "b2", "c"];
    for store in [0, 1, 2] {
        let writes: Vec<_> = keys.iter().map(|key| put(store, key, Some("v"))).collect();
        stores.commit(&writes, &Checkpoint::default()).unwrap();
    }
    let scan = |store, from: Option<&str>, prefix: &str, limit| {
        let found = stores.scan(StoreIndex(store), from.map(str::as_bytes), prefix.as_bytes(), limit).unwrap();
        found.iter().map(|(key, _)| String::from_utf8_lossy(key).into_owned()).collect::<Vec<_>>()
    };
    for store in [0, 1] {
        assert_eq!(scan(store, None, "", 99), ["", "a", "aa", "a\u{7f}", "b", "b1", "b2", "c"]);
        assert_eq!(scan(store, None, "b", 2), ["b", "b1"]);
        assert_eq!(scan(store, Some("b1"), "b", 9), ["b1", "b2"]);
        assert_eq!(scan(store, Some("a"), "b", 1), ["b"]);
        assert_eq!(scan(store, Some("c"), "b", 9), [""; 0]);
        assert_eq!(scan(store, None, "", 0), [""; 0]);
    }
}

#[test]
fn a_full_memory_store_refuses_the_whole_batch() {
    let root = tempfile::tempdir().unwrap();
    let (dir, copied) = (root.path().join("a"), root.path().join("b"));
    let row = ROW_OVERHEAD + 2;
    let specs = [on_disk("d"), in_memory("m", 2 * row)];
    let stores = open(&dir, &specs);
    stores.commit(&[put(1, "a", Some("1")), put(1, "b", Some("1"))], &at(&["t-m"], 2)).unwrap();
    assert_eq!(stores.memory_bytes(), 2 * row);
    let more = [put(0, "k", Some("v")), put(1, "c", Some("1"))];
    for refused in [stores.commit(&more, &at(&["t-m"], 3)), stores.restore(&more)] {
        let Err(Error::Full { store, rows, bytes, wanted, limit }) = refused else { panic!("{refused:?}") };
        assert_eq!((store.as_str(), rows, bytes, wanted, limit), ("m", 2, 2 * row, 3 * row, 2 * row));
    }
    crash(&dir, &copied);
    for stores in [&stores, &open(&copied, &specs)] {
        assert_eq!((all(stores, 0).len(), all(stores, 1).len(), stores.memory_bytes()), (0, 2, 2 * row));
        assert_eq!(stores.checkpoint(), at(&["t-m"], 2));
    }
    drop(stores);
    // A start with a lower bound is refused too; as a store on disk it has no bound.
    let error = TaskStores::open(&dir, &[on_disk("d"), in_memory("m", row)], &resources()).unwrap_err();
    assert!(matches!(error, Error::Full { rows: 1, .. }), "{error}");
    assert_eq!(all(&open(&dir, &[on_disk("d"), on_disk("m")]), 1).len(), 2);
}

#[test]
fn entries_are_exact_where_that_is_cheap_and_near_elsewhere() {
    let root = tempfile::tempdir().unwrap();
    let stores = open(root.path(), &[on_disk("large"), in_memory("m", 1 << 30), on_disk("small")]);
    stores
        .commit(&[put(0, "a", Some("1")), put(0, "a", Some("2")), put(1, "a", Some("1"))], &Checkpoint::default())
        .unwrap();
    let entries = |store| stores.entries(StoreIndex(store));
    assert_eq!((entries(0), entries(1), entries(2), entries(3)), ((1, true), (1, true), (0, true), (0, false)));

    let value = "x".repeat(100);
    let many: Vec<_> =
        (0..30_000).map(|n| put(if n % 3 == 0 { 2 } else { 0 }, &format!("{n:08}"), Some(&value))).collect();
    stores.restore(&many).unwrap();
    stores.persist(&Checkpoint::default()).unwrap();
    let (count, exact) = entries(0);
    assert!(!exact && (15_000..25_000).contains(&count), "{count}");
    assert_eq!(stores.count_exact(StoreIndex(0)).unwrap(), 20_001);
    assert_eq!(entries(0), (20_001, true));
    assert_eq!(entries(1), (1, true));
    stores.commit(&[put(2, "another", Some("1"))], &Checkpoint::default()).unwrap();
    assert!(!entries(0).1, "written since");
}

#[test]
fn memory_has_one_number() {
    let root = tempfile::tempdir().unwrap();
    let budget = 24 << 20;
    let resources = Resources::new(budget, 4);
    let value = "v".repeat(1000);
    // All at once, each with more than its share.
    let tasks: Vec<TaskStores> = (0..4)
        .map(|task| TaskStores::open(&root.path().join(format!("0_{task}")), &[on_disk("d")], &resources).unwrap())
        .collect();
    let mut most = 0;
    for part in 0..20 {
        for stores in &tasks {
            let rows: Vec<_> = (0..1000).map(|n| put(0, &format!("{part}-{n}"), Some(&value))).collect();
            stores.commit(&rows, &Checkpoint::default()).unwrap();
            let keys: Vec<Bytes> = rows.into_iter().map(|row| row.key).collect();
            stores.multi_get(StoreIndex(0), &keys).unwrap();
            most = most.max(resources.memory_used());
        }
    }
    // Headroom: buffers that are being written to disk while the next ones fill.
    assert!((budget / 8..=budget * 5 / 4).contains(&most), "{most}");
}

#[test]
fn stores_that_lack_room_tell_their_checkpoint_and_nothing_else_until_they_are_opened_anew() {
    let root = tempfile::tempdir().unwrap();
    let specs = [on_disk("d"), in_memory("m", 10_000)];
    let stores = open(root.path(), &specs);
    stores.commit(&[put(0, "k", Some("v")), put(1, "k", Some("v"))], &at(&["t-d"], 3)).unwrap();
    assert!(stores.lacks_room().is_none());
    drop(stores);

    let full = Error::folder("write", root.path())(std::io::Error::from_raw_os_error(28));
    assert!(full.is_disk_full(), "{full}");
    // Another store than the database has, too: its list cannot be written now.
    let more = [on_disk("d"), in_memory("m", 10_000), on_disk("new")];
    let stores = TaskStores::shut(root.path(), &more, &resources(), &full).unwrap();
    let reason = stores.lacks_room().unwrap();
    assert!(
        reason.contains("disk full: cannot write ") && reason.ends_with("No space left on device (os error 28)"),
        "{reason}"
    );
    assert_eq!(stores.checkpoint(), at(&["t-d"], 3));
    stores.get(StoreIndex(0), b"k").unwrap_err();
    assert!(matches!(stores.commit(&[put(0, "k", Some("w"))], &at(&["t-d"], 4)), Err(Error::Shut { .. })));
    assert!(matches!(stores.restore(&[put(0, "k", Some("w"))]), Err(Error::Shut { .. })));

    stores.reopen().unwrap();
    assert!(stores.lacks_room().is_none() && stores.checkpoint() == at(&["t-d"], 3));
    assert_eq!(all(&stores, 0), pairs(&[("k", "v")]));
    assert_eq!(all(&stores, 1), pairs(&[("k", "v")]));
    stores.commit(&[put(2, "k", Some("w"))], &at(&["t-d"], 4)).unwrap();
    // Opened anew while it works: what is not durable may go, what is committed stays, and is counted once in memory.
    stores.reopen().unwrap();
    assert_eq!((stores.checkpoint(), stores.memory_bytes()), (at(&["t-d"], 4), ROW_OVERHEAD + 2));
    assert_eq!(all(&stores, 2), pairs(&[("k", "w")]));

    // Where there is no database yet, there is no checkpoint either.
    let stores = TaskStores::shut(&root.path().join("none"), &specs, &resources(), &full).unwrap();
    assert_eq!(stores.checkpoint(), Checkpoint::default());
    stores.reopen().unwrap();
    stores.commit(&[put(0, "k", Some("v"))], &Checkpoint::default()).unwrap();
}

#[test]
fn folders_hold_no_logs_for_people() {
    let root = tempfile::tempdir().unwrap();
    let stores = open(root.path(), &[on_disk("d")]);
    stores.commit(&[put(0, "k", Some("v"))], &Checkpoint::default()).unwrap();
    let names: Vec<_> = read_dir(root.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().starts_with("LOG")), "{names:?}");
}

#[test]
fn opening_waits_for_the_last_reader() {
    let root = tempfile::tempdir().unwrap();
    let stores = Arc::new(open(root.path(), &[on_disk("d")]));
    stores.commit(&[put(0, "k", Some("v"))], &Checkpoint::default()).unwrap();
    let wait = Duration::from_millis(20);
    let error = TaskStores::open_within(root.path(), &[on_disk("d")], &resources(), wait).unwrap_err();
    assert!(matches!(error, Error::InUse { .. }), "{error}");
    assert!(error.to_string().contains(&root.path().display().to_string()), "{error}");

    let reader = Arc::clone(&stores);
    drop(stores);
    let opened = std::thread::scope(|scope| {
        let opener = scope.spawn(|| open(root.path(), &[on_disk("d")]));
        assert_eq!(all(&reader, 0).len(), 1);
        drop(reader);
        opener.join().unwrap()
    });
    assert_eq!(all(&opened, 0), pairs(&[("k", "v")]));
}

#[test]
fn readers_see_whole_entries_while_the_task_writes() {
    let root = tempfile::tempdir().unwrap();
    let stores = open(root.path(), &[on_disk("d"), in_memory("m", 1 << 20)]);
    let values: Vec<String> = (0..200).map(|n| n.to_string().repeat(50)).collect();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            loop {
                for store in [0, 1] {
                    let Some(entry) = stores.get(StoreIndex(store), b"k").unwrap() else { continue };
                    assert_eq!(entry.timestamp, entry.value.len() as i64);
                    if entry.value == values[199].as_bytes() {
                        return;
                    }
                }
            }
        });
        for value in &values {
            stores.commit(&[put(0, "k", Some(value)), put(1, "k", Some(value))], &Checkpoint::default()).unwrap();
        }
        reader.join().unwrap();
    });
}
