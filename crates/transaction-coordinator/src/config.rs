//! The settings of a shard, already typed.
//!
//! Rules: section 12.1 (transaction.*, transactional.*), T-2, T-50, T-51.

use crate::error::TransactionError;
use crate::request::Request;
use crate::shard::MAX_TEXT_BYTES;

/// Settings; durations in ms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionConfig {
    /// `transaction.max.timeout.ms`, inclusive.
    pub max_timeout_ms: i32,
    /// `transactional.id.expiration.ms`.
    pub id_expiration_ms: i64,
    /// `transaction.abort.timed.out.transaction.cleanup.interval.ms`.
    pub abort_scan_interval_ms: i64,
    /// `transaction.remove.expired.transaction.cleanup.interval.ms`.
    pub expiry_scan_interval_ms: i64,
    /// Version of the values that are written: 1 from transaction.version 1 on, else 0.
    pub value_version: i16,
}

impl TransactionConfig {
    /// What is wrong with a request whoever coordinates its id (T-1, T-2).
    ///
    /// # Errors
    /// The id is empty or too long; the timeout is not positive, or above the limit.
    pub fn check_shape(&self, request: &Request) -> Result<(), TransactionError> {
        let id = request.transactional_id();
        if id.is_empty() || id.len() > MAX_TEXT_BYTES {
            return Err(TransactionError::InvalidRequest);
        }
        match request {
            Request::InitProducerId(r)
                if r.timeout_ms <= 0 || r.timeout_ms > self.max_timeout_ms =>
            {
                Err(TransactionError::InvalidTransactionTimeout)
            }
            _ => Ok(()),
        }
    }
}

impl Default for TransactionConfig {
    fn default() -> Self {
        Self {
            max_timeout_ms: 900_000,
            id_expiration_ms: 604_800_000,
            abort_scan_interval_ms: 10_000,
            expiry_scan_interval_ms: 3_600_000,
            value_version: 1,
        }
    }
}
