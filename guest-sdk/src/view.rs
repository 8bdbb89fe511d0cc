//! Views: answers to HTTP requests, made from stores.

use crate::bindings::view::exports::weir::plugin::view as raw;
use crate::bindings::view::weir::plugin::stores;

/// Answers HTTP requests to a route of the topology file.
///
/// ```
/// use weir_guest::{Request, Response, Stores, View, testing};
///
/// /// Says how many orders there are.
/// struct Count;
///
/// impl View for Count {
///     const NAME: &'static str = "count";
///     const DOC: &'static str = "Says how many orders there are.";
///
///     fn answer(&self, _: &Request, stores: &dyn Stores) -> Response {
///         match stores.count("orders") {
///             Ok(count) => Response::text(200, format!("{count} orders")),
///             Err(reason) => Response::text(503, reason),
///         }
///     }
/// }
///
/// let stores = testing::MemoryStores::default().with("orders", "O1", "SHIPPED");
/// assert_eq!(Count.answer(&Request::get("/count", &[]), &stores).body, b"1 orders");
/// ```
pub trait View: Send + Sync + 'static {
    /// What the topology file calls it, after the plugin's name and a dot: lower case, digits, `_` and `-`.
    const NAME: &'static str;
    /// One sentence for people.
    const DOC: &'static str;

    /// Answers one request.
    fn answer(&self, request: &Request, stores: &dyn Stores) -> Response;
}

/// Stores of the topology, read only, as of the last commit.
pub trait Stores {
    /// The value under a key, if there is one. An error: no such store, or it is not on this instance.
    fn get(&self, store: &str, key: &[u8]) -> Result<Option<Vec<u8>>, String>;

    /// How many entries the store holds on this instance.
    fn count(&self, store: &str) -> Result<u64, String>;
}

/// A request as the host has parsed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The HTTP method, upper case.
    pub method: String,
    /// The path, without the query string.
    pub path: String,
    /// Decoded names and values, in the order of the query string.
    pub query: Vec<(String, String)>,
}

impl Request {
    /// A `GET` request.
    pub fn get(path: &str, query: &[(&str, &str)]) -> Self {
        let query = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { method: "GET".to_owned(), path: path.to_owned(), query }
    }

    /// The first value of a query parameter.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The value of the header `content-type`.
    pub content_type: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// Text in UTF-8.
    pub fn text(status: u16, text: impl Into<String>) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8".to_owned(), body: text.into().into_bytes() }
    }

    /// A body of JSON text.
    pub fn json(status: u16, json: impl Into<Vec<u8>>) -> Self {
        Self { status, content_type: "application/json".to_owned(), body: json.into() }
    }
}

/// The host's stores.
struct HostStores;

impl Stores for HostStores {
    fn get(&self, store: &str, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        stores::get(store, key)
    }

    fn count(&self, store: &str) -> Result<u64, String> {
        stores::count(store)
    }
}

/// Answers the interface's `answer`.
pub(crate) fn answer_raw(view: &dyn AnswerRequest, request: raw::Request) -> raw::Response {
    let raw::Request { method, path, query } = request;
    let Response { status, content_type, body } = view.answer_request(&Request { method, path, query }, &HostStores);
    raw::Response { status, content_type, body }
}

/// A view whatever its type.
pub(crate) trait AnswerRequest: Send + Sync {
    /// Answers one request.
    fn answer_request(&self, request: &Request, stores: &dyn Stores) -> Response;
}

impl<V: View> AnswerRequest for V {
    fn answer_request(&self, request: &Request, stores: &dyn Stores) -> Response {
        self.answer(request, stores)
    }
}
