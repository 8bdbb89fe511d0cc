//! Talking to an instance.

use std::io;
use std::time::Duration;

use serde::de::DeserializeOwned;
use ureq::http::{Response, header};
use ureq::{Agent, Body};

/// How long to try to connect.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an answer may take; compiling a plugin is the longest.
const ANSWER: Duration = Duration::from_secs(300);
/// Largest answer that is read.
const MAX_ANSWER: u64 = 64 * 1024 * 1024;

/// Why an instance gave no answer that can be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// Nobody is there.
    #[error("no instance answers at {server} (--server, WEIR_SERVER): {reason}")]
    Unreachable {
        /// The base URL.
        server: String,
        /// What happened.
        reason: String,
    },
    /// The base URL is none.
    #[error("'{server}' (--server, WEIR_SERVER) is no URL such as http://127.0.0.1:8080: {reason}")]
    Server {
        /// As given.
        server: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It answered with an error.
    #[error("{detail}")]
    Problem {
        /// HTTP status.
        status: u16,
        /// In words.
        detail: String,
        /// The problem document, if it is one.
        document: Option<serde_json::Value>,
    },
    /// It answered with something else than expected.
    #[error("the instance's answer is not understood; is it another version? ({reason})")]
    Answer {
        /// What is wrong with it.
        reason: String,
    },
}

/// An instance, as its clients see it.
#[derive(Debug)]
pub(super) struct Client {
    /// Base URL without a slash at its end.
    server: String,
    /// Connections.
    agent: Agent,
}

/// An answer, whatever its status.
#[derive(Debug)]
pub(super) struct Answer {
    /// HTTP status.
    pub(super) status: u16,
    /// The body.
    pub(super) body: Vec<u8>,
}

impl Client {
    /// A client of the instance at this base URL.
    pub(super) fn new(server: &str) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // An instance is near; a proxy that the environment names for the internet does not know it.
            .proxy(None)
            .timeout_connect(Some(CONNECT))
            .timeout_global(Some(ANSWER))
            .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
            .build();
        Self { server: server.trim_end_matches('/').to_owned(), agent: config.into() }
    }

    /// The base URL.
    pub(super) fn server(&self) -> &str {
        &self.server
    }

    /// The answer to a GET, whatever its status.
    pub(super) fn answer(&self, path: &str) -> Result<Answer, Error> {
        let response = self.agent.get(format!("{}{path}", self.server)).call();
        self.read(response)
    }

    /// The body of a GET that succeeds.
    pub(super) fn get(&self, path: &str) -> Result<Vec<u8>, Error> {
        succeeded(self.answer(path)?)
    }

    /// The document that a GET yields.
    pub(super) fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        parse(&self.get(path)?)
    }

    /// The body of a POST that succeeds.
    pub(super) fn post(&self, path: &str, query: &[(&str, &str)], body: &[u8]) -> Result<Vec<u8>, Error> {
        let request = self.agent.post(format!("{}{path}", self.server)).query_pairs(query.iter().copied());
        succeeded(self.read(request.header(header::CONTENT_TYPE, "application/wasm").send(body))?)
    }

    /// Reads a response to its end.
    fn read(&self, response: Result<Response<Body>, ureq::Error>) -> Result<Answer, Error> {
        let mut response = response.map_err(|error| self.failed(&error))?;
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(MAX_ANSWER).read_to_vec();
        Ok(Answer { status, body: body.map_err(|error| self.failed(&error))? })
    }

    /// What a failed exchange means.
    fn failed(&self, error: &ureq::Error) -> Error {
        let server = self.server.clone();
        match error {
            ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                Error::Unreachable { server, reason: "connection refused".to_owned() }
            }
            ureq::Error::BadUri(_) | ureq::Error::Http(_) | ureq::Error::Tls(_) => {
                Error::Server { server, reason: error.to_string() }
            }
            _ => Error::Unreachable { server, reason: error.to_string() },
        }
    }
}

/// The body of an answer that is a success.
fn succeeded(Answer { status, body }: Answer) -> Result<Vec<u8>, Error> {
    if (200..300).contains(&status) {
        return Ok(body);
    }
    let document: Option<serde_json::Value> = serde_json::from_slice(&body).ok();
    let said = |member: &str| document.as_ref()?.get(member)?.as_str().map(str::to_owned);
    let detail = match (said("detail").or_else(|| said("title")), said("remedy")) {
        (Some(detail), Some(remedy)) if !remedy.is_empty() => format!("{detail}; {remedy}"),
        (Some(detail), _) => detail,
        (None, _) => format!("the instance answered with status {status}"),
    };
    Err(Error::Problem { status, detail, document })
}

/// A document.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|error| Error::Answer { reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_told_with_its_remedy() {
        let body = br#"{"title":"t","detail":"refused at stage 'valid'","remedy":"build it for wasm32"}"#;
        let error = succeeded(Answer { status: 422, body: body.to_vec() }).unwrap_err();
        assert_eq!(error.to_string(), "refused at stage 'valid'; build it for wasm32");
        let error = succeeded(Answer { status: 502, body: b"<html>".to_vec() }).unwrap_err();
        assert_eq!(error.to_string(), "the instance answered with status 502");
        assert_eq!(succeeded(Answer { status: 200, body: b"x".to_vec() }).unwrap(), b"x");
    }

    #[test]
    fn nobody_there_and_no_url_are_told_apart() {
        // Bound and dropped: nothing listens there now.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let error = Client::new(&format!("http://127.0.0.1:{port}/")).get("/livez").unwrap_err();
        let expected =
            format!("no instance answers at http://127.0.0.1:{port} (--server, WEIR_SERVER): connection refused");
        assert_eq!(error.to_string(), expected);
        for server in ["", "127.0.0.1", "ftp://127.0.0.1"] {
            let error = Client::new(server).get("/livez").unwrap_err();
            assert!(matches!(error, Error::Server { .. }), "'{server}': {error:?}");
        }
    }
}
