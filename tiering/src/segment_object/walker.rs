//! Walks the batches of a segment as they stream by, in pieces of any size, and checks each:
//! length, offsets, checksum (P-22 again, before the bytes leave this machine).

use strandline_records::{BATCH_HEAD_BYTES, BatchHeader};
use strandline_types::Offset;

/// What the walker tells about a whole batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Walked {
    pub(super) header: BatchHeader,
    /// Where the batch begins in the segment.
    pub(super) position: u64,
}

#[derive(Debug)]
pub(super) struct BatchWalker {
    head: [u8; BATCH_HEAD_BYTES],
    have: usize,
    current: Option<(BatchHeader, usize, u32)>,
    position: u64,
    next_offset: Offset,
}

/// First byte that the checksum covers.
const CRC_START: usize = 21;

impl BatchWalker {
    pub(super) fn new(base_offset: Offset) -> Self {
        Self {
            head: [0; BATCH_HEAD_BYTES],
            have: 0,
            current: None,
            position: 0,
            next_offset: base_offset,
        }
    }

    /// Takes the next bytes; calls `each` with every batch that they complete.
    pub(super) fn push(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(Walked),
    ) -> Result<(), String> {
        while !bytes.is_empty() || self.current.as_ref().is_some_and(|(_, left, _)| *left == 0) {
            match self.current.take() {
                None => {
                    let take = (BATCH_HEAD_BYTES - self.have).min(bytes.len());
                    let (now, rest) = bytes.split_at(take);
                    self.head[self.have..self.have + take].copy_from_slice(now);
                    self.have += take;
                    bytes = rest;
                    if self.have == BATCH_HEAD_BYTES {
                        self.begin()?;
                    }
                }
                Some((header, left, crc)) => {
                    let take = left.min(bytes.len());
                    let (now, rest) = bytes.split_at(take);
                    bytes = rest;
                    let crc = crc32c::crc32c_append(crc, now);
                    if left > take {
                        self.current = Some((header, left - take, crc));
                    } else {
                        each(self.finish(header, crc)?);
                    }
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<(), String> {
        let at = self.position;
        let header = BatchHeader::parse(&self.head).map_err(|e| format!("at byte {at}: {e}"))?;
        if header.base_offset < self.next_offset || header.last_offset_delta < 0 {
            let base = header.base_offset;
            return Err(format!(
                "at byte {at}: offset {base} where {} is next",
                self.next_offset
            ));
        }
        let left = header.size_in_bytes() - BATCH_HEAD_BYTES;
        self.current = Some((header, left, crc32c::crc32c(&self.head[CRC_START..])));
        Ok(())
    }

    fn finish(&mut self, header: BatchHeader, crc: u32) -> Result<Walked, String> {
        let position = self.position;
        if crc != header.crc {
            let base = header.base_offset;
            return Err(format!(
                "the batch at offset {base}, byte {position}, has a wrong CRC"
            ));
        }
        self.have = 0;
        self.position += header.size_in_bytes() as u64;
        self.next_offset = header.next_offset();
        Ok(Walked { header, position })
    }

    /// The offset after the last batch, if no batch is half done.
    pub(super) fn end(&self) -> Result<Offset, String> {
        if self.have != 0 {
            return Err(format!(
                "the last batch, at byte {}, is not whole",
                self.position
            ));
        }
        Ok(self.next_offset)
    }
}
