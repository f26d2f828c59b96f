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
/// Lists kept in memory, about 150 KiB each.
const KEPT_LISTS: usize = 32;

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
    by_uuid: HashMap<Uuid, (Slot, u64)>,
    clock: u64,
}

impl SealedLists {
    pub(crate) fn new(bucket: Arc<Bucket>) -> Self {
        Self {
            bucket,
            slots: Mutex::default(),
        }
    }

    /// All segments of a list, those that left the log included. A fetch goes on when who asked first is gone:
    /// the next one, who has little time as well, finds it done.
    pub(crate) async fn get(
        self: &Arc<Self>,
        keys: &Arc<PartitionKeys>,
        pointer: &SealedPointer,
    ) -> Result<Arc<Vec<SegmentEntry>>, TieringError> {
        let slot = self.slot(pointer.uuid);
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

    fn slot(&self, uuid: Uuid) -> Slot {
        let mut slots = self.slots.lock();
        slots.clock += 1;
        let now = slots.clock;
        if slots.by_uuid.len() >= KEPT_LISTS && !slots.by_uuid.contains_key(&uuid) {
            let oldest = slots
                .by_uuid
                .iter()
                .min_by_key(|(_, (_, used))| *used)
                .map(|(uuid, _)| *uuid);
            oldest.map(|uuid| slots.by_uuid.remove(&uuid));
        }
        let (slot, used) = slots.by_uuid.entry(uuid).or_default();
        *used = now;
        Arc::clone(slot)
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
