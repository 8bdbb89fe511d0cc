//! Waits for what can be asked for.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Asks again and again until the answer is there; after `timeout` fails with what was missing last.
pub fn until<T>(what: &str, timeout: Duration, mut ask: impl FnMut() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    loop {
        match ask() {
            Ok(answer) => return Ok(answer),
            Err(missing) if start.elapsed() > timeout => bail!("{what}: not within {timeout:?}: {missing:#}"),
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Lets time pass, where nothing is waited for but another moment: for what shall happen at any.
pub fn moment(duration: Duration) {
    thread::sleep(duration);
}
