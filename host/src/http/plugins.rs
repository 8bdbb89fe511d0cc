//! Administration of plugins: list, history, deploy, roll back.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};

use super::blocking;
use super::problem::Problem;
use super::server::Service;
use crate::model::PluginStatus;
use crate::registry::{Activation, Transition};

/// All plugins.
#[derive(Debug, Serialize)]
pub(super) struct Plugins {
    /// As they are active here.
    plugins: Vec<PluginStatus>,
}

/// One plugin.
#[derive(Debug, Serialize)]
pub(super) struct Plugin {
    /// As it is active here.
    #[serde(flatten)]
    status: PluginStatus,
    /// What happened to it.
    history: Vec<Transition>,
}

/// Query of a deployment.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeployQuery {
    /// Words for the history.
    #[serde(default)]
    message: String,
}

/// `GET /v1/plugins`.
pub(super) async fn list(State(service): State<Service>) -> Result<Json<Plugins>, Problem> {
    let host = service.engine()?;
    Ok(Json(Plugins { plugins: blocking::run(move || host.status().plugins).await? }))
}

/// `GET /v1/plugins/{plugin}`.
pub(super) async fn show(State(service): State<Service>, Path(name): Path<String>) -> Result<Json<Plugin>, Problem> {
    let host = service.engine()?;
    let plugin = blocking::run(move || {
        let plugins = host.status().plugins;
        let known = plugins.iter().map(|plugin| plugin.plugin.clone()).collect();
        let Some(status) = plugins.into_iter().find(|plugin| plugin.plugin == name) else {
            return Err(Problem::unknown_plugin(format!("the topology has no plugin '{name}'"), known));
        };
        Ok(Plugin { status, history: host.history(&name)? })
    });
    Ok(Json(plugin.await??))
}

/// `POST /v1/plugins/{plugin}/versions`: the body becomes the active version, if it passes all checks.
pub(super) async fn deploy(
    State(service): State<Service>,
    Path(name): Path<String>,
    query: Result<Query<DeployQuery>, QueryRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Activation>, Problem> {
    let Query(query) = query.map_err(|error| Problem::bad_request(error.body_text()))?;
    let bytes = body.map_err(|error| {
        if error.status() == StatusCode::PAYLOAD_TOO_LARGE {
            let detail = format!("a plugin may have at most {} (http.max_body)", service.site().max_body);
            Problem::new(error.status(), "too-large", "The plugin is too large", detail)
        } else {
            Problem::bad_request(format!("the plugin did not arrive whole: {}", error.body_text()))
        }
    })?;
    let host = service.engine()?;
    let now = now_ms();
    let activation =
        service.blocking().administration(move || host.deploy(&name, &bytes, &query.message, now)).await??;
    tracing::info!(
        plugin = activation.plugin,
        version = activation.version,
        digest = activation.digest,
        generation = activation.generation.0,
        changed = !activation.already_active,
        "plugin deployed"
    );
    Ok(Json(activation))
}

/// `POST /v1/plugins/{plugin}/rollback`: the previous version becomes the active one.
pub(super) async fn rollback(
    State(service): State<Service>,
    Path(name): Path<String>,
) -> Result<Json<Activation>, Problem> {
    let host = service.engine()?;
    let now = now_ms();
    let activation = service.blocking().administration(move || host.rollback(&name, now)).await??;
    tracing::info!(
        plugin = activation.plugin,
        version = activation.version,
        digest = activation.digest,
        generation = activation.generation.0,
        "plugin rolled back"
    );
    Ok(Json(activation))
}

/// Milliseconds since the epoch.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
