//! What the topology means: its logic applied to one record after another, in one place, without anything that can go wrong.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;

use super::cluster::Cluster;
use super::logic::{A, B, TABLE, add, join};
use crate::model::{Record, TopicPartition};

/// The states that each key's records lead to, in order; `None`: no state.
pub(super) type Sequences = BTreeMap<Bytes, Vec<Option<Bytes>>>;

/// A partition's inputs.
pub(super) struct Inputs {
    /// The table, whole.
    rows: BTreeMap<Bytes, Bytes>,
    /// The two streams.
    streams: [VecDeque<Record>; 2],
}

impl Inputs {
    /// The inputs of a partition, as its logs have them.
    pub(super) fn new(cluster: &mut Cluster, partition: i32) -> Self {
        let mut read = |topic: &str| cluster.log(&TopicPartition::new(topic, partition)).committed(0);
        let mut rows = BTreeMap::new();
        for record in read(TABLE) {
            let Some(key) = record.key else { continue };
            match record.value {
                Some(value) => rows.insert(key, value),
                None => rows.remove(&key),
            };
        }
        let streams = [A, B].map(|topic| read(topic).into());
        Self { rows, streams }
    }

    /// The rows of the table.
    pub(super) fn rows(&self) -> &BTreeMap<Bytes, Bytes> {
        &self.rows
    }

    /// The keys of both streams' records.
    pub(super) fn keys(&self) -> BTreeSet<Bytes> {
        let records = self.streams.iter().flatten().filter(|record| record.value.is_some());
        records.filter_map(|record| record.key.clone()).collect()
    }

    /// The state that a record of stream `stream` leads to.
    fn after(&self, state: Option<&Bytes>, stream: usize, record: &Record) -> Option<Bytes> {
        let (key, value) = (record.key.as_ref()?, record.value.as_ref()?);
        match stream {
            0 => add(state, &join(value, self.rows.get(key))),
            _ => add(state, value),
        }
    }

    /// Every state of every key, when the streams are merged by timestamp (`a` first where equal).
    pub(super) fn sequences(mut self) -> Sequences {
        let mut sequences = Sequences::new();
        loop {
            let head = |stream: &VecDeque<Record>| stream.front().map(|record| record.timestamp);
            let stream = match (head(&self.streams[0]), head(&self.streams[1])) {
                (None, None) => return sequences,
                (Some(a), Some(b)) => usize::from(b < a),
                (a, _) => usize::from(a.is_none()),
            };
            let Some(record) = self.streams[stream].pop_front() else { return sequences };
            // A record without a value has its turn, and changes nothing.
            let Some(key) = record.key.clone().filter(|_| record.value.is_some()) else { continue };
            let of_key = sequences.entry(key).or_default();
            let state = of_key.last().cloned().flatten();
            of_key.push(self.after(state.as_ref(), stream, &record));
        }
    }

    /// The states that a key can have for some merge of the streams, those of a stream in order: any time, and in the end.
    pub(super) fn possible(&self, key: &Bytes) -> (BTreeSet<Option<Bytes>>, BTreeSet<Option<Bytes>>) {
        let of_key = |stream: usize| -> Vec<&Record> {
            self.streams[stream].iter().filter(|it| it.key.as_ref() == Some(key) && it.value.is_some()).collect()
        };
        let (a, b) = (of_key(0), of_key(1));
        // By how many records of each stream.
        let mut reached = BTreeMap::from([((0, 0), BTreeSet::from([None]))]);
        let mut any = BTreeSet::new();
        for (from_a, from_b) in (0..=a.len()).flat_map(|from_a| (0..=b.len()).map(move |from_b| (from_a, from_b))) {
            let states = reached.get(&(from_a, from_b)).cloned().unwrap_or_default();
            for state in &states {
                for (stream, next, to) in
                    [(0, a.get(from_a), (from_a + 1, from_b)), (1, b.get(from_b), (from_a, from_b + 1))]
                {
                    let Some(record) = next else { continue };
                    let after = self.after(state.as_ref(), stream, record);
                    reached.entry(to).or_insert_with(BTreeSet::new).insert(after);
                }
            }
            any.extend(states);
        }
        (any, reached.remove(&(a.len(), b.len())).unwrap_or_default())
    }

    /// Whether these are the states of a key for some merge of the streams; why not, if they are not.
    pub(super) fn check_merge(&self, key: &Bytes, states: &[Option<Bytes>]) -> Result<(), String> {
        let mut left: Vec<VecDeque<&Record>> = self
            .streams
            .iter()
            .map(|stream| stream.iter().filter(|it| it.key.as_ref() == Some(key) && it.value.is_some()).collect())
            .collect();
        let mut state: Option<Bytes> = None;
        for (index, next) in states.iter().enumerate() {
            let fits = |stream: &usize| {
                left[*stream].front().is_some_and(|record| self.after(state.as_ref(), *stream, record) == *next)
            };
            let Some(stream) = (0..left.len()).find(fits) else {
                return Err(format!("output {index} is {next:?}, which no next record makes of {state:?}"));
            };
            left[stream].pop_front();
            state.clone_from(next);
        }
        match left.iter().map(VecDeque::len).sum::<usize>() {
            0 => Ok(()),
            missing => Err(format!("{missing} records are missing after {} outputs", states.len())),
        }
    }
}
