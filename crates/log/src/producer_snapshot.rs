//! The `.snapshot` file: the last batch of each producer at an offset (SEMANTICS 6.3, L-24, P-60).

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::producer_state::{BatchMemory, ProducerEntry, ProducerState};

const VERSION: i16 = 1;
const CRC_END: usize = 6;
const ENTRY_BYTES: usize = 46;

/// The file's bytes, producers in ascending order.
pub(crate) fn encode(state: &ProducerState) -> Bytes {
    let mut ids: Vec<_> = state.entries().iter().collect();
    ids.sort_unstable_by_key(|(id, _)| **id);
    let mut out = BytesMut::with_capacity(CRC_END + 4 + ids.len() * ENTRY_BYTES);
    out.put_i16(VERSION);
    out.put_u32(0);
    out.put_i32(ids.len() as i32);
    for (id, e) in ids {
        let none = BatchMemory {
            last_sequence: -1,
            offset_delta: 0,
            last_offset: e.last_data_offset(),
            timestamp: e.last_timestamp,
        };
        let last = e.batches().last().copied().unwrap_or(none);
        out.put_i64(*id);
        out.put_i16(e.epoch);
        out.put_i32(last.last_sequence);
        out.put_i64(last.last_offset);
        out.put_i32(last.offset_delta);
        out.put_i64(e.last_timestamp);
        out.put_i32(e.coordinator_epoch);
        out.put_i64(e.current_txn_first_offset);
    }
    let crc = crc32c::crc32c(out.get(CRC_END..).unwrap_or(&[]));
    if let Some(field) = out.get_mut(2..CRC_END) {
        field.copy_from_slice(&crc.to_be_bytes());
    }
    out.freeze()
}

/// Reads the file's bytes; `None` when they are not a snapshot or damaged.
pub(crate) fn decode(mut bytes: &[u8]) -> Option<ProducerState> {
    let computed = crc32c::crc32c(bytes.get(CRC_END..)?);
    if bytes.try_get_i16().ok()? != VERSION || bytes.try_get_u32().ok()? != computed {
        return None;
    }
    let count = usize::try_from(bytes.try_get_i32().ok()?).ok()?;
    if bytes.remaining() != count.checked_mul(ENTRY_BYTES)? {
        return None;
    }
    let mut state = ProducerState::default();
    for _ in 0..count {
        let id = bytes.get_i64();
        let epoch = bytes.get_i16();
        let last_sequence = bytes.get_i32();
        let last_offset = bytes.get_i64();
        let offset_delta = bytes.get_i32();
        let timestamp = bytes.get_i64();
        let coordinator_epoch = bytes.get_i32();
        let txn_first = bytes.get_i64();
        let last = BatchMemory {
            last_sequence,
            offset_delta,
            last_offset,
            timestamp,
        };
        state.insert(
            id,
            ProducerEntry::restored(epoch, coordinator_epoch, txn_first, last),
        );
    }
    Some(state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BatchSpec, marker_batch};

    // L-42, T-22: as in Kafka, such a batch has an offset there, and no sequence
    #[test]
    fn a_batch_without_a_sequence_is_known_by_its_offset_alone() {
        let mut state = ProducerState::default();
        let batch = |sequence, base| {
            let spec = BatchSpec {
                producer: Some((7, 2, sequence)),
                count: 3,
                ..BatchSpec::default()
            };
            let mut batch = spec.build();
            batch.set_offset_and_epoch(base, 0);
            batch.header()
        };
        state.apply_data(&batch(-1, 40));
        let mut again = decode(&encode(&state)).unwrap();
        let seven = again.entries()[&7];
        assert_eq!(seven, state.entries()[&7]);
        assert_eq!((seven.last_data_offset(), seven.last_sequence()), (42, -1));
        assert_eq!(seven.batches().len(), 0);
        // With the first sequence it is known by that, whatever else comes.
        again.apply_data(&batch(0, 43));
        again.apply_data(&batch(-1, 46));
        let seven = decode(&encode(&again)).unwrap().entries()[&7];
        assert_eq!((seven.last_data_offset(), seven.last_sequence()), (45, 2));
    }

    #[test]
    fn a_snapshot_reads_back_and_damage_is_seen() {
        let mut state = ProducerState::default();
        for i in 0..3 {
            let mut batch = BatchSpec {
                producer: Some((7, 2, i * 4)),
                count: 4,
                transactional: true,
                ..BatchSpec::default()
            }
            .build();
            batch.set_offset_and_epoch(i64::from(i) * 4, 0);
            state.apply_data(&batch.header());
        }
        let marker = marker_batch(8, 1, false, 5);
        state.apply_marker(
            &marker.header(),
            strandline_records::EndTransactionMarker::of_batch(&marker)
                .unwrap()
                .unwrap(),
        );
        let bytes = encode(&state);
        assert_eq!(bytes.len(), 10 + 2 * 46);
        assert_eq!(&bytes[..2], &[0, 1]);
        let mut again = decode(&bytes).unwrap();
        let seven = again.entries()[&7];
        assert_eq!(seven.batches().len(), 1); // only the last one is kept
        assert_eq!(
            (seven.last_sequence(), seven.current_txn_first_offset),
            (11, 0)
        );
        assert_eq!(again.entries()[&8].coordinator_epoch, 5);
        assert_eq!(again.entries()[&8].batches().len(), 0);
        assert_eq!(again.last_stable_offset(100), 0);
        for at in 0..bytes.len() {
            let mut bad = bytes.to_vec();
            bad[at] ^= 0x10;
            assert!(decode(&bad).is_none(), "byte {at}");
            assert!(decode(&bytes[..at]).is_none());
        }
    }
}
