//! What librdkafka can do and its crate does not offer: topic ids, and whether a member has left its group.

use std::ffi::{CStr, CString, c_char};
use std::ptr::{self, NonNull};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rdkafka::bindings as sys;
use rdkafka::consumer::Consumer;
use rdkafka::error::{IsError as _, RDKafkaErrorCode as Code};

use super::Error;
use super::client::Client;
use super::error::is_missing;
use crate::model::TopicId;

/// How much later than its time-out the answer to a request may come.
const GRACE: Duration = Duration::from_secs(2);

/// A topic as the broker describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicDescription {
    /// How many partitions it has.
    pub partitions: i32,
    /// Which of all topics of its name it is; `None`: the broker is too old to say.
    pub id: Option<TopicId>,
}

/// Something of librdkafka's that is freed when this is dropped.
struct Owned<T> {
    /// It.
    it: NonNull<T>,
    /// What frees it.
    free: unsafe extern "C" fn(*mut T),
}

impl<T> Owned<T> {
    /// Takes `it` over, unless it is null.
    ///
    /// # Safety
    ///
    /// Nobody else frees `it`, and `free` is librdkafka's function for that.
    unsafe fn new(it: *mut T, free: unsafe extern "C" fn(*mut T)) -> Option<Self> {
        NonNull::new(it).map(|it| Self { it, free })
    }

    /// The pointer, for as long as this lives.
    fn ptr(&self) -> *mut T {
        self.it.as_ptr()
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: `new` was promised that `free` is the function for it and that nobody else calls it.
        unsafe { (self.free)(self.it.as_ptr()) };
    }
}

/// Asks the broker to describe `topics`; in order, `None` where one does not exist. Never creates a topic.
pub(super) fn describe_topics(
    client: &Client,
    topics: &[&str],
    timeout: Duration,
) -> Result<Vec<Option<TopicDescription>>, Error> {
    let what = || "description of topics".to_owned();
    let failed = || Error::Request { what: what(), code: Code::Fail };
    let names: Vec<CString> =
        topics.iter().map(|name| CString::new(*name)).collect::<Result<_, _>>().map_err(|_| failed())?;
    let mut pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
    let rk = client.client().native_ptr();
    let millis = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: `rk` is a live handle: `client` owns it. The array has `pointers.len()` C strings, which live until the end of this
    // function; the collection copies them. Each object is fresh, and freed by its own function when its `Owned` is dropped.
    let (collection, options, queue) = unsafe {
        (
            Owned::new(
                sys::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len()),
                sys::rd_kafka_TopicCollection_destroy,
            )
            .ok_or_else(failed)?,
            Owned::new(
                sys::rd_kafka_AdminOptions_new(rk, sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS),
                sys::rd_kafka_AdminOptions_destroy,
            )
            .ok_or_else(failed)?,
            Owned::new(sys::rd_kafka_queue_new(rk), sys::rd_kafka_queue_destroy).ok_or_else(failed)?,
        )
    };
    // SAFETY: all four pointers are live, as above; a null error string of size 0 is not written to. The request copies what it
    // needs of collection and options, and holds the queue itself.
    let event = unsafe {
        sys::rd_kafka_AdminOptions_set_request_timeout(options.ptr(), millis, ptr::null_mut(), 0);
        sys::rd_kafka_DescribeTopics(rk, collection.ptr(), options.ptr(), queue.ptr());
        let wait = millis.saturating_add(i32::try_from(GRACE.as_millis()).unwrap_or(0));
        Owned::new(sys::rd_kafka_queue_poll(queue.ptr(), wait), sys::rd_kafka_event_destroy)
    };
    let event = event.ok_or_else(|| Error::Timeout { what: what(), after: timeout })?;
    // SAFETY: the event is live until the end of this function.
    let (error, result) =
        unsafe { (sys::rd_kafka_event_error(event.ptr()), sys::rd_kafka_event_DescribeTopics_result(event.ptr())) };
    if error.is_error() || result.is_null() {
        return Err(Error::Request { what: what(), code: Code::from(error) });
    }
    let mut count = 0;
    // SAFETY: the result is not null and belongs to the event, which lives. The array that is returned has `count` elements and
    // lives as long as the result; librdkafka may return null for none.
    let described = unsafe {
        let array = sys::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
        if array.is_null() { &[] } else { std::slice::from_raw_parts(array.cast_const(), count) }
    };
    let mut answers = vec![None; topics.len()];
    for topic in described {
        // SAFETY: each element is a description that lives as long as the event.
        let (name, description) = unsafe { description(*topic) };
        let Some(slot) = topics.iter().position(|asked| *asked == name).and_then(|at| answers.get_mut(at)) else {
            continue;
        };
        match description {
            Ok(description) => *slot = Some(description),
            Err(code) if is_missing(code) => {}
            Err(code) => return Err(Error::Request { what: format!("description of topic '{name}'"), code }),
        }
    }
    Ok(answers)
}

/// Name and content of a description; or why there is none.
///
/// # Safety
///
/// `topic` must be a description of a result that lives.
unsafe fn description(topic: *const sys::rd_kafka_TopicDescription_t) -> (String, Result<TopicDescription, Code>) {
    // SAFETY: by the caller's promise. Name, error, id and partitions live as long as the description, and the name is a C
    // string; error and id may be null and are looked at only if they are not.
    unsafe {
        let name = CStr::from_ptr(sys::rd_kafka_TopicDescription_name(topic)).to_string_lossy().into_owned();
        let error = sys::rd_kafka_TopicDescription_error(topic);
        let code = if error.is_null() {
            sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR
        } else {
            sys::rd_kafka_error_code(error)
        };
        if code.is_error() {
            return (name, Err(Code::from(code)));
        }
        let mut partitions = 0;
        sys::rd_kafka_TopicDescription_partitions(topic, &raw mut partitions);
        let id = sys::rd_kafka_TopicDescription_topic_id(topic);
        let id = if id.is_null() {
            None
        } else {
            topic_id(sys::rd_kafka_Uuid_most_significant_bits(id), sys::rd_kafka_Uuid_least_significant_bits(id))
        };
        (name, Ok(TopicDescription { partitions: i32::try_from(partitions).unwrap_or(i32::MAX), id }))
    }
}

/// A topic's id as Kafka writes it; an old broker has none, which is sent as zeros.
fn topic_id(most: i64, least: i64) -> Option<TopicId> {
    let mut bytes = [0; 16];
    let (high, low) = bytes.split_at_mut(8);
    high.copy_from_slice(&most.to_be_bytes());
    low.copy_from_slice(&least.to_be_bytes());
    (bytes != [0; 16]).then(|| TopicId(BASE64_URL_SAFE_NO_PAD.encode(bytes)))
}

/// Whether the consumer's membership has ended: it has none yet, or its request to leave is on its way.
pub(super) fn has_left(client: &Client) -> bool {
    let rk = client.client().native_ptr();
    // SAFETY: `rk` is a live handle: `client` owns it. The string is librdkafka's until it is given back, once.
    unsafe {
        let id = sys::rd_kafka_memberid(rk);
        if id.is_null() {
            return true;
        }
        let empty = CStr::from_ptr(id).is_empty();
        sys::rd_kafka_mem_free(rk, id.cast());
        empty
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_written_as_kafka_does() {
        assert_eq!(topic_id(0, 0), None);
        assert_eq!(topic_id(0, 1).map(|id| id.to_string()).as_deref(), Some("AAAAAAAAAAAAAAAAAAAAAQ"));
        assert_eq!(topic_id(-1, -1).map(|id| id.to_string()).as_deref(), Some("_____________________w"));
    }
}
