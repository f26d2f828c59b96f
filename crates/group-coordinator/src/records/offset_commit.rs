//! The value of a committed offset.
//!
//! Rules: section 4.3 (OffsetCommitValue: reads 0-4, writes 3, or 1 with an explicit expiry), G-53,
//! G-54.

use bytes::Bytes;
use strandline_types::{LeaderEpoch, NO_PARTITION_LEADER_EPOCH, Offset};

use strandline_coordinator::{Reader, RecordError, Writer};

const NO_EXPIRY_MS: i64 = -1;

/// A committed offset as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedOffset {
    /// Next offset that the consumer will read.
    pub offset: Offset,
    /// Leader epoch of the last consumed record, -1 if unknown.
    pub leader_epoch: LeaderEpoch,
    /// Opaque text of the client.
    pub metadata: String,
    /// When it was committed, in ms since the Unix epoch.
    pub commit_timestamp_ms: i64,
    /// When it ends, if the client said so (G-54).
    pub expire_timestamp_ms: Option<i64>,
}

impl CommittedOffset {
    /// Version 3; version 1 (which has no leader epoch) with an explicit expiry, as in Kafka.
    pub fn encode(&self) -> Result<Bytes, RecordError> {
        let mut writer = Writer::default();
        writer.i16(if self.expire_timestamp_ms.is_some() {
            1
        } else {
            3
        });
        writer.i64(self.offset);
        if self.expire_timestamp_ms.is_none() {
            writer.i32(self.leader_epoch);
        }
        writer.string("metadata", &self.metadata)?;
        writer.i64(self.commit_timestamp_ms);
        if let Some(expire_timestamp_ms) = self.expire_timestamp_ms {
            writer.i64(expire_timestamp_ms);
        }
        Ok(writer.finish())
    }

    /// Reads versions 0 to 4.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let mut reader = Reader::new(bytes);
        let version = reader.i16("value version")?;
        if !(0..=4).contains(&version) {
            return Err(RecordError::ValueVersion(version));
        }
        reader.set_flexible(version >= 4);
        let offset = reader.i64("offset")?;
        let leader_epoch = if version >= 3 {
            reader.i32("leader epoch")?
        } else {
            NO_PARTITION_LEADER_EPOCH
        };
        let metadata = reader.string("metadata")?;
        let commit_timestamp_ms = reader.i64("commit timestamp")?;
        let expires = if version == 1 {
            reader.i64("expire timestamp")?
        } else {
            NO_EXPIRY_MS
        };
        reader.tags()?;
        Ok(Self {
            offset,
            leader_epoch,
            metadata,
            commit_timestamp_ms,
            expire_timestamp_ms: (expires != NO_EXPIRY_MS).then_some(expires),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> CommittedOffset {
        CommittedOffset {
            offset: 0x0102_0304_0506_0708,
            leader_epoch: 9,
            metadata: "me".to_owned(),
            commit_timestamp_ms: 1_000,
            expire_timestamp_ms: None,
        }
    }

    const OFFSET: &[u8] = b"\x01\x02\x03\x04\x05\x06\x07\x08";
    const COMMITTED_AT: &[u8] = b"\x00\x00\x00\x00\x00\x00\x03\xe8";
    const EXPIRES_AT: &[u8] = b"\x00\x00\x00\x00\x00\x00\x07\xd0";

    // 4.3: golden bytes of the written versions.
    #[test]
    fn version_3_has_kafkas_bytes() {
        let golden = [
            b"\x00\x03",
            OFFSET,
            b"\x00\x00\x00\x09",
            b"\x00\x02me",
            COMMITTED_AT,
        ]
        .concat();
        assert_eq!(sample().encode().unwrap().as_ref(), golden);
        assert_eq!(CommittedOffset::decode(&golden), Ok(sample()));
    }

    // G-54: an explicit expiry is version 1, which loses the leader epoch.
    #[test]
    fn version_1_carries_the_expiry() {
        let golden = [b"\x00\x01", OFFSET, b"\x00\x02me", COMMITTED_AT, EXPIRES_AT].concat();
        let value = CommittedOffset {
            expire_timestamp_ms: Some(2_000),
            ..sample()
        };
        assert_eq!(value.encode().unwrap().as_ref(), golden);
        let read = CommittedOffset {
            leader_epoch: -1,
            ..value
        };
        assert_eq!(CommittedOffset::decode(&golden), Ok(read));
        // Version 1 with -1 has none.
        let none = [b"\x00\x01", OFFSET, b"\x00\x02me", COMMITTED_AT, &[0xff; 8]].concat();
        assert_eq!(
            CommittedOffset::decode(&none).unwrap().expire_timestamp_ms,
            None
        );
    }

    // 4.3: versions 0, 2 and 4 are read.
    #[test]
    fn other_versions_are_read() {
        for version in [b"\x00\x00", b"\x00\x02"] {
            let bytes = [version, OFFSET, b"\x00\x02me", COMMITTED_AT].concat();
            let read = CommittedOffset {
                leader_epoch: -1,
                ..sample()
            };
            assert_eq!(CommittedOffset::decode(&bytes), Ok(read));
        }
        // Version 4 is flexible: compact text, then the topic id as tag 0.
        let v4 = [
            b"\x00\x04",
            OFFSET,
            b"\x00\x00\x00\x09",
            b"\x03me",
            COMMITTED_AT,
        ]
        .concat();
        let tagged = [&v4[..], b"\x01\x00\x10", &[7; 16]].concat();
        assert_eq!(CommittedOffset::decode(&tagged), Ok(sample()));
        let untagged = [&v4[..], b"\x00"].concat();
        assert_eq!(CommittedOffset::decode(&untagged), Ok(sample()));
        assert_eq!(
            CommittedOffset::decode(b"\x00\x05"),
            Err(RecordError::ValueVersion(5))
        );
    }

    #[test]
    fn every_truncation_is_an_error() {
        let bytes = sample().encode().unwrap();
        for len in 0..bytes.len() {
            assert!(
                CommittedOffset::decode(&bytes[..len]).is_err(),
                "{len} bytes"
            );
        }
    }
}
