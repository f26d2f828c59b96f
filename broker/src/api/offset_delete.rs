//! OffsetDelete (47). Rules: G-59.

use std::collections::HashSet;

use strandline_group_coordinator::{
    GroupError, OffsetDeleteReply, OffsetDeleteRequest as Delete, Reply, Request,
};
use strandline_wire::messages::OffsetDeleteRequest;
use strandline_wire::messages::offset_delete_response::{
    OffsetDeleteResponse, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};

use super::RequestContext;
use super::committing::{self, Committing};
use crate::error_codes;

pub(super) async fn handle(
    context: &RequestContext,
    request: OffsetDeleteRequest,
) -> OffsetDeleteResponse {
    let existing = Committing::new(context);
    let topics = request.topics.iter().map(|t| {
        let partitions = t.partitions.iter().map(|p| p.partition_index);
        let partitions = partitions.filter(|p| existing.exists(&t.name, *p));
        (t.name.as_str().to_owned(), partitions.collect::<Vec<_>>())
    });
    // As in Kafka the coordinator is asked even if nothing is left: what it says of the group comes first.
    let delete = Delete {
        group_id: request.group_id.as_str().to_owned(),
        topics: topics.filter(|(_, p)| !p.is_empty()).collect(),
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
    if let Some(error) = reply.error {
        return OffsetDeleteResponse::default()
            .with_error_code(error_codes::for_group(error).code());
    }
    let outcome = Ok(committing::by_partition(reply.topics));
    let code = |topic: &str, partition: i32| {
        existing.code(topic, partition, &outcome, error_codes::for_group)
    };
    // Named more than once, answered once.
    let mut seen = HashSet::new();
    let topics = request.topics.iter().map(|t| {
        let partitions = t.partitions.iter().map(|p| p.partition_index);
        let partitions = partitions.filter(|p| seen.insert((t.name.as_str(), *p)));
        let partitions = partitions.map(|partition| {
            OffsetDeleteResponsePartition::default()
                .with_partition_index(partition)
                .with_error_code(code(&t.name, partition).code())
        });
        OffsetDeleteResponseTopic::default()
            .with_name(t.name.clone())
            .with_partitions(partitions.collect())
    });
    let topics = topics.filter(|t| !t.partitions.is_empty());
    OffsetDeleteResponse::default().with_topics(topics.collect())
}

fn failed(error: GroupError) -> OffsetDeleteReply {
    OffsetDeleteReply {
        error: Some(error),
        topics: Vec::new(),
    }
}
