//! Markers that could not be written at the first attempt: counted while they are tried again, and
//! told of when that does not end.
//!
//! Rules: T-40, X-75: what waits for a marker holds back committed readers and uploads.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use strandline_types::TopicPartition;

/// From the first failure on a partition until somebody is told, in ms: at a start, and while a disk
/// is slow, it may take a moment.
const TELL_AFTER_MS: i64 = 10_000;
/// Between two lines about one partition, in ms.
const TELL_EVERY_MS: i64 = 60_000;

/// The partitions that lack markers.
#[derive(Debug, Default)]
pub(crate) struct LateMarkers {
    partitions: Mutex<HashMap<TopicPartition, Late>>,
}

#[derive(Debug)]
struct Late {
    markers: usize,
    since_ms: i64,
    next_told_ms: i64,
}

/// What there is to tell of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Told {
    /// Markers that wait.
    pub(super) markers: usize,
    /// For how long the partition has taken none, in ms.
    pub(super) late_ms: i64,
}

impl LateMarkers {
    /// How many partitions lack a marker that was tried before.
    pub(crate) fn partitions(&self) -> usize {
        self.partitions.lock().len()
    }

    /// A marker is late from now (monotonic, in ms) until the guard goes.
    pub(super) fn begin(self: &Arc<Self>, partition: &TopicPartition, now_ms: i64) -> LateMarker {
        let mut partitions = self.partitions.lock();
        let late = partitions.entry(partition.clone()).or_insert(Late {
            markers: 0,
            since_ms: now_ms,
            next_told_ms: now_ms.saturating_add(TELL_AFTER_MS),
        });
        late.markers += 1;
        drop(partitions);
        LateMarker {
            all: Arc::clone(self),
            partition: partition.clone(),
        }
    }
}

/// One marker that is late.
#[derive(Debug)]
pub(super) struct LateMarker {
    all: Arc<LateMarkers>,
    partition: TopicPartition,
}

impl LateMarker {
    /// It has failed once more: what to tell, if it is time to.
    pub(super) fn failed(&self, now_ms: i64) -> Option<Told> {
        let mut partitions = self.all.partitions.lock();
        let late = partitions.get_mut(&self.partition)?;
        if now_ms < late.next_told_ms {
            return None;
        }
        late.next_told_ms = now_ms.saturating_add(TELL_EVERY_MS);
        Some(Told {
            markers: late.markers,
            late_ms: now_ms.saturating_sub(late.since_ms),
        })
    }
}

impl Drop for LateMarker {
    fn drop(&mut self) {
        let mut partitions = self.all.partitions.lock();
        if let Some(late) = partitions.get_mut(&self.partition) {
            late.markers -= 1;
            if late.markers == 0 {
                partitions.remove(&self.partition);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use strandline_types::TopicName;

    use super::*;

    fn partition(number: i32) -> TopicPartition {
        TopicPartition::new(TopicName::new("t").unwrap(), number)
    }

    // T-40
    #[test]
    fn a_partition_is_told_of_once_a_minute_however_many_markers_wait() {
        let all = Arc::new(LateMarkers::default());
        let first = all.begin(&partition(0), 1_000);
        let second = all.begin(&partition(0), 3_000);
        let other = all.begin(&partition(1), 5_000);
        assert_eq!(all.partitions(), 2);
        assert_eq!(first.failed(1_000 + TELL_AFTER_MS - 1), None);
        let told = |markers, late_ms| Some(Told { markers, late_ms });
        assert_eq!(first.failed(11_000), told(2, 10_000));
        assert_eq!(second.failed(11_001), None);
        assert_eq!(other.failed(16_000), told(1, 11_000));
        assert_eq!(second.failed(70_999), None);
        drop(first);
        assert_eq!(second.failed(71_000), told(1, 70_000));
        drop(second);
        assert_eq!(all.partitions(), 1);
        // Whatever is late later is late anew.
        let third = all.begin(&partition(0), 100_000);
        assert_eq!(third.failed(100_000), None);
        drop((third, other));
        assert_eq!(all.partitions(), 0);
    }
}
