//! The topics inside the metadata of the `consumer` protocol; for nothing but the question whether
//! an offset may go.
//!
//! Rules: G-33, G-59, G-60.

use std::collections::BTreeSet;

/// The protocol type of consumers.
pub(crate) const CONSUMER_PROTOCOL_TYPE: &str = "consumer";

/// Topics that a member's metadata subscribes to; `None` if it is not a consumer subscription.
pub(crate) fn subscribed_topics(metadata: &[u8]) -> Option<BTreeSet<String>> {
    let (version, rest) = metadata.split_first_chunk::<2>()?;
    if i16::from_be_bytes(*version) < 0 {
        return None;
    }
    let (count, mut rest) = rest.split_first_chunk::<4>()?;
    let mut topics = BTreeSet::new();
    for _ in 0..u32::try_from(i32::from_be_bytes(*count)).ok()? {
        let (len, after) = rest.split_first_chunk::<2>()?;
        let len = usize::try_from(i16::from_be_bytes(*len)).ok()?;
        let (name, after) = after.split_at_checked(len)?;
        topics.insert(std::str::from_utf8(name).ok()?.to_owned());
        rest = after;
    }
    Some(topics)
}

#[cfg(test)]
mod tests {
    use super::*;

    // G-59: version, topics, user data.
    #[test]
    fn topics_are_read() {
        let metadata =
            b"\x00\x01\x00\x00\x00\x02\x00\x01b\x00\x01a\xff\xff\xff\xff\x00\x00\x00\x00";
        let topics = subscribed_topics(metadata).unwrap();
        assert_eq!(topics.into_iter().collect::<Vec<_>>(), ["a", "b"]);
    }

    // G-33: opaque bytes may be anything.
    #[test]
    fn anything_else_is_none() {
        assert_eq!(subscribed_topics(b""), None);
        assert_eq!(subscribed_topics(b"range"), None);
        assert_eq!(subscribed_topics(b"\xff\xff\x00\x00\x00\x00"), None);
        assert_eq!(subscribed_topics(b"\x00\x00\xff\xff\xff\xff"), None);
        assert_eq!(
            subscribed_topics(b"\x00\x00\x00\x00\x00\x01\x00\x05abc"),
            None
        );
        assert_eq!(subscribed_topics(b"\x00\x00\x7f\xff\xff\xff"), None);
    }
}
