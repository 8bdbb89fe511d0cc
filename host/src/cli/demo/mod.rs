//! `weir demo`: a topology at work on a Kafka inside this process.
//!
//! The broker is librdkafka's mock cluster, the topology the project's own, the plugin the real one. All of it lives in a
//! temporary folder and is gone in the end. Data goes to stdout, what is being done to stderr.

mod cluster;
mod narration;
mod orders;
mod outcome;
mod plugins;
mod projekt;
mod random;
mod records;
mod stage;
mod tries;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use clap::{Args, ValueEnum};

use super::serve::serve;
use super::{Context, Output};
use crate::config::Problems;
use crate::http::{Listener, Site};
use crate::topology;
use cluster::DemoCluster;
use narration::Narration;
use stage::Stage;

/// Where it listens unless told otherwise.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// Which topology to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Topology {
    /// The project aggregate: tables and streams, without and with the barrier
    #[default]
    Projekt,
    /// The order status service: a table in memory and a view
    Orders,
}

/// Arguments of `weir demo`.
#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// Which topology to show
    #[arg(value_enum, default_value_t)]
    topology: Topology,
    /// Ends when all is shown, instead of serving on
    #[arg(long)]
    exit: bool,
    /// Where to serve HTTP; 127.0.0.1:8080 otherwise, or a free port if that is taken
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// The folder of the built plugins; only a program that carries none needs it
    #[arg(long, value_name = "DIR")]
    plugins: Option<PathBuf>,
}

/// It was stopped before all was shown.
#[derive(Debug, thiserror::Error)]
#[error("stopped before the demo was over")]
pub(super) struct Interrupted;

/// What both demos are played with.
struct Props {
    /// The broker.
    cluster: DemoCluster,
    /// A temporary folder for state and plugin.
    dir: PathBuf,
    /// The topology file's text.
    topology: &'static str,
    /// The plugin's name there, and its file.
    plugin: (&'static str, PathBuf),
    /// Where it listens.
    address: SocketAddr,
    /// Whether to end when all is shown.
    exit: bool,
    /// Form of what goes to stdout.
    output: Output,
    /// What is being done.
    narration: Narration,
}

/// Shows it.
pub(super) fn run(args: &DemoArgs, context: &Context) -> anyhow::Result<()> {
    let (topology, name, plugin) = match args.topology {
        Topology::Projekt => (projekt::TOPOLOGY, "projekt", plugins::PROJEKT),
        Topology::Orders => (orders::TOPOLOGY, "orders", plugins::ORDERS),
    };
    let listener = listen(args.listen)?;
    let dir = tempfile::Builder::new().prefix("weir-demo-").tempdir().context("cannot make a temporary folder")?;
    let props = Arc::new(Props {
        cluster: DemoCluster::start()?,
        topology,
        plugin: (name, plugin.file(args.plugins.as_deref(), dir.path())?),
        dir: dir.path().to_owned(),
        address: listener.address(),
        exit: args.exit,
        output: context.output,
        narration: Narration::new(context.screen.clone()),
    });
    let site = Site::of(&props.topology(&[])?);
    let play = match args.topology {
        Topology::Projekt => projekt::play,
        Topology::Orders => orders::play,
    };
    // Broker and folder outlive the instance, which still needs them after the story.
    let told = Arc::clone(&props);
    let stage = Stage::new(move |stage| play(&told, stage));
    let outcome = serve(listener, site, &context.screen, || Ok(Arc::new(stage)));
    outcome.and(dir.close().context("cannot remove the temporary folder"))
}

/// Binds the address wanted. A newcomer who wants none in particular gets a free one if the usual one is taken.
fn listen(wanted: Option<SocketAddr>) -> Result<Listener, crate::http::Error> {
    let listener = Listener::bind(wanted.unwrap_or(LISTEN));
    match listener {
        Err(error) if wanted.is_none() && error.source.kind() == io::ErrorKind::AddrInUse => {
            Listener::bind(SocketAddr::new(LISTEN.ip(), 0))
        }
        listener => listener,
    }
}

impl Props {
    /// The topology for this broker and plugin, with `more` settings. The environment has no say: the demo is the same everywhere.
    fn topology(&self, more: &[(&str, &str)]) -> Result<topology::Topology, Problems> {
        let (name, file) = &self.plugin;
        let app = more.iter().find(|(path, _)| *path == "app.id").map_or("demo", |(_, id)| id);
        let text = |path: &Path| path.display().to_string();
        let own = [
            ("kafka.bootstrap.servers".to_owned(), self.cluster.bootstrap_servers()),
            ("state.dir".to_owned(), text(&self.dir.join(app))),
            (format!("plugins.{name}.file"), text(file)),
        ];
        let more = more.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned()));
        let set: Vec<(String, String)> = own.into_iter().chain(more).collect();
        topology::parse(self.topology.as_bytes(), &self.dir.join("weir.toml"), &set, &BTreeMap::new())
    }

    /// Another version of the plugin, where the build left one.
    fn other_version(&self) -> Option<PathBuf> {
        let (name, file) = &self.plugin;
        let other = format!("{name}-v2.wasm");
        let built = [file.with_file_name(&other), Path::new(plugins::BUILT).join(&other)];
        built.into_iter().find(|file| file.is_file())
    }

    /// The server's base URL.
    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_an_error_only_where_it_was_asked_for() {
        let taken = listen(Some(([127, 0, 0, 1], 0).into())).unwrap();
        let error = listen(Some(taken.address())).unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::AddrInUse);
        // Whether or not something has the usual port now: both find a place.
        let (first, second) = (listen(None).unwrap(), listen(None).unwrap());
        assert_ne!(first.address(), second.address());
    }
}
