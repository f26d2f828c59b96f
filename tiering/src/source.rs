//! The local log's sealed segments as sources of uploads.

use std::io;
use std::os::unix::fs::FileExt;

use bytes::Bytes;
use strandline_log::SealedSegment;
use strandline_types::Offset;

use crate::segment_object::{AbortedTransaction, EpochStart};
use crate::upload::SegmentSource;
use crate::wire::{DecodeError, Reader};

impl SegmentSource for SealedSegment {
    fn base_offset(&self) -> Offset {
        self.base_offset
    }

    fn next_offset(&self) -> Offset {
        self.next_offset
    }

    fn size_in_bytes(&self) -> u64 {
        self.size_in_bytes
    }

    fn leader_epochs(&self) -> Vec<EpochStart> {
        let epochs = self.segment_leader_epochs();
        let start = |e: &strandline_log::EpochEntry| EpochStart {
            epoch: e.epoch,
            start_offset: e.start_offset,
        };
        epochs.entries().iter().map(start).collect()
    }

    fn aborted_transactions(&self) -> io::Result<Vec<AbortedTransaction>> {
        match self.transaction_index().map_err(io::Error::other)? {
            Some(bytes) => decode_transaction_index(&bytes).map_err(io::Error::other),
            None => Ok(Vec::new()),
        }
    }

    fn producer_snapshot(&self) -> io::Result<Bytes> {
        Self::producer_snapshot(self).map_err(io::Error::other)
    }

    fn read_at(&self, position: u64, len: usize) -> io::Result<Bytes> {
        let mut bytes = vec![0; len];
        self.file.read_exact_at(&mut bytes, position)?;
        Ok(bytes.into())
    }
}

/// Kafka's `.txnindex`: entries of 34 bytes, each with a version of its own.
fn decode_transaction_index(bytes: &[u8]) -> Result<Vec<AbortedTransaction>, DecodeError> {
    let mut r = Reader::new(bytes);
    let mut found = Vec::new();
    while r.remaining() > 0 {
        let what = "an entry of the transaction index";
        let version = r.u16(what)?;
        if version != 0 {
            return Err(DecodeError::Version(version));
        }
        found.push(AbortedTransaction {
            producer_id: r.i64(what)?,
            first_offset: r.i64(what)?,
            last_offset: r.i64(what)?,
            last_stable_offset: r.i64(what)?,
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transaction_index_is_read() {
        let mut bytes = vec![0, 0];
        for number in [7_i64, 1, 5, 6] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        let expected = AbortedTransaction {
            producer_id: 7,
            first_offset: 1,
            last_offset: 5,
            last_stable_offset: 6,
        };
        assert_eq!(decode_transaction_index(&bytes), Ok(vec![expected]));
        assert!(decode_transaction_index(&bytes[..33]).is_err());
        bytes[1] = 1;
        assert!(decode_transaction_index(&bytes).is_err());
    }
}
