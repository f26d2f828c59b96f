//! Bytes of a manifest: magic, version, body, checksum.

use bytes::{BufMut, Bytes, BytesMut};
use strandline_types::TopicId;

use super::entry::{EPOCH_BYTES, decode_epoch, encode_epoch};
use super::{Manifest, PendingDelete, SealedPointer, SegmentEntry, Superseded};
use crate::error::TieringError;
use crate::invariants;
use crate::wire::{DecodeError, Reader, put_string, seal, unseal};

pub(super) const VERSION: u16 = 1;
const MAGIC: &[u8; 8] = b"SLMANIFS";
const DELETED: u16 = 1;

impl Manifest {
    /// The bytes of the manifest's object.
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(256 + self.inline.len() * 120);
        out.put_slice(MAGIC);
        out.put_u16(VERSION);
        out.put_u16(if self.deleted { DELETED } else { 0 });
        out.put_u64(self.number);
        out.put_slice(self.writer_id.as_bytes());
        out.put_i32(self.broker_id);
        out.put_i32(self.leader_epoch);
        out.put_i64(self.created_ms);
        put_string(&mut out, &self.cluster_id);
        out.put_slice(self.topic_id.0.as_bytes());
        put_string(&mut out, &self.topic);
        out.put_i32(self.partition);
        out.put_i64(self.log_start_offset);
        out.put_u32(self.epochs.len() as u32);
        self.epochs
            .iter()
            .for_each(|start| encode_epoch(start, &mut out));
        out.put_u32(self.sealed.len() as u32);
        self.sealed.iter().for_each(|list| list.encode(&mut out));
        out.put_u32(self.inline.len() as u32);
        self.inline.iter().for_each(|entry| entry.encode(&mut out));
        out.put_u32(self.pending_deletes.len() as u32);
        for pending in &self.pending_deletes {
            out.put_i64(pending.due_ms);
            put_string(&mut out, &pending.relative);
        }
        out.put_u32(self.superseded.len() as u32);
        for old in &self.superseded {
            out.put_u64(old.number);
            out.put_i64(old.at_ms);
        }
        seal(out)
    }

    /// Reads a manifest and checks it. `key` is for the error.
    pub(crate) fn decode(key: &str, bytes: &[u8]) -> Result<Self, TieringError> {
        let manifest = Self::parse(bytes).map_err(|error| match error {
            DecodeError::Version(version) => TieringError::Version {
                key: key.to_owned(),
                version,
                known: VERSION,
            },
            other => TieringError::corrupt(key, other.to_string()),
        })?;
        invariants::check(&manifest)
            .map_err(|violation| TieringError::corrupt(key, violation.to_string()))?;
        Ok(manifest)
    }

    fn parse(bytes: &[u8]) -> Result<Self, DecodeError> {
        // The version first: a newer format may have its checksum elsewhere.
        let mut r = Reader::new(bytes);
        if r.take(8, "the magic")? != MAGIC {
            return Err(DecodeError::Invalid("it is not a manifest".into()));
        }
        let version = r.u16("the version")?;
        if version != VERSION {
            return Err(DecodeError::Version(version));
        }
        let mut r = Reader::new(unseal(bytes)?);
        r.take(10, "the head")?;
        let flags = r.u16("the flags")?;
        let mut manifest = Self {
            deleted: flags & DELETED != 0,
            number: r.u64("the number")?,
            writer_id: r.uuid("the writer id")?,
            broker_id: r.i32("the broker id")?,
            leader_epoch: r.i32("the leader epoch")?,
            created_ms: r.i64("the creation time")?,
            cluster_id: r.string("the cluster id")?,
            topic_id: TopicId(r.uuid("the topic id")?),
            topic: r.string("the topic")?,
            partition: r.i32("the partition")?,
            log_start_offset: r.i64("the log start offset")?,
            epochs: Vec::new(),
            sealed: Vec::new(),
            inline: Vec::new(),
            pending_deletes: Vec::new(),
            superseded: Vec::new(),
        };
        for _ in 0..r.count(EPOCH_BYTES, "the epochs")? {
            manifest.epochs.push(decode_epoch(&mut r)?);
        }
        for _ in 0..r.count(SealedPointer::MIN_BYTES, "the sealed lists")? {
            manifest.sealed.push(SealedPointer::decode(&mut r)?);
        }
        for _ in 0..r.count(SegmentEntry::MIN_BYTES, "the segments")? {
            manifest.inline.push(SegmentEntry::decode(&mut r)?);
        }
        for _ in 0..r.count(10, "the pending deletes")? {
            let due_ms = r.i64("a pending delete")?;
            let relative = r.string("a pending delete")?;
            manifest
                .pending_deletes
                .push(PendingDelete { relative, due_ms });
        }
        for _ in 0..r.count(16, "the old manifests")? {
            let number = r.u64("an old manifest")?;
            manifest.superseded.push(Superseded {
                number,
                at_ms: r.i64("an old manifest")?,
            });
        }
        r.end()?;
        Ok(manifest)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::segment_object::EpochStart;
    use proptest::prelude::*;
    use uuid::Uuid;

    pub(crate) fn entry(base: i64, last: i64) -> SegmentEntry {
        SegmentEntry {
            base_offset: base,
            last_offset: last,
            leader_epoch: 2,
            uuid: Uuid::from_u128(base as u128 + 1),
            log_bytes: 1000,
            object_bytes: 1100,
            log_crc: 5,
            footer_crc: 6,
            block_bytes: 4096,
            min_timestamp: base,
            max_timestamp: last,
            created_ms: 77,
            has_aborted: base % 2 == 0,
            contiguous: true,
            epochs: vec![EpochStart {
                epoch: 2,
                start_offset: base,
            }],
        }
    }

    pub(crate) fn manifest() -> Manifest {
        Manifest {
            number: 7,
            writer_id: Uuid::from_u128(11),
            broker_id: 1,
            leader_epoch: 2,
            created_ms: 99,
            cluster_id: "cluster".into(),
            topic_id: TopicId(Uuid::from_u128(12)),
            topic: "topic".into(),
            partition: 3,
            deleted: false,
            log_start_offset: 5,
            epochs: vec![EpochStart {
                epoch: 2,
                start_offset: 0,
            }],
            sealed: vec![SealedPointer {
                base_offset: 0,
                last_offset: 9,
                min_timestamp: 1,
                max_timestamp: 2,
                count: 3,
                removed: 1,
                log_bytes: 50,
                has_aborted: true,
                object_bytes: 500,
                crc: 8,
                uuid: Uuid::from_u128(13),
                relative: "sealed/x".into(),
            }],
            inline: vec![entry(10, 19), entry(20, 29)],
            pending_deletes: vec![PendingDelete {
                relative: "old".into(),
                due_ms: 3,
            }],
            superseded: vec![Superseded {
                number: 6,
                at_ms: 4,
            }],
        }
    }

    #[test]
    fn a_manifest_reads_back() {
        let bytes = manifest().encode();
        assert_eq!(Manifest::decode("k", &bytes).unwrap(), manifest());
        let mut newer = bytes.to_vec();
        newer[9] = 2;
        assert!(matches!(
            Manifest::decode("k", &newer),
            Err(TieringError::Version { version: 2, .. })
        ));
    }

    proptest! {
        #[test]
        fn damage_is_seen(at in any::<prop::sample::Index>(), bit in 0_u8..8, cut in any::<prop::sample::Index>()) {
            let good = manifest().encode();
            let mut bad = good.to_vec();
            let at = at.index(bad.len());
            bad[at] ^= 1 << bit;
            prop_assert!(Manifest::decode("k", &bad).is_err());
            prop_assert!(Manifest::decode("k", &good[..cut.index(good.len())]).is_err());
        }

        // With a checksum that is right, so that the body's parser is reached.
        #[test]
        fn any_body_is_refused_or_read_without_panic(
            at in any::<prop::sample::Index>(),
            with in proptest::collection::vec(any::<u8>(), 1..9),
        ) {
            let good = manifest().encode();
            let mut bad = good[..good.len() - 4].to_vec();
            let at = 12 + at.index(bad.len() - 12);
            for (i, byte) in with.iter().enumerate() {
                if let Some(target) = bad.get_mut(at + i) {
                    *target = *byte;
                }
            }
            let sealed = seal(BytesMut::from(&bad[..]));
            let _ = Manifest::decode("k", &sealed);
        }
    }
}
