//! `[http]`: where the instance answers, and a readiness route with texts of one's own.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::section::Section;
use super::{At, ByteSize};

/// `[http]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpOptions {
    /// `listen`: address and port. Default `127.0.0.1:8080`. Administration is answered to this machine only, wherever it listens.
    pub listen: SocketAddr,
    /// `max_body`: largest request body, that is, largest plugin that can be deployed. Default 64 MiB.
    pub max_body: ByteSize,
    /// `[http.ready]`: a readiness route besides `/readyz`.
    pub ready: Option<ReadyRoute>,
}

/// `[http.ready]`: answers 200 with one text once a table is restored and holds enough, else 503 with another.
/// Answered by the host, since it must answer before a plugin is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyRoute {
    /// `route`: the path, matched exactly. Required.
    pub route: At<String>,
    /// `table`: the table or global table that must be restored on this instance. Required.
    pub table: At<String>,
    /// `min_records`: how many rows it must hold at least. Default 0.
    pub min_records: u64,
    /// `ready`: the body of 200; `{count}` stands for the rows held. Default `Ready`.
    pub ready: String,
    /// `not_ready`: the body of 503. Default `Not ready: loaded {count} records`.
    pub not_ready: String,
}

impl ReadyRoute {
    /// Most `min_records`: more than any table has.
    const MAX_RECORDS: u64 = 1_000_000_000_000;

    /// `text` (`ready` or `not_ready`) with the rows held.
    pub fn body(text: &str, count: u64) -> String {
        text.replace("{count}", &count.to_string())
    }

    /// The section's options.
    fn read(mut section: Section<'_>) -> Option<Self> {
        let route = Self {
            route: section.required_text("route", "/ready"),
            table: section.required_text("table", "orders"),
            min_records: section.integer("min_records", 0..=Self::MAX_RECORDS).unwrap_or(0),
            ready: read_body(&mut section, "ready", "Ready"),
            not_ready: read_body(&mut section, "not_ready", "Not ready: loaded {count} records"),
        };
        let there = !section.is_missing();
        section.finish();
        there.then_some(route)
    }
}

/// The body at `key`: `{count}` is the one thing in braces that it may have.
fn read_body(section: &mut Section<'_>, key: &'static str, default: &str) -> String {
    let Some(body) = section.text(key, default) else { return default.to_owned() };
    if body.value.replace("{count}", "").contains(['{', '}']) {
        let what = format!("{} has braces with something else than {{count}} in them", section.name(key));
        section.report.problem(body.place, what, format!("write, for example, {key} = {default:?}"));
    }
    body.value
}

impl HttpOptions {
    /// Default of `listen`.
    const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
    /// Default of `max_body`: plugins of some languages are tens of megabytes.
    const MAX_BODY: ByteSize = ByteSize::mib(64);

    /// The section's options.
    pub(crate) fn read(mut section: Section<'_>) -> Self {
        let listen = section.value("listen").and_then(|found| {
            let address = section.text_of(found).and_then(|text| address(&text.value));
            if address.is_none() {
                section.wrong(found, "listen", "an IP address and a port, such as listen = \"127.0.0.1:8080\"");
            }
            address
        });
        let max_body = section.bytes("max_body", ByteSize(1024)..=ByteSize::mib(1024), "64 MiB");
        let ready = ReadyRoute::read(section.section("ready"));
        section.finish();
        Self { listen: listen.unwrap_or(Self::LISTEN), max_body: max_body.unwrap_or(Self::MAX_BODY), ready }
    }
}

/// `text` as an address and port. `localhost` is 127.0.0.1: names are not looked up.
fn address(text: &str) -> Option<SocketAddr> {
    match text.strip_prefix("localhost:") {
        Some(port) => Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse().ok()?))),
        None => text.parse().ok(),
    }
}
