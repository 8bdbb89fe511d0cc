//! Binding and serving.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, OnceLock};
use std::{fmt, io};

use super::blocking::Blocking;
use super::host::Host;
use super::problem::Problem;
use super::router;
use super::site::Site;

/// Why the server does not listen.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} (http.listen){}", hint(.source))]
pub struct Error {
    /// The address wanted.
    pub address: SocketAddr,
    /// What the system said.
    pub source: io::Error,
}

/// What to do about it.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => ": another process has the port; stop it, or choose another one",
        io::ErrorKind::PermissionDenied => ": ports below 1024 need a privilege; choose a higher one",
        io::ErrorKind::AddrNotAvailable => ": this machine has no such address",
        _ => "",
    }
}

/// A bound address, not yet served: connections queue in the system meanwhile.
#[derive(Debug)]
pub struct Listener {
    /// The socket.
    socket: TcpListener,
    /// What it is bound to.
    address: SocketAddr,
}

impl Listener {
    /// Binds `address`; port 0 takes a free one.
    pub fn bind(address: SocketAddr) -> Result<Self, Error> {
        let failed = |source| Error { address, source };
        let socket = TcpListener::bind(address).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, address })
    }

    /// The address it is bound to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The server: routes, and the engine once it is there. A handle: clones are the same server.
#[derive(Clone)]
pub struct Service(Arc<Inner>);

/// What all requests share.
struct Inner {
    /// The application's own routes.
    site: Site,
    /// The engine; empty while it starts.
    host: OnceLock<Arc<dyn Host>>,
    /// Turns for blocking work.
    blocking: Blocking,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("site", &self.0.site).finish_non_exhaustive()
    }
}

impl Service {
    /// A server without an engine: alive, not ready.
    pub fn new(site: Site) -> Self {
        Self(Arc::new(Inner { site, host: OnceLock::new(), blocking: Blocking::new() }))
    }

    /// Gives it its engine. A second one is ignored.
    pub fn attach(&self, host: Arc<dyn Host>) {
        if self.0.host.set(host).is_err() {
            tracing::warn!("the HTTP server has its engine already");
        }
    }

    /// Serves until `stop` completes and the requests that run have been answered.
    pub async fn serve(self, listener: Listener, stop: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
        let socket = tokio::net::TcpListener::from_std(listener.socket)?;
        let routes = router::routes(self).into_make_service_with_connect_info::<SocketAddr>();
        axum::serve(socket, routes).with_graceful_shutdown(stop).await
    }

    /// The application's own routes.
    pub(super) fn site(&self) -> &Site {
        &self.0.site
    }

    /// The engine, if it is there.
    pub(super) fn host(&self) -> Option<Arc<dyn Host>> {
        self.0.host.get().cloned()
    }

    /// The engine, or the problem that says it is not there.
    pub(super) fn engine(&self) -> Result<Arc<dyn Host>, Problem> {
        self.host().ok_or_else(Problem::starting)
    }

    /// Turns for blocking work.
    pub(super) fn blocking(&self) -> &Blocking {
        &self.0.blocking
    }
}
