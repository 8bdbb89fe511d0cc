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
    /// Tasks of this instance.
    tasks: BTreeMap<TaskId, Seat>,
    /// Whether all global tables are full.
    globals: bool,
}

/// A task at the barrier.
#[derive(Clone, Copy, Debug, Default)]
struct Seat {
    /// Whether its tables are full.
    full: bool,
    /// Assignments that gave it and whose task isn't closed yet: a thread that was held up closes the one before when the next one has
    /// been given already.
    given: u32,
}

impl Barrier {
    /// A barrier that nobody has passed; `globals`: there are no global tables to wait for.
    pub fn new(scope: BarrierScope, globals: bool) -> Self {
        Self { scope, tasks: BTreeMap::new(), globals }
    }

    /// The instance was given this task; its tables are not full.
    pub fn given(&mut self, task: TaskId) {
        let seat = self.tasks.entry(task).or_default();
        *seat = Seat { full: false, given: seat.given + 1 };
    }

    /// The task that was given last is open; what one before it said is void.
    pub fn opened(&mut self, task: TaskId) {
        if let Some(seat) = self.tasks.get_mut(&task) {
            seat.full = false;
        }
    }

    /// The task's tables are full.
    pub fn full(&mut self, task: TaskId) {
        if let Some(seat) = self.tasks.get_mut(&task) {
            seat.full = true;
        }
    }

    /// A task that was given is closed, or could not be opened.
    pub fn closed(&mut self, task: TaskId) {
        if let Some(seat) = self.tasks.get_mut(&task) {
            seat.given = seat.given.saturating_sub(1);
        }
        self.tasks.retain(|_, seat| seat.given > 0);
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
        let own = self.tasks.get(&task).copied().unwrap_or_default();
        if !own.full {
            return Some("its tables are not full".to_owned());
        }
        if self.scope == BarrierScope::Task {
            return None;
        }
        let missing: Vec<String> =
            self.tasks.iter().filter(|(_, seat)| !seat.full).map(|(id, _)| id.to_string()).collect();
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
        barrier.given(A);
        barrier.given(B);
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
    fn a_late_close_is_of_the_task_that_was_given_before() {
        let mut instance = barrier(BarrierScope::Instance);
        instance.full(A);
        instance.full(B);
        // B is given again, and the thread that has the old one finds time to close it only now.
        instance.given(B);
        instance.full(B);
        instance.closed(B);
        instance.opened(B);
        assert_eq!(instance.waits_for(A).as_deref(), Some("waits for the tables of tasks 0_1"));
        instance.full(B);
        assert_eq!((instance.waits_for(A), instance.waits_for(B)), (None, None));
        instance.closed(B);
        assert!(instance.waits_for(B).is_some());
    }

    #[test]
    fn global_tables_come_first() {
        let mut barrier = Barrier::new(BarrierScope::Task, false);
        barrier.given(A);
        barrier.full(A);
        assert!(barrier.waits_for(A).is_some());
        barrier.globals_full();
        assert_eq!(barrier.waits_for(A), None);
    }
}
