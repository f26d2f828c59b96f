//! WriteTxnMarkers (27): from coordinators, and from operators who abort a transaction that hangs.
//! Rules: T-40 … T-44, T-53.

use std::collections::{HashMap, HashSet};

use futures::StreamExt;
use strandline_coordinator::{Producer, TransactionEnd};
use strandline_types::{TopicName, TopicPartition};
use strandline_wire::ErrorCode;
use strandline_wire::messages::write_txn_markers_request::{
    WritableTxnMarker, WriteTxnMarkersRequest,
};
use strandline_wire::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
};

use super::RequestContext;
use crate::coordinators::MarkerError;
use crate::error_codes;

/// Markers of one transaction that are on their way at a time; the rest of a long list waits.
const MARKERS_AT_A_TIME: usize = 64;

pub(super) async fn handle(
    context: &RequestContext,
    request: WriteTxnMarkersRequest,
) -> WriteTxnMarkersResponse {
    let mut markers = Vec::with_capacity(request.markers.len());
    for marker in &request.markers {
        markers.push(write(context, marker).await);
    }
    WriteTxnMarkersResponse::default().with_markers(markers)
}

async fn write(context: &RequestContext, marker: &WritableTxnMarker) -> WritableTxnMarkerResult {
    let end = TransactionEnd {
        producer: Producer {
            id: marker.producer_id.0,
            epoch: marker.producer_epoch,
        },
        committed: marker.transaction_result,
        coordinator_epoch: marker.coordinator_epoch,
        // Version 1 does not say.
        raises_epoch: false,
    };
    // A partition gets one marker however often it is named.
    let mut asked = HashSet::new();
    for topic in &marker.topics {
        let indexes = topic.partition_indexes.iter();
        asked.extend(indexes.map(|index| (topic.name.as_str(), *index)));
    }
    let asked: Vec<_> = asked.into_iter().collect();
    let one = |at: usize| {
        let (topic, index) = asked[at];
        let partition = TopicName::new(topic).map(|name| TopicPartition::new(name, index));
        async move {
            let written = match partition {
                Ok(partition) => context.broker.markers.write(&partition, end).await,
                Err(_) => Err(MarkerError::Unknown),
            };
            let code = written.map_or_else(error_codes::for_marker, |()| ErrorCode::None);
            (at, code)
        }
    };
    let codes = futures::stream::iter((0..asked.len()).map(one));
    let codes = codes.buffer_unordered(MARKERS_AT_A_TIME);
    let codes: HashMap<_, _> = codes.map(|(at, code)| (asked[at], code)).collect().await;
    let topics = marker.topics.iter().map(|topic| {
        let partitions = topic.partition_indexes.iter().map(|index| {
            let code = codes.get(&(topic.name.as_str(), *index)).copied();
            WritableTxnMarkerPartitionResult::default()
                .with_partition_index(*index)
                .with_error_code(code.unwrap_or(ErrorCode::UnknownServerError).code())
        });
        WritableTxnMarkerTopicResult::default()
            .with_name(topic.name.clone())
            .with_partitions(partitions.collect())
    });
    WritableTxnMarkerResult::default()
        .with_producer_id(marker.producer_id)
        .with_topics(topics.collect())
}
