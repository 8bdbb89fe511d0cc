//! Topics of one sub-topology must have the same number of partitions: task n gets partition n of each.

use std::collections::BTreeMap;
use std::fmt;

use super::SubtopologyPlan;

/// Sub-topologies whose topics don't fit; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct CopartitionProblems(pub Vec<CopartitionProblem>);

/// The topics of a sub-topology that don't fit: one is missing, or their counts differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopartitionProblem {
    /// The sub-topology.
    pub subtopology: u32,
    /// All its topics in order, with the number of partitions; `None`: there is no such topic.
    pub topics: Vec<(String, Option<i32>)>,
}

impl CopartitionProblem {
    /// The number of partitions that all topics of `part` have, if it is one number.
    pub(super) fn check(part: &SubtopologyPlan, counts: &BTreeMap<String, i32>) -> Result<i32, Self> {
        let topics = part.sources.iter().map(|source| (source.topic.clone(), counts.get(&source.topic).copied()));
        let topics: Vec<_> = topics.collect();
        match topics.first() {
            Some((_, Some(first))) if topics.iter().all(|(_, count)| *count == Some(*first)) => Ok(*first),
            _ => Err(Self { subtopology: part.index, topics }),
        }
    }
}

impl fmt::Display for CopartitionProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missing = self.topics.iter().any(|(_, count)| count.is_none());
        let wrong = if missing { "topics are missing" } else { "the numbers of partitions differ" };
        write!(f, "sub-topology {}: {wrong}: ", self.subtopology)?;
        for (index, (topic, count)) in self.topics.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            match count {
                Some(count) => write!(f, "{separator}{topic} {count}")?,
                None => write!(f, "{separator}{topic} missing")?,
            }
        }
        write!(f, "; all of them need the same number")
    }
}

impl fmt::Display for CopartitionProblems {
    /// One sub-topology a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}
