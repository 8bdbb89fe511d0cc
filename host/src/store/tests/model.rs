//! Random histories of a task's stores beside plain maps.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Something that happens to a task's stores.
#[derive(Clone, Debug)]
enum Step {
    /// A commit.
    Commit(Vec<StateWrite>),
    /// A part of a restore.
    Restore(Vec<StateWrite>),
    /// The checkpoint of a restore.
    Persist,
    /// A store starts over.
    Clear(u16),
    /// The stores are closed and opened again.
    Reopen,
    /// The process dies, and the next one opens what it left.
    Crash,
}

/// What the stores should hold: rows by store and key, and the checkpoint.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    /// The rows.
    rows: BTreeMap<(u16, Bytes), Entry>,
    /// The checkpoint.
    checkpoint: Checkpoint,
}

impl Model {
    /// Applies writes.
    fn apply(&mut self, writes: &[StateWrite]) {
        for write in writes {
            let key = (write.store.0, write.key.clone());
            match &write.entry {
                Some(entry) => self.rows.insert(key, entry.clone()),
                None => self.rows.remove(&key),
            };
        }
    }
}

/// Writes to two stores with few, nasty keys.
fn writes() -> impl Strategy<Value = Vec<StateWrite>> {
    let key = proptest::collection::vec(prop_oneof![Just(0u8), Just(0xff), Just(b'a')], 0..3);
    let value = proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20));
    let one = (0..2u16, key, value, any::<i64>(), any::<u32>()).prop_map(|(store, key, value, timestamp, version)| {
        let entry = value.map(|value| Entry { timestamp, version, value: value.into() });
        StateWrite { store: StoreIndex(store), key: key.into(), entry }
    });
    proptest::collection::vec(one, 0..12)
}

/// Anything that may happen.
fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => writes().prop_map(Step::Commit),
        4 => writes().prop_map(Step::Restore),
        2 => Just(Step::Persist),
        1 => (0..2u16).prop_map(Step::Clear),
        1 => Just(Step::Reopen),
        2 => Just(Step::Crash),
    ]
}

/// What the stores hold.
fn contents(stores: &TaskStores) -> Model {
    let mut found = Model { checkpoint: stores.checkpoint(), ..Model::default() };
    for store in 0..2 {
        let rows = stores.scan(StoreIndex(store), None, b"", usize::MAX).unwrap();
        assert_eq!(stores.entries(StoreIndex(store)), (rows.len() as u64, true));
        let keys: Vec<Bytes> = rows.iter().map(|(key, _)| key.clone()).collect();
        let read: Vec<Entry> = stores.multi_get(StoreIndex(store), &keys).unwrap().into_iter().flatten().collect();
        assert_eq!(read, rows.iter().map(|(_, entry)| entry.clone()).collect::<Vec<_>>());
        for (key, entry) in rows {
            assert_eq!(stores.get(StoreIndex(store), &key).unwrap().as_ref(), Some(&entry));
            found.rows.insert((store, key), entry);
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 100, ..ProptestConfig::default() })]

    #[test]
    fn stores_hold_what_plain_maps_hold(steps in proptest::collection::vec(step(), 1..25)) {
        let root = tempfile::tempdir().unwrap();
        let specs = [on_disk("d"), in_memory("m", u64::MAX)];
        let mut dir = root.path().join("0");
        let mut stores = open(&dir, &specs);
        // What is there now, and what a crash leaves.
        let (mut now, mut durable) = (Model::default(), Model::default());
        for (number, step) in steps.into_iter().enumerate() {
            let offset = number as i64;
            match step {
                Step::Commit(writes) => {
                    now.apply(&writes);
                    now.checkpoint = at(&["t-d", "t-m", "t-other"], offset);
                    stores.commit(&writes, &now.checkpoint).unwrap();
                    durable = now.clone();
                }
                Step::Restore(writes) => {
                    now.apply(&writes);
                    stores.restore(&writes).unwrap();
                }
                Step::Persist => {
                    now.checkpoint = at(&["t-d", "t-m"], offset);
                    stores.persist(&now.checkpoint).unwrap();
                    durable = now.clone();
                }
                Step::Clear(store) => {
                    now.rows.retain(|(of, _), _| *of != store);
                    let topic = if store == 0 { "t-d" } else { "t-m" };
                    now.checkpoint.tables.remove(&TopicPartition::new(topic, 0));
                    stores.clear(StoreIndex(store)).unwrap();
                    durable = now.clone();
                }
                Step::Reopen => {
                    drop(stores);
                    stores = open(&dir, &specs);
                    // Closing in good order keeps also what no checkpoint covers.
                    durable = now.clone();
                }
                Step::Crash => {
                    let next = root.path().join(format!("{}", number + 1));
                    crash(&dir, &next);
                    drop(stores);
                    stores = open(&next, &specs);
                    dir = next;
                    now = durable.clone();
                }
            }
            prop_assert_eq!(&contents(&stores), &now);
        }
    }
}
