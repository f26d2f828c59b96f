//! ListTransactions (66). Rules: section 5.1.

use regex::Regex;
use strandline_transaction_coordinator::{TransactionFilter, TransactionState};
use strandline_wire::ErrorCode;
use strandline_wire::messages::list_transactions_response::{
    ListTransactionsResponse, TransactionState as Listed,
};
use strandline_wire::messages::{ListTransactionsRequest, TransactionalId};

use super::{RequestContext, text};
use crate::error_codes::{self, Fenced};

pub(super) async fn handle(
    context: &RequestContext,
    request: ListTransactionsRequest,
) -> ListTransactionsResponse {
    let out = ListTransactionsResponse::default();
    let Ok(pattern) = pattern(context, &request) else {
        return out.with_error_code(ErrorCode::InvalidRegularExpression.code());
    };
    let named = request.state_filters.iter();
    let (known, unknown): (Vec<_>, Vec<_>) =
        named.partition(|name| TransactionState::from_name(name).is_some());
    let states = known.iter().filter_map(|n| TransactionState::from_name(n));
    let longer_than_ms = request.duration_filter;
    let filter = TransactionFilter {
        states: states.collect(),
        matches_nothing: known.is_empty() && !unknown.is_empty(),
        producer_ids: request.producer_id_filters.iter().map(|id| id.0).collect(),
        longer_than_ms: (context.version() >= 1 && longer_than_ms >= 0).then_some(longer_than_ms),
    };
    let out = out.with_unknown_state_filters(unknown.into_iter().cloned().collect());
    match context.broker.transactions.list(&filter) {
        Err(e) => out.with_error_code(error_codes::for_transaction(e, Fenced::Known).code()),
        Ok(transactions) => {
            let matches = |id: &str| pattern.as_ref().is_none_or(|p| p.is_match(id));
            let listed = transactions
                .into_iter()
                .filter(|t| matches(&t.transactional_id))
                .map(|t| {
                    Listed::default()
                        .with_transactional_id(TransactionalId(text(t.transactional_id)))
                        .with_producer_id(t.producer.id.into())
                        .with_transaction_state(text(t.state.as_str()))
                });
            out.with_transaction_states(listed.collect())
        }
    }
}

/// v2: the whole id must match; an empty pattern is none.
fn pattern(
    context: &RequestContext,
    request: &ListTransactionsRequest,
) -> Result<Option<Regex>, regex::Error> {
    let asked = request.transactional_id_pattern.as_ref();
    let asked = asked.filter(|p| context.version() >= 2 && !p.is_empty());
    asked
        .map(|p| Regex::new(&format!("^(?:{})$", p.as_str())))
        .transpose()
}
