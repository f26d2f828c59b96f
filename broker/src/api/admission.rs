//! Before the first batch of a transaction on a partition: asks the transaction coordinator, or has
//! it add the partition. Rules: P-70 … P-75, T-22.

use std::sync::Arc;

use strandline_coordinator::Producer;
use strandline_log::VerificationGuard;
use strandline_transaction_coordinator::{
    AddPartitionsRequest, TransactionError, TransactionVersion,
};
use strandline_types::TopicPartition;

use super::RequestContext;
use crate::partition::Partition;

/// What the version of a request says about how its client runs transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generation {
    /// Adds partitions itself, and does not know TRANSACTION_ABORTABLE.
    First,
    /// Adds partitions itself.
    FirstWithAbortable,
    /// Leaves it to the broker, and begins each transaction with a new epoch.
    Second,
}

/// A partition that a producer wants to write to.
#[derive(Debug, Clone)]
pub(super) struct Wish {
    pub(super) partition: Arc<Partition>,
    /// Of the batch; -1 for offsets, which have no sequence.
    pub(super) base_sequence: i32,
}

/// How often the coordinator is asked again when the guards were dropped meanwhile. One end drops
/// them once; whoever has more at the same time is refused at the append, and may come back.
const MORE_QUESTIONS: u32 = 3;

type Guards = Vec<Option<VerificationGuard>>;

/// What to show at the append, for each wish in order: nothing where the transaction is open
/// already.
pub(super) async fn admit(
    context: &RequestContext,
    transactional_id: &str,
    producer: Producer,
    wishes: &[Wish],
    generation: Generation,
) -> Vec<Result<Option<VerificationGuard>, TransactionError>> {
    let broker = &context.broker;
    let now_ms = broker.clock.now_ms();
    let begin = || -> Guards {
        let epoch_rises = generation == Generation::Second;
        let begin = |wish: &Wish| {
            let sequence = wish.base_sequence;
            wish.partition
                .begin_verification(producer, sequence, epoch_rises, now_ms)
        };
        wishes.iter().map(begin).collect()
    };
    // Where the transaction is not open.
    let unknown = |guards: &Guards| -> Vec<TopicPartition> {
        let unknown = guards.iter().zip(wishes).filter(|(g, _)| g.is_some());
        unknown.map(|(_, wish)| wish.partition.id.clone()).collect()
    };
    let mut guards = begin();
    let partitions = unknown(&guards);
    let is_first = generation != Generation::Second;
    if partitions.is_empty()
        || (is_first && !broker.config.transaction_partition_verification_enable())
    {
        return guards.into_iter().map(Ok).collect(); // P-75
    }
    let transactions = &broker.transactions;
    let verdicts = if is_first {
        transactions.verify(transactional_id, producer, &partitions)
    } else {
        let request = AddPartitionsRequest {
            transactional_id: transactional_id.to_owned(),
            producer,
            partitions,
            client_version: TransactionVersion::V2,
        };
        let patience = broker.config.add_partitions_to_txn_patience();
        let ask = || {
            let (begin, unknown, request) = (&begin, &unknown, request.clone());
            async move {
                let mut guards = Guards::new();
                // The markers of the last transaction, which may be waited for, drop the guards, and close
                // what was open: the next one must be told of those partitions as well.
                let begin = |request: &mut AddPartitionsRequest| {
                    guards = begin();
                    request.partitions = unknown(&guards);
                };
                let added = transactions.add_patiently(request, patience, begin).await;
                (added, guards)
            }
        };
        let are_held = |guards: &Guards| {
            let mut given = guards.iter().zip(wishes);
            given.all(|(guard, wish)| {
                guard.is_none_or(|guard| wish.partition.holds_guard(producer, guard))
            })
        };
        let (added, given) = until_held(ask, are_held).await;
        guards = given;
        added.map(|()| Vec::new())
    };
    let admitted = join(guards, verdicts);
    for (wish, refused) in wishes.iter().zip(&admitted) {
        if refused.as_ref().is_err_and(|e| !e.may_go_well_later()) {
            wish.partition
                .log
                .end_verification(producer.id, producer.epoch);
        }
    }
    admitted
}

/// Asks once more when what was given out before the consent is not good any more after it. The
/// last transaction may have ended in between: then its markers dropped the guards, and the consent
/// was for the next one.
async fn until_held<G, E, F: Future<Output = (Result<(), E>, G)>>(
    ask: impl Fn() -> F,
    are_held: impl Fn(&G) -> bool,
) -> (Result<(), E>, G) {
    let mut asked = ask().await;
    for _ in 0..MORE_QUESTIONS {
        let (answer, guards) = &asked;
        if answer.is_err() || are_held(guards) {
            break;
        }
        asked = ask().await;
    }
    asked
}

/// Verdicts are those of the partitions with a guard; fewer verdicts than guards are consent.
fn join(
    guards: Guards,
    verdicts: Result<Vec<Result<(), TransactionError>>, TransactionError>,
) -> Vec<Result<Option<VerificationGuard>, TransactionError>> {
    let mut verdicts = match verdicts {
        Ok(verdicts) => verdicts.into_iter(),
        Err(e) => {
            let refuse = |guard: Option<_>| if guard.is_some() { Err(e) } else { Ok(None) };
            return guards.into_iter().map(refuse).collect();
        }
    };
    let judge = |guard: Option<VerificationGuard>| match guard {
        None => Ok(None),
        guard => verdicts.next().unwrap_or(Ok(())).map(|()| guard),
    };
    guards.into_iter().map(judge).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Each question gives out the next number; markers drop those below `good_from`.
    async fn ask_with_good_from(good_from: u32, answer: Result<(), ()>) -> (Result<(), ()>, u32) {
        let asked = Cell::new(0);
        let ask = || {
            asked.set(asked.get() + 1);
            std::future::ready((answer, asked.get()))
        };
        until_held(ask, |guard| *guard >= good_from).await
    }

    // P-74: a marker between the guard and the consent is not the client's fault.
    #[tokio::test]
    async fn guards_that_a_marker_dropped_before_the_consent_are_given_out_again() {
        assert_eq!(ask_with_good_from(1, Ok(())).await, (Ok(()), 1));
        assert_eq!(ask_with_good_from(2, Ok(())).await, (Ok(()), 2));
        // It ends, and the append decides.
        assert_eq!(ask_with_good_from(9, Ok(())).await, (Ok(()), 4));
        // A refusal needs no guard.
        assert_eq!(ask_with_good_from(9, Err(())).await, (Err(()), 1));
    }
}
