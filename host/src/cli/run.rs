//! `weir run`: runs a topology.

use std::sync::Arc;

use clap::Args;

use super::Context;
use super::check::{TopologyArgs, warn};
use super::serve::{Engine, serve};
use crate::http::{Listener, Site};
use crate::topology::Topology;

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
    serve(listener, site, &context.screen, || start(topology))
}

/// Starts the engine of a topology; it goes on starting in threads of its own.
fn start(topology: Topology) -> anyhow::Result<Arc<dyn Engine>> {
    // `Ok(runtime::start(topology)?)` goes here once `runtime::Handle` is an `Engine`.
    anyhow::bail!("nothing runs topology '{}' yet", topology.app.id)
}
