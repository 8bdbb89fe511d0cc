//! Work that may block, off the server's event loop and in bounded number.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::problem::Problem;

/// Most requests that read stores or run views at once.
const REQUESTS: usize = 64;
/// How long a request waits for its turn.
const PATIENCE: Duration = Duration::from_secs(2);

/// Turns for blocking work: requests have many, administration has one, so that neither can crowd out the other. A turn
/// lasts until the work is done, also if the client has gone away.
#[derive(Debug)]
pub(super) struct Blocking {
    /// Turns of requests.
    requests: Arc<Semaphore>,
    /// The turn of administration: compiling a plugin takes a core for seconds.
    administration: Arc<Semaphore>,
}

impl Blocking {
    /// All turns free.
    pub(super) fn new() -> Self {
        Self { requests: Arc::new(Semaphore::new(REQUESTS)), administration: Arc::new(Semaphore::new(1)) }
    }

    /// Runs a request's work.
    pub(super) async fn request<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        match timeout(PATIENCE, self.requests.clone().acquire_owned()).await {
            Ok(Ok(turn)) => run(move || held(turn, work)).await,
            Ok(Err(_)) | Err(_) => Err(Problem::busy()),
        }
    }

    /// Runs an administrator's work, one after the other.
    pub(super) async fn administration<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        match self.administration.clone().acquire_owned().await {
            Ok(turn) => run(move || held(turn, work)).await,
            Err(_) => Err(Problem::busy()),
        }
    }
}

/// Does `work` and gives the turn back after it.
fn held<T>(turn: tokio::sync::OwnedSemaphorePermit, work: impl FnOnce() -> T) -> T {
    let done = work();
    drop(turn);
    done
}

/// Runs work that blocks for moments only: what probes and scrapes need, which must not queue behind requests.
pub(super) async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    spawn_blocking(work).await.map_err(|error| Problem::internal(format!("the request was broken off: {error}")))
}
