//! AddPartitionsToTxn (24): from clients up to version 3, from brokers after it. Rules: T-10 … T-12.

use strandline_coordinator::Producer;
use strandline_transaction_coordinator::{AddPartitionsRequest, TransactionVersion};
use strandline_types::{TopicName, TopicPartition};
use strandline_wire::ErrorCode;
use strandline_wire::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use strandline_wire::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResponse, AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
};

use super::RequestContext;
use crate::error_codes::{self, Fenced};

pub(super) async fn handle(
    context: &RequestContext,
    request: AddPartitionsToTxnRequest,
) -> AddPartitionsToTxnResponse {
    let version = context.version();
    if version < 4 {
        let producer = Producer {
            id: request.v3_and_below_producer_id.0,
            epoch: request.v3_and_below_producer_epoch,
        };
        let asked = Asked {
            transactional_id: &request.v3_and_below_transactional_id,
            producer,
            topics: &request.v3_and_below_topics,
            fenced: Fenced::known_from(version, 2),
        };
        let codes = add(context, &asked, TransactionVersion::V0).await;
        return AddPartitionsToTxnResponse::default()
            .with_results_by_topic_v3_and_below(results(asked.topics, &codes));
    }
    let mut out = Vec::with_capacity(request.transactions.len());
    for transaction in &request.transactions {
        out.push(batched(context, transaction).await);
    }
    AddPartitionsToTxnResponse::default().with_results_by_transaction(out)
}

/// What is asked about one transaction.
struct Asked<'a> {
    transactional_id: &'a str,
    producer: Producer,
    topics: &'a [AddPartitionsToTxnTopic],
    fenced: Fenced,
}

impl Asked<'_> {
    fn pairs(&self) -> impl Iterator<Item = (&str, i32)> {
        let of = |t: &AddPartitionsToTxnTopic| t.partitions.clone();
        let topics = self.topics.iter();
        topics.flat_map(move |t| of(t).into_iter().map(move |p| (t.name.as_str(), p)))
    }

    fn all(&self, code: ErrorCode) -> Vec<ErrorCode> {
        self.pairs().map(|_| code).collect()
    }
}

/// The code of each partition, in the order of the request (T-10, T-11).
async fn add(
    context: &RequestContext,
    asked: &Asked<'_>,
    client_version: TransactionVersion,
) -> Vec<ErrorCode> {
    let image = context.broker.metadata.image();
    let find = |(topic, partition): (&str, i32)| {
        let known = image.topics().by_name(topic)?;
        known.partition(partition)?;
        Some(TopicPartition::new(known.name().clone(), partition))
    };
    let found: Vec<Option<TopicPartition>> = asked.pairs().map(find).collect();
    if found.iter().any(Option::is_none) {
        // T-10: then none is added.
        let code = |found: &Option<TopicPartition>| match found {
            Some(_) => ErrorCode::OperationNotAttempted,
            None => ErrorCode::UnknownTopicOrPartition,
        };
        return found.iter().map(code).collect();
    }
    let request = AddPartitionsRequest {
        transactional_id: asked.transactional_id.to_owned(),
        producer: asked.producer,
        partitions: found.into_iter().flatten().collect(),
        client_version,
    };
    let broker = &context.broker;
    let patience = broker.config.add_partitions_to_txn_patience();
    let added = broker.transactions.add_patiently(request, patience, |_| {});
    asked.all(match added.await {
        Ok(()) => ErrorCode::None,
        Err(e) => error_codes::for_transaction(e, asked.fenced),
    })
}

/// T-12.
async fn batched(
    context: &RequestContext,
    transaction: &AddPartitionsToTxnTransaction,
) -> AddPartitionsToTxnResult {
    let asked = Asked {
        transactional_id: &transaction.transactional_id,
        producer: Producer {
            id: transaction.producer_id.0,
            epoch: transaction.producer_epoch,
        },
        topics: &transaction.topics,
        fenced: Fenced::Known,
    };
    let codes = if transaction.verify_only {
        verify(context, &asked)
    } else {
        add(context, &asked, TransactionVersion::V2).await
    };
    AddPartitionsToTxnResult::default()
        .with_transactional_id(transaction.transactional_id.clone())
        .with_topic_results(results(&transaction.topics, &codes))
}

fn verify(context: &RequestContext, asked: &Asked<'_>) -> Vec<ErrorCode> {
    let partition = |(topic, index)| Some(TopicPartition::new(TopicName::new(topic).ok()?, index));
    let partitions: Vec<Option<TopicPartition>> = asked.pairs().map(partition).collect();
    let legal: Vec<TopicPartition> = partitions.iter().flatten().cloned().collect();
    let transactions = &context.broker.transactions;
    let verdicts = transactions.verify(asked.transactional_id, asked.producer, &legal);
    let mut verdicts = match verdicts {
        Ok(verdicts) => verdicts.into_iter(),
        Err(e) => return asked.all(error_codes::for_transaction(e, asked.fenced)),
    };
    let code = |partition: &Option<TopicPartition>| {
        // A name that no topic can have is in no transaction.
        let verdict = partition.as_ref().and_then(|_| verdicts.next());
        match verdict {
            Some(Ok(())) => ErrorCode::None,
            Some(Err(e)) => error_codes::for_transaction(e, asked.fenced),
            None => ErrorCode::TransactionAbortable,
        }
    };
    partitions.iter().map(code).collect()
}

fn results(
    topics: &[AddPartitionsToTxnTopic],
    codes: &[ErrorCode],
) -> Vec<AddPartitionsToTxnTopicResult> {
    let mut codes = codes.iter();
    let topic = |topic: &AddPartitionsToTxnTopic| {
        let partitions = topic.partitions.iter().map(|index| {
            let code = codes.next().copied();
            AddPartitionsToTxnPartitionResult::default()
                .with_partition_index(*index)
                .with_partition_error_code(code.unwrap_or(ErrorCode::UnknownServerError).code())
        });
        AddPartitionsToTxnTopicResult::default()
            .with_name(topic.name.clone())
            .with_results_by_partition(partitions.collect())
    };
    topics.iter().map(topic).collect()
}
