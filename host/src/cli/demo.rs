//! `weir demo`.

use clap::{Args, ValueEnum};

/// Which topology to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Topology {
    /// The project aggregate: joins, cogroup, barrier
    #[default]
    Projekt,
    /// The order status service: a global table and a view
    Orders,
}

/// Arguments of `weir demo`.
#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// Which topology to show
    #[arg(value_enum, default_value_t)]
    topology: Topology,
    /// Ends after the comparison instead of serving on
    #[arg(long)]
    exit: bool,
}

/// Shows it.
pub(super) fn run(args: DemoArgs) -> anyhow::Result<()> {
    anyhow::bail!("the demo of {:?} (exit: {}) is not part of this program yet", args.topology, args.exit)
}
