//! The engine behind the server.

use std::sync::Arc;

use super::host::{DeployError, Host, ViewError};
use crate::model::{Check, Entry, InstanceStatus};
use crate::plan::ViewPlan;
use crate::plugin::{ViewRequest, ViewResponse};
use crate::registry::{Activation, Registry, Transition};
use crate::runtime::Handle;
use crate::telemetry::Counters;
use crate::view::{QueryError, Scan};

/// The registry, once it is read.
fn registry(handle: &Handle) -> Result<Arc<Registry>, DeployError> {
    handle.registry().ok_or(DeployError::NotReady)
}

impl Host for Handle {
    fn status(&self) -> InstanceStatus {
        Self::status(self)
    }

    fn readiness(&self) -> Vec<Check> {
        Self::readiness(self)
    }

    fn topology(&self) -> serde_json::Value {
        Self::topology(self)
    }

    fn counters(&self) -> Arc<Counters> {
        Arc::clone(Self::counters(self))
    }

    fn get(&self, store: &str, key: &[u8]) -> Result<Option<Entry>, QueryError> {
        self.catalog().get(store, key)
    }

    fn scan(&self, store: &str, prefix: &[u8], from: Option<&[u8]>, limit: usize) -> Result<Scan, QueryError> {
        self.catalog().scan(store, prefix, from, limit)
    }

    fn answer(&self, view: &ViewPlan, request: ViewRequest) -> Result<ViewResponse, ViewError> {
        let pool = self.views().ok_or(ViewError::NotReady)?;
        Ok(pool.answer(view.function, &view.stores, request)?)
    }

    fn history(&self, plugin: &str) -> Result<Vec<Transition>, DeployError> {
        Ok(registry(self)?.history(plugin))
    }

    fn deploy(&self, plugin: &str, bytes: &[u8], message: &str, now_ms: i64) -> Result<Activation, DeployError> {
        Ok(registry(self)?.deploy(plugin, bytes, message, now_ms)?)
    }

    fn rollback(&self, plugin: &str, now_ms: i64) -> Result<Activation, DeployError> {
        Ok(registry(self)?.rollback(plugin, now_ms)?)
    }
}
