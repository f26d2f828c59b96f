//! Identifiers of topics and brokers.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Id of a broker (`node.id`), never negative for a real one.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default,
)]
pub struct BrokerId(pub i32);

impl fmt::Display for BrokerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Id of a topic: a recreated topic has a new one (rule A-23). Shown as Kafka shows it, URL-safe
/// base64 without padding.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default,
)]
pub struct TopicId(pub Uuid);

impl TopicId {
    /// The id that means "none" on the wire.
    pub const ZERO: Self = Self(Uuid::nil());

    /// A fresh id; never one whose text begins with `-`, which command lines would take for a flag
    /// (Kafka avoids it too), and never one of the reserved small numbers.
    pub fn random() -> Self {
        loop {
            let id = Self(Uuid::new_v4());
            if !id.to_string().starts_with('-') {
                return id;
            }
        }
    }

    /// True for the id that means "none".
    pub fn is_zero(self) -> bool {
        self.0.is_nil()
    }
}

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0.as_bytes()))
    }
}

/// The text is not the base64 of 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a topic id: expected 22 characters of URL-safe base64")]
pub struct ParseTopicIdError;

impl FromStr for TopicId {
    type Err = ParseTopicIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes = URL_SAFE_NO_PAD
            .decode(text)
            .map_err(|_| ParseTopicIdError)?;
        let bytes: [u8; 16] = bytes.try_into().map_err(|_| ParseTopicIdError)?;
        Ok(Self(Uuid::from_bytes(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topic_id_text_round_trips() {
        for _ in 0..100 {
            let id = TopicId::random();
            assert_eq!(id.to_string().len(), 22);
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        assert!("short".parse::<TopicId>().is_err());
    }
}
