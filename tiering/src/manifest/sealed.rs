//! Sealed lists: immutable objects of about a thousand segments each, fetched when needed and kept.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use parking_lot::Mutex;
use strandline_bucket::Bucket;
use strandline_types::TopicId;
use tokio::sync::OnceCell;
use uuid::Uuid;

use super::{SealedPointer, SegmentEntry};
use crate::error::TieringError;
use crate::invariants;
use crate::key::PartitionKeys;
use crate::wire::{DecodeError, Reader, seal, unseal};

const VERSION: u16 = 1;
const MAGIC: &[u8; 8] = b"SLSEALED";
/// What a segment of a list takes in memory, in bytes.
const SEGMENT_BYTES: usize = 200;
/// Lists of so many segments are kept at least.
const MIN_KEPT_SEGMENTS: usize = 32_000;

/// A new list of `entries`, which are not empty: its pointer and its bytes.
pub(crate) fn encode_sealed(
    topic_id: TopicId,
    partition: i32,
    entries: &[SegmentEntry],
) -> Option<(SealedPointer, Bytes)> {
    let (first, last) = (entries.first()?, entries.last()?);
    let mut out = BytesMut::with_capacity(64 + entries.len() * 120);
    out.put_slice(MAGIC);
    out.put_u16(VERSION);
    out.put_u16(0);
    out.put_slice(topic_id.0.as_bytes());
    out.put_i32(partition);
    out.put_u32(entries.len() as u32);
    entries.iter().for_each(|entry| entry.encode(&mut out));
    let bytes = seal(out);
    let uuid = Uuid::new_v4();
    let (base_offset, last_offset) = (first.base_offset, last.last_offset);
    let times = entries.iter().filter(|entry| entry.max_timestamp >= 0);
    let min_timestamp = times.clone().map(|e| e.min_timestamp).min().unwrap_or(-1);
    let max_timestamp = times.map(|e| e.max_timestamp).max().unwrap_or(-1);
    let relative = format!(
        "sealed/{base_offset:020}-{last_offset:020}-{:020}-{:020}-{uuid}",
        min_timestamp.max(0),
        max_timestamp.max(0),
    );
    let pointer = SealedPointer {
        base_offset,
        last_offset,
        min_timestamp,
        max_timestamp,
        count: entries.len() as u32,
        removed: 0,
        log_bytes: entries.iter().map(|entry| entry.log_bytes).sum(),
        has_aborted: entries.iter().any(|entry| entry.has_aborted),
        object_bytes: bytes.len() as u64,
        crc: crc32c::crc32c(&bytes),
        uuid,
        relative,
    };
    Some((pointer, bytes))
}

fn decode_sealed(pointer: &SealedPointer, bytes: &[u8]) -> Result<Vec<SegmentEntry>, DecodeError> {
    let mut r = Reader::new(bytes);
    if r.take(8, "the magic")? != MAGIC {
        return Err(DecodeError::Invalid("it is not a list of segments".into()));
    }
    let version = r.u16("the version")?;
    if version != VERSION {
        return Err(DecodeError::Version(version));
    }
    let mut r = Reader::new(unseal(bytes)?);
    r.take(8 + 2 + 2 + 16 + 4, "the head")?;
    let count = r.count(SegmentEntry::MIN_BYTES, "the segments")?;
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        entries.push(SegmentEntry::decode(&mut r)?);
    }
    r.end()?;
    invariants::check_entries(&entries).map_err(|v| DecodeError::Invalid(v.to_string()))?;
    let last = entries.last().map(|entry| entry.last_offset);
    if entries.len() as u64 != u64::from(pointer.count) || last != Some(pointer.last_offset) {
        return Err(DecodeError::Invalid(
            "it is not the list that the manifest means".into(),
        ));
    }
    Ok(entries)
}

type Slot = Arc<OnceCell<Arc<Vec<SegmentEntry>>>>;

/// The lists that were fetched; one fetch however many wait.
#[derive(Debug)]
pub(crate) struct SealedLists {
    bucket: Arc<Bucket>,
    slots: Mutex<Slots>,
}

/// The lists used last.
#[derive(Debug, Default)]
struct Slots {
    by_uuid: HashMap<Uuid, Kept>,
    segments: usize,
    max_segments: usize,
    clock: u64,
}

#[derive(Debug, Default)]
struct Kept {
    slot: Slot,
    segments: usize,
    used: u64,
}

impl Slots {
    fn new(max_bytes: usize) -> Self {
        Self {
            max_segments: MIN_KEPT_SEGMENTS.max(max_bytes / SEGMENT_BYTES),
            ..Self::default()
        }
    }

    fn slot(&mut self, uuid: Uuid, segments: usize) -> Slot {
        self.clock += 1;
        if !self.by_uuid.contains_key(&uuid) {
            while self.segments + segments > self.max_segments && self.forget_oldest() {}
            self.segments += segments;
        }
        let kept = self.by_uuid.entry(uuid).or_insert_with(|| Kept {
            segments,
            ..Kept::default()
        });
        kept.used = self.clock;
        Arc::clone(&kept.slot)
    }

    /// False when there is none.
    fn forget_oldest(&mut self) -> bool {
        let oldest = self.by_uuid.iter().min_by_key(|(_, kept)| kept.used);
        let oldest = oldest.map(|(uuid, _)| *uuid);
        let kept = oldest.and_then(|uuid| self.by_uuid.remove(&uuid));
        self.segments -= kept.as_ref().map_or(0, |kept| kept.segments);
        kept.is_some()
    }
}

impl SealedLists {
    /// Keeps lists of `max_bytes`: a replay of as many partitions as have their part of it reads each list once.
    pub(crate) fn new(bucket: Arc<Bucket>, max_bytes: usize) -> Self {
        Self {
            bucket,
            slots: Mutex::new(Slots::new(max_bytes)),
        }
    }

    /// All segments of a list, those that left the log included. A fetch goes on when who asked first is gone:
    /// the next one, who has little time as well, finds it done.
    pub(crate) async fn get(
        self: &Arc<Self>,
        keys: &Arc<PartitionKeys>,
        pointer: &SealedPointer,
    ) -> Result<Arc<Vec<SegmentEntry>>, TieringError> {
        let segments = usize::try_from(pointer.count).unwrap_or(usize::MAX);
        let slot = self.slots.lock().slot(pointer.uuid, segments);
        if let Some(list) = slot.get() {
            return Ok(Arc::clone(list));
        }
        let (this, keys, pointer) = (Arc::clone(self), Arc::clone(keys), pointer.clone());
        let fetch = tokio::spawn(async move {
            let list = slot.get_or_try_init(|| this.fetch(&keys, &pointer)).await?;
            Ok(Arc::clone(list))
        });
        fetch.await.unwrap_or(Err(TieringError::Cancelled))
    }

    async fn fetch(
        &self,
        keys: &PartitionKeys,
        pointer: &SealedPointer,
    ) -> Result<Arc<Vec<SegmentEntry>>, TieringError> {
        let key = keys.absolute(&pointer.relative);
        // Damage on the way here may be gone the second time.
        let mut last = None;
        for _ in 0..2 {
            let bytes = self.bucket.get(&key).await?;
            match decode_sealed(pointer, &bytes) {
                Ok(entries) => return Ok(Arc::new(entries)),
                Err(DecodeError::Version(version)) => {
                    return Err(TieringError::Version {
                        key,
                        version,
                        known: VERSION,
                    });
                }
                Err(error) => last = Some(error),
            }
        }
        let why = last.map(|error| error.to_string()).unwrap_or_default();
        Err(TieringError::corrupt(&key, why))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::manifest::tests_support::entry;

    #[test]
    fn the_lists_used_last_are_kept_as_long_as_there_is_room() {
        let mut slots = Slots::new(0);
        let uuid = |n: usize| Uuid::from_u128(n as u128);
        let room = MIN_KEPT_SEGMENTS / 1000;
        let all: Vec<Slot> = (0..room).map(|n| slots.slot(uuid(n), 1000)).collect();
        let is_kept =
            |slots: &mut Slots, n: usize| Arc::ptr_eq(&all[n], &slots.slot(uuid(n), 1000));
        assert!((0..room).all(|n| is_kept(&mut slots, n)));
        assert!(is_kept(&mut slots, 0));
        slots.slot(uuid(room), 1000);
        assert!(is_kept(&mut slots, 0) && is_kept(&mut slots, 2));
        assert!(!is_kept(&mut slots, 1));
        assert!(slots.segments <= MIN_KEPT_SEGMENTS);
        // One that is larger than all of them is kept alone.
        slots.slot(uuid(room + 1), usize::MAX / 2);
        assert_eq!(slots.by_uuid.len(), 1);
        slots.slot(uuid(room + 2), 1);
        assert_eq!((slots.by_uuid.len(), slots.segments), (1, 1));
    }

    #[test]
    fn a_list_reads_back() {
        let entries = [entry(0, 9), entry(10, 19)];
        let (pointer, bytes) = encode_sealed(TopicId::ZERO, 0, &entries).unwrap();
        assert_eq!(decode_sealed(&pointer, &bytes).unwrap(), entries);
        assert_eq!(
            (pointer.base_offset, pointer.last_offset, pointer.count),
            (0, 19, 2)
        );
        assert_eq!((pointer.min_timestamp, pointer.max_timestamp), (0, 19));
        let (other, _) = encode_sealed(TopicId::ZERO, 0, &entries[..1]).unwrap();
        assert!(decode_sealed(&other, &bytes).is_err());
        assert!(encode_sealed(TopicId::ZERO, 0, &[]).is_none());
    }

    proptest! {
        #[test]
        fn damage_is_seen(at in any::<prop::sample::Index>(), bit in 0_u8..8, cut in any::<prop::sample::Index>()) {
            let entries = [entry(0, 9), entry(10, 19)];
            let (pointer, good) = encode_sealed(TopicId::ZERO, 0, &entries).unwrap();
            let mut bad = good.to_vec();
            let at = at.index(bad.len());
            bad[at] ^= 1 << bit;
            prop_assert!(decode_sealed(&pointer, &bad).is_err());
            prop_assert!(decode_sealed(&pointer, &good[..cut.index(good.len())]).is_err());
        }
    }
}
