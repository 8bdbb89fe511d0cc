//! Which handler answers which path.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{Method, StatusCode, Uri};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use super::problem::Problem;
use super::server::Service;
use super::site::Own;
use super::{guard, health, plugins, status, stores, views};

/// All routes of `service`.
pub(super) fn routes(service: Service) -> Router {
    let administration = Router::new()
        .route("/v1/plugins", get(plugins::list))
        .route("/v1/plugins/{plugin}", get(plugins::show))
        .route("/v1/plugins/{plugin}/versions", post(plugins::deploy))
        .route("/v1/plugins/{plugin}/rollback", post(plugins::rollback))
        .layer(DefaultBodyLimit::max(service.site().max_body()))
        .route_layer(middleware::from_fn(guard::local_only));
    // The application's routes are looked up and not registered: the router would panic over one that is registered twice,
    // and would take braces for a pattern.
    let own = Arc::new(service.site().by_path());
    Router::new()
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(status::metrics))
        .route("/v1/status", get(status::status))
        .route("/v1/topology", get(status::topology))
        .route("/v1/stores", get(stores::list))
        .route("/v1/stores/{store}/keys", get(stores::scan))
        .route("/v1/stores/{store}/keys/{key}", get(stores::one))
        .merge(administration)
        .method_not_allowed_fallback(not_allowed)
        .fallback(move |service, method, uri, query| application(own.clone(), service, method, uri, query))
        .layer(middleware::from_fn(guard::limits))
        .with_state(service)
}

/// A path that is none of the server's own.
async fn application(
    own: Arc<BTreeMap<String, Own>>,
    State(service): State<Service>,
    method: Method,
    uri: Uri,
    Query(query): Query<Vec<(String, String)>>,
) -> Response {
    let Some(route) = own.get(uri.path()) else {
        return Problem::not_found(format!("nothing is at '{}'", uri.path())).into_response();
    };
    if !matches!(method, Method::GET | Method::HEAD) {
        return not_allowed(method).await.into_response();
    }
    match route {
        Own::View(view) => views::answer(&service, view, &method, query).await.into_response(),
        Own::Ready(route) => health::in_own_words(&service, route).await.into_response(),
    }
}

/// A path that is there, but not for this method.
async fn not_allowed(method: Method) -> Problem {
    let detail = format!("this route does not answer {method}");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", "The route does not take this method", detail)
}
