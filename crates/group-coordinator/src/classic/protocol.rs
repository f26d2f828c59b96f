//! What the members of a group have in common: a protocol, and the topics they subscribe to.
//!
//! Rules: G-1, G-7, G-33, G-59.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::group::ClassicGroup;
use super::member::Member;
use crate::subscription::{CONSUMER_PROTOCOL_TYPE, subscribed_topics};

impl ClassicGroup {
    /// G-1: same type, and one of the protocols is known to every member.
    pub(crate) fn accepts_protocols(&self, kind: &str, protocols: &[(String, Bytes)]) -> bool {
        if self.members.is_empty() {
            return !kind.is_empty() && !protocols.is_empty();
        }
        self.protocol_type.as_deref() == Some(kind)
            && protocols.iter().any(|(name, _)| self.is_candidate(name))
    }

    fn is_candidate(&self, protocol: &str) -> bool {
        self.members
            .values()
            .all(|member| member.supports(protocol))
    }

    /// G-7. Equal votes go to the protocol that the older member voted for. `None` without members.
    pub(crate) fn select_protocol(&self) -> Option<String> {
        let first = self.members.values().next()?;
        let candidates: BTreeSet<&str> = first.protocols.iter().map(|(name, _)| &**name).collect();
        let candidates: BTreeSet<&str> = candidates
            .into_iter()
            .filter(|name| self.is_candidate(name))
            .collect();
        let mut voters: Vec<&Member> = self.members.values().collect();
        voters.sort_by_key(|member| member.joined_order);
        let mut votes: Vec<(&str, usize)> = Vec::new();
        for member in voters {
            let mut names = member.protocols.iter().map(|(name, _)| &**name);
            let Some(choice) = names.find(|name| candidates.contains(name)) else {
                continue;
            };
            match votes.iter_mut().find(|(name, _)| *name == choice) {
                Some((_, count)) => *count += 1,
                None => votes.push((choice, 1)),
            }
        }
        // `max_by_key` takes the last of equals; reversed, that is the first.
        votes
            .into_iter()
            .rev()
            .max_by_key(|(_, count)| *count)
            .map(|(name, _)| name.to_owned())
    }

    /// True for the `consumer` protocol type, the only one whose metadata is understood (G-33).
    pub(crate) fn is_consumer(&self) -> bool {
        self.protocol_type.as_deref() == Some(CONSUMER_PROTOCOL_TYPE)
    }

    pub(super) fn compute_subscribed(&self) -> Option<BTreeSet<String>> {
        if !self.is_consumer() {
            return None;
        }
        let mut topics = BTreeSet::new();
        for member in self.members.values() {
            topics.append(&mut subscribed_topics(
                &member.metadata(self.protocol_name.as_deref()?),
            )?);
        }
        Some(topics)
    }

    /// Topics of the current generation if they are known.
    pub(crate) fn subscribed(&self) -> Option<&BTreeSet<String>> {
        self.subscribed.as_ref()
    }

    /// G-59: when in doubt, a consumer group subscribes to everything.
    pub(crate) fn is_subscribed_to(&self, topic: &str) -> bool {
        match &self.subscribed {
            Some(topics) => topics.contains(topic),
            None => self.is_consumer(),
        }
    }
}
