//! Topic names and partitions.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Topic of committed offsets and group metadata.
pub const CONSUMER_OFFSETS_TOPIC: &str = "__consumer_offsets";
/// Topic of the transaction coordinators.
pub const TRANSACTION_STATE_TOPIC: &str = "__transaction_state";
/// Topic of the share coordinators.
pub const SHARE_GROUP_STATE_TOPIC: &str = "__share_group_state";

const MAX_NAME_LENGTH: usize = 249;

/// True for the topics that belong to the broker (A-28, P-7).
pub fn is_internal_topic(name: &str) -> bool {
    matches!(
        name,
        CONSUMER_OFFSETS_TOPIC | TRANSACTION_STATE_TOPIC | SHARE_GROUP_STATE_TOPIC
    )
}

/// A legal topic name (rule D-1). Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicName(Arc<str>);

/// Why a topic name was refused (rule D-1); the text is for the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTopicName {
    /// Empty name.
    #[error("the topic name is empty")]
    Empty,
    /// `.` or `..`, which would leave the log directory.
    #[error("a topic cannot be named '.' or '..'")]
    Dots,
    /// Longer than 249 characters.
    #[error("the topic name is {0} characters long, more than 249")]
    TooLong(usize),
    /// Something besides letters, digits, `.`, `_` and `-`.
    #[error("the topic name contains a character other than ASCII letters, digits, '.', '_', '-'")]
    Character,
}

impl TopicName {
    /// Checks a name (rule D-1).
    pub fn new(name: &str) -> Result<Self, InvalidTopicName> {
        if name.is_empty() {
            return Err(InvalidTopicName::Empty);
        }
        if name == "." || name == ".." {
            return Err(InvalidTopicName::Dots);
        }
        if name.len() > MAX_NAME_LENGTH {
            return Err(InvalidTopicName::TooLong(name.len()));
        }
        let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        if !name.bytes().all(legal) {
            return Err(InvalidTopicName::Character);
        }
        Ok(Self(name.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The form in which two names collide (rule D-2): metric names cannot tell `.` from `_`.
    pub fn collision_key(&self) -> String {
        self.0.replace('.', "_")
    }

    /// True for the topics that belong to the broker.
    pub fn is_internal(&self) -> bool {
        is_internal_topic(&self.0)
    }
}

impl Deref for TopicName {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for TopicName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<&str> for TopicName {
    type Error = InvalidTopicName;
    fn try_from(name: &str) -> Result<Self, Self::Error> {
        Self::new(name)
    }
}

/// One partition of a topic, by name. Its text is Kafka's folder name, `topic-partition`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPartition {
    /// Name of the topic.
    pub topic: TopicName,
    /// Index of the partition, from 0.
    pub partition: i32,
}

impl TopicPartition {
    /// Builds the pair.
    pub fn new(topic: TopicName, partition: i32) -> Self {
        Self { topic, partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // D-1
    #[test]
    fn names_are_checked() {
        assert!(TopicName::new("a.b_c-D9").is_ok());
        assert_eq!(TopicName::new(""), Err(InvalidTopicName::Empty));
        assert_eq!(TopicName::new(".."), Err(InvalidTopicName::Dots));
        assert_eq!(TopicName::new("a/b"), Err(InvalidTopicName::Character));
        assert_eq!(TopicName::new("é"), Err(InvalidTopicName::Character));
        assert!(TopicName::new(&"x".repeat(249)).is_ok());
        assert_eq!(
            TopicName::new(&"x".repeat(250)),
            Err(InvalidTopicName::TooLong(250))
        );
    }

    // D-2
    #[test]
    fn dots_and_underscores_collide() {
        let key = |n| TopicName::new(n).map(|t| t.collision_key());
        assert_eq!(key("a.b"), key("a_b"));
    }
}
