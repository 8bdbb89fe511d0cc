//! Whether what a seed left behind is what the topology means.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::cluster::Cluster;
use super::disk::{Database, Rows, apply};
use super::logic::{CHANGELOG, OUT, ROWS, STATES, TABLE};
use super::reference::{Inputs, Sequences};
use super::world::World;
use crate::model::{Entry, Record, StateWrite, StoreIndex, TaskId, TopicPartition};

/// Compares outputs, changelogs and stores with the reference.
pub(super) fn check(world: &mut World) -> Result<(), String> {
    for partition in 0..world.scenario.partitions {
        let inputs = Inputs::new(&mut world.cluster, partition);
        let rows = inputs.rows().clone();
        let written = outputs(&mut world.cluster, partition);
        let changelog = replay(&mut world.cluster, Rows::new(), &BTreeMap::new(), STATES, partition);
        let changelog = of_store(&changelog, STATES);
        let states = match (world.scenario.exactly_once, world.scenario.live) {
            (true, true) => merged(&inputs, &written)?,
            (true, false) => exact(inputs.sequences(), &written)?,
            (false, false) => repeated(inputs.sequences(), &written, &world.late_keys)?,
            (false, true) => {
                live_repeated(&inputs, &written, &changelog, &world.late_keys)?;
                changelog.clone()
            }
        };
        same("the changelog", &states, &changelog)?;
        stores(world, partition, &states, &rows)?;
    }
    Ok(())
}

/// Committed outputs of a partition, by key.
fn outputs(cluster: &mut Cluster, partition: i32) -> Sequences {
    let mut outputs = Sequences::new();
    for record in cluster.log(&TopicPartition::new(OUT, partition)).committed(0) {
        outputs.entry(record.key.unwrap_or_default()).or_default().push(record.value);
    }
    outputs
}

/// The last state of each key that has one.
fn last(sequences: &Sequences) -> BTreeMap<Bytes, Bytes> {
    sequences.iter().filter_map(|(key, states)| Some((key.clone(), states.last()?.clone()?))).collect()
}

/// Exactly-once: each key's outputs are the reference's, all of them, once, in order.
fn exact(expected: Sequences, written: &Sequences) -> Result<BTreeMap<Bytes, Bytes>, String> {
    for key in expected.keys().chain(written.keys()) {
        let (expected, written) = (expected.get(key), written.get(key));
        if expected != written {
            return Err(format!("outputs of {key:?}: {} but should be {}", shown(written), shown(expected)));
        }
    }
    Ok(last(&expected))
}

/// The same where the order of the two streams was the engine's choice.
fn merged(inputs: &Inputs, written: &Sequences) -> Result<BTreeMap<Bytes, Bytes>, String> {
    for key in inputs.keys().iter().chain(written.keys()) {
        let states = written.get(key).map(Vec::as_slice).unwrap_or_default();
        inputs
            .check_merge(key, states)
            .map_err(|why| format!("outputs of {key:?}: {why}: {}", shown(written.get(key))))?;
    }
    Ok(last(written))
}

/// At-least-once: each key's outputs are there, perhaps more than once, none that never was a state, and the last one is last.
fn repeated(
    expected: Sequences,
    written: &Sequences,
    late: &BTreeSet<Bytes>,
) -> Result<BTreeMap<Bytes, Bytes>, String> {
    for (key, states) in &expected {
        let found = written.get(key).map(Vec::as_slice).unwrap_or_default();
        let is_last = late.contains(key) || found.last() == states.last();
        let missing = states.iter().any(|state| !found.contains(state));
        if !is_last || missing || found.iter().any(|state| !states.contains(state)) {
            let (found, states) = (shown(Some(&found.to_vec())), shown(Some(states)));
            return Err(format!("outputs of {key:?}: {found} but should be, with repeats, {states}"));
        }
    }
    Ok(last(&expected))
}

/// The same where the order of the two streams was the engine's choice: the state counts each record once, and every output was some
/// state.
fn live_repeated(
    inputs: &Inputs,
    written: &Sequences,
    states: &BTreeMap<Bytes, Bytes>,
    late: &BTreeSet<Bytes>,
) -> Result<(), String> {
    for key in inputs.keys() {
        let found = written.get(&key).map(Vec::as_slice).unwrap_or_default();
        let state = states.get(&key).cloned();
        let is_last = late.contains(&key) || found.last().cloned().flatten() == state;
        let (any, last) = inputs.possible(&key);
        if !is_last || !last.contains(&state) || found.iter().any(|state| !any.contains(state)) {
            return Err(format!("outputs of {key:?}: {}; the state is {state:?}", shown(Some(&found.to_vec()))));
        }
    }
    Ok(())
}

/// A store after its topic is read on from where the checkpoint says; from its beginning, if it says nothing that fits.
fn replay(
    cluster: &mut Cluster,
    mut rows: Rows,
    checkpoint: &BTreeMap<TopicPartition, i64>,
    store: StoreIndex,
    partition: i32,
) -> Rows {
    let topic = if store == STATES { CHANGELOG } else { TABLE };
    let of = TopicPartition::new(topic, partition);
    let log = cluster.log(&of);
    let from = checkpoint.get(&of).copied().filter(|at| *at >= log.begin);
    if from.is_none() {
        rows.retain(|(of, _), _| *of != store);
    }
    let write = |Record { key, value, timestamp, .. }: Record| {
        let entry = value.map(|value| Entry { timestamp, version: 0, value });
        Some(StateWrite { store, key: key?, entry })
    };
    let writes: Vec<StateWrite> = log.committed(from.unwrap_or(log.begin)).into_iter().filter_map(write).collect();
    apply(&mut rows, &writes);
    rows
}

/// One store's values.
fn of_store(rows: &Rows, store: StoreIndex) -> BTreeMap<Bytes, Bytes> {
    rows.iter()
        .filter(|((of, _), _)| *of == store)
        .map(|((_, key), entry)| (key.clone(), entry.value.clone()))
        .collect()
}

/// Every folder's stores are right once they are brought forward; those of the last owner are right as they are.
fn stores(
    world: &mut World,
    partition: i32,
    states: &BTreeMap<Bytes, Bytes>,
    table: &BTreeMap<Bytes, Bytes>,
) -> Result<(), String> {
    let task = TaskId { subtopology: 0, partition };
    let mut is_current = false;
    for index in 0..world.processes.len() {
        let Some(database) = world.processes[index].disk.tasks.get(&task) else { continue };
        let (rows, checkpoint) = (database.rows.clone(), database.checkpoint.tables.clone());
        let (own_states, own_table) = (of_store(&rows, STATES), of_store(&rows, ROWS));
        is_current |= own_states == *states && own_table == *table && reaches_end(&mut world.cluster, database);
        let forward = replay(&mut world.cluster, rows.clone(), &checkpoint, STATES, partition);
        same(
            &format!("process {index}'s state, brought forward from {own_states:?}"),
            states,
            &of_store(&forward, STATES),
        )?;
        let forward = replay(&mut world.cluster, rows, &checkpoint, ROWS, partition);
        same(&format!("process {index}'s table, brought forward"), table, &of_store(&forward, ROWS))?;
    }
    if is_current { Ok(()) } else { Err(format!("no process has task {task} as it is committed")) }
}

/// Whether a checkpoint covers its changelog: nothing but markers may be left.
fn reaches_end(cluster: &mut Cluster, database: &Database) -> bool {
    database.checkpoint.tables.iter().all(|(partition, at)| cluster.log(partition).committed(*at).is_empty())
}

/// Refuses values that are not the ones expected.
fn same(what: &str, expected: &BTreeMap<Bytes, Bytes>, found: &BTreeMap<Bytes, Bytes>) -> Result<(), String> {
    if expected == found { Ok(()) } else { Err(format!("{what}: {found:?} but should be {expected:?}")) }
}

/// States in a line.
fn shown(states: Option<&Vec<Option<Bytes>>>) -> String {
    let state = |state: &Option<Bytes>| state.as_ref().map_or("(none)".into(), |it| format!("{it:?}"));
    states.map(|states| states.iter().map(state).collect::<Vec<_>>().join(", ")).unwrap_or_else(|| "nothing".to_owned())
}
