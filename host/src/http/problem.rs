//! Problem details (RFC 9457): the form of every error that the server answers with.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::host::{DeployError, ViewError};
use crate::registry;
use crate::view::QueryError;

/// Content type of a problem.
pub const CONTENT_TYPE: &str = "application/problem+json";

/// Seconds after which to ask again, where that may help.
const RETRY_AFTER: u32 = 1;

/// An error as the server answers it.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    /// HTTP status.
    status: StatusCode,
    /// Stable name of the kind of problem; `type` is `urn:weir:problem:<code>`.
    code: &'static str,
    /// The kind of problem in words, always the same for a code.
    title: &'static str,
    /// What is wrong this time.
    detail: String,
    /// Whether the same request may succeed soon.
    retryable: bool,
    /// Further members.
    members: Map<String, Value>,
}

impl Problem {
    /// A problem of the kind `code`.
    pub(super) fn new(status: StatusCode, code: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, title, detail: detail.into(), retryable: false, members: Map::new() }
    }

    /// The same request may succeed soon.
    pub(super) fn retryable(mut self) -> Self {
        self.retryable = true;
        self
    }

    /// Adds a member.
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.members.insert(name.to_owned(), value.into());
        self
    }

    /// Something in the request is not as it should be.
    pub(super) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", "The request is not valid", detail)
    }

    /// Nothing is there.
    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", "There is no such route", detail)
    }

    /// The engine is not there yet.
    pub(super) fn starting() -> Self {
        let detail = "the instance has only just been started; /readyz says when it is ready";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "starting", "The instance is starting", detail).retryable()
    }

    /// The topology has no such plugin.
    pub(super) fn unknown_plugin(detail: impl Into<String>, known: Vec<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "unknown-plugin", "There is no such plugin", detail).with("plugins", known)
    }

    /// A store's answers do not hold yet.
    pub(super) fn restoring(store: &str, waits_for: &str) -> Self {
        let detail = format!("store '{store}' is being restored: {waits_for}");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "restoring", "The store is being restored", detail).retryable()
    }

    /// Too many requests run at once.
    pub(super) fn busy() -> Self {
        let detail = "as many requests run as may run at once";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "The instance is busy", detail).retryable()
    }

    /// A defect of this program.
    pub(super) fn internal(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "The host failed", detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut members = self.members;
        members.insert("type".to_owned(), json!(format!("urn:weir:problem:{}", self.code)));
        members.insert("title".to_owned(), json!(self.title));
        members.insert("status".to_owned(), json!(self.status.as_u16()));
        members.insert("code".to_owned(), json!(self.code));
        members.insert("detail".to_owned(), json!(self.detail));
        members.insert("retryable".to_owned(), json!(self.retryable));
        let body = Value::Object(members).to_string();
        let mut response = (self.status, [(header::CONTENT_TYPE, CONTENT_TYPE)], body).into_response();
        if self.retryable {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER.into());
        }
        response
    }
}

impl From<QueryError> for Problem {
    fn from(error: QueryError) -> Self {
        let detail = chain(&error);
        match error {
            QueryError::UnknownStore { known, .. } => {
                Self::new(StatusCode::NOT_FOUND, "unknown-store", "There is no such store", detail)
                    .with("stores", known)
            }
            // No 404: that would read as "no such key".
            QueryError::NotHere { partition, .. } if partition < 0 => {
                let title = "The global table is not open yet";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "not-here", title, detail).retryable()
            }
            QueryError::NotHere { partition, .. } => {
                let title = "The key is in a partition that is not on this instance";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "not-here", title, detail).with("partition", partition)
            }
            QueryError::Failed(_) => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "store-failed", "The store could not be read", detail)
            }
        }
    }
}

impl From<ViewError> for Problem {
    fn from(error: ViewError) -> Self {
        let detail = error.to_string();
        match error {
            ViewError::NotReady => {
                let title = "No plugin answers the view yet";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "view-not-ready", title, detail).retryable()
            }
            ViewError::Call(failure) => {
                let title = "The view's plugin failed";
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "view-failed", title, failure.to_string())
                    .with("plugin", failure.plugin)
                    .with("version", failure.version)
                    .with("function", failure.function)
            }
        }
    }
}

impl From<DeployError> for Problem {
    fn from(error: DeployError) -> Self {
        let detail = error.to_string();
        match error {
            DeployError::NotReady => {
                let title = "The plugin registry is not ready";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "registry-not-ready", title, detail).retryable()
            }
            DeployError::Registry(error) => error.into(),
        }
    }
}

impl From<registry::Error> for Problem {
    fn from(error: registry::Error) -> Self {
        use registry::Error;
        let detail = chain(&error);
        let retriable = error.is_retriable();
        match error {
            Error::Refused { stage, reason, remedy, .. } => {
                let title = "The plugin was refused; the active version serves on";
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "plugin-refused", title, detail)
                    .with("stage", json!(stage))
                    .with("reason", reason)
                    .with("remedy", remedy)
            }
            Error::UnknownPlugin { known, .. } => Self::unknown_plugin(detail, known),
            Error::NoPrevious { .. } => {
                let title = "There is no previous version";
                Self::new(StatusCode::CONFLICT, "nothing-to-roll-back", title, detail)
            }
            Error::Overtaken { .. } | Error::Contended { .. } => {
                Self::new(StatusCode::CONFLICT, "overtaken", "Somebody else was first", detail)
            }
            _ if retriable => {
                let title = "The plugin registry cannot be reached";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "registry-unavailable", title, detail).retryable()
            }
            _ => {
                let title = "The plugin registry failed";
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "registry-failed", title, detail)
            }
        }
    }
}

/// An error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
