//! Routes that a plugin answers.

use axum::body::Body;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;

use super::problem::Problem;
use super::server::Service;
use crate::plan::ViewPlan;
use crate::plugin::ViewRequest;

/// Answers a request to `view` with what its plugin says, whatever state the instance is in: the plugin sees what the
/// stores hold now.
pub(super) async fn answer(
    service: &Service,
    view: &ViewPlan,
    method: &Method,
    query: Vec<(String, String)>,
) -> Result<Response, Problem> {
    let host = service.engine()?;
    let request = ViewRequest { method: method.as_str().to_owned(), path: view.route.clone(), query };
    let asked = view.clone();
    let answer = service.blocking().request(move || host.answer(&asked, request)).await??;
    let bad = |what: &str| Problem::internal(format!("the plugin behind view '{}' answered with {what}", view.name));
    let status = StatusCode::from_u16(answer.status).map_err(|_| bad("a status that is none"))?;
    let content_type = HeaderValue::from_str(&answer.content_type).map_err(|_| bad("a content type that is none"))?;
    let mut response = Response::new(Body::from(answer.body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    Ok(response)
}
