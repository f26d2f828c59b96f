//! What happened in the histories: a test in which nothing happens finds nothing.

/// How often each thing happened.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Coverage {
    pub(super) committed: usize,
    pub(super) aborted: usize,
    pub(super) timed_out: usize,
    pub(super) repeated_markers: usize,
    pub(super) duplicates: usize,
    pub(super) kills: usize,
    pub(super) cleaned_records: usize,
    pub(super) dropped_tombstones: usize,
    pub(super) deleted_on_disk: usize,
    pub(super) deleted_in_bucket: usize,
    pub(super) tiered: usize,
    pub(super) cold_aborted: usize,
}

impl Coverage {
    pub(super) fn add(&mut self, other: &Self) {
        for (sum, more) in self
            .counts_mut()
            .into_iter()
            .zip(other.clone().counts_mut())
        {
            *sum += *more;
        }
    }

    fn counts_mut(&mut self) -> [&mut usize; 12] {
        [
            &mut self.committed,
            &mut self.aborted,
            &mut self.timed_out,
            &mut self.repeated_markers,
            &mut self.duplicates,
            &mut self.kills,
            &mut self.cleaned_records,
            &mut self.dropped_tombstones,
            &mut self.deleted_on_disk,
            &mut self.deleted_in_bucket,
            &mut self.tiered,
            &mut self.cold_aborted,
        ]
    }

    /// Each of these things happened.
    pub(super) fn check(mut self) {
        let all = self;
        assert!(self.counts_mut().iter().all(|count| **count > 0), "{all:?}");
    }
}
