//! DeleteGroups (42). Rules: G-59.

use strandline_group_coordinator::{DeleteGroupRequest, GroupError, Reply, Request};
use strandline_wire::ErrorCode;
use strandline_wire::messages::DeleteGroupsRequest;
use strandline_wire::messages::delete_groups_response::{
    DeletableGroupResult, DeleteGroupsResponse,
};

use super::RequestContext;
use super::once::once;
use crate::error_codes;

pub(super) async fn handle(
    context: &RequestContext,
    request: DeleteGroupsRequest,
) -> DeleteGroupsResponse {
    let mut results = Vec::with_capacity(request.groups_names.len());
    for id in once(&request.groups_names, |id| id.as_str()) {
        let delete = DeleteGroupRequest {
            group_id: id.as_str().to_owned(),
        };
        let outcome = match context
            .broker
            .groups
            .submit(Request::DeleteGroup(delete))
            .await
        {
            Ok(Reply::DeleteGroup(outcome)) => outcome,
            Ok(_) => Err(GroupError::UnknownServerError),
            Err(e) => Err(e),
        };
        let code = outcome
            .err()
            .map_or(ErrorCode::None, error_codes::for_group);
        let result = DeletableGroupResult::default()
            .with_group_id(id.clone())
            .with_error_code(code.code());
        results.push(result);
    }
    DeleteGroupsResponse::default().with_results(results)
}
