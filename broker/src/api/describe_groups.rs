//! DescribeGroups (15). Rules: G-80.

use strandline_group_coordinator::{GroupDescription, GroupError};
use strandline_wire::ErrorCode;
use strandline_wire::messages::DescribeGroupsRequest;
use strandline_wire::messages::describe_groups_response::{
    DescribeGroupsResponse, DescribedGroup, DescribedGroupMember,
};

use super::once::once;
use super::{NO_AUTHORIZED_OPERATIONS, RequestContext, some_text, text};
use crate::error_codes;

pub(super) async fn handle(
    context: &RequestContext,
    request: DescribeGroupsRequest,
) -> DescribeGroupsResponse {
    let version = context.version();
    let groups = once(&request.groups, |id| id.as_str()).map(|id| {
        let out = DescribedGroup::default()
            .with_group_id(id.clone())
            .with_authorized_operations(NO_AUTHORIZED_OPERATIONS);
        match context.broker.groups.describe(id) {
            Ok(description) => described(version, out, description),
            Err(GroupError::GroupIdNotFound) if version >= 6 => out
                .with_error_code(ErrorCode::GroupIdNotFound.code())
                .with_error_message(some_text(format!("group {} not found", id.as_str())))
                .with_group_state(text("Dead")),
            Err(GroupError::GroupIdNotFound) => out.with_group_state(text("Dead")),
            Err(e) => out.with_error_code(error_codes::for_group(e).code()),
        }
    });
    DescribeGroupsResponse::default().with_groups(groups.collect())
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
