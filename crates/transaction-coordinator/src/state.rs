//! The states of a transaction, with Kafka's numbers and words, and which may follow which.
//!
//! Rules: section 5.1.

/// State of a transactional id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TransactionState {
    /// No transaction since the producer was initialised.
    Empty,
    /// Partitions were added; the end is open.
    Ongoing,
    /// It will be committed, whatever happens; markers are being written.
    PrepareCommit,
    /// It will be aborted, whatever happens; markers are being written.
    PrepareAbort,
    /// Committed on all partitions.
    CompleteCommit,
    /// Aborted on all partitions.
    CompleteAbort,
    /// The id is being forgotten.
    Dead,
    /// The producer is being fenced; never stored.
    PrepareEpochFence,
}

impl TransactionState {
    /// Every state.
    pub const ALL: [Self; 8] = [
        Self::Empty,
        Self::Ongoing,
        Self::PrepareCommit,
        Self::PrepareAbort,
        Self::CompleteCommit,
        Self::CompleteAbort,
        Self::Dead,
        Self::PrepareEpochFence,
    ];

    /// The number in records.
    pub fn id(self) -> i8 {
        match self {
            Self::Empty => 0,
            Self::Ongoing => 1,
            Self::PrepareCommit => 2,
            Self::PrepareAbort => 3,
            Self::CompleteCommit => 4,
            Self::CompleteAbort => 5,
            Self::Dead => 6,
            Self::PrepareEpochFence => 7,
        }
    }

    /// Reads the number of a record.
    pub fn from_id(id: i8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.id() == id)
    }

    /// The word in answers to operators.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Ongoing => "Ongoing",
            Self::PrepareCommit => "PrepareCommit",
            Self::PrepareAbort => "PrepareAbort",
            Self::CompleteCommit => "CompleteCommit",
            Self::CompleteAbort => "CompleteAbort",
            Self::Dead => "Dead",
            Self::PrepareEpochFence => "PrepareEpochFence",
        }
    }

    /// Reads the word of a filter.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }

    /// The end is decided and markers are being written.
    pub fn is_prepared(self) -> bool {
        matches!(self, Self::PrepareCommit | Self::PrepareAbort)
    }

    /// The last transaction has ended everywhere.
    pub fn is_complete(self) -> bool {
        matches!(self, Self::CompleteCommit | Self::CompleteAbort)
    }

    /// True if a stored state may follow another one (the table of 5.1). A fence is stored as the
    /// abort that it leads to.
    pub fn may_follow(self, previous: Self) -> bool {
        match self {
            Self::Empty | Self::Dead => previous == Self::Empty || previous.is_complete(),
            Self::Ongoing => {
                matches!(previous, Self::Ongoing | Self::Empty) || previous.is_complete()
            }
            Self::PrepareCommit => previous == Self::Ongoing,
            // The second generation may abort before it wrote anything.
            Self::PrepareAbort => {
                matches!(previous, Self::Ongoing | Self::Empty) || previous.is_complete()
            }
            Self::CompleteCommit => previous == Self::PrepareCommit,
            Self::CompleteAbort => previous == Self::PrepareAbort,
            Self::PrepareEpochFence => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // 5.1
    #[test]
    fn numbers_and_words_are_kafkas() {
        for (id, state) in (0_i8..).zip(TransactionState::ALL) {
            assert_eq!(state.id(), id);
            assert_eq!(TransactionState::from_id(id), Some(state));
            assert_eq!(TransactionState::from_name(state.as_str()), Some(state));
        }
        assert_eq!(TransactionState::from_id(8), None);
        assert_eq!(TransactionState::from_name("ongoing"), None);
        assert_eq!(
            TransactionState::PrepareEpochFence.as_str(),
            "PrepareEpochFence"
        );
    }
}
