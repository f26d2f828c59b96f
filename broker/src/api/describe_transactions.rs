//! DescribeTransactions (65). Rules: section 5.1.

use strandline_transaction_coordinator::Transaction;
use strandline_types::{NO_PRODUCER_EPOCH, NO_PRODUCER_ID};
use strandline_wire::messages::describe_transactions_response::{
    DescribeTransactionsResponse, TopicData, TransactionState,
};
use strandline_wire::messages::{DescribeTransactionsRequest, TransactionalId};

use super::once::once;
use super::{RequestContext, text};
use crate::error_codes::{self, Fenced};

pub(super) async fn handle(
    context: &RequestContext,
    request: DescribeTransactionsRequest,
) -> DescribeTransactionsResponse {
    let ids = once(&request.transactional_ids, |id| id.as_str());
    let states = ids.map(|id| {
        let out = TransactionState::default().with_transactional_id(id.clone());
        match context.broker.transactions.describe(id) {
            Ok(transaction) => describe(id, &transaction),
            Err(e) => out
                .with_error_code(error_codes::for_transaction(e, Fenced::Known).code())
                .with_producer_id(NO_PRODUCER_ID.into())
                .with_producer_epoch(NO_PRODUCER_EPOCH),
        }
    });
    DescribeTransactionsResponse::default().with_transaction_states(states.collect())
}

fn describe(id: &TransactionalId, transaction: &Transaction) -> TransactionState {
    let mut topics: Vec<TopicData> = Vec::new();
    for partition in &transaction.partitions {
        let name = partition.topic.as_str();
        match topics.last_mut().filter(|last| last.topic.as_str() == name) {
            Some(last) => last.partitions.push(partition.partition),
            None => topics.push(
                TopicData::default()
                    .with_topic(text(name).into())
                    .with_partitions(vec![partition.partition]),
            ),
        }
    }
    TransactionState::default()
        .with_transactional_id(id.clone())
        .with_transaction_state(text(transaction.state.as_str()))
        .with_transaction_timeout_ms(transaction.timeout_ms)
        .with_transaction_start_time_ms(transaction.start_ms)
        .with_producer_id(transaction.producer.id.into())
        .with_producer_epoch(transaction.producer.epoch)
        .with_topics(topics)
}
