//! The linear memories of all instances of a process together.
//!
//! Each instance has a share for itself, which is always there. Beyond that, up to its plugin's own limit, there is room for one
//! instance at a time: another that wants more than its share waits until that one's call is over. So what all of them take is
//! bounded, no call ever fails because of another one's, and a rare large batch does not need a share of its size in every
//! thread. Memory of wasm never shrinks: an instance that has outgrown its share ends with its call.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The memory of all instances of an engine.
#[derive(Debug)]
pub(super) struct Memory {
    /// Bytes that each instance has for itself.
    share: u64,
    /// Most bytes that one instance may ever have.
    most: u64,
    /// Bytes that all have now.
    used: AtomicU64,
    /// Whether an instance is beyond its share. Held for a look only.
    taken: Mutex<bool>,
    /// Told when none is any more.
    given_back: Condvar,
}

impl Memory {
    /// Memory where each instance has `share` for itself, and one at a time may have `most`.
    pub(super) fn new(share: u64, most: u64) -> Arc<Self> {
        let (used, taken, given_back) = (AtomicU64::new(0), Mutex::new(false), Condvar::new());
        Arc::new(Self { share, most, used, taken, given_back })
    }

    /// Bytes that all instances have now.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes that each instance has for itself.
    pub(super) fn share(&self) -> u64 {
        self.share
    }

    /// Most bytes that one instance may have.
    pub(super) fn most(&self) -> u64 {
        self.most
    }
}

/// What one instance has of it; given back when dropped.
#[derive(Debug)]
pub(super) struct Claim {
    /// Where it belongs.
    memory: Arc<Memory>,
    /// Bytes it has.
    bytes: u64,
    /// Whether it is the one that is beyond its share.
    beyond: bool,
}

impl Claim {
    /// Nothing yet.
    pub(super) fn new(memory: &Arc<Memory>) -> Self {
        Self { memory: Arc::clone(memory), bytes: 0, beyond: false }
    }

    /// Becomes a claim of `bytes`. Beyond the share it waits until no other is: as long as that one's call may take. It waits
    /// for nothing else while it is, so nobody waits in a circle.
    pub(super) fn set(&mut self, bytes: u64) {
        if bytes > self.memory.share && !self.beyond {
            let taken = self.memory.taken.lock().unwrap_or_else(PoisonError::into_inner);
            let wait = self.memory.given_back.wait_while(taken, |taken| *taken);
            *wait.unwrap_or_else(PoisonError::into_inner) = true;
            self.beyond = true;
        }
        self.memory.used.fetch_add(bytes, Ordering::Relaxed);
        self.memory.used.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }

    /// Whether it is beyond its share: then others may be waiting for its end.
    pub(super) fn is_beyond(&self) -> bool {
        self.beyond
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(self.bytes, Ordering::Relaxed);
        if self.beyond {
            *self.memory.taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
            self.memory.given_back.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    #[test]
    fn shares_are_always_there_and_more_is_for_one_at_a_time() {
        let memory = Memory::new(100, 1000);
        let mut first = Claim::new(&memory);
        first.set(500);
        assert!(first.is_beyond());
        let mut second = Claim::new(&memory);
        second.set(100);
        assert_eq!((memory.used(), second.is_beyond()), (600, false));
        // It grows on at once.
        first.set(900);
        let (tell, told) = channel();
        let waiting = thread::spawn(move || {
            second.set(101);
            tell.send(second.memory.used()).unwrap();
        });
        // However long: it is the first one's end that lets it go on, and what it then sees is without the first.
        thread::yield_now();
        assert!(told.try_recv().is_err());
        drop(first);
        assert_eq!(told.recv().unwrap(), 101);
        waiting.join().unwrap();
        assert_eq!(memory.used(), 0);
        let mut third = Claim::new(&memory);
        third.set(101);
        assert!(third.is_beyond());
    }
}
