//! Exit codes (as in sysexits.h), decided in one place; and the one place that prints errors.

use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::json;

use super::{Output, client, demo, wait};
use crate::config::Problems;
use crate::plan::TooLittleMemory;
use crate::telemetry::logging;
use crate::{http, kafka, registry, runtime, store};

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// All went well.
    Success,
    /// It failed, or the answer is no.
    Failure,
    /// The arguments are wrong.
    Usage,
    /// The server or the broker cannot be reached.
    Unavailable,
    /// Not ready or in use; trying again later may help.
    NotReady,
    /// Not allowed.
    Denied,
    /// The configuration is wrong.
    Config,
    /// Interrupted before it was done.
    Interrupted,
}

impl Exit {
    /// The number.
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Usage => 2,
            Self::Unavailable => 69,
            Self::NotReady => 75,
            Self::Denied => 77,
            Self::Config => 78,
            Self::Interrupted => 130,
        }
    }

    /// This end, unless the last output failed for another reason than a reader that has gone (`weir … | head`).
    pub(super) fn after(self, written: io::Result<()>) -> ExitCode {
        match written {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Self::Failure.into(),
            _ => self.into(),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// How an error ends the program: the first link of its chain that we know decides.
fn of(error: &anyhow::Error) -> Exit {
    error.chain().find_map(of_link).unwrap_or(Exit::Failure)
}

/// What one link of a chain says.
fn of_link(error: &(dyn std::error::Error + 'static)) -> Option<Exit> {
    if error.is::<Problems>() || error.is::<logging::Error>() || error.is::<TooLittleMemory>() {
        return Some(Exit::Config);
    }
    if error.is::<wait::NotReady>() {
        return Some(Exit::NotReady);
    }
    if error.is::<demo::Interrupted>() {
        return Some(Exit::Interrupted);
    }
    None.or_else(|| error.downcast_ref().map(of_client))
        .or_else(|| error.downcast_ref().map(of_http))
        .or_else(|| error.downcast_ref().and_then(of_runtime))
        .or_else(|| error.downcast_ref().and_then(of_kafka))
        .or_else(|| error.downcast_ref().and_then(of_store))
        .or_else(|| error.downcast_ref().and_then(of_registry))
}

/// An instance that did not do what it was asked.
fn of_client(error: &client::Error) -> Exit {
    match error {
        client::Error::Unreachable { .. } => Exit::Unavailable,
        client::Error::Server { .. } => Exit::Usage,
        client::Error::Answer { .. } => Exit::Failure,
        client::Error::Problem { status, .. } => match status {
            401 | 403 => Exit::Denied,
            429 | 503 => Exit::NotReady,
            _ => Exit::Failure,
        },
    }
}

/// An address that cannot be listened on.
fn of_http(error: &http::Error) -> Exit {
    match error.source.kind() {
        io::ErrorKind::AddrInUse => Exit::NotReady,
        io::ErrorKind::PermissionDenied => Exit::Denied,
        _ => Exit::Config,
    }
}

/// A topology that does not fit what is there.
fn of_runtime(error: &runtime::Error) -> Option<Exit> {
    use runtime::Error;
    match error {
        Error::MissingTopics { .. }
        | Error::Copartition(_)
        | Error::Memory(_)
        | Error::PartitionCount { .. }
        | Error::RecreatedInput { .. }
        | Error::Fenced { .. }
        | Error::PluginFile { .. } => Some(Exit::Config),
        // The next start knows what to do.
        Error::RecreatedWhileInUse { .. }
        | Error::PartitionsChanged { .. }
        | Error::Stalled { .. }
        | Error::Unopened { .. } => Some(Exit::NotReady),
        _ => None,
    }
}

/// A broker that cannot be reached, or settings that it or librdkafka does not take.
fn of_kafka(error: &kafka::Error) -> Option<Exit> {
    match error {
        kafka::Error::Setting { .. } | kafka::Error::Missing { .. } => Some(Exit::Config),
        error if error.is_retriable() => Some(Exit::Unavailable),
        _ => None,
    }
}

/// A state folder that cannot be used.
fn of_store(error: &store::Error) -> Option<Exit> {
    use store::Error;
    match error {
        Error::Locked { .. } | Error::InUse { .. } | Error::DiskFull { .. } => Some(Exit::NotReady),
        Error::Folder { source, .. }
            if matches!(source.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem) =>
        {
            Some(Exit::Denied)
        }
        Error::Folder { .. } | Error::Newer { .. } | Error::OtherApp { .. } => Some(Exit::Config),
        _ => None,
    }
}

/// Plugins that cannot be had, or not be used.
fn of_registry(error: &registry::Error) -> Option<Exit> {
    use registry::Error;
    match error {
        Error::File { source, .. } if source.kind() == io::ErrorKind::StorageFull => Some(Exit::NotReady),
        Error::Refused { .. } | Error::File { .. } => Some(Exit::Config),
        error if error.is_retriable() => Some(Exit::Unavailable),
        _ => None,
    }
}

/// Prints an error with its causes and gives the exit code.
pub(super) fn report(error: &anyhow::Error, output: Output) -> ExitCode {
    if error.chain().any(is_broken_pipe) {
        return Exit::Success.into();
    }
    let exit = of(error);
    let text = match output {
        Output::Table => in_words(error),
        Output::Json => format!("{}\n", in_json(error, exit)),
    };
    // Nothing is left to tell it to if stderr is gone.
    let _ = io::stderr().write_all(text.as_bytes());
    exit.into()
}

/// Whether the reader of our output has gone.
fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// The chain without links that only repeat what is said already.
fn links(error: &anyhow::Error) -> Vec<String> {
    let mut links: Vec<String> = Vec::new();
    for link in error.chain().map(ToString::to_string) {
        if !link.is_empty() && !links.iter().any(|said| said.contains(&link)) {
            links.push(link);
        }
    }
    links
}

/// An error for people.
fn in_words(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for (index, link) in links(error).iter().enumerate() {
        text += if index == 0 { "error: " } else { "  caused by: " };
        text += link;
        text.push('\n');
    }
    text
}

/// An error for programs: the server's problem document as it is, else one of our own.
fn in_json(error: &anyhow::Error, exit: Exit) -> serde_json::Value {
    let problem = error.chain().find_map(|link| match link.downcast_ref::<client::Error>() {
        Some(client::Error::Problem { document, .. }) => document.clone(),
        _ => None,
    });
    problem.unwrap_or_else(|| {
        let mut links = links(error).into_iter();
        let mut document = json!({
            "title": links.next(),
            "causes": links.collect::<Vec<_>>(),
            "exit_code": exit.code(),
        });
        if let (Some(problems), Some(document)) =
            (error.chain().find_map(|link| link.downcast_ref::<Problems>()), document.as_object_mut())
        {
            document.insert("problems".to_owned(), json!(problems));
        }
        document
    })
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    /// Exit code of an error below some context.
    fn code(error: impl std::error::Error + Send + Sync + 'static) -> u8 {
        of(&Err::<(), _>(error).context("while doing something").unwrap_err()).code()
    }

    #[test]
    fn every_error_has_its_code() {
        assert_eq!(code(io::Error::other("whatever")), 1);
        assert_eq!(code(Problems(vec![])), 78);
        let bind = |kind| http::Error { address: ([127, 0, 0, 1], 80).into(), source: io::Error::from(kind) };
        assert_eq!(code(bind(io::ErrorKind::AddrInUse)), 75);
        assert_eq!(code(bind(io::ErrorKind::PermissionDenied)), 77);
        assert_eq!(code(bind(io::ErrorKind::AddrNotAvailable)), 78);
        let unreachable = client::Error::Unreachable { server: String::new(), reason: String::new() };
        assert_eq!(code(unreachable), 69);
        for (status, expected) in [(403, 77), (503, 75), (404, 1), (422, 1), (500, 1)] {
            assert_eq!(code(client::Error::Problem { status, detail: String::new(), document: None }), expected);
        }
        let locked = store::Error::Locked { dir: "state".into(), pid: None };
        assert_eq!(code(locked), 75);
        let folder =
            |kind| store::Error::Folder { action: "lock", path: "state".into(), source: io::Error::from(kind) };
        assert_eq!(code(folder(io::ErrorKind::PermissionDenied)), 77);
        assert_eq!(code(folder(io::ErrorKind::NotADirectory)), 78);
        // Behind the runtime's error it is still the same.
        assert_eq!(code(runtime::Error::Store(folder(io::ErrorKind::PermissionDenied))), 77);
        assert_eq!(code(runtime::Error::MissingTopics { topics: vec![] }), 78);
        let id = |id: &str| crate::model::TopicId(id.to_owned());
        let (topic, before, now) = (String::new(), id("a"), id("b"));
        assert_eq!(code(runtime::Error::RecreatedInput { topic, before, now }), 78);
        let (topic, before, now) = (String::new(), id("a"), id("b"));
        assert_eq!(code(runtime::Error::RecreatedWhileInUse { topic, before, now }), 75);
        assert_eq!(code(runtime::Error::PartitionsChanged { topic: String::new(), before: 1, now: 2 }), 75);
        assert_eq!(code(runtime::Error::Unopened { seconds: 1 }), 75);
        assert_eq!(code(runtime::Error::Stalled { name: String::new(), seconds: 1 }), 75);
        let source = kafka::Error::Timeout { what: String::new(), after: std::time::Duration::ZERO };
        // Trying again would only put the other one out.
        assert_eq!(code(runtime::Error::Fenced { instance: String::new(), dir: "state".into(), source }), 78);
        assert_eq!(code(runtime::Error::Panicked { name: String::new() }), 1);
        let late = kafka::Error::Timeout { what: String::new(), after: std::time::Duration::ZERO };
        assert_eq!(code(runtime::Error::Kafka { doing: String::new(), source: late }), 69);
        assert_eq!(code(kafka::Error::Setting { key: String::new(), reason: String::new() }), 78);
        let stalled = registry::Error::Stalled { position: 0, wanted: 1, seconds: 1 };
        assert_eq!(code(runtime::Error::Registry(stalled)), 69);
        assert_eq!(code(wait::NotReady { seconds: 1, answer: String::new() }), 75);
        assert_eq!((Exit::Success.code(), Exit::Usage.code(), Exit::Interrupted.code()), (0, 2, 130));
    }

    #[test]
    fn a_chain_is_printed_once() {
        let cause = io::Error::other("the disk is full");
        let error = Err::<(), _>(cause).context("cannot write: the disk is full").context("cannot commit").unwrap_err();
        assert_eq!(in_words(&error), "error: cannot commit\n  caused by: cannot write: the disk is full\n");
        let document = in_json(&error, Exit::Failure);
        assert_eq!(document["title"], "cannot commit");
        assert_eq!(document["exit_code"], 1);
    }

    #[test]
    fn a_problem_of_the_server_reaches_programs_as_it_is() {
        let problem = json!({"code": "plugin-refused", "stage": "conforms"});
        let error =
            client::Error::Problem { status: 422, detail: "refused".to_owned(), document: Some(problem.clone()) };
        assert_eq!(in_json(&error.into(), Exit::Failure), problem);
    }
}
