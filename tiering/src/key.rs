//! Every object name of the cold tier, built and parsed here only.
//!
//! `<4 hex digits>/<cluster id>/<topic id>/<partition>/` and below it `<base offset>-<leader
//! epoch>-<uuid>` (segment objects), `manifest/<number>`, `sealed/<base>-<last>-<min time>-<max
//! time>-<uuid>`. The digits spread partitions over a store's key space. Names are never reused.

use strandline_types::{LeaderEpoch, Offset, TopicId};
use uuid::Uuid;

use crate::error::TieringError;

/// The keys of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionKeys {
    prefix: String,
}

/// What names a segment object within its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SegmentName {
    /// First offset of the segment's range.
    pub base_offset: Offset,
    /// Epoch of the leader that uploaded it.
    pub leader_epoch: LeaderEpoch,
    /// Of this one upload.
    pub uuid: Uuid,
}

impl PartitionKeys {
    /// Errors: a cluster id that is empty or has other characters than letters, digits, `_`, `-`,
    /// `.`.
    pub fn new(cluster_id: &str, topic_id: TopicId, partition: i32) -> Result<Self, TieringError> {
        let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        if cluster_id.is_empty() || cluster_id.starts_with('.') || !cluster_id.bytes().all(legal) {
            return Err(TieringError::Name(cluster_id.to_owned()));
        }
        let hash = crc32c::crc32c(topic_id.0.as_bytes());
        let hash = crc32c::crc32c_append(hash, &partition.to_be_bytes());
        let prefix = format!("{:04x}/{cluster_id}/{topic_id}/{partition}", hash >> 16);
        Ok(Self { prefix })
    }

    /// What all keys of the partition begin with, without the slash behind it.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// A key from its part below the prefix.
    pub fn absolute(&self, relative: &str) -> String {
        format!("{}/{relative}", self.prefix)
    }

    /// Where the manifests lie.
    pub fn manifests(&self) -> String {
        self.absolute("manifest")
    }

    /// Key of the manifest with a number.
    pub fn manifest(&self, number: u64) -> String {
        format!("{}/manifest/{number:020}", self.prefix)
    }

    /// Number of the manifest under a key.
    pub fn parse_manifest(&self, key: &str) -> Option<u64> {
        let digits = key.strip_prefix(&self.prefix)?.strip_prefix("/manifest/")?;
        if digits.len() != 20 || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        digits.parse().ok()
    }

    /// Key of a segment object.
    pub fn segment(&self, name: &SegmentName) -> String {
        self.absolute(&name.relative())
    }
}

impl SegmentName {
    /// The name below the partition's prefix.
    pub fn relative(&self) -> String {
        format!(
            "{:020}-{:010}-{}",
            self.base_offset, self.leader_epoch, self.uuid
        )
    }

    /// Reads a name below the partition's prefix; `None` for other objects.
    pub fn parse(relative: &str) -> Option<Self> {
        let (base, rest) = relative.split_once('-')?;
        let (epoch, uuid) = rest.split_once('-')?;
        let name = Self {
            base_offset: base.parse().ok()?,
            leader_epoch: epoch.parse().ok()?,
            uuid: uuid.parse().ok()?,
        };
        (name.relative() == relative).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_spread_and_parse() {
        let topic = TopicId(Uuid::from_u128(7));
        let a = PartitionKeys::new("clusterA", topic, 0).unwrap();
        let b = PartitionKeys::new("clusterA", topic, 1).unwrap();
        assert_ne!(a.prefix()[..4], b.prefix()[..4]);
        assert_eq!(a.parse_manifest(&a.manifest(12)), Some(12));
        assert_eq!(a.parse_manifest(&b.manifest(12)), None);
        assert_eq!(a.parse_manifest(&a.absolute("manifest/12")), None);
        let name = SegmentName {
            base_offset: 5,
            leader_epoch: 3,
            uuid: Uuid::from_u128(9),
        };
        assert_eq!(SegmentName::parse(&name.relative()), Some(name));
        assert_eq!(SegmentName::parse("manifest/00000000000000000001"), None);
        for wrong in ["", "a/b", "..", "ü"] {
            assert!(PartitionKeys::new(wrong, topic, 0).is_err());
        }
    }

    // Numbers and offsets sort as text as they sort as numbers.
    #[test]
    fn names_sort() {
        let keys = PartitionKeys::new("c", TopicId(Uuid::from_u128(7)), 0).unwrap();
        assert!(keys.manifest(9) < keys.manifest(10));
        assert!(keys.manifest(9) < keys.manifest(u64::MAX));
    }
}
