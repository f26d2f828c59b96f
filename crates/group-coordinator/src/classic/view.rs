//! How a group looks from outside: to its members, in the log, and to an administrator.
//!
//! Rules: G-8, G-80, section 4.3.

use bytes::Bytes;

use super::group::ClassicGroup;
use super::member::Member;
use crate::query::{GroupDescription, GroupState};
use crate::records::{GroupMetadata, RecordKey};
use crate::reply::{JoinReply, JoinReplyMember};
use strandline_coordinator::CoordinatorRecord;
use strandline_coordinator::RecordError;

impl ClassicGroup {
    /// The current generation's answer to a join (G-8).
    pub(crate) fn join_reply(&self, member_id: &str) -> JoinReply {
        let members = if self.is_leader(member_id) {
            self.join_reply_members()
        } else {
            Vec::new()
        };
        JoinReply {
            error: None,
            generation_id: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol_name.clone(),
            leader: self.leader.as_deref().unwrap_or_default().to_owned(),
            skip_assignment: false,
            member_id: member_id.to_owned(),
            members,
        }
    }

    fn join_reply_members(&self) -> Vec<JoinReplyMember> {
        let protocol = self.protocol_name.as_deref().unwrap_or_default();
        let members = self.members.values().map(|member| JoinReplyMember {
            member_id: member.id.to_string(),
            group_instance_id: member.instance_id.clone(),
            metadata: member.metadata(protocol),
        });
        members.collect()
    }

    /// The group as it is stored, with the given assignments.
    pub(crate) fn record(
        &self,
        assignment: impl Fn(&Member) -> Bytes,
    ) -> Result<CoordinatorRecord, RecordError> {
        let protocol = self.protocol_name.as_deref().unwrap_or_default();
        let mut members: Vec<&Member> = self.members.values().collect();
        members.sort_by_key(|member| member.joined_order);
        let value = GroupMetadata {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            generation: self.generation,
            protocol: self.protocol_name.clone(),
            leader: self.leader.as_deref().map(str::to_owned),
            current_state_timestamp_ms: self.state_since_ms.unwrap_or(-1),
            members: members
                .into_iter()
                .map(|member| member.to_record(protocol, assignment(member)))
                .collect(),
        };
        let key = RecordKey::encode_group(&self.id)?;
        Ok(CoordinatorRecord {
            key,
            value: Some(value.encode()?),
        })
    }

    /// G-80.
    pub(crate) fn describe(&self) -> GroupDescription {
        let protocol = self
            .protocol_name
            .as_deref()
            .filter(|_| self.state() == GroupState::Stable);
        let mut members: Vec<&Member> = self.members.values().collect();
        members.sort_by_key(|member| member.joined_order);
        GroupDescription {
            state: self.state(),
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol_data: protocol.unwrap_or_default().to_owned(),
            members: members
                .into_iter()
                .map(|member| member.describe(protocol))
                .collect(),
        }
    }
}
