//! Where the registry's records live: a topic of the application, or this process.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;

/// What went wrong in a log; its text and causes are all that is known of it here.
pub type LogError = Box<dyn std::error::Error + Send + Sync>;

/// A record of a log: its offset, its key, and its value (`None`: the key is removed).
pub type LogRecord = (i64, Bytes, Option<Bytes>);

/// Reads a log from its beginning, in order.
///
/// The log may be compacted: of records with one key only the last is sure to be there.
pub trait LogReader: Send {
    /// The next record; `None` when there is none within `timeout`.
    fn next(&mut self, timeout: Duration) -> Result<Option<LogRecord>, LogError>;

    /// Every record below was read. Moves over offsets that hold no record (any more), too.
    fn position(&self) -> i64;

    /// The log's exclusive end when it was opened.
    fn end_at_open(&self) -> i64;
}

/// Appends to a log.
pub trait LogWriter: Send {
    /// Appends a record; returns its offset once it is safe. After an error the record may be there or not.
    fn append(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<i64, LogError>;
}

/// A log in this process: for the embedded broker, whose partitions are too small for plugins, and for tests.
///
/// It lasts as long as the process. Each clone shares the log, so that several instances can follow one.
#[derive(Clone, Default)]
pub struct InProcessLog {
    /// What all clones share.
    shared: Arc<Records>,
}

/// The records of an [`InProcessLog`].
#[derive(Default)]
struct Records {
    /// All records. Locked for as long as it takes to push one, or to wait for one.
    records: Mutex<Vec<LogRecord>>,
    /// Told of each append.
    appended: Condvar,
}

impl InProcessLog {
    /// An empty log.
    pub fn new() -> Self {
        Self::default()
    }

    /// A reader from the log's beginning.
    pub fn reader(&self) -> Box<dyn LogReader> {
        let end = self.shared.end();
        Box::new(InProcessReader { shared: Arc::clone(&self.shared), position: 0, end })
    }

    /// A writer.
    pub fn writer(&self) -> Box<dyn LogWriter> {
        Box::new(self.clone())
    }

    /// Keeps of each key the last record only, and no removals: what a broker's cleaner may do.
    #[cfg(test)]
    pub(super) fn compact(&self) {
        let mut records = self.shared.records.lock().unwrap();
        let all = std::mem::take(&mut *records);
        for (at, record) in all.iter().enumerate() {
            let is_last = at + 1 == all.len();
            let superseded = all.iter().skip(at + 1).any(|(_, key, _)| *key == record.1);
            if is_last || (!superseded && record.2.is_some()) {
                records.push(record.clone());
            }
        }
    }

    /// The records as they are now.
    #[cfg(test)]
    pub(super) fn records(&self) -> Vec<LogRecord> {
        self.shared.records.lock().unwrap().clone()
    }
}

impl LogWriter for InProcessLog {
    fn append(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<i64, LogError> {
        let mut records = self.shared.records.lock().unwrap_or_else(PoisonError::into_inner);
        let offset = end(&records);
        records.push((offset, Bytes::copy_from_slice(key), value.map(Bytes::copy_from_slice)));
        self.shared.appended.notify_all();
        Ok(offset)
    }
}

impl Records {
    /// The exclusive end now.
    fn end(&self) -> i64 {
        end(&self.records.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The offset after the last record.
fn end(records: &[LogRecord]) -> i64 {
    records.last().map_or(0, |(offset, ..)| offset + 1)
}

/// One reader of an [`InProcessLog`].
struct InProcessReader {
    /// The log.
    shared: Arc<Records>,
    /// Next offset to read.
    position: i64,
    /// End when the reader was made.
    end: i64,
}

impl LogReader for InProcessReader {
    fn next(&mut self, timeout: Duration) -> Result<Option<LogRecord>, LogError> {
        let records = self.shared.records.lock().unwrap_or_else(PoisonError::into_inner);
        let position = self.position;
        let (records, _) = self
            .shared
            .appended
            .wait_timeout_while(records, timeout, |records| end(records) <= position)
            .unwrap_or_else(PoisonError::into_inner);
        let at = records.partition_point(|(offset, ..)| *offset < position);
        let next = records.get(at).cloned();
        if let Some((offset, ..)) = &next {
            self.position = offset + 1;
        }
        Ok(next)
    }

    fn position(&self) -> i64 {
        self.position
    }

    fn end_at_open(&self) -> i64 {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_of_one_log_read_the_same_each_from_the_beginning() {
        let log = InProcessLog::new();
        let mut writer = log.writer();
        assert_eq!(writer.append(b"a", Some(b"1")).unwrap(), 0);
        let mut early = log.reader();
        assert_eq!(early.end_at_open(), 1);
        assert_eq!(writer.append(b"b", None).unwrap(), 1);
        let mut late = log.reader();
        assert_eq!(late.end_at_open(), 2);
        for reader in [&mut early, &mut late] {
            assert_eq!(reader.next(Duration::ZERO).unwrap(), Some((0, "a".into(), Some("1".into()))));
            assert_eq!(reader.next(Duration::ZERO).unwrap(), Some((1, "b".into(), None)));
            assert_eq!(reader.next(Duration::ZERO).unwrap(), None);
            assert_eq!(reader.position(), 2);
        }
    }

    #[test]
    fn a_waiting_reader_is_woken_by_an_append() {
        let log = InProcessLog::new();
        let mut reader = log.reader();
        let waiting = std::thread::spawn(move || reader.next(Duration::from_secs(60)).unwrap());
        log.writer().append(b"a", None).unwrap();
        assert_eq!(waiting.join().unwrap(), Some((0, "a".into(), None)));
    }

    #[test]
    fn a_compacted_log_keeps_its_offsets() {
        let log = InProcessLog::new();
        let mut writer = log.writer();
        for (key, value) in
            [(b"a", Some(b"1")), (b"b", Some(b"2")), (b"a", Some(b"3")), (b"b", None), (b"c", Some(b"4"))]
        {
            writer.append(key, value.map(|value| value.as_slice())).unwrap();
        }
        log.compact();
        let offsets: Vec<i64> = log.records().iter().map(|(offset, ..)| *offset).collect();
        assert_eq!(offsets, [2, 4]);
        let mut reader = log.reader();
        assert_eq!(reader.next(Duration::ZERO).unwrap().map(|(offset, ..)| offset), Some(2));
        assert_eq!(writer.append(b"d", None).unwrap(), 5);
    }
}
