//! OffsetDelete (47). Rules: G-59.

use strandline_group_coordinator::{
    GroupError, OffsetDeleteReply, OffsetDeleteRequest as Delete, Reply, Request,
};
use strandline_wire::ErrorCode;
use strandline_wire::messages::OffsetDeleteRequest;
use strandline_wire::messages::offset_delete_response::{
    OffsetDeleteResponse, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};

use super::{RequestContext, text};
use crate::error_codes;

pub(super) async fn handle(
    context: &RequestContext,
    request: OffsetDeleteRequest,
) -> OffsetDeleteResponse {
    let topics = request.topics.iter().map(|t| {
        (
            t.name.as_str().to_owned(),
            t.partitions.iter().map(|p| p.partition_index).collect(),
        )
    });
    let delete = Delete {
        group_id: request.group_id.as_str().to_owned(),
        topics: topics.collect(),
    };
    let reply = match context
        .broker
        .groups
        .submit(Request::OffsetDelete(delete))
        .await
    {
        Ok(Reply::OffsetDelete(reply)) => reply,
        Ok(_) => failed(GroupError::UnknownServerError),
        Err(e) => failed(e),
    };
    let code = |e: Option<GroupError>| e.map_or(ErrorCode::None, error_codes::for_group).code();
    let topics = reply.topics.into_iter().map(|t| {
        let partitions = t.partitions.into_iter().map(|(partition, error)| {
            OffsetDeleteResponsePartition::default()
                .with_partition_index(partition)
                .with_error_code(code(error))
        });
        OffsetDeleteResponseTopic::default()
            .with_name(text(t.name).into())
            .with_partitions(partitions.collect())
    });
    OffsetDeleteResponse::default()
        .with_error_code(code(reply.error))
        .with_topics(topics.collect())
}

fn failed(error: GroupError) -> OffsetDeleteReply {
    OffsetDeleteReply {
        error: Some(error),
        topics: Vec::new(),
    }
}
