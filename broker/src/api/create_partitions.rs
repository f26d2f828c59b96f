//! CreatePartitions (37). Rules: SEMANTICS 9.2.

use std::time::Duration;

use strandline_metadata::NewPartitions;
use strandline_types::BrokerId;
use strandline_wire::messages::CreatePartitionsRequest;
use strandline_wire::messages::create_partitions_request::CreatePartitionsTopic;
use strandline_wire::messages::create_partitions_response::{
    CreatePartitionsResponse, CreatePartitionsTopicResult,
};

use super::{RequestContext, some_text};
use crate::error_codes;

pub(super) async fn handle(
    context: &RequestContext,
    request: CreatePartitionsRequest,
) -> CreatePartitionsResponse {
    let topics: Vec<NewPartitions> = request.topics.iter().map(new_partitions).collect();
    let timeout = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    let outcome = context
        .broker
        .create_partitions(topics, request.validate_only, timeout)
        .await;
    let results = match outcome {
        Ok(results) => results,
        Err(e) => request.topics.iter().map(|_| Err(e.clone())).collect(),
    };
    let results = request.topics.iter().zip(results).map(|(topic, result)| {
        let out = CreatePartitionsTopicResult::default().with_name(topic.name.clone());
        match result {
            Ok(()) => out,
            Err(e) => out
                .with_error_code(error_codes::for_metadata(&e).code())
                .with_error_message(some_text(e.to_string())),
        }
    });
    CreatePartitionsResponse::default().with_results(results.collect())
}

fn new_partitions(topic: &CreatePartitionsTopic) -> NewPartitions {
    let assignments = topic.assignments.as_ref().map(|list| {
        list.iter()
            .map(|a| a.broker_ids.iter().map(|b| BrokerId(b.0)).collect())
            .collect()
    });
    NewPartitions {
        name: topic.name.as_str().to_owned(),
        count: topic.count,
        assignments,
    }
}
