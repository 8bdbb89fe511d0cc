//! Who a group member is to its group: what range assignment sorts members by, and in which generation.

use std::ffi::{CStr, c_char};

use rdkafka::bindings as c;
use rdkafka::consumer::Consumer;

use super::client::Client;

/// A member of a group, in one of the group's generations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// The group's generation.
    pub generation: i32,
    /// The member's id, which the group gave it.
    pub member: String,
    /// `group.instance.id`, if it is a static member.
    pub instance: Option<String>,
}

impl GroupMember {
    /// The client as a member; `None` while it is none.
    pub(super) fn of(client: &Client) -> Option<Self> {
        // SAFETY: the handle is live: `client` owns it. The answer is null or ours to destroy, which happens below.
        let metadata = unsafe { c::rd_kafka_consumer_group_metadata(client.client().native_ptr()) };
        if metadata.is_null() {
            return None;
        }
        // SAFETY: `metadata` is live until it is destroyed, once, and the strings, which are copied, live as long.
        let found = unsafe {
            let generation = c::rd_kafka_consumer_group_metadata_generation_id(metadata);
            let member = text(c::rd_kafka_consumer_group_metadata_member_id(metadata));
            let instance = text(c::rd_kafka_consumer_group_metadata_group_instance_id(metadata));
            c::rd_kafka_consumer_group_metadata_destroy(metadata);
            (generation, member, instance)
        };
        let (generation, member, instance) = found;
        let member = member.filter(|member| generation >= 0 && !member.is_empty())?;
        Some(Self { generation, member, instance: instance.filter(|instance| !instance.is_empty()) })
    }

    /// What range assignment sorts members by, bytewise. In a group of static and of other members, as there is one while its
    /// instances are changed from one kind to the other, no such order is defined.
    pub fn order(&self) -> &str {
        self.instance.as_deref().unwrap_or(&self.member)
    }
}

/// A copy of a C string; `None` for null.
///
/// # Safety
///
/// `text` is null or a C string that lives until this returns.
unsafe fn text(text: *const c_char) -> Option<String> {
    // SAFETY: the caller's promise.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}
