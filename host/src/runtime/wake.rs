//! Puts a thread to sleep until something wakes it, without missing a wake-up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use crate::kafka::Waker;

/// Shared by the sleeper and those who wake it.
struct Bell {
    /// Whether it rang since the last sleep: checked without the lock, so that a busy thread is woken for nothing.
    rung: AtomicBool,
    /// Guards the sleep; held for no longer than it takes to lie down or to ring.
    lock: Mutex<()>,
    /// The sleep.
    sleep: Condvar,
}

/// The sleeper's end.
pub(super) struct Waiting(Arc<Bell>);

/// A sleeper and its waker.
pub(super) fn pair() -> (Waiting, Waker) {
    let bell = Arc::new(Bell { rung: AtomicBool::new(false), lock: Mutex::new(()), sleep: Condvar::new() });
    let rings = Arc::clone(&bell);
    let waker = move || {
        if !rings.rung.swap(true, Ordering::SeqCst) {
            let _lying_down = rings.lock.lock();
            rings.sleep.notify_one();
        }
    };
    (Waiting(bell), Arc::new(waker))
}

impl Waiting {
    /// Sleeps until woken, or until then; at once if it was woken since the last time.
    pub(super) fn wait_until(&self, until: Instant) {
        let Ok(mut guard) = self.0.lock.lock() else { return };
        while !self.0.rung.swap(false, Ordering::SeqCst) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            match self.0.sleep.wait_timeout(guard, left) {
                Ok((again, _)) => guard = again,
                Err(_poisoned) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_wake_up_before_the_sleep_is_not_missed() {
        let (waiting, waker) = pair();
        waker();
        let start = Instant::now();
        waiting.wait_until(start + Duration::from_secs(60));
        assert!(start.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn another_thread_wakes_it() {
        let (waiting, waker) = pair();
        std::thread::scope(|scope| {
            scope.spawn(|| waker());
            let start = Instant::now();
            waiting.wait_until(start + Duration::from_secs(60));
            assert!(start.elapsed() < Duration::from_secs(30));
        });
    }
}
