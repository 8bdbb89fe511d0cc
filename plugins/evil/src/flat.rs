//! The three kinds that work on batches, in the flat form itself: the SDK would not let them answer wrongly.

use weir_guest::bindings::aggregator::exports::weir::plugin::aggregator::{self, Folded, Runs};
use weir_guest::bindings::joiner::exports::weir::plugin::joiner::{self, Joined};
use weir_guest::bindings::transformer::exports::weir::plugin::transformer::{self, Records, Transformed};
use weir_guest::bindings::types::{Fields, Refusal, Verdict};
use weir_guest::flat::{Reader, Writer};

use crate::deed::Deed;
use crate::{Evil, deed_of};

/// The refusals and the deeds of a batch, as it is processed.
struct Batch {
    /// Records that were refused.
    refused: Vec<Refusal>,
    /// What is done to the answer in the end: the last such deed.
    spoil: Deed,
}

impl Batch {
    /// A batch of which nothing was processed.
    fn new() -> Self {
        Self { refused: Vec::new(), spoil: Deed::Echo }
    }

    /// Does the deed, or the one that the value names, for record `index`. Whether the record is to be echoed.
    fn process(&mut self, deed: Deed, index: u32, value: Option<&[u8]>) -> bool {
        let named = || value.and_then(|value| str::from_utf8(value).ok()).and_then(Deed::named).unwrap_or(Deed::Echo);
        let deed = match deed {
            Deed::Obey if cfg!(feature = "tame") => Deed::Echo,
            Deed::Obey => named(),
            deed => deed,
        };
        deed.act();
        if deed != Deed::Echo {
            self.spoil = deed;
        }
        let Deed::Refuse(verdict) = deed else { return true };
        let reason = if verdict == Verdict::Skip { "" } else { "on purpose" };
        self.refused.push(Refusal { index, verdict, reason: reason.to_owned() });
        false
    }

    /// The fields and refusals of the answer.
    fn finish(mut self, fields: Writer) -> (Fields, Vec<Refusal>) {
        let mut fields = fields.finish();
        self.spoil.spoil(&mut fields, &mut self.refused);
        (fields, self.refused)
    }
}

impl joiner::Guest for Evil {
    fn join(function: u32, pairs: Fields) -> Joined {
        let deed = deed_of(function);
        let mut reader = Reader::new(&pairs);
        let (mut batch, mut values) = (Batch::new(), Writer::default());
        for index in (0..).take(reader.len() / 3) {
            let (_key, value, _row) = (reader.field(), reader.field(), reader.field());
            let echo = batch.process(deed, index, value);
            values.field(if echo { value } else { None });
        }
        let (values, refused) = batch.finish(values);
        Joined { values, refused }
    }
}

impl aggregator::Guest for Evil {
    fn fold(every: bool, runs: Runs) -> Folded {
        let mut reader = Reader::new(&runs.fields);
        let (mut batch, mut states) = (Batch::new(), Writer::default());
        let mut functions = (0..).zip(&runs.functions);
        for &count in &runs.counts {
            let (_key, before) = (reader.field(), reader.field());
            let mut number: Option<u64> =
                before.map(|state| str::from_utf8(state).ok().and_then(|text| text.parse().ok()).unwrap_or(0));
            for (index, &function) in functions.by_ref().take(count as usize) {
                if batch.process(deed_of(function), index, reader.field()) {
                    number = Some(number.unwrap_or(0) + 1);
                }
                if every {
                    states.field(number.map(|number| number.to_string()).as_deref().map(str::as_bytes));
                }
            }
            if !every {
                states.field(number.map(|number| number.to_string()).as_deref().map(str::as_bytes));
            }
        }
        let (states, refused) = batch.finish(states);
        Folded { states, refused }
    }
}

impl transformer::Guest for Evil {
    fn transform(function: u32, records: Records) -> Transformed {
        let deed = deed_of(function);
        let mut reader = Reader::new(&records.fields);
        let (mut batch, mut fields) = (Batch::new(), Writer::default());
        let (mut timestamps, mut headers, mut origins) = (Vec::new(), Vec::new(), Vec::new());
        for ((index, &timestamp), &count) in (0..).zip(&records.timestamps).zip(&records.headers) {
            let record: Vec<_> = (0..2 + 2 * count).map(|_| reader.field()).collect();
            if batch.process(deed, index, record.get(1).copied().flatten()) {
                record.into_iter().for_each(|field| fields.field(field));
                timestamps.push(timestamp);
                headers.push(count);
                origins.push(index);
            }
        }
        let spoil = batch.spoil;
        let (fields, refused) = batch.finish(fields);
        match (spoil, origins.first_mut(), headers.first_mut()) {
            (Deed::Foreign, Some(origin), _) => *origin = u32::MAX,
            (Deed::Headers, _, Some(count)) => *count += 1,
            _ => {}
        }
        Transformed { records: Records { fields, timestamps, headers }, origins, refused }
    }
}
