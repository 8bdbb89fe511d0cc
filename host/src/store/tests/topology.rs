//! Databases that meet another topology than the one that wrote them, or damage.

use rocksdb::{DB, Options};

use super::*;

/// Changes a closed database behind Weir's back.
fn tamper(dir: &Path, change: impl FnOnce(&DB)) {
    let db = DB::open(&Options::default(), dir).unwrap();
    change(&db);
}

#[test]
fn stores_are_found_by_name() {
    let root = tempfile::tempdir().unwrap();
    let stores = open(root.path(), &[on_disk("a"), in_memory("b", 1000)]);
    stores.commit(&[put(0, "k", Some("a's")), put(1, "k", Some("b's"))], &at(&["t-a", "t-b"], 5)).unwrap();
    drop(stores);
    let stores = open(root.path(), &[on_disk("b"), in_memory("a", 1000)]);
    assert_eq!((all(&stores, 0), all(&stores, 1)), (pairs(&[("k", "b's")]), pairs(&[("k", "a's")])));
    assert_eq!(stores.checkpoint(), at(&["t-a", "t-b"], 5));
}

#[test]
fn a_store_that_comes_back_is_empty_and_has_no_offset() {
    let root = tempfile::tempdir().unwrap();
    let stores = open(root.path(), &[on_disk("a"), on_disk("b")]);
    stores.commit(&[put(0, "k", Some("a's")), put(1, "k", Some("b's"))], &at(&["t-a", "t-b"], 5)).unwrap();
    drop(stores);
    let stores = open(root.path(), &[on_disk("b")]);
    assert_eq!((all(&stores, 0), stores.checkpoint()), (pairs(&[("k", "b's")]), at(&["t-b"], 5)));
    // Whoever carries an old checkpoint along does no harm.
    stores.commit([], &at(&["t-a", "t-b"], 6)).unwrap();
    drop(stores);
    let stores = open(root.path(), &[on_disk("a"), on_disk("b")]);
    assert_eq!((all(&stores, 0), all(&stores, 1).len()), (vec![], 1));
    assert_eq!(stores.checkpoint(), at(&["t-b"], 6));
}

#[test]
fn a_store_of_another_topic_is_empty_and_has_no_offset() {
    let root = tempfile::tempdir().unwrap();
    let stores = open(root.path(), &[on_disk("a"), on_disk("b")]);
    stores.commit(&[put(0, "k", Some("a's")), put(1, "k", Some("b's"))], &at(&["t-a", "t-b", "new"], 5)).unwrap();
    drop(stores);
    let moved = StoreSpec { topic: "new".to_owned(), ..on_disk("a") };
    let copied = root.path().join("crashed");
    let stores = open(root.path(), &[moved.clone(), on_disk("b")]);
    crash_files(root.path(), &copied);
    for stores in [&stores, &open(&copied, &[moved, on_disk("b")])] {
        assert_eq!((all(stores, 0), all(stores, 1).len()), (vec![], 1));
        assert_eq!(stores.checkpoint(), at(&["t-b"], 5));
    }
}

/// [`crash`] for a folder that holds others.
fn crash_files(dir: &Path, to: &Path) {
    create_dir_all(to).unwrap();
    for file in read_dir(dir).unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_file() && file.file_name() != "LOCK" {
            copy(file.path(), to.join(file.file_name())).unwrap();
        }
    }
}

#[test]
fn a_later_format_is_refused() {
    let root = tempfile::tempdir().unwrap();
    drop(open(root.path(), &[on_disk("a")]));
    tamper(root.path(), |db| db.put(layout::FORMAT_KEY, "2").unwrap());
    let error = TaskStores::open(root.path(), &[on_disk("a")], &resources()).unwrap_err();
    assert!(matches!(error, Error::Newer { found: 2, known: 1, .. }), "{error}");
}

#[test]
fn damage_is_named() {
    for (key, value, what) in [
        (layout::CHECKPOINT_KEY, &b"{\"tables\":"[..], "the checkpoint in "),
        (layout::CHECKPOINT_KEY, b"{\"tables\":{\"t\":1}}", "the checkpoint in "),
        (layout::TABLES_KEY, b"[]", "the list of stores in "),
        (layout::FORMAT_KEY, b"one", "the format version in "),
    ] {
        let root = tempfile::tempdir().unwrap();
        drop(open(root.path(), &[on_disk("a")]));
        tamper(root.path(), |db| db.put(key, value).unwrap());
        let error = TaskStores::open(root.path(), &[on_disk("a")], &resources()).unwrap_err();
        let place = format!("{what}{} is damaged; delete that folder", root.path().display());
        assert!(error.to_string().starts_with(&place), "{error}");
        assert!(std::error::Error::source(&error).is_some());
    }
}

#[test]
fn a_damaged_entry_is_named_by_store_and_folder() {
    let root = tempfile::tempdir().unwrap();
    drop(open(root.path(), &[on_disk("a")]));
    tamper(root.path(), |db| db.put(b"\0\x01key", "short").unwrap());
    let stores = open(root.path(), &[on_disk("a")]);
    let folder = root.path().display();
    let error = stores.get(StoreIndex(0), b"key").unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("store a: an entry in {folder} is damaged; delete that folder to restore its contents from Kafka")
    );
    assert!(stores.scan(StoreIndex(0), None, b"", 1).is_err());
    drop(stores);
    assert!(TaskStores::open(root.path(), &[in_memory("a", 1000)], &resources()).is_err());
}

#[test]
fn what_rocksdb_says_is_passed_on_with_the_folder() {
    let root = tempfile::tempdir().unwrap();
    drop(open(root.path(), &[on_disk("a")]));
    write(root.path().join("CURRENT"), "nonsense").unwrap();
    let error = TaskStores::open(root.path(), &[on_disk("a")], &resources()).unwrap_err();
    let damaged = format!("the state in {} is damaged", root.path().display());
    assert!(error.to_string().starts_with(&damaged), "{error}");
    let text = error.into_store_error("a").to_string();
    assert!(text.contains("CURRENT"), "{text}");

    let file = root.path().join("file");
    write(&file, "").unwrap();
    let error = TaskStores::open(&file, &[on_disk("a")], &resources()).unwrap_err();
    assert!(error.to_string().starts_with(&format!("cannot create {}", file.display())), "{error}");
}

#[test]
fn an_unknown_store_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    let stores = open(root.path(), &[on_disk("a")]);
    assert!(matches!(
        stores.commit(&[put(1, "k", None)], &Checkpoint::default()),
        Err(Error::NoStore { index: 1, .. })
    ));
    assert!(matches!(stores.clear(StoreIndex(9)), Err(Error::NoStore { index: 9, .. })));
    assert!(stores.get(StoreIndex(1), b"k").is_err());
    assert!(stores.multi_get(StoreIndex(1), &[]).is_err());
}
