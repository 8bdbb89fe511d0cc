//! Queries: the stores, one entry, and pages of entries. Answers are as of the last commit.

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::Deserialize;
use serde_json::json;

use super::blocking;
use super::host::Host;
use super::problem::Problem;
use super::server::Service;
use crate::model::InstanceState;
use crate::view::{QueryError, Row};

/// Entries on a page, unless the request says otherwise.
const PAGE: usize = 100;
/// Most entries on a page.
const MAX_PAGE: usize = 1000;

/// Base64 that needs no escaping in a path or query; padding may be there.
const BASE64_URL: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new().with_encode_padding(false).with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// How keys are written in a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum KeyFormat {
    /// As text (percent-encoded, as any part of a path).
    #[default]
    String,
    /// As base64, of either alphabet.
    Base64,
}

impl KeyFormat {
    /// The key's bytes.
    fn bytes(self, key: &str) -> Result<Vec<u8>, Problem> {
        match self {
            Self::String => Ok(key.as_bytes().to_vec()),
            Self::Base64 => BASE64_URL
                .decode(key.replace('+', "-").replace('/', "_"))
                .map_err(|error| Problem::bad_request(format!("'{key}' is no base64: {error}"))),
        }
    }
}

/// Query of one entry.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OneQuery {
    /// How the key is written.
    #[serde(default, rename = "key-format")]
    key_format: KeyFormat,
}

/// Query of a page.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageQuery {
    /// Keys that begin with this.
    #[serde(default)]
    prefix: String,
    /// Keys from this one on.
    from: Option<String>,
    /// Most entries.
    limit: Option<usize>,
    /// How `prefix` and `from` are written.
    #[serde(default, rename = "key-format")]
    key_format: KeyFormat,
}

/// `GET /v1/stores`.
pub(super) async fn list(State(service): State<Service>) -> Result<Response, Problem> {
    let host = service.engine()?;
    let stores = blocking::run(move || host.status().stores).await?;
    Ok(Json(json!({ "stores": stores })).into_response())
}

/// `GET /v1/stores/{store}/keys/{key}`.
pub(super) async fn one(
    State(service): State<Service>,
    path: Result<Path<(String, String)>, PathRejection>,
    query: Result<Query<OneQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let Path((store, key)) = path.map_err(|error| {
        Problem::bad_request(format!(
            "{}; keys that are no text are asked for with ?key-format=base64",
            error.body_text()
        ))
    })?;
    let Query(query) = query.map_err(|error| Problem::bad_request(error.body_text()))?;
    let bytes = query.key_format.bytes(&key)?;
    let host = service.engine()?;
    let (store, bytes, entry) = service
        .blocking()
        .request(move || {
            let entry = ask(host.as_ref(), &store, || host.get(&store, &bytes));
            (store, bytes, entry)
        })
        .await?;
    match entry? {
        Some(entry) => json_body(&Row::new(&bytes, &entry)),
        None => {
            let detail = format!("store '{store}' has no key '{key}'");
            Err(Problem::new(StatusCode::NOT_FOUND, "no-such-key", "There is no such key", detail))
        }
    }
}

/// `GET /v1/stores/{store}/keys`.
pub(super) async fn scan(
    State(service): State<Service>,
    Path(store): Path<String>,
    query: Result<Query<PageQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(|error| Problem::bad_request(error.body_text()))?;
    let limit = query.limit.unwrap_or(PAGE);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(Problem::bad_request(format!("limit is {limit}; it may be 1 to {MAX_PAGE}")));
    }
    let prefix = query.key_format.bytes(&query.prefix)?;
    let from = query.from.as_deref().map(|from| query.key_format.bytes(from)).transpose()?;
    let host = service.engine()?;
    let (store, prefix, page) = service
        .blocking()
        .request(move || {
            // One more than asked for tells whether there is a next page, and where it begins.
            let page = ask(host.as_ref(), &store, || host.scan(&store, &prefix, from.as_deref(), limit + 1));
            (store, prefix, page)
        })
        .await?;
    let page = page?;
    let next = page.rows.get(limit).map(|(key, _)| next_page(&store, &prefix, key, limit));
    let entries: Vec<Row<'_>> = page.rows.iter().take(limit).map(|(key, entry)| Row::new(key, entry)).collect();
    json_body(&Listing { store: &store, entries, missing_partitions: page.missing, next })
}

/// Asks a store that is restored. While it is not, it may not have heard of a key yet, or know only an old value; and while
/// partitions move, one that is not here may be in a moment.
fn ask<T>(host: &dyn Host, store: &str, question: impl FnOnce() -> Result<T, QueryError>) -> Result<T, Problem> {
    if let Some(waits_for) = host.restoring(store) {
        return Err(Problem::restoring(store, &waits_for));
    }
    question().map_err(|error| {
        let moving = matches!(error, QueryError::NotHere { .. })
            && !matches!(host.status().state, InstanceState::Running | InstanceState::Failed);
        let problem = Problem::from(error);
        if moving { problem.retryable() } else { problem }
    })
}

/// A page of a store.
#[derive(serde::Serialize)]
struct Listing<'a> {
    /// The store.
    store: &'a str,
    /// Its entries.
    entries: Vec<Row<'a>>,
    /// Partitions whose entries are not among them: they are not on this instance.
    missing_partitions: Vec<i32>,
    /// Where the next page is; null on the last one.
    next: Option<String>,
}

/// Path and query of the page that begins at `from`.
fn next_page(store: &str, prefix: &[u8], from: &[u8], limit: usize) -> String {
    let (prefix, from) = (BASE64_URL.encode(prefix), BASE64_URL.encode(from));
    let store = path_segment(store);
    format!("/v1/stores/{store}/keys?key-format=base64&prefix={prefix}&from={from}&limit={limit}")
}

/// `text` as one segment of a path.
pub fn path_segment(text: &str) -> String {
    let mut segment = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => segment.push(char::from(byte)),
            _ => segment += &format!("%{byte:02X}"),
        }
    }
    segment
}

/// An answer in JSON.
fn json_body(body: &impl serde::Serialize) -> Result<Response, Problem> {
    let text = serde_json::to_vec(body).map_err(|error| Problem::internal(format!("no JSON: {error}")))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_text_or_either_base64() {
        assert_eq!(KeyFormat::String.bytes("a/b").unwrap(), b"a/b");
        for written in ["-_8=", "-_8", "+/8=", "+/8"] {
            assert_eq!(KeyFormat::Base64.bytes(written).unwrap(), [0xfb, 0xff], "{written}");
        }
        assert!(KeyFormat::Base64.bytes("a b").is_err());
    }

    #[test]
    fn the_next_page_is_a_link_that_needs_no_more_escaping() {
        let link = next_page("my store", b"p", &[0xfb, 0xff], 7);
        assert_eq!(link, "/v1/stores/my%20store/keys?key-format=base64&prefix=cA&from=-_8&limit=7");
    }
}
