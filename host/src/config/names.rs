//! Which names are legal.

/// Longest name of a topic, as Kafka has it.
pub(crate) const MAX_TOPIC: usize = 249;

/// Longest `app.id` and longest name of a node: room is left for what internal topics add to them.
pub(crate) const MAX_NAME: usize = 200;

/// The rule, for messages.
pub(crate) const NAME_RULE: &str = "use letters, digits, \".\", \"_\" and \"-\", at most 200 of them";

/// Whether Kafka takes `name` as a topic.
pub(crate) fn is_legal_topic(name: &str) -> bool {
    is_legal(name, MAX_TOPIC)
}

/// Whether `name` may be a part of internal topics' names.
pub(crate) fn is_legal_name(name: &str) -> bool {
    is_legal(name, MAX_NAME)
}

/// Kafka's characters, at most `longest` of them.
fn is_legal(name: &str, longest: usize) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !matches!(name, "" | "." | "..") && name.len() <= longest && name.chars().all(legal)
}
