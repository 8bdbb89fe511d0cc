//! A made-up engine.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use serde_json::json;

use super::super::{DeployError, Host, Site, ViewError};
use crate::config::{At, ByteSize, Place, ReadyRoute};
use crate::model::{CallFailure, CallFailureKind, Check, Entry, FunctionIndex, Generation, InstanceStatus};
use crate::plan::ViewPlan;
use crate::plugin::{ViewRequest, ViewResponse};
use crate::registry::{self, Activation, Stage, Transition, TransitionKind};
use crate::telemetry::Counters;
use crate::view::{QueryError, Scan};

/// An engine that says what a test told it to.
#[derive(Debug, Default)]
pub(super) struct Fake {
    /// Its status.
    pub(super) status: Mutex<InstanceStatus>,
    /// Its checks.
    pub(super) readiness: Mutex<Vec<Check>>,
    /// Entries of its store `orders`.
    pub(super) rows: Mutex<Vec<(Bytes, Entry)>>,
    /// How often a plugin was changed.
    pub(super) changes: AtomicI64,
}

/// The routes of the order status service, and some that are meant badly.
pub(super) fn site() -> Site {
    let at = |value: &str| At { value: value.to_owned(), place: Place::default() };
    let view = |name: &str, route: &str| ViewPlan {
        name: name.to_owned(),
        route: route.to_owned(),
        function: FunctionIndex(0),
        stores: vec![],
    };
    Site {
        app: "orders-app".to_owned(),
        views: vec![view("order-status", "/api/order/status"), view("grab", "/livez"), view("braces", "/braces/{x}")],
        ready: Some(ReadyRoute {
            route: at("/ready"),
            table: at("orders"),
            min_records: 2,
            ready: "Ready".to_owned(),
            not_ready: "Not ready: loaded {count} orders".to_owned(),
        }),
        max_body: ByteSize(65_536),
    }
}

/// An entry of a store.
pub(super) fn row(key: &str, value: &'static [u8]) -> (Bytes, Entry) {
    let entry = Entry { timestamp: 5, version: 0, value: Bytes::from_static(value) };
    (Bytes::copy_from_slice(key.as_bytes()), entry)
}

impl Fake {
    /// Whether there is such a store, and whether it is here.
    fn store(store: &str) -> Result<(), QueryError> {
        let store = store.to_owned();
        match store.as_str() {
            "orders" => Ok(()),
            "elsewhere" => Err(QueryError::NotHere { store, partition: 3 }),
            _ => Err(QueryError::UnknownStore { store, known: vec!["orders".to_owned(), "elsewhere".to_owned()] }),
        }
    }

    /// Counts a change of a plugin.
    fn change(&self, plugin: &str, digest: String) -> Activation {
        Activation {
            plugin: plugin.to_owned(),
            digest,
            version: "1".to_owned(),
            generation: Generation(self.changes.fetch_add(1, Ordering::SeqCst) + 1),
            previous: None,
            already_active: false,
            waits_for: None,
        }
    }
}

impl Host for Fake {
    fn status(&self) -> InstanceStatus {
        self.status.lock().unwrap().clone()
    }

    fn readiness(&self) -> Vec<Check> {
        self.readiness.lock().unwrap().clone()
    }

    fn topology(&self) -> serde_json::Value {
        json!({"nodes": []})
    }

    fn counters(&self) -> Arc<Counters> {
        Arc::default()
    }

    fn get(&self, store: &str, key: &[u8]) -> Result<Option<Entry>, QueryError> {
        Self::store(store)?;
        Ok(self.rows.lock().unwrap().iter().find(|(k, _)| k == key).map(|(_, entry)| entry.clone()))
    }

    fn scan(&self, store: &str, prefix: &[u8], from: Option<&[u8]>, limit: usize) -> Result<Scan, QueryError> {
        Self::store(store)?;
        let rows = self.rows.lock().unwrap();
        let wanted = |key: &Bytes| key.starts_with(prefix) && from.is_none_or(|from| key[..] >= *from);
        let rows = rows.iter().filter(|(key, _)| wanted(key)).take(limit).cloned().collect();
        Ok(Scan { rows, missing: vec![1] })
    }

    fn answer(&self, view: &ViewPlan, request: ViewRequest) -> Result<ViewResponse, ViewError> {
        let first = request.query.first().map(|(name, _)| name.as_str()).unwrap_or_default();
        match first {
            "fail" => Err(ViewError::Call(CallFailure {
                plugin: "orders".to_owned(),
                version: "abc".to_owned(),
                function: "status".to_owned(),
                kind: CallFailureKind::Trap,
                reason: "boom".to_owned(),
            })),
            "not-ready" => Err(ViewError::NotReady),
            _ => Ok(ViewResponse {
                status: if first == "odd" { 7 } else { 418 },
                content_type: "text/plain".to_owned(),
                body: format!("{} {} {} {:?}", view.name, request.method, request.path, request.query).into(),
            }),
        }
    }

    fn history(&self, plugin: &str) -> Result<Vec<Transition>, DeployError> {
        Ok(vec![Transition {
            plugin: plugin.to_owned(),
            generation: Generation(1),
            digest: "d".to_owned(),
            previous: None,
            kind: TransitionKind::Deploy,
            by: "me".to_owned(),
            message: String::new(),
            at_ms: 0,
        }])
    }

    fn deploy(&self, plugin: &str, bytes: &[u8], message: &str, _now_ms: i64) -> Result<Activation, DeployError> {
        let plugin = plugin.to_owned();
        if plugin == "nope" {
            return Err(registry::Error::UnknownPlugin { plugin, known: vec![] }.into());
        }
        if bytes == b"bad" {
            let (reason, remedy) = ("no wasm".to_owned(), "build it".to_owned());
            return Err(registry::Error::Refused { plugin, stage: Stage::Valid, reason, remedy }.into());
        }
        Ok(self.change(&plugin, format!("{} bytes, {message}", bytes.len())))
    }

    fn rollback(&self, plugin: &str, _now_ms: i64) -> Result<Activation, DeployError> {
        let plugin = plugin.to_owned();
        match plugin.as_str() {
            "nope" => Err(registry::Error::UnknownPlugin { plugin, known: vec![] }.into()),
            "new" => Err(registry::Error::NoPrevious { plugin }.into()),
            _ => Ok(self.change(&plugin, String::new())),
        }
    }
}
