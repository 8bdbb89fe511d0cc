//! What the instance tells of itself: `/v1/status`, `/v1/topology`, `/metrics`.

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::blocking;
use super::problem::Problem;
use super::server::Service;
use crate::model::InstanceStatus;
use crate::telemetry;

/// `GET /v1/status`.
pub(super) async fn status(State(service): State<Service>) -> Result<Json<InstanceStatus>, Problem> {
    let status = match service.host() {
        Some(host) => blocking::run(move || host.status()).await?,
        None => InstanceStatus { app: service.site().app.clone(), ..InstanceStatus::default() },
    };
    Ok(Json(status))
}

/// `GET /v1/topology`.
pub(super) async fn topology(State(service): State<Service>) -> Result<Json<serde_json::Value>, Problem> {
    let host = service.engine()?;
    Ok(Json(blocking::run(move || host.topology()).await?))
}

/// `GET /metrics`.
pub(super) async fn metrics(State(service): State<Service>) -> Result<Response, Problem> {
    let text = match service.host() {
        Some(host) => {
            blocking::run(move || {
                let ready = host.readiness().iter().all(|check| check.ok);
                telemetry::scrape(host.status(), ready, host.counters())
            })
            .await?
        }
        None => telemetry::scrape(InstanceStatus::default(), false, std::sync::Arc::default()),
    };
    let text = text.map_err(|_| Problem::internal("the metrics could not be written"))?;
    Ok(([(header::CONTENT_TYPE, telemetry::CONTENT_TYPE)], text).into_response())
}
