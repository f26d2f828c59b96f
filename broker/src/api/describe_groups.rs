//! DescribeGroups (15). Rules: G-80.

use strandline_group_coordinator::{GroupDescription, GroupError};
use strandline_wire::messages::DescribeGroupsRequest;
use strandline_wire::messages::describe_groups_response::{
    DescribeGroupsResponse, DescribedGroup, DescribedGroupMember,
};
use strandline_wire::{ErrorCode, StrBytes};
use tokio::task::coop::consume_budget;

use super::once::once;
use super::{RequestContext, authorized_operations, some_text, text};
use crate::error_codes;

/// The state of what is not there.
const DEAD: StrBytes = StrBytes::from_static_str("Dead");

pub(super) async fn handle(
    context: &RequestContext,
    request: DescribeGroupsRequest,
) -> DescribeGroupsResponse {
    let version = context.version();
    let mut groups = Vec::with_capacity(request.groups.len());
    for id in once(&request.groups, |id| id.as_str()) {
        // One request may name a million.
        consume_budget().await;
        let out = DescribedGroup::default()
            .with_group_id(id.clone())
            .with_authorized_operations(authorized_operations::NOT_ASKED);
        let mut group = match context.broker.groups.describe(id) {
            Ok(description) => described(version, out, description),
            Err(GroupError::GroupIdNotFound) if version >= 6 => out
                .with_error_code(ErrorCode::GroupIdNotFound.code())
                .with_error_message(some_text(format!("group {} not found", id.as_str())))
                .with_group_state(DEAD),
            Err(GroupError::GroupIdNotFound) => out.with_group_state(DEAD),
            Err(e) => out.with_error_code(error_codes::for_group(e).code()),
        };
        let is_asked = version >= 3 && request.include_authorized_operations;
        if group.error_code == ErrorCode::None.code() {
            group.authorized_operations = authorized_operations::of_group(is_asked);
        }
        groups.push(group);
    }
    DescribeGroupsResponse::default().with_groups(groups)
}

fn described(version: i16, out: DescribedGroup, description: GroupDescription) -> DescribedGroup {
    let members = description.members.into_iter().map(|m| {
        let out = DescribedGroupMember::default()
            .with_member_id(text(m.member_id))
            .with_client_id(text(m.client_id))
            .with_client_host(text(m.client_host))
            .with_member_metadata(m.metadata)
            .with_member_assignment(m.assignment);
        if version >= 4 {
            out.with_group_instance_id(m.group_instance_id.map(text))
        } else {
            out
        }
    });
    out.with_group_state(text(description.state.as_str()))
        .with_protocol_type(text(description.protocol_type))
        .with_protocol_data(text(description.protocol_data))
        .with_members(members.collect())
}
