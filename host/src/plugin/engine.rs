//! wasmtime's engine as Weir sets it up, and the way from bytes to a compiled plugin.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use sha2::{Digest, Sha256};
use wasmtime::component::{Component, Linker};
use wasmtime::{Config, EngineWeak};

use super::bindings::{self, Indices};
use super::compiled::{Artefact, Compiled, Inspection, short};
use super::componentize::componentize;
use super::conformance::{Conforming, Contract};
use super::description::Description;
use super::error::Error;
use super::imports::{HostState, Identity};
use super::instance::Instance;
use super::limits::{Limits, STACK_BYTES};
use super::memory::Memory;

/// How often guests are asked for their CPU time. A call may use one of these more than its limit.
const EPOCH: Duration = Duration::from_millis(2);
/// CPU time of `describe`, and of the instantiation before it.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(2);
/// Memory of an instance that describes itself.
const DESCRIBE_MEMORY: u64 = 256 << 20;
/// Largest plugin taken, in bytes: a JavaScript engine has 15 MB, a Python one 40 MB.
const MAX_BYTES: usize = 64 << 20;

/// One a process: compiles plugins and drives the time limits of their instances.
///
/// Dropped, with all that was compiled in it, it ends its ticker thread.
pub struct Engine {
    /// wasmtime's.
    wasm: wasmtime::Engine,
    /// What guests may import.
    linker: Linker<HostState>,
    /// What they must export.
    contract: Contract,
    /// Memory of all instances.
    memory: Arc<Memory>,
    /// What is compiled and still in use, by digest. Locked for look-ups only, never while compiling.
    compiled: Mutex<HashMap<String, Weak<Compiled>>>,
}

impl Engine {
    /// Sets up wasmtime and starts the ticker. Each instance may take what its own limit allows, whatever others take.
    pub fn new() -> Result<Self, Error> {
        Self::with_memory(u64::MAX, DESCRIBE_MEMORY)
    }

    /// The same where each instance has `share` bytes of memory for itself, and only one at a time may have more, up to its own limit
    /// and to `most`.
    pub fn with_memory(share: u64, most: u64) -> Result<Self, Error> {
        let refused = |e: wasmtime::Error| Error::Engine { reason: format!("{e:#}") };
        let contract = Contract::new()?;
        let wasm = wasmtime::Engine::new(&config()).map_err(refused)?;
        let mut linker = Linker::new(&wasm);
        bindings::link(&mut linker).map_err(refused)?;
        start_ticker(wasm.weak()).map_err(|e| Error::Engine { reason: format!("no thread for the ticker: {e}") })?;
        let memory = Memory::new(share, most);
        Ok(Self { wasm, linker, contract, memory, compiled: Mutex::default() })
    }

    /// Bytes of memory that all instances have now.
    pub fn memory_used(&self) -> u64 {
        self.memory.used()
    }

    /// Bytes → checked, made a component if they are a core module, compiled, described.
    ///
    /// Takes from some ten milliseconds to seconds of one core: not for stream threads. Bytes that are in use already
    /// are not compiled again.
    pub fn load(&self, bytes: &[u8]) -> Result<Arc<Compiled>, Error> {
        if bytes.len() > MAX_BYTES {
            return Err(Error::TooLarge { size: bytes.len(), limit: MAX_BYTES });
        }
        let digest = hex(&Sha256::digest(bytes));
        if let Some(compiled) = self.in_use(&digest) {
            return Ok(compiled);
        }
        let (form, component) = componentize(bytes)?;
        let Conforming { kinds, imports } =
            self.contract.check(&component).map_err(|problems| Error::Nonconforming { problems })?;
        let artefact = self.compile(&component, &kinds).map_err(|e| Error::Compile { reason: format!("{e:#}") })?;
        let description = describe(&artefact, &digest)?;
        let description =
            Description::check(description, &kinds).map_err(|problems| Error::Description { problems })?;
        let inspection = Inspection { digest: digest.clone(), size: bytes.len(), form, kinds, imports, description };
        let compiled = Arc::new(Compiled { inspection, artefact });
        let mut known = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, it| it.strong_count() > 0);
        known.insert(digest, Arc::downgrade(&compiled));
        Ok(compiled)
    }

    /// The compiled plugin of this digest, if someone still holds it.
    fn in_use(&self, digest: &str) -> Option<Arc<Compiled>> {
        self.compiled.lock().unwrap_or_else(PoisonError::into_inner).get(digest)?.upgrade()
    }

    /// Compiles, and resolves imports and exports.
    fn compile(&self, component: &[u8], kinds: &[super::Kind]) -> wasmtime::Result<Artefact> {
        let component = Component::new(&self.wasm, component)?;
        let pre = self.linker.instantiate_pre(&component)?;
        let indices = Indices::new(&pre, kinds)?;
        Ok(Artefact { pre, indices, memory: Arc::clone(&self.memory) })
    }

    /// Whether `compiled` was compiled by this engine.
    pub(super) fn made(&self, compiled: &Compiled) -> bool {
        wasmtime::Engine::same(&self.wasm, compiled.artefact.pre.engine())
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

/// wasmtime's settings where they are not its defaults, and why.
fn config() -> Config {
    let mut config = Config::new();
    // Plugins are synchronous; concurrency would cost each call half a microsecond.
    config.concurrency_support(false);
    // Interrupts endless loops; a check a loop iteration, cheaper than fuel.
    config.epoch_interruption(true);
    config.max_wasm_stack(STACK_BYTES);
    // The reservation of 4 GiB of address space covers every 32-bit memory: its base can be kept in a register.
    config.memory_may_move(false);
    config.wasm_memory64(false);
    // The same input gives the same bytes, on every machine.
    config.cranelift_nan_canonicalization(true);
    config.relaxed_simd_deterministic(true);
    // A deployment compiles beside running streams: one core is enough for it.
    config.parallel_compilation(false);
    config
}

/// Runs `describe` in an instance that nothing else uses. The plugin's limits aren't known yet: these are wide.
fn describe(artefact: &Artefact, digest: &str) -> Result<bindings::lifecycle_types::Description, Error> {
    let identity = Arc::new(Identity { plugin: "(new)".to_owned(), version: short(digest).to_owned() });
    let memory = DESCRIBE_MEMORY.min(artefact.memory.most());
    let limits = Limits { memory, start_timeout: DESCRIBE_TIMEOUT, ..Limits::default() };
    Instance::instantiate(artefact, identity, &limits)
        .and_then(|it| it.call(limits.start_timeout, |exports, store| exports.lifecycle().call_describe(store)))
        .map(|(_, description)| description)
        .map_err(|failure| Error::Describe { reason: failure.to_string() })
}

/// Starts the thread that advances the epoch. It ends when the engine is gone.
fn start_ticker(engine: EngineWeak) -> std::io::Result<()> {
    let tick = move || {
        while let Some(engine) = engine.upgrade() {
            engine.increment_epoch();
            // Not held while asleep: the ticker must not keep the engine alive.
            drop(engine);
            thread::sleep(EPOCH);
        }
    };
    thread::Builder::new().name("weir-epoch".to_owned()).spawn(tick).map(drop)
}

/// Bytes in hex.
fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut hex, byte| {
        // A String takes everything.
        let _infallible = write!(hex, "{byte:02x}");
        hex
    })
}
