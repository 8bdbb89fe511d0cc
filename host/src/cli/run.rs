//! `weir run`: runs a topology.

use clap::Args;

use super::Context;
use super::check::{TopologyArgs, warn};
use super::serve::{Engine, serve};
use crate::http::{Listener, Site};
use crate::runtime::{self, Cluster, Handle};

/// Arguments of `weir run`.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// The topology
    #[command(flatten)]
    topology: TopologyArgs,
}

/// Runs it until it is asked to stop.
pub(super) fn run(args: &RunArgs, context: &Context) -> anyhow::Result<()> {
    let topology = args.topology.load(context)?;
    warn(&topology.warnings);
    // Before anything else: who watches the instance must see it restore.
    let listener = Listener::bind(topology.http.listen)?;
    let site = Site::of(&topology);
    serve(listener, site, &context.screen, || Ok(runtime::start(&topology, Cluster::Kafka)?))
}

/// A running instance, as it is served.
impl Engine for Handle {
    fn stop(&self) {
        Self::stop(self);
    }

    fn wait(&self) -> anyhow::Result<()> {
        Ok(Self::wait(self)?)
    }
}
