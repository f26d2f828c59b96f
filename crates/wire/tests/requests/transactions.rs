//! Requests about transactions.

use strandline_wire::messages::{
    add_offsets_to_txn_request as add_offsets, add_partitions_to_txn_request as add_partitions,
    describe_producers_request as producers, describe_transactions_request as describe,
    end_txn_request as end, list_transactions_request as list, txn_offset_commit_request as commit,
    write_txn_markers_request as markers,
};

use crate::filler::Filler;

fn partitions_topic(f: &mut Filler<'_>) -> add_partitions::AddPartitionsToTxnTopic {
    fill!(add_partitions::AddPartitionsToTxnTopic {
        name => f.text().into(),
        partitions => f.list(Filler::int32),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn add_partitions_to_txn(
    f: &mut Filler<'_>,
) -> add_partitions::AddPartitionsToTxnRequest {
    let v = f.version;
    let transaction = |f: &mut Filler<'_>| {
        fill!(add_partitions::AddPartitionsToTxnTransaction {
            transactional_id => f.text().into(),
            producer_id => f.int64().into(),
            producer_epoch => f.int16(),
            verify_only => f.bool(),
            topics => f.list(partitions_topic),
            unknown_tagged_fields => f.tags(),
        })
    };
    fill!(add_partitions::AddPartitionsToTxnRequest {
        transactions if v >= 4 => f.list(transaction),
        v3_and_below_transactional_id if v <= 3 => f.text().into(),
        v3_and_below_producer_id if v <= 3 => f.int64().into(),
        v3_and_below_producer_epoch if v <= 3 => f.int16(),
        v3_and_below_topics if v <= 3 => f.list(partitions_topic),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn add_offsets_to_txn(f: &mut Filler<'_>) -> add_offsets::AddOffsetsToTxnRequest {
    fill!(add_offsets::AddOffsetsToTxnRequest {
        transactional_id => f.text().into(),
        producer_id => f.int64().into(),
        producer_epoch => f.int16(),
        group_id => f.text().into(),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn end_txn(f: &mut Filler<'_>) -> end::EndTxnRequest {
    fill!(end::EndTxnRequest {
        transactional_id => f.text().into(),
        producer_id => f.int64().into(),
        producer_epoch => f.int16(),
        committed => f.bool(),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn write_txn_markers(f: &mut Filler<'_>) -> markers::WriteTxnMarkersRequest {
    let topic = |f: &mut Filler<'_>| {
        fill!(markers::WritableTxnMarkerTopic {
            name => f.text().into(),
            partition_indexes => f.list(Filler::int32),
            unknown_tagged_fields => f.tags(),
        })
    };
    let marker = |f: &mut Filler<'_>| {
        fill!(markers::WritableTxnMarker {
            producer_id => f.int64().into(),
            producer_epoch => f.int16(),
            transaction_result => f.bool(),
            topics => f.list(topic),
            coordinator_epoch => f.int32(),
            unknown_tagged_fields => f.tags(),
        })
    };
    fill!(markers::WriteTxnMarkersRequest {
        markers => f.list(marker),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn txn_offset_commit(f: &mut Filler<'_>) -> commit::TxnOffsetCommitRequest {
    let v = f.version;
    let partition = |f: &mut Filler<'_>| {
        fill!(commit::TxnOffsetCommitRequestPartition {
            partition_index => f.int32(),
            committed_offset => f.int64(),
            committed_leader_epoch if v >= 2 => f.int32(),
            committed_metadata => f.some_text(),
            unknown_tagged_fields => f.tags(),
        })
    };
    let topic = |f: &mut Filler<'_>| {
        fill!(commit::TxnOffsetCommitRequestTopic {
            name => f.text().into(),
            partitions => f.list(partition),
            unknown_tagged_fields => f.tags(),
        })
    };
    fill!(commit::TxnOffsetCommitRequest {
        transactional_id => f.text().into(),
        group_id => f.text().into(),
        producer_id => f.int64().into(),
        producer_epoch => f.int16(),
        generation_id if v >= 3 => f.int32(),
        member_id if v >= 3 => f.text(),
        group_instance_id if v >= 3 => f.some_text(),
        topics => f.list(topic),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn describe_producers(f: &mut Filler<'_>) -> producers::DescribeProducersRequest {
    let topic = |f: &mut Filler<'_>| {
        fill!(producers::TopicRequest {
            name => f.text().into(),
            partition_indexes => f.list(Filler::int32),
            unknown_tagged_fields => f.tags(),
        })
    };
    fill!(producers::DescribeProducersRequest {
        topics => f.list(topic),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn describe_transactions(f: &mut Filler<'_>) -> describe::DescribeTransactionsRequest {
    fill!(describe::DescribeTransactionsRequest {
        transactional_ids => f.list(|f| f.text().into()),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn list_transactions(f: &mut Filler<'_>) -> list::ListTransactionsRequest {
    let v = f.version;
    fill!(list::ListTransactionsRequest {
        state_filters => f.list(Filler::text),
        producer_id_filters => f.list(|f| f.int64().into()),
        duration_filter if v >= 1 => f.int64(),
        transactional_id_pattern if v >= 2 => f.some_text(),
        unknown_tagged_fields => f.tags(),
    })
}
