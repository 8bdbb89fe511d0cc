//! What the topology file adds to the server's routes.

use std::collections::BTreeMap;

use crate::config::{ByteSize, ReadyRoute};
use crate::plan::{Plan, ViewPlan};
use crate::topology::Topology;

/// The application's own routes and limits. The server's routes always win over them.
#[derive(Clone, Debug)]
pub struct Site {
    /// `app.id`.
    pub app: String,
    /// Routes answered by plugins.
    pub views: Vec<ViewPlan>,
    /// The route that answers readiness in the application's own words.
    pub ready: Option<ReadyRoute>,
    /// Largest request body.
    pub max_body: ByteSize,
}

/// What answers a path of the application's own.
#[derive(Clone, Debug)]
pub(super) enum Own {
    /// A plugin.
    View(ViewPlan),
    /// The host: it must answer before a plugin is there.
    Ready(ReadyRoute),
}

impl Site {
    /// What `topology` adds.
    pub fn of(topology: &Topology) -> Self {
        Self {
            app: topology.app.id.clone(),
            views: Plan::resolve(topology).views,
            ready: topology.http.ready.clone(),
            max_body: topology.http.max_body,
        }
    }

    /// The largest request body, in bytes.
    pub(super) fn max_body(&self) -> usize {
        usize::try_from(self.max_body.0).unwrap_or(usize::MAX)
    }

    /// All routes by path.
    pub(super) fn by_path(&self) -> BTreeMap<String, Own> {
        let views = self.views.iter().map(|view| (view.route.clone(), Own::View(view.clone())));
        let ready = self.ready.iter().map(|ready| (ready.route.value.clone(), Own::Ready(ready.clone())));
        views.chain(ready).collect()
    }
}
