//! The restore barrier: no stream record is processed before the tables are full.
//!
//! Pure bookkeeping: who is full, who waits. A task that runs never waits again.

use std::collections::BTreeMap;

use crate::model::TaskId;
use crate::plan::BarrierScope;

/// The barrier of one instance.
#[derive(Debug)]
pub struct Barrier {
    /// Who waits for whom.
    scope: BarrierScope,
    /// Tasks of this instance: whether their tables are full.
    tasks: BTreeMap<TaskId, bool>,
    /// Whether all global tables are full.
    globals: bool,
}

impl Barrier {
    /// A barrier that nobody has passed; `globals`: there are no global tables to wait for.
    pub fn new(scope: BarrierScope, globals: bool) -> Self {
        Self { scope, tasks: BTreeMap::new(), globals }
    }

    /// The instance has this task now; its tables are not full.
    pub fn opened(&mut self, task: TaskId) {
        self.tasks.insert(task, false);
    }

    /// The task's tables are full.
    pub fn full(&mut self, task: TaskId) {
        if let Some(full) = self.tasks.get_mut(&task) {
            *full = true;
        }
    }

    /// The instance no longer has the task.
    pub fn closed(&mut self, task: TaskId) {
        self.tasks.remove(&task);
    }

    /// Global tables are full.
    pub fn globals_full(&mut self) {
        self.globals = true;
    }

    /// What keeps `task` from running, for people; `None`: nothing.
    pub fn waits_for(&self, task: TaskId) -> Option<String> {
        if self.scope == BarrierScope::Off {
            return None;
        }
        if !self.globals {
            return Some("waits for the global tables".to_owned());
        }
        let own = self.tasks.get(&task).copied().unwrap_or(false);
        if !own {
            return Some("its tables are not full".to_owned());
        }
        if self.scope == BarrierScope::Task {
            return None;
        }
        let missing: Vec<String> =
            self.tasks.iter().filter(|(_, full)| !**full).map(|(id, _)| id.to_string()).collect();
        if missing.is_empty() { None } else { Some(format!("waits for the tables of tasks {}", missing.join(", "))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: TaskId = TaskId { subtopology: 0, partition: 0 };
    const B: TaskId = TaskId { subtopology: 0, partition: 1 };

    fn barrier(scope: BarrierScope) -> Barrier {
        let mut barrier = Barrier::new(scope, true);
        barrier.opened(A);
        barrier.opened(B);
        barrier
    }

    #[test]
    fn scopes() {
        let mut task = barrier(BarrierScope::Task);
        assert!(task.waits_for(A).is_some());
        task.full(A);
        assert_eq!((task.waits_for(A), task.waits_for(B).is_some()), (None, true));

        let mut instance = barrier(BarrierScope::Instance);
        instance.full(A);
        assert_eq!(instance.waits_for(A).as_deref(), Some("waits for the tables of tasks 0_1"));
        instance.full(B);
        assert_eq!((instance.waits_for(A), instance.waits_for(B)), (None, None));

        assert_eq!(barrier(BarrierScope::Off).waits_for(A), None);
    }

    #[test]
    fn a_task_that_was_given_away_is_not_waited_for() {
        let mut instance = barrier(BarrierScope::Instance);
        instance.full(A);
        instance.closed(B);
        assert_eq!(instance.waits_for(A), None);
    }

    #[test]
    fn global_tables_come_first() {
        let mut barrier = Barrier::new(BarrierScope::Task, false);
        barrier.opened(A);
        barrier.full(A);
        assert!(barrier.waits_for(A).is_some());
        barrier.globals_full();
        assert_eq!(barrier.waits_for(A), None);
    }
}
