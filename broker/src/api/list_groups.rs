//! ListGroups (16). Rules: G-81, G-82.

use strandline_group_coordinator::ListGroupsFilter;
use strandline_wire::messages::ListGroupsRequest;
use strandline_wire::messages::list_groups_response::{ListGroupsResponse, ListedGroup};

use super::{RequestContext, text};
use crate::error_codes;

pub(super) async fn handle(
    context: &RequestContext,
    request: ListGroupsRequest,
) -> ListGroupsResponse {
    let version = context.version();
    let filter = ListGroupsFilter {
        states: request
            .states_filter
            .iter()
            .map(|s| s.as_str().to_owned())
            .collect(),
        types: request
            .types_filter
            .iter()
            .map(|s| s.as_str().to_owned())
            .collect(),
    };
    let groups = match context.broker.groups.list(&filter) {
        Ok(groups) => groups,
        Err(e) => {
            return ListGroupsResponse::default().with_error_code(error_codes::for_group(e).code());
        }
    };
    let groups = groups.into_iter().map(|g| {
        let mut out = ListedGroup::default()
            .with_group_id(text(g.group_id).into())
            .with_protocol_type(text(g.protocol_type));
        if version >= 4 {
            out.group_state = text(g.state.as_str());
        }
        if version >= 5 {
            out.group_type = text(g.group_type);
        }
        out
    });
    ListGroupsResponse::default().with_groups(groups.collect())
}
