//! Serving an engine until it stops or is asked to: what `run` and `demo` share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::{interval, timeout};

use super::exit::Exit;
use super::progress::Progress;
use super::screen::Screen;
use crate::http::{Host, Listener, Service, Site};

/// Threads of the HTTP server: it only passes requests on.
const SERVER_THREADS: usize = 2;
/// Most threads for work that blocks, of which each request has at most one.
const BLOCKING_THREADS: usize = 128;
/// How long stopping may take: less than the 30 s after which orchestrators kill.
const STOP_LIMIT: Duration = Duration::from_secs(25);
/// How long the last answers may take.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// What runs a topology.
pub(super) trait Engine: Host {
    /// Asks it to commit, to leave the group and to end. May be called again.
    fn stop(&self);

    /// Waits until it has ended, and says why if nobody asked it to.
    fn wait(&self) -> anyhow::Result<()>;
}

/// An engine that may still be starting, and the wish that it stop.
#[derive(Default)]
struct Slot {
    /// The engine, once it is there.
    engine: OnceLock<Arc<dyn Engine>>,
    /// Whether it has been asked to stop.
    stop: AtomicBool,
}

impl Slot {
    /// Asks the engine to stop: now, or as soon as it is there.
    fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(engine) = self.engine.get() {
            engine.stop();
        }
    }

    /// Keeps the engine, and passes on the wish to stop if that came first.
    fn fill(&self, engine: Arc<dyn Engine>) -> &Arc<dyn Engine> {
        let engine = self.engine.get_or_init(|| engine);
        if self.stop.load(Ordering::SeqCst) {
            engine.stop();
        }
        engine
    }
}

/// Serves `site` on `listener`, then makes the engine with `start`, and returns when that has ended.
///
/// SIGTERM and SIGINT stop the engine, within [`STOP_LIMIT`]; a second one ends the process at once. `start` should return
/// soon (the engine may go on starting in threads of its own); until it does, the server is alive and not ready.
pub(super) fn serve(
    listener: Listener,
    site: Site,
    screen: &Screen,
    start: impl FnOnce() -> anyhow::Result<Arc<dyn Engine>>,
) -> anyhow::Result<()> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(SERVER_THREADS)
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_name("weir-http")
        .enable_all()
        .build()
        .context("cannot start the HTTP server's threads")?;
    let slot = Arc::new(Slot::default());
    let signals = {
        let _inside = runtime.enter();
        Signals::listen().context("cannot listen for signals")?
    };
    runtime.spawn(stop_on_signal(signals, slot.clone()));

    tracing::info!("listening on http://{}", listener.address());
    let service = Service::new(site);
    let (close, closed) = oneshot::channel::<()>();
    let server = runtime.spawn(service.clone().serve(listener, async {
        // An error means that the sender is gone, which is the end as well.
        let _ = closed.await;
    }));

    let outcome = start().and_then(|engine| {
        service.attach(engine.clone());
        let engine = slot.fill(engine).clone();
        let progress = runtime.spawn(follow(engine.clone(), Progress::new(screen.clone())));
        let outcome = engine.wait();
        progress.abort();
        outcome
    });
    // The server answers to the very end: orchestrators look at it while the engine stops.
    drop(close);
    shut(runtime, server);
    outcome
}

/// Lets the last requests be answered, and ends the server.
fn shut(runtime: Runtime, server: tokio::task::JoinHandle<std::io::Result<()>>) {
    match runtime.block_on(async { timeout(LAST_ANSWERS, server).await }) {
        Ok(Ok(Ok(()))) | Err(_) => {}
        Ok(Ok(Err(error))) => tracing::warn!("the HTTP server failed: {error}"),
        Ok(Err(error)) => tracing::warn!("the HTTP server failed: {error}"),
    }
    runtime.shutdown_background();
}

/// Shows the restore's progress.
async fn follow(engine: Arc<dyn Engine>, mut progress: Progress) {
    let mut frames = interval(progress.interval());
    loop {
        frames.tick().await;
        let status = {
            let engine = engine.clone();
            tokio::task::spawn_blocking(move || engine.status()).await
        };
        let Ok(status) = status else { return };
        progress.show(&status, Instant::now());
    }
}

/// The signals that ask a process to end.
struct Signals {
    /// Of orchestrators.
    terminate: Signal,
    /// Of a terminal.
    interrupt: Signal,
}

impl Signals {
    /// From now on they are ours; must be called inside the runtime.
    fn listen() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// The next one's name.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Stops the engine on the first signal, and the process on the second or when stopping takes too long.
async fn stop_on_signal(mut signals: Signals, slot: Arc<Slot>) {
    let name = signals.next().await;
    tracing::info!("{name}: committing and leaving the group; a second signal ends the process at once");
    // Stopping may wait for a lock; the second signal must not.
    tokio::task::spawn_blocking(move || slot.stop());
    let exit = match timeout(STOP_LIMIT, signals.next()).await {
        Ok(name) => {
            tracing::warn!("{name}: ending at once; the next start resumes from the last commit");
            Exit::Interrupted
        }
        Err(_) => {
            let seconds = STOP_LIMIT.as_secs();
            tracing::error!("not stopped after {seconds} s: ending; the next start resumes from the last commit");
            Exit::Failure
        }
    };
    std::process::exit(exit.code().into());
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::http::{DeployError, ViewError};
    use crate::model::{Check, Entry, InstanceStatus};
    use crate::plan::ViewPlan;
    use crate::plugin::{ViewRequest, ViewResponse};
    use crate::registry::{Activation, Transition};
    use crate::telemetry::Counters;
    use crate::view::{QueryError, Scan};

    /// An engine that only counts how often it is asked to stop.
    #[derive(Default)]
    struct Stoppable(AtomicUsize);

    impl Engine for Stoppable {
        fn stop(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }

        fn wait(&self) -> anyhow::Result<()> {
            Ok(())
        }
    }

    impl Host for Stoppable {
        fn status(&self) -> InstanceStatus {
            InstanceStatus::default()
        }

        fn readiness(&self) -> Vec<Check> {
            vec![]
        }

        fn topology(&self) -> serde_json::Value {
            serde_json::Value::Null
        }

        fn counters(&self) -> Arc<Counters> {
            Arc::default()
        }

        fn get(&self, _store: &str, _key: &[u8]) -> Result<Option<Entry>, QueryError> {
            Ok(None)
        }

        fn scan(&self, _: &str, _: &[u8], _: Option<&[u8]>, _: usize) -> Result<Scan, QueryError> {
            Ok(Scan::default())
        }

        fn answer(&self, _view: &ViewPlan, _request: ViewRequest) -> Result<ViewResponse, ViewError> {
            Err(ViewError::NotReady)
        }

        fn history(&self, _plugin: &str) -> Result<Vec<Transition>, DeployError> {
            Ok(vec![])
        }

        fn deploy(&self, _: &str, _: &[u8], _: &str, _: i64) -> Result<Activation, DeployError> {
            Err(DeployError::NotReady)
        }

        fn rollback(&self, _plugin: &str, _now_ms: i64) -> Result<Activation, DeployError> {
            Err(DeployError::NotReady)
        }
    }

    #[test]
    fn the_wish_to_stop_reaches_an_engine_that_comes_later() {
        let slot = Slot::default();
        slot.stop();
        let engine = Arc::new(Stoppable::default());
        slot.fill(engine.clone());
        assert_eq!(engine.0.load(Ordering::SeqCst), 1);
        slot.stop();
        assert_eq!(engine.0.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn serving_ends_with_the_engine_and_with_its_error() {
        let site = || Site { app: String::new(), views: vec![], ready: None, max_body: crate::config::ByteSize(1) };
        let listener = || Listener::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let screen = Screen::new(true);
        serve(listener(), site(), &screen, || Ok(Arc::new(Stoppable::default()))).unwrap();
        let error = serve(listener(), site(), &screen, || anyhow::bail!("no state folder")).unwrap_err();
        assert_eq!(error.to_string(), "no state folder");
    }
}
