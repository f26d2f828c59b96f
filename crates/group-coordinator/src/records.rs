//! Keys and values of `__consumer_offsets`, byte for byte as Kafka writes them.
//!
//! Rules: section 4.3 (key versions 0-2; every other version is ignored when loading).

mod group_metadata;
mod offset_commit;

use bytes::Bytes;

pub use group_metadata::{GroupMetadata, MemberMetadata};
pub use offset_commit::CommittedOffset;

use strandline_coordinator::{Reader, RecordError, Writer};

const OFFSET_KEY_VERSION: i16 = 1;
const GROUP_KEY_VERSION: i16 = 2;

/// Key of a record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordKey {
    /// Versions 0 and 1: a committed offset.
    Offset {
        /// Group id.
        group_id: String,
        /// Topic name.
        topic: String,
        /// Partition index.
        partition: i32,
    },
    /// Version 2: the metadata of a classic group.
    Group {
        /// Group id.
        group_id: String,
    },
    /// Anything else (KIP-848, share and streams groups, the future).
    Other {
        /// Its version.
        version: i16,
    },
}

impl RecordKey {
    /// Reads a key; an unknown version is not an error.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let mut reader = Reader::new(bytes);
        match reader.i16("key version")? {
            0 | 1 => Ok(Self::Offset {
                group_id: reader.string("group")?,
                topic: reader.string("topic")?,
                partition: reader.i32("partition")?,
            }),
            2 => Ok(Self::Group {
                group_id: reader.string("group")?,
            }),
            version => Ok(Self::Other { version }),
        }
    }

    /// Key (version 1) of a committed offset.
    pub fn encode_offset(
        group_id: &str,
        topic: &str,
        partition: i32,
    ) -> Result<Bytes, RecordError> {
        let mut writer = Writer::default();
        writer.i16(OFFSET_KEY_VERSION);
        writer.string("group", group_id)?;
        writer.string("topic", topic)?;
        writer.i32(partition);
        Ok(writer.finish())
    }

    /// Key (version 2) of a group's metadata.
    pub fn encode_group(group_id: &str) -> Result<Bytes, RecordError> {
        let mut writer = Writer::default();
        writer.i16(GROUP_KEY_VERSION);
        writer.string("group", group_id)?;
        Ok(writer.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // 4.3: golden bytes from the table.
    #[test]
    fn keys_have_kafkas_bytes() {
        assert_eq!(
            RecordKey::encode_offset("grp", "topic", 7)
                .unwrap()
                .as_ref(),
            b"\x00\x01\x00\x03grp\x00\x05topic\x00\x00\x00\x07"
        );
        assert_eq!(
            RecordKey::encode_group("grp").unwrap().as_ref(),
            b"\x00\x02\x00\x03grp"
        );
    }

    // 4.3: key 0 and 1 are the same thing.
    #[test]
    fn both_offset_keys_are_read() {
        let expected = RecordKey::Offset {
            group_id: "grp".to_owned(),
            topic: "topic".to_owned(),
            partition: 7,
        };
        for version in [0_u8, 1] {
            let mut bytes = b"\x00\x00\x00\x03grp\x00\x05topic\x00\x00\x00\x07".to_vec();
            bytes[1] = version;
            assert_eq!(RecordKey::decode(&bytes), Ok(expected.clone()));
        }
        let group = RecordKey::Group {
            group_id: "grp".to_owned(),
        };
        assert_eq!(RecordKey::decode(b"\x00\x02\x00\x03grp"), Ok(group));
    }

    // 4.3: unknown key versions are ignored on load.
    #[test]
    fn unknown_keys_are_not_errors() {
        for version in [3_i16, 8, 17, 23, -1, i16::MAX] {
            let bytes = version.to_be_bytes();
            assert_eq!(RecordKey::decode(&bytes), Ok(RecordKey::Other { version }));
        }
    }

    #[test]
    fn damaged_keys_are_errors() {
        assert_eq!(
            RecordKey::decode(b""),
            Err(RecordError::Truncated("key version"))
        );
        assert_eq!(
            RecordKey::decode(b"\x00\x02\x00\x04grp"),
            Err(RecordError::Truncated("group"))
        );
        assert_eq!(
            RecordKey::decode(b"\x00\x02\xff\xff"),
            Err(RecordError::Length("group"))
        );
        assert_eq!(
            RecordKey::decode(b"\x00\x02\x00\x01\xff"),
            Err(RecordError::Utf8("group"))
        );
        assert!(RecordKey::encode_group(&"g".repeat(32_768)).is_err());
        assert!(RecordKey::encode_group(&"g".repeat(32_767)).is_ok());
    }
}
