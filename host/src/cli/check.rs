//! `weir check`: what a topology file would run, or all that is wrong with it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;

use super::table::{print, print_json};
use super::{Context, Output, parse_override};
use crate::config::{Problem, Problems};
use crate::plan::{self, Plan};
use crate::topology::{self, Topology};

/// Which topology, and what of it is different this time.
#[derive(Debug, Args)]
pub(super) struct TopologyArgs {
    /// The topology file
    file: PathBuf,
    /// Overrides a value of the file, for example app.threads=2; WEIR_APP__THREADS=2 does the same
    #[arg(long = "set", value_name = "PATH=VALUE", value_parser = parse_override)]
    set: Vec<(String, String)>,
}

impl TopologyArgs {
    /// The topology, with its overrides.
    pub(super) fn load(&self, context: &Context) -> Result<Topology, Problems> {
        topology::load(&self.file, &self.set, &context.env)
    }
}

/// Arguments of `weir check`.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// The topology
    #[command(flatten)]
    topology: TopologyArgs,
}

/// Prints the plan. Needs no broker; plugins' files must be there, since a first start needs them.
pub(super) fn run(args: &CheckArgs, context: &Context) -> anyhow::Result<()> {
    let topology = args.topology.load(context)?;
    warn(&topology.warnings);
    let missing = topology.missing_plugin_files();
    if !missing.is_empty() {
        return Err(Problems(missing).into());
    }
    let plan = Plan::resolve(&topology);
    // With the least partitions: what is too little now is too little in any case.
    plan::MemoryPlan::divide(&plan, &topology, &BTreeMap::new())?;
    match context.output {
        Output::Table => Ok(print(&plan::describe(&plan, &topology, None))?),
        Output::Json => print_json(&plan::describe_json(&plan, &topology, None)),
    }
}

/// Logs what is probably not meant.
pub(super) fn warn(warnings: &[Problem]) {
    for warning in warnings {
        tracing::warn!("{warning}");
    }
}
