//! Views that misbehave, and some that do not.

use weir_guest::bindings::view::exports::weir::plugin::view::{Guest, Request, Response};
use weir_guest::bindings::view::weir::plugin::stores;

use crate::deed::{DEEDS, Deed};
use crate::{Evil, KINDS};

/// One way to answer.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    /// The method, the path and the query.
    Echo,
    /// The value under the parameters `store` and `key`.
    Get,
    /// The count of the store in the parameter `store`.
    Count,
    /// A deed instead of an answer.
    Do(Deed),
    /// A body of 32 MiB.
    Huge,
    /// A status that HTTP does not have.
    Status,
    /// A content type with a line break.
    Header,
    /// A content type that is no UTF-8.
    Mojibake,
}

/// Name, answer and description.
pub(crate) const VIEWS: [(&str, Answer, &str); 13] = [
    ("echo", Answer::Echo, "Answers with the request."),
    ("get", Answer::Get, "Answers with the value under `key` in `store`."),
    ("count", Answer::Count, "Answers with the number of entries in `store`."),
    ("trap", Answer::Do(Deed::Trap), "Panics."),
    ("abort", Answer::Do(Deed::Abort), "Stops without a word."),
    ("spin", Answer::Do(Deed::Spin), "Never ends."),
    ("bomb", Answer::Do(Deed::Bomb), "Takes memory without end."),
    ("deep", Answer::Do(Deed::Deep), "Calls itself without end."),
    ("chatter", Answer::Do(Deed::Chatter), "Logs without measure, then answers."),
    ("huge", Answer::Huge, "Answers with 32 MiB."),
    ("status", Answer::Status, "Answers with the status 99."),
    ("header", Answer::Header, "Answers with a line break in the content type."),
    ("mojibake", Answer::Mojibake, "Answers with a content type that is no UTF-8."),
];

impl Guest for Evil {
    fn answer(function: u32, request: Request) -> Response {
        let index = (function as usize).checked_sub(KINDS.len() * DEEDS.len());
        let answer = index.and_then(|index| VIEWS.get(index)).map_or(Answer::Echo, |(_, answer, _)| *answer);
        let parameter = |name: &str| {
            let found = request.query.iter().find(|(other, _)| other == name);
            found.map(|(_, value)| value.clone()).unwrap_or_default()
        };
        let text = |status: u16, body: String| Response {
            status,
            content_type: "text/plain; charset=utf-8".to_owned(),
            body: body.into_bytes(),
        };
        match answer {
            Answer::Echo => text(200, format!("{} {} {:?}", request.method, request.path, request.query)),
            Answer::Get => match stores::get(&parameter("store"), parameter("key").as_bytes()) {
                Ok(Some(body)) => Response { body, ..text(200, String::new()) },
                Ok(None) => text(404, "nothing there".to_owned()),
                Err(reason) => text(503, reason),
            },
            Answer::Count => stores::count(&parameter("store"))
                .map_or_else(|reason| text(503, reason), |count| text(200, count.to_string())),
            Answer::Do(deed) => {
                deed.act();
                text(200, String::new())
            }
            Answer::Huge => text(200, "!".repeat(32 << 20)),
            Answer::Status => text(99, String::new()),
            Answer::Header => {
                Response { content_type: "text/plain\r\nevil: yes".to_owned(), ..text(200, String::new()) }
            }
            Answer::Mojibake => Response {
                // SAFETY: the bytes go straight to the host; nothing here reads them as text.
                content_type: unsafe { String::from_utf8_unchecked(vec![0xC3, 0x28, 0xFF]) },
                ..text(200, String::new())
            },
        }
    }
}
