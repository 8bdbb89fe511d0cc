//! Who may ask, and how much.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, Request};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::problem::Problem;

/// Longest path with query.
const MAX_URI: usize = 8 * 1024;

/// Refuses requests that are larger than any of ours, and those that a web page makes a browser send.
pub(super) async fn limits(request: Request, next: Next) -> Response {
    let length = request.uri().path_and_query().map_or(0, |uri| uri.as_str().len());
    if length > MAX_URI {
        let detail = format!("path and query have {length} bytes; at most {MAX_URI} are taken");
        return Problem::new(StatusCode::URI_TOO_LONG, "uri-too-long", "The path is too long", detail).into_response();
    }
    if !request.method().is_safe() && !from_here(request.headers()) {
        let title = "The request comes from a web page";
        let detail = "requests that change something must name this machine in 'Host', and in 'Origin' if it is there";
        return Problem::new(StatusCode::FORBIDDEN, "foreign-origin", title, detail).into_response();
    }
    next.run(request).await
}

/// Refuses peers on other machines.
pub(super) async fn local_only(ConnectInfo(peer): ConnectInfo<SocketAddr>, request: Request, next: Next) -> Response {
    if !is_local(peer.ip()) {
        let title = "Administration is local";
        let detail =
            format!("plugins are administered from the machine itself, and this request is from {}", peer.ip());
        return Problem::new(StatusCode::FORBIDDEN, "administration-is-local", title, detail).into_response();
    }
    next.run(request).await
}

/// Whether a peer is on this machine.
fn is_local(peer: IpAddr) -> bool {
    // IPv4 peers of an IPv6 socket come as `::ffff:127.0.0.1`.
    peer.to_canonical().is_loopback()
}

/// Whether a request names this machine as its goal, and came from no page of another site: a browser sends what any page
/// asks it to, also to a name that the page's owner lets point here (DNS rebinding).
fn from_here(headers: &HeaderMap) -> bool {
    let text = |value: &HeaderValue| value.to_str().ok().map(str::to_owned);
    let host = headers.get(header::HOST).and_then(text).and_then(|host| host.parse::<Authority>().ok());
    let origin = headers
        .get(header::ORIGIN)
        .map(|origin| text(origin).and_then(|origin| origin.parse::<Uri>().ok()?.into_parts().authority));
    host.is_some_and(|host| names_loopback(&host))
        && origin.is_none_or(|origin| origin.is_some_and(|origin| names_loopback(&origin)))
}

/// Whether this is a name of the machine itself.
fn names_loopback(authority: &Authority) -> bool {
    let host = authority.host();
    let literal = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || literal.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_peers_on_this_machine_are_local() {
        for (peer, expected) in [
            ("127.0.0.1", true),
            ("127.1.2.3", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("10.0.0.1", false),
            ("0.0.0.0", false),
            ("::ffff:10.0.0.1", false),
            ("fe80::1", false),
        ] {
            assert_eq!(is_local(peer.parse().unwrap()), expected, "{peer}");
        }
    }

    #[test]
    fn only_names_of_this_machine_are_taken() {
        let check = |host: Option<&str>, origin: Option<&str>, expected| {
            let mut headers = HeaderMap::new();
            for (name, value) in [(header::HOST, host), (header::ORIGIN, origin)] {
                if let Some(value) = value {
                    headers.insert(name, HeaderValue::from_str(value).unwrap());
                }
            }
            assert_eq!(from_here(&headers), expected, "host {host:?}, origin {origin:?}");
        };
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "127.9.9.9", "[::1]:80", "[::1]"] {
            check(Some(host), None, true);
            check(Some(host), Some("http://localhost:3000"), true);
            check(Some(host), Some("https://evil.example"), false);
            check(Some(host), Some("null"), false);
        }
        for host in ["evil.example:8080", "localhost.evil.example", "10.0.0.1", "", "127.0.0.1.evil.example"] {
            check(Some(host), None, false);
        }
        check(None, None, false);
    }
}
