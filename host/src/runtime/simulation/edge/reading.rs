//! Streams, tables and changelogs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::timeout;
use crate::kafka::{Committed, Error, LogRange, Polled, Waker};
use crate::model::{Record, TopicPartition};
use crate::runtime::edge::{Answer, LogRanges, Place, Queue, Reader, Source};
use crate::runtime::simulation::cluster::Passed;
use crate::runtime::simulation::coverage::Seen;
use crate::runtime::simulation::fault::Fault;
use crate::runtime::simulation::logic::{A, B, CHANGELOG, TABLE};
use crate::runtime::simulation::wire::Wire;
use crate::runtime::simulation::world::{Fetcher, Process, World};

/// The group member.
pub(in crate::runtime::simulation) struct SimulatedSource(pub(in crate::runtime::simulation) Wire);

/// The reader of tables and changelogs.
pub(in crate::runtime::simulation) struct SimulatedReader(pub(in crate::runtime::simulation) Wire);

/// Answers where logs begin and end.
pub(in crate::runtime::simulation) struct SimulatedLogRanges(pub(in crate::runtime::simulation) Wire);

/// One partition's records.
struct SimulatedQueue {
    /// The process.
    wire: Wire,
    /// The partition.
    partition: TopicPartition,
    /// Which fetcher it is the queue of.
    id: u64,
    /// Whether it is a stream's.
    stream: bool,
}

/// The fetchers of a process's streams, or those of its tables.
fn fetchers(process: &mut Process, streams: bool) -> &mut BTreeMap<TopicPartition, Fetcher> {
    if streams { &mut process.streams } else { &mut process.tables }
}

/// A queue for a partition, which is read from there; `None`: once it is assigned.
fn queue(
    wire: &Wire,
    partition: &TopicPartition,
    position: Option<i64>,
    waker: &Waker,
    stream: bool,
) -> Box<dyn Queue> {
    let id = wire.look(|world| {
        let id = world.random.next();
        let fetcher = Fetcher { id, position, told: None, after_last: position.unwrap_or(0), waker: Arc::clone(waker) };
        fetchers(&mut world.processes[wire.process], stream).insert(partition.clone(), fetcher);
        id
    });
    Box::new(SimulatedQueue { wire: wire.clone(), partition: partition.clone(), id, stream })
}

impl Source for SimulatedSource {
    fn split(&self, partition: &TopicPartition, waker: &Waker) -> Result<Box<dyn Queue>, Error> {
        Ok(queue(&self.0, partition, None, waker, true))
    }

    fn committed(&self, partitions: &[TopicPartition], _: Duration) -> Result<Vec<Committed>, Error> {
        self.0.effect("asks for committed offsets", |world| {
            if world.is_unavailable() {
                world.saw(Seen::CoordinatorUnavailable);
                return Err(timeout("committed offsets"));
            }
            let mut answer = Vec::new();
            for partition in partitions {
                let Ok(found) = world.cluster.group.committed(partition) else {
                    world.saw(Seen::UnstableOffsets);
                    return Err(timeout("committed offsets, which are unstable"));
                };
                let (offset, metadata) = found.map_or((None, String::new()), |(at, metadata)| (Some(at), metadata));
                answer.push(Committed { partition: partition.clone(), offset, metadata });
            }
            Ok(answer)
        })
    }

    fn seek(&self, partitions: &[(TopicPartition, i64)], _: Duration) -> Result<Vec<(TopicPartition, Error)>, Error> {
        self.0.effect("seeks", |world| {
            if world.mishap(10) {
                return Err(timeout("seek"));
            }
            world.saw(Seen::Sought);
            for (partition, offset) in partitions {
                let Some(fetcher) = world.processes[self.0.process].streams.get_mut(partition) else { continue };
                if fetcher.position.is_none() {
                    return Err(timeout("seek in a partition that is not assigned"));
                }
                (fetcher.position, fetcher.told, fetcher.after_last) = (Some(*offset), None, *offset);
                (fetcher.waker)();
            }
            Ok(Vec::new())
        })
    }

    fn place(&self) -> Result<Place, Error> {
        let place = self.0.look(|world| world.processes[self.0.process].place);
        place.map(Place::new).ok_or_else(|| timeout("a place in the group"))
    }
}

impl Reader for SimulatedReader {
    fn open(&self, partitions: &[(TopicPartition, i64)], waker: &Waker) -> Result<Vec<Box<dyn Queue>>, Error> {
        let open = |(partition, at): &(TopicPartition, i64)| {
            self.0.look(|world| {
                if *partition.topic == *CHANGELOG && *at > world.cluster.log(partition).begin {
                    world.saw(Seen::RestoreResumed);
                }
                world.tell(|| format!("  {}: reads {partition} from {at}", self.0.process));
            });
            queue(&self.0, partition, Some(*at), waker, false)
        };
        Ok(partitions.iter().map(open).collect())
    }

    fn close(&self, partitions: &[TopicPartition]) -> Result<(), Error> {
        self.0.look(|world| {
            for partition in partitions {
                world.processes[self.0.process].tables.remove(partition);
            }
        });
        Ok(())
    }
}

impl Queue for SimulatedQueue {
    fn poll(&mut self, max_records: usize, _: usize, into: &mut VecDeque<Record>) -> Result<Polled, Error> {
        let before = into.len();
        let (next, end) = self.wire.look(|world| self.fetch(world, max_records, into))?;
        let records = into.len() - before;
        let bytes = into.iter().skip(before).map(Record::size).sum();
        if next && end.is_none() && records == 0 {
            return Ok(Polled::default());
        }
        Ok(Polled { records, bytes, end })
    }
}

impl SimulatedQueue {
    /// Fetches. Returns whether something is left for later, and the end, if it is news that it is reached.
    fn fetch(
        &self,
        world: &mut World,
        max_records: usize,
        into: &mut VecDeque<Record>,
    ) -> Result<(bool, Option<i64>), Error> {
        let late = world.mishap(20);
        let max = world.random.between(1, 4).min(max_records);
        let World { cluster, processes, fault, .. } = world;
        let fetcher = fetchers(&mut processes[self.wire.process], self.stream).get_mut(&self.partition);
        let Some(fetcher) = fetcher.filter(|fetcher| fetcher.id == self.id) else { return Ok((false, None)) };
        let Some(position) = fetcher.position else { return Ok((false, None)) };
        if late {
            // The answer is on its way.
            (fetcher.waker)();
            return Ok((true, None));
        }
        let log = cluster.log(&self.partition);
        if position < log.begin {
            return Err(Error::OffsetOutOfRange {
                partition: self.partition.clone(),
                offset: position,
                reason: "the log begins later".to_owned(),
            });
        }
        let passed = log.fetch(position, max, into);
        let (stable, log_end) = (log.stable(), log.end);
        fetcher.position = Some(passed.next);
        if let Some(last) = into.back() {
            fetcher.after_last = fetcher.after_last.max(last.offset + 1);
        }
        let mut end = (passed.next == stable && fetcher.told != Some(stable)).then_some(stable);
        if end.is_some() {
            fetcher.told = end;
        }
        match fault {
            Some(Fault::MarkerNotPassed) if !self.stream => end = end.map(|_| fetcher.after_last),
            Some(Fault::OpenTransactionSkipped) if !self.stream && end.is_some() => {
                (fetcher.position, fetcher.told, end) = (Some(log_end), Some(log_end), Some(log_end));
            }
            _ => {}
        }
        let waits = stable < log_end && passed.next == stable;
        if *self.partition.topic == *CHANGELOG {
            note(world, &passed, waits);
        } else if *self.partition.topic == *TABLE && waits {
            world.saw(Seen::TableWaitedForTransaction);
        }
        Ok((false, end))
    }
}

/// Notes what the reading of a changelog went over; `waits`: a transaction is open at its end.
fn note(world: &mut World, passed: &Passed, waits: bool) {
    for (seen, what) in [
        (passed.aborted > 0, Seen::RestoreOverAborted),
        (passed.markers > 0, Seen::RestoreOverMarker),
        (passed.holes > 0, Seen::RestoreOverHole),
        (waits, Seen::RestoreWaitedForTransaction),
    ] {
        if seen {
            world.saw(what);
        }
    }
}

impl LogRanges for SimulatedLogRanges {
    fn ask(&self, partition: TopicPartition, answer: Answer) {
        let range = self.0.look(|world| {
            // Where streams start is asked for until there is an answer.
            if *partition.topic != *A && *partition.topic != *B && world.mishap(5) {
                return Err("the broker does not answer".to_owned());
            }
            let log = world.cluster.log(&partition);
            Ok(LogRange { begin: log.begin, end: log.end })
        });
        answer(range);
    }

    fn watch(&self, _: Vec<TopicPartition>) {}

    fn end(&self, _: &TopicPartition) -> Option<i64> {
        None
    }
}
