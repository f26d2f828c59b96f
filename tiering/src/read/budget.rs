//! Memory budgets of cold reads, in bytes, for the whole broker.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Permits count in KiB, as a semaphore counts in 32 bits.
const UNIT: u64 = 1024;

/// A number of bytes that many share.
#[derive(Debug, Clone)]
pub(crate) struct ByteBudget {
    permits: Arc<Semaphore>,
    total: u32,
}

/// A share of a budget; returns when dropped.
#[derive(Debug)]
pub(crate) struct BytePermit {
    _permit: Option<OwnedSemaphorePermit>,
}

impl ByteBudget {
    pub(crate) fn new(bytes: u64) -> Self {
        let total = u32::try_from(bytes / UNIT).unwrap_or(u32::MAX).min(1 << 29);
        Self {
            permits: Arc::new(Semaphore::new(total as usize)),
            total,
        }
    }

    /// Waits for a share; one larger than the whole budget gets all of it.
    pub(crate) async fn acquire(&self, bytes: u64) -> BytePermit {
        let units = self.units(bytes);
        let permit = Arc::clone(&self.permits).acquire_many_owned(units).await;
        BytePermit {
            _permit: permit.ok(),
        }
    }

    /// A share, if it is there now.
    pub(crate) fn try_acquire(&self, bytes: u64) -> Option<BytePermit> {
        if self.total == 0 {
            return None;
        }
        let permit = Arc::clone(&self.permits)
            .try_acquire_many_owned(self.units(bytes))
            .ok()?;
        Some(BytePermit {
            _permit: Some(permit),
        })
    }

    /// A share for each size, if all of them are there now.
    pub(crate) fn try_acquire_each(&self, sizes: &[u64]) -> Option<Vec<BytePermit>> {
        let units: Vec<u32> = sizes.iter().map(|size| self.units(*size)).collect();
        let all = units
            .iter()
            .try_fold(0_u32, |sum, one| sum.checked_add(*one))?;
        if all > self.total || self.total == 0 {
            return None;
        }
        let permits = Arc::clone(&self.permits);
        let mut all = permits.try_acquire_many_owned(all).ok()?;
        let shares = units.into_iter().map(|units| BytePermit {
            _permit: all.split(units as usize),
        });
        Some(shares.collect())
    }

    fn units(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT))
            .unwrap_or(u32::MAX)
            .min(self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn shares_come_back() {
        let budget = ByteBudget::new(10 * 1024);
        let first = budget.try_acquire(8 * 1024).unwrap();
        assert!(budget.try_acquire(4 * 1024).is_none());
        drop(first);
        let all = budget.acquire(1 << 40).await;
        assert!(budget.try_acquire(1).is_none());
        drop(all);
        assert!(budget.try_acquire(1).is_some());
        assert!(ByteBudget::new(0).try_acquire(1).is_none());
    }

    #[test]
    fn several_shares_are_taken_together_and_come_back_one_by_one() {
        let budget = ByteBudget::new(10 * 1024);
        assert!(budget.try_acquire_each(&[6 * 1024, 5 * 1024]).is_none());
        let mut shares = budget.try_acquire_each(&[6 * 1024, 4 * 1024]).unwrap();
        assert!(budget.try_acquire(1).is_none());
        shares.remove(0);
        assert!(budget.try_acquire(6 * 1024 + 1).is_none());
        assert!(budget.try_acquire(6 * 1024).is_some());
        assert!(ByteBudget::new(0).try_acquire_each(&[1]).is_none());
    }
}
