//! `segments-at-stop`: what a clean end knows of each segment that only its batches tell otherwise, so
//! that the next start reads none of them (L-20). The bytes are in docs/formats/segments-at-stop.md.
//!
//! Each entry names the size and the time of the last change of its file: one that anybody else has
//! touched since is gone through as if there were no entry.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use strandline_types::{Offset, TopicName, TopicPartition};

use crate::error::LogError;
use crate::index::{Index, IndexEntry};
use crate::log::Log;
use crate::offset_index::OffsetEntry;
use crate::segment::{Segment, SegmentFile};
use crate::sys;
use crate::time_index::TimeEntry;

const FILE_NAME: &str = "segments-at-stop";
const MAGIC: &[u8; 8] = b"SLSTOP01";
const CRC_END: usize = 12;

/// An index file: how many entries it has, and the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct IndexSummary<E> {
    count: u32,
    last: Option<E>,
}

impl<E: IndexEntry + PartialEq> IndexSummary<E> {
    fn of(index: &Index<E>) -> Self {
        Self {
            count: index.file_len(),
            last: index.last(),
        }
    }

    fn put(&self, out: &mut BytesMut) {
        out.put_u32(self.count);
        let mut entry = Vec::with_capacity(E::BYTES);
        match &self.last {
            Some(last) => last.encode(&mut entry),
            None => entry.resize(E::BYTES, 0),
        }
        out.put_slice(&entry);
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let count = bytes.try_get_u32().ok()?;
        let (entry, rest) = bytes.split_at_checked(E::BYTES)?;
        *bytes = rest;
        Some(Self {
            count,
            last: (count > 0).then(|| E::decode(entry)),
        })
    }
}

/// One segment as it was at a clean end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentSummary {
    base: Offset,
    size: u64,
    /// When the log file was last changed, in ns since the Unix epoch.
    modified_ns: i64,
    /// The offset after its last batch.
    end: Offset,
    first_timestamp: i64,
    first_append_ms: i64,
    since_index_entry: u64,
    offsets: IndexSummary<OffsetEntry>,
    times: IndexSummary<TimeEntry>,
}

fn modified_ns(metadata: &Metadata) -> i64 {
    let seconds = metadata.mtime().saturating_mul(1_000_000_000);
    seconds.saturating_add(metadata.mtime_nsec())
}

impl SegmentSummary {
    /// `None` when its file is not there under its own name.
    fn of(folder: &Path, segment: &Segment, end: Offset) -> Option<Self> {
        let path = SegmentFile::Log.path(folder, segment.base_offset);
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            base: segment.base_offset,
            size: segment.size,
            modified_ns: modified_ns(&metadata),
            end,
            first_timestamp: segment.first_timestamp,
            first_append_ms: segment.first_append_ms,
            since_index_entry: segment.since_index_entry,
            offsets: IndexSummary::of(&segment.offset_index),
            times: IndexSummary::of(&segment.time_index),
        })
    }

    /// Completes a segment that was made from its indexes, if its files are as they were at the stop:
    /// the offset after it.
    pub(crate) fn complete(&self, segment: &mut Segment, metadata: &Metadata) -> Option<Offset> {
        let is_same = self.base == segment.base_offset
            && self.size == segment.size
            && self.modified_ns == modified_ns(metadata)
            && self.offsets == IndexSummary::of(&segment.offset_index)
            && self.times == IndexSummary::of(&segment.time_index);
        if !is_same {
            return None;
        }
        segment.first_timestamp = self.first_timestamp;
        segment.first_append_ms = self.first_append_ms;
        segment.since_index_entry = self.since_index_entry;
        Some(self.end)
    }

    fn put(&self, out: &mut BytesMut) {
        out.put_i64(self.base);
        out.put_u64(self.size);
        out.put_i64(self.modified_ns);
        out.put_i64(self.end);
        out.put_i64(self.first_timestamp);
        out.put_i64(self.first_append_ms);
        out.put_u64(self.since_index_entry);
        self.offsets.put(out);
        self.times.put(out);
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Some(Self {
            base: bytes.try_get_i64().ok()?,
            size: bytes.try_get_u64().ok()?,
            modified_ns: bytes.try_get_i64().ok()?,
            end: bytes.try_get_i64().ok()?,
            first_timestamp: bytes.try_get_i64().ok()?,
            first_append_ms: bytes.try_get_i64().ok()?,
            since_index_entry: bytes.try_get_u64().ok()?,
            offsets: IndexSummary::take(bytes)?,
            times: IndexSummary::take(bytes)?,
        })
    }
}

/// The segments of each partition of a directory at a clean end, ascending.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StopSummary(HashMap<TopicPartition, Vec<SegmentSummary>>);

impl StopSummary {
    /// What there is to say of these logs, which are closed.
    pub(crate) fn of(logs: &[Arc<Log>]) -> Self {
        let of_log = |log: &Arc<Log>| {
            let state = log.lock_state();
            let segments = state.segments.with_ends(log.log_end_offset());
            let known = segments
                .filter_map(|(segment, end)| SegmentSummary::of(log.folder(), segment, end));
            (log.partition().clone(), known.collect())
        };
        Self(logs.iter().map(of_log).collect())
    }

    /// Writes it into its directory. Blocks on the device.
    pub(crate) fn write(&self, dir: &Path) -> Result<(), LogError> {
        sys::replace_file(&dir.join(FILE_NAME), &self.encode(), true)
    }

    /// Takes it out of its directory: it is of one stop alone. Nothing when it is missing or damaged,
    /// and the segments are looked at.
    pub(crate) fn take(dir: &Path) -> Self {
        let path = dir.join(FILE_NAME);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Self::default(),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "not read, segments are looked at");
                Vec::new()
            }
        };
        if let Err(error) = sys::remove_if_there(&path) {
            tracing::warn!(%error, "it stays, and is of no use any more");
        }
        Self::decode(&bytes).unwrap_or_else(|| {
            tracing::warn!(path = %path.display(), "damaged, segments are looked at");
            Self::default()
        })
    }

    /// A segment of a partition.
    pub(crate) fn segment(
        &self,
        partition: &TopicPartition,
        base: Offset,
    ) -> Option<&SegmentSummary> {
        let segments = self.0.get(partition)?;
        let at = segments.binary_search_by_key(&base, |s| s.base).ok()?;
        segments.get(at)
    }

    fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_slice(MAGIC);
        out.put_u32(0);
        out.put_u32(self.0.len() as u32);
        for (partition, segments) in &self.0 {
            let topic = partition.topic.as_str();
            out.put_u16(topic.len() as u16);
            out.put_slice(topic.as_bytes());
            out.put_i32(partition.partition);
            out.put_u32(segments.len() as u32);
            segments.iter().for_each(|segment| segment.put(&mut out));
        }
        let crc = crc32c::crc32c(out.get(CRC_END..).unwrap_or(&[]));
        if let Some(field) = out.get_mut(MAGIC.len()..CRC_END) {
            field.copy_from_slice(&crc.to_be_bytes());
        }
        out.freeze()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let computed = crc32c::crc32c(bytes.get(CRC_END..)?);
        let mut bytes = bytes.strip_prefix(MAGIC)?;
        if bytes.try_get_u32().ok()? != computed {
            return None;
        }
        let mut partitions = HashMap::new();
        for _ in 0..bytes.try_get_u32().ok()? {
            let length = usize::from(bytes.try_get_u16().ok()?);
            let (topic, rest) = bytes.split_at_checked(length)?;
            bytes = rest;
            let topic = TopicName::new(std::str::from_utf8(topic).ok()?).ok()?;
            let partition = TopicPartition::new(topic, bytes.try_get_i32().ok()?);
            let count = bytes.try_get_u32().ok()?;
            let segments = (0..count).map(|_| SegmentSummary::take(&mut bytes));
            partitions.insert(partition, segments.collect::<Option<Vec<_>>>()?);
        }
        bytes.is_empty().then_some(Self(partitions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> StopSummary {
        let segment = |base, count| SegmentSummary {
            base,
            size: 1 << 33,
            modified_ns: 1_700_000_000_123_456_789,
            end: base + 10,
            first_timestamp: -1,
            first_append_ms: 5,
            since_index_entry: 4_000,
            offsets: IndexSummary {
                count,
                last: (count > 0).then_some(OffsetEntry {
                    relative_offset: 7,
                    position: 9,
                }),
            },
            times: IndexSummary {
                count,
                last: (count > 0).then_some(TimeEntry {
                    timestamp: 3,
                    relative_offset: 7,
                }),
            },
        };
        let tp = |name: &str, p| TopicPartition::new(TopicName::new(name).unwrap(), p);
        StopSummary(HashMap::from([
            (tp("a", 0), vec![segment(0, 0), segment(100, 3)]),
            (tp("bb", 11), Vec::new()),
        ]))
    }

    #[test]
    fn it_reads_back() {
        let summary = summary();
        assert_eq!(StopSummary::decode(&summary.encode()), Some(summary));
        let nothing = StopSummary::default();
        assert_eq!(StopSummary::decode(&nothing.encode()), Some(nothing));
    }

    #[test]
    fn damage_of_any_byte_is_seen() {
        let bytes = summary().encode();
        for at in 0..bytes.len() {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 1;
            assert_eq!(StopSummary::decode(&damaged), None, "byte {at}");
            assert_eq!(StopSummary::decode(&bytes[..at]), None, "{at} bytes");
        }
        assert_eq!(StopSummary::decode(&[&bytes[..], &[0]].concat()), None);
    }

    #[test]
    fn it_is_of_one_stop_alone() {
        let dir = tempfile::tempdir().unwrap();
        summary().write(dir.path()).unwrap();
        assert_eq!(StopSummary::take(dir.path()), summary());
        assert_eq!(StopSummary::take(dir.path()), StopSummary::default());
        fs::write(dir.path().join(FILE_NAME), b"SLSTOP01 and more").unwrap();
        assert_eq!(StopSummary::take(dir.path()), StopSummary::default());
    }
}
