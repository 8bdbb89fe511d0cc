//! What can be done to a host, by name.

use std::hint::black_box;

use weir_guest::bindings::types::{Fields, Refusal, Verdict};
use weir_guest::bindings::view::weir::plugin::stores;

/// One way to behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Well: the value goes on as it is, a fold counts.
    Echo,
    /// As the value says.
    Obey,
    /// Panics.
    Trap,
    /// Stops without a word.
    Abort,
    /// Never ends.
    Spin,
    /// Takes memory without end.
    Bomb,
    /// Calls itself without end.
    Deep,
    /// Reads a store, which only views may.
    Stores,
    /// Logs without measure, then echoes.
    Chatter,
    /// Refuses the record.
    Refuse(Verdict),
    /// Answers with far too much.
    Huge,
    /// Leaves out the last field.
    Fewer,
    /// Adds a field.
    More,
    /// The first field ends behind the others.
    Falling,
    /// The last field ends behind the bytes.
    Beyond,
    /// The bytes go on behind the last field.
    Loose,
    /// Refuses a record that is not there.
    Stray,
    /// Refuses the first record twice.
    Twice,
    /// A reason that is no UTF-8.
    Mojibake,
    /// A transformation's first record is made of one that is not there; elsewhere: echo.
    Foreign,
    /// A transformation's first record has more headers than fields; elsewhere: echo.
    Headers,
}

/// Name, deed and description.
pub(crate) const DEEDS: [(&str, Deed, &str); 23] = [
    ("echo", Deed::Echo, "Well behaved: the value as it is; a fold counts."),
    ("obey", Deed::Obey, "Does for each record what its value says."),
    ("trap", Deed::Trap, "Panics."),
    ("abort", Deed::Abort, "Stops without a word."),
    ("spin", Deed::Spin, "Never ends."),
    ("bomb", Deed::Bomb, "Takes memory without end."),
    ("deep", Deed::Deep, "Calls itself without end."),
    ("stores", Deed::Stores, "Reads a store, which only views may."),
    ("chatter", Deed::Chatter, "Logs without measure, then echoes."),
    ("skip", Deed::Refuse(Verdict::Skip), "Skips every record."),
    ("reject", Deed::Refuse(Verdict::Reject), "Rejects every record."),
    ("fail", Deed::Refuse(Verdict::Fail), "Fails on every record."),
    ("huge", Deed::Huge, "Answers with 32 MiB more."),
    ("fewer", Deed::Fewer, "Leaves out the last field."),
    ("more", Deed::More, "Adds a field."),
    ("falling", Deed::Falling, "The first field ends behind the others."),
    ("beyond", Deed::Beyond, "The last field ends behind the bytes."),
    ("loose", Deed::Loose, "The bytes go on behind the last field."),
    ("stray", Deed::Stray, "Refuses a record that is not there."),
    ("twice", Deed::Twice, "Refuses the first record twice."),
    ("mojibake", Deed::Mojibake, "Gives a reason that is no UTF-8."),
    ("foreign", Deed::Foreign, "Makes a record of one that is not there (transformations)."),
    ("headers", Deed::Headers, "Announces more headers than there are (transformations)."),
];

impl Deed {
    /// The deed of that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        DEEDS.iter().find(|(other, ..)| *other == name).map(|(_, deed, _)| *deed)
    }

    /// Does what is done to the whole instance; deeds that concern the answer do nothing here.
    #[expect(clippy::panic, reason = "that is the deed")]
    pub(crate) fn act(self) {
        match self {
            Self::Trap => panic!("a trap on purpose"),
            Self::Abort => core::arch::wasm32::unreachable(),
            Self::Spin => loop {
                black_box(());
            },
            Self::Bomb => {
                let mut taken = Vec::new();
                loop {
                    taken.push(black_box(vec![1_u8; 1 << 20]));
                }
            }
            Self::Deep => {
                black_box(deeper(0));
            }
            Self::Stores => {
                let _ = black_box(stores::count("anything"));
            }
            Self::Chatter => {
                for line in 0..10_000 {
                    weir_guest::log::warn(&format!("line {line}: {}", "la ".repeat(100)));
                }
            }
            _ => {}
        }
    }

    /// Spoils an answer: its fields and its refusals.
    pub(crate) fn spoil(self, fields: &mut Fields, refused: &mut Vec<Refusal>) {
        let length = fields.bytes.len() as u32;
        let refusal = |index, reason| Refusal { index, verdict: Verdict::Reject, reason };
        match self {
            Self::Huge => {
                fields.bytes.resize(fields.bytes.len() + (32 << 20), b'!');
                if let Some(last) = fields.ends.last_mut() {
                    *last = fields.bytes.len() as u32;
                }
            }
            Self::Fewer => {
                // Without its bytes, so that the count is the only fault.
                fields.ends.pop();
                let end = fields.ends.last().map_or(0, |end| end & !weir_guest::flat::NULL);
                fields.bytes.truncate(end as usize);
            }
            Self::More => fields.ends.push(length),
            Self::Falling => {
                fields.ends.insert(0, length + 1);
                fields.ends.pop();
            }
            Self::Beyond => {
                if let Some(last) = fields.ends.last_mut() {
                    *last += 1;
                }
            }
            Self::Loose => fields.bytes.push(b'!'),
            Self::Stray => refused.push(refusal(u32::MAX, "a record that is not there".to_owned())),
            Self::Twice => {
                refused.clear();
                refused.extend([refusal(0, "once".to_owned()), refusal(0, "twice".to_owned())]);
            }
            Self::Mojibake => {
                refused.clear();
                // SAFETY: the bytes go straight to the host; nothing here reads them as text.
                refused.push(refusal(0, unsafe { String::from_utf8_unchecked(vec![0xC3, 0x28, 0xFF]) }));
            }
            _ => {}
        }
    }
}

/// Calls itself without end. The frame is in use after the call, so that it cannot become a loop.
#[expect(unconditional_recursion, reason = "that is the deed")]
fn deeper(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    deeper(black_box(depth + 1)).wrapping_add(black_box(frame).iter().sum())
}
