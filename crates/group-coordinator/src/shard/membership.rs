//! The requests of members: finds the group, or says that there is none.
//!
//! Rules: G-1, G-42.

use super::{GroupShard, MAX_TEXT_BYTES};
use crate::classic;
use crate::error::GroupError;
use crate::group::get_or_insert;
use crate::reply::Effects;
use crate::reply::{JoinReply, LeaveReply, LeaveReplyMember, Reply, SyncReply};
use crate::request::{HeartbeatRequest, JoinRequest, LeaveRequest, SyncRequest};
use strandline_coordinator::RequestId;

/// What a generated member id adds to the client's or instance's id: a dash and a UUID.
const MEMBER_ID_SUFFIX_BYTES: usize = 37;

/// Protocols that one member may name. Clients have one to three; what members have in common is found by comparing.
const MAX_PROTOCOLS: usize = 100;

impl GroupShard {
    pub(super) fn join(
        &mut self,
        id: RequestId,
        request: JoinRequest,
        now_ms: i64,
        effects: &mut Effects,
    ) {
        if let Err(error) = self.check_join(&request) {
            effects.reply(id, Reply::Join(JoinReply::failed(request.member_id, error)));
            return;
        }
        let group_id = request.group_id.clone();
        get_or_insert(&mut self.groups, &group_id);
        self.with_group(&group_id, now_ms, effects, |group, context| {
            classic::join(&mut group.classic, context, id, request);
        });
    }

    /// The checks that come before a group is made.
    fn check_join(&self, request: &JoinRequest) -> Result<(), GroupError> {
        let range = self.config.min_session_timeout_ms..=self.config.max_session_timeout_ms;
        if !range.contains(&request.session_timeout_ms) {
            return Err(GroupError::InvalidSessionTimeout);
        }
        let instance_id = request.group_instance_id.as_deref();
        let texts = [
            &*request.client_id,
            &request.client_host,
            &request.protocol_type,
        ];
        if request.protocols.len() > MAX_PROTOCOLS {
            return Err(GroupError::InvalidRequest);
        }
        let names = request.protocols.iter().map(|(name, _)| &**name);
        let is_too_long = |text: &str| text.len() > MAX_TEXT_BYTES - MEMBER_ID_SUFFIX_BYTES;
        if texts
            .into_iter()
            .chain(instance_id)
            .chain(names)
            .any(is_too_long)
        {
            return Err(GroupError::InvalidRequest);
        }
        if self.groups.contains_key(&*request.group_id) {
            return Ok(());
        }
        if !request.member_id.is_empty() {
            return Err(GroupError::UnknownMemberId);
        }
        if request.protocol_type.is_empty() || request.protocols.is_empty() {
            return Err(GroupError::InconsistentGroupProtocol);
        }
        Ok(())
    }

    pub(super) fn sync(
        &mut self,
        id: RequestId,
        request: SyncRequest,
        now_ms: i64,
        effects: &mut Effects,
    ) {
        let group_id = request.group_id.clone();
        let found = self.with_group(&group_id, now_ms, effects, |group, context| {
            classic::sync(&mut group.classic, context, id, request);
        });
        if found.is_none() {
            effects.reply(
                id,
                Reply::Sync(SyncReply::failed(GroupError::UnknownMemberId)),
            );
        }
    }

    pub(super) fn heartbeat(
        &mut self,
        id: RequestId,
        request: &HeartbeatRequest,
        now_ms: i64,
        effects: &mut Effects,
    ) {
        let outcome = self.with_group(&request.group_id, now_ms, effects, |group, context| {
            classic::heartbeat(&group.classic, context, request)
        });
        let outcome = outcome.unwrap_or(Err(GroupError::UnknownMemberId));
        effects.reply(id, Reply::Heartbeat(outcome));
    }

    pub(super) fn leave(
        &mut self,
        id: RequestId,
        request: LeaveRequest,
        now_ms: i64,
        effects: &mut Effects,
    ) {
        let group_id = request.group_id.clone();
        let reply = if self.groups.contains_key(&*group_id) {
            self.with_group(&group_id, now_ms, effects, |group, context| {
                classic::leave(&mut group.classic, context, request)
            })
        } else {
            Some(nobody_left(request))
        };
        effects
            .replies
            .extend(reply.map(|reply| (id, Reply::Leave(reply))));
    }
}

/// G-42: without a group every member is unknown.
fn nobody_left(request: LeaveRequest) -> LeaveReply {
    let members = request.members.into_iter().map(|leaving| LeaveReplyMember {
        member_id: leaving.member_id,
        group_instance_id: leaving.group_instance_id,
        error: Some(GroupError::UnknownMemberId),
    });
    LeaveReply {
        error: None,
        members: members.collect(),
    }
}
