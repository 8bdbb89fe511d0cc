//! Which tasks there are.

use std::collections::BTreeMap;

use crate::model::TaskId;

use super::{CopartitionProblem, CopartitionProblems, Plan};

/// All tasks, by sub-topology, then partition. `counts`: number of partitions of each topic that is there.
pub fn tasks(plan: &Plan, counts: &BTreeMap<String, i32>) -> Result<Vec<TaskId>, CopartitionProblems> {
    let mut tasks = Vec::new();
    let mut problems = Vec::new();
    for part in &plan.subtopologies {
        match CopartitionProblem::check(part, counts) {
            Ok(count) => {
                tasks.extend((0..count).map(|partition| TaskId { subtopology: part.index, partition }));
            }
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(tasks) } else { Err(CopartitionProblems(problems)) }
}
