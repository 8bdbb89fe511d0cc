//! One partition's own queue: the only unsafe code of Weir's Kafka clients.
//!
//! librdkafka can hand out the queue that a partition's fetcher fills. Taken *before* the partition is assigned and told to
//! forward nowhere, it is marked as the application's (`RD_KAFKA_Q_F_FWD_APP`), and starting the fetcher leaves it alone: no
//! record of the partition ever reaches the consumer's main queue. Read in batches (`rd_kafka_consume_batch_queue`), it
//! yields end-of-partition events as messages with topic and offset, which the crate's own partition queue does not.
//!
//! Reading an end-of-partition event moves librdkafka's idea of the application's position one too far (2.12.1). Only
//! `position()`, `pause()` and `resume()` use it; Weir uses none of them.

use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_void};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Bytes, BytesMut};
use rdkafka::bindings as c;
use rdkafka::consumer::Consumer;
use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::types::RDKafkaRespErr;

use super::Error;
use super::client::Client;
use super::error::{is_connection, is_missing, is_transient};
use crate::model::{Header, Headers, Record, TopicPartition};

/// Called from librdkafka's threads when a queue becomes non-empty. It holds the queue's lock: it must be quick and must not
/// call into a Kafka client; unparking a thread is what it is for.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Messages that are taken from librdkafka at once.
const TAKE: usize = 256;

/// Header names that a queue remembers, so that records share them.
const NAMES: usize = 16;

/// What a poll brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Polled {
    /// Records appended.
    pub records: usize,
    /// Their bytes ([`Record::size`]).
    pub bytes: usize,
    /// Exclusive end that the fetcher has reached (the last stable offset under read_committed), if an end-of-partition event
    /// came after the last record.
    pub end: Option<i64>,
}

/// One partition's own queue. Holds its client alive; when it is dropped, what it still holds is dropped too.
pub struct PartitionQueue {
    /// The partition.
    partition: TopicPartition,
    /// librdkafka's queue: ours until `drop`.
    queue: NonNull<c::rd_kafka_queue_t>,
    /// Taken from librdkafka, not yet handed out.
    taken: VecDeque<Message>,
    /// The messages of the poll under way; kept for its allocation.
    batch: Vec<Message>,
    /// Header names seen.
    names: Vec<Arc<str>>,
    /// Set when the partition was sought: what is `taken` is from before.
    sought: Arc<AtomicBool>,
    /// What librdkafka's callback points to: boxed, so that it stays where it is.
    _waker: Box<Waker>,
    /// The client that `queue` and the messages belong to. Fields are dropped in order: this one last.
    client: Arc<Client>,
}

// SAFETY: librdkafka's queues and messages may be used from any thread; `queue`, `taken` and `batch` are reached through `&mut
// self` (or in `drop`) only, so never by two threads at once. All other fields are Send.
unsafe impl Send for PartitionQueue {}

impl PartitionQueue {
    /// Takes the queue of `partition`, which must not be assigned now; what an earlier assignment left in it is dropped.
    pub(super) fn split(client: Arc<Client>, partition: &TopicPartition, waker: Waker) -> Result<Self, Error> {
        let missing = || Error::Missing { name: partition.to_string() };
        let topic = CString::new(&*partition.topic).map_err(|_| missing())?;
        // SAFETY: the client is alive (we hold it), `topic` is a C string that outlives the call, which copies it.
        let queue = unsafe {
            c::rd_kafka_queue_get_partition(client.client().native_ptr(), topic.as_ptr(), partition.partition)
        };
        let queue = NonNull::new(queue).ok_or_else(missing)?;
        let mut this = Self {
            partition: partition.clone(),
            queue,
            taken: VecDeque::new(),
            batch: Vec::new(),
            names: Vec::new(),
            sought: client.context().watch_seeks(partition),
            _waker: Box::new(waker),
            client,
        };
        // SAFETY: `queue` is a live queue of ours; a null destination is allowed and means: forward nowhere.
        unsafe { c::rd_kafka_queue_forward(this.queue.as_ptr(), ptr::null_mut()) };
        this.clear();
        // SAFETY: `queue` is live. The callback gets the address of the boxed waker, which is valid until `drop` has taken the
        // callback away again: librdkafka calls it under the queue's lock, which taking it away acquires.
        unsafe {
            c::rd_kafka_queue_cb_event_enable(
                this.queue.as_ptr(),
                Some(wake),
                ptr::from_ref::<Waker>(&this._waker).cast_mut().cast(),
            );
        }
        Ok(this)
    }

    /// The partition.
    pub fn partition(&self) -> &TopicPartition {
        &self.partition
    }

    /// Takes up to `max_records` that are there now, without waiting, and appends them to `into`; stops early once `max_bytes`
    /// are taken, but takes at least one. Their bytes share one buffer.
    ///
    /// The waker is called when the queue becomes non-empty, not while it stays so: poll until nothing comes.
    pub fn poll(&mut self, max_records: usize, max_bytes: usize, into: &mut VecDeque<Record>) -> Result<Polled, Error> {
        let polled = self.gather(max_records, max_bytes)?;
        if polled.records > 0 || polled.end.is_some() {
            let state = self.client.context();
            state.connection.answered(state.role(), false);
        }
        let mut buffer = BytesMut::with_capacity(polled.bytes);
        let batch = std::mem::take(&mut self.batch);
        into.reserve(batch.len());
        for message in &batch {
            into.push_back(self.record(message, &mut buffer));
        }
        self.batch = batch;
        self.batch.clear();
        Ok(polled)
    }

    /// Moves what one poll may hand out to `batch`, and interprets events.
    fn gather(&mut self, max_records: usize, max_bytes: usize) -> Result<Polled, Error> {
        if self.sought.swap(false, Ordering::Acquire) {
            self.taken.clear();
        }
        let mut polled = Polled::default();
        let mut more = true;
        while polled.records < max_records {
            let Some(message) = self.taken.front() else {
                if !more {
                    break;
                }
                more = self.take((max_records - polled.records).min(TAKE));
                continue;
            };
            let code = message.code();
            if code == Code::NoError {
                let size = message.size();
                if polled.records > 0 && polled.bytes.saturating_add(size) > max_bytes {
                    break;
                }
                polled.records += 1;
                polled.bytes += size;
                polled.end = None;
                self.batch.extend(self.taken.pop_front());
            } else if code == Code::PartitionEOF {
                polled.end = Some(message.offset());
                self.taken.pop_front();
            } else if is_transient(code) {
                let reason = message.reason();
                tracing::warn!(target: "weir::kafka", partition = %self.partition, "{reason}");
                if is_connection(code) {
                    let state = self.client.context();
                    state.connection.failed(state.role(), code, &reason);
                }
                self.taken.pop_front();
            } else if polled.records > 0 {
                // The records before the error are good; the next poll returns it.
                break;
            } else {
                let error = self.error(message, code);
                self.taken.pop_front();
                return Err(error);
            }
        }
        Ok(polled)
    }

    /// An error event that ends the reading of the partition.
    fn error(&self, message: &Message, code: Code) -> Error {
        let (partition, offset, reason) = (self.partition.clone(), message.offset(), message.reason());
        if code == Code::AutoOffsetReset || code == Code::OffsetOutOfRange {
            Error::OffsetOutOfRange { partition, offset, reason }
        } else if is_missing(code) {
            Error::Missing { name: partition.to_string() }
        } else {
            Error::Partition { partition, offset, code, reason }
        }
    }

    /// Takes up to `count` messages from librdkafka; whether there may be more.
    fn take(&mut self, count: usize) -> bool {
        let mut messages = [ptr::null_mut(); TAKE];
        let count = count.min(TAKE);
        // SAFETY: `queue` is live, `messages` has room for `count` pointers. With a timeout of 0 the call does not wait.
        let got = unsafe { c::rd_kafka_consume_batch_queue(self.queue.as_ptr(), 0, messages.as_mut_ptr(), count) };
        let got = usize::try_from(got).unwrap_or(0);
        self.taken.extend(messages.iter().take(got).filter_map(|message| NonNull::new(*message)).map(Message));
        got == count
    }

    /// Drops all that is in the queue now. Bounded, in case the fetcher is still filling it.
    fn clear(&mut self) {
        self.taken.clear();
        for _ in 0..1024 {
            if !self.take(TAKE) {
                break;
            }
            self.taken.clear();
        }
        self.taken.clear();
    }

    /// Copies a message; `buffer` has room for all of the poll.
    fn record(&mut self, message: &Message, buffer: &mut BytesMut) -> Record {
        let mut copy = |bytes: &[u8]| -> Bytes {
            buffer.extend_from_slice(bytes);
            buffer.split().freeze()
        };
        Record {
            key: message.key().map(&mut copy),
            value: message.value().map(&mut copy),
            timestamp: message.timestamp(),
            offset: message.offset(),
            headers: message
                .headers()
                .map(|(name, value)| Header { name: shared(&mut self.names, name), value: value.map(&mut copy) })
                .collect::<Headers>(),
        }
    }
}

impl Drop for PartitionQueue {
    fn drop(&mut self) {
        // SAFETY: `queue` is live; no callback means that the waker is not called any more once this returns.
        unsafe { c::rd_kafka_queue_cb_event_enable(self.queue.as_ptr(), None, ptr::null_mut()) };
        self.clear();
        self.batch.clear();
        // SAFETY: `queue` came from `rd_kafka_queue_get_partition`, is destroyed once, and not used again; the client, which it
        // refers to, is dropped after this.
        unsafe { c::rd_kafka_queue_destroy(self.queue.as_ptr()) };
    }
}

/// The name, shared with earlier records where it is one of the few that a topic mostly has.
fn shared(names: &mut Vec<Arc<str>>, name: &CStr) -> Arc<str> {
    if let Some(known) = names.iter().find(|known| known.as_bytes() == name.to_bytes()) {
        return Arc::clone(known);
    }
    let new: Arc<str> = name.to_string_lossy().into();
    if names.len() < NAMES {
        names.push(Arc::clone(&new));
    }
    new
}

/// librdkafka's call when a queue becomes non-empty.
unsafe extern "C" fn wake(_: *mut c::rd_kafka_t, waker: *mut c_void) {
    // SAFETY: the pointer was made from a `Waker` that lives until the callback is taken away (see `split`, `drop`).
    let waker = unsafe { &*waker.cast::<Waker>() };
    waker();
}

/// A message of librdkafka's, owned: a record or an event.
struct Message(NonNull<c::rd_kafka_message_t>);

impl Message {
    /// librdkafka's struct.
    fn raw(&self) -> &c::rd_kafka_message_t {
        // SAFETY: the pointer came from `rd_kafka_consume_batch_queue` and is destroyed in `drop` only; librdkafka does not
        // change what it has handed out.
        unsafe { self.0.as_ref() }
    }

    /// What it is: no error for a record.
    fn code(&self) -> Code {
        match self.raw().err {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR => Code::NoError,
            other => other.into(),
        }
    }

    /// Its offset; of an end-of-partition event: the end.
    fn offset(&self) -> i64 {
        self.raw().offset
    }

    /// The record's timestamp, -1 where it has none.
    fn timestamp(&self) -> i64 {
        // SAFETY: the message is live; a null type pointer is allowed.
        unsafe { c::rd_kafka_message_timestamp(self.0.as_ptr(), ptr::null_mut()) }
    }

    /// The key, `None` for null.
    fn key(&self) -> Option<&[u8]> {
        // SAFETY: librdkafka keeps the key as long as the message.
        unsafe { slice(self.raw().key, self.raw().key_len) }
    }

    /// The value, `None` for null.
    fn value(&self) -> Option<&[u8]> {
        // SAFETY: librdkafka keeps the value as long as the message.
        unsafe { slice(self.raw().payload, self.raw().len) }
    }

    /// An event's words.
    fn reason(&self) -> String {
        // SAFETY: the message is live; the answer is null or a C string that lives as long as it.
        unsafe {
            let words = c::rd_kafka_message_errstr(self.0.as_ptr());
            if words.is_null() { String::new() } else { CStr::from_ptr(words).to_string_lossy().into_owned() }
        }
    }

    /// The headers in order.
    fn headers(&self) -> impl Iterator<Item = (&CStr, Option<&[u8]>)> {
        let mut list = ptr::null_mut();
        // SAFETY: the message is live. On success `list` is the message's own list of headers, parsed on the first call and
        // freed with the message; on any other answer there is none.
        let answer = unsafe { c::rd_kafka_message_headers(self.0.as_ptr(), &raw mut list) };
        let present = answer == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR && !list.is_null();
        (0..).map_while(move |index| {
            if !present {
                return None;
            }
            let (mut name, mut value, mut len) = (ptr::null(), ptr::null(), 0);
            // SAFETY: `list` is live (see above); past its end the call answers with an error and writes nothing.
            let answer =
                unsafe { c::rd_kafka_header_get_all(list, index, &raw mut name, &raw mut value, &raw mut len) };
            if answer != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR || name.is_null() {
                return None;
            }
            // SAFETY: name (a C string) and value belong to the list, and so live as long as the message.
            unsafe { Some((CStr::from_ptr(name), slice(value, len))) }
        })
    }

    /// As [`Record::size`] counts.
    fn size(&self) -> usize {
        let headers: usize =
            self.headers().map(|(name, value)| name.count_bytes() + value.map_or(0, <[u8]>::len)).sum();
        self.raw().key_len + self.value().map_or(0, <[u8]>::len) + headers
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: owned, and destroyed once.
        unsafe { c::rd_kafka_message_destroy(self.0.as_ptr()) };
    }
}

/// The bytes at `data`, `None` for null.
///
/// # Safety
///
/// `data` is null or points to `len` bytes that live as long as `'a`.
unsafe fn slice<'a>(data: *const c_void, len: usize) -> Option<&'a [u8]> {
    // SAFETY: the caller's promise.
    (!data.is_null()).then(|| unsafe { std::slice::from_raw_parts(data.cast(), len) })
}
