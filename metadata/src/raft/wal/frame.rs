//! One frame: CRC-32C, length, sequence number, synced sequence number, kind, body; little-endian.

/// Bytes before the body.
pub(crate) const FRAME_HEADER_LEN: usize = 25;

/// Longest body that is believed: a metadata entry is far smaller, and an absurd length must not be
/// taken for one.
pub(crate) const MAX_BODY_LEN: usize = 256 * 1024 * 1024;

/// A frame in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// Number of the frame; the next one has the next number.
    pub(crate) seq: u64,
    /// Every frame with a number up to this one was durable when this one was written.
    pub(crate) synced: u64,
    /// What the body is.
    pub(crate) kind: u8,
    /// The payload.
    pub(crate) body: &'a [u8],
}

/// What lies at a position.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed<'a> {
    /// A whole frame with a good checksum, and its length in bytes.
    Frame(Frame<'a>, usize),
    /// The input ends here.
    End,
    /// Not a frame; the text says why.
    Bad(&'static str),
}

/// Appends the bytes of a frame.
pub(crate) fn encode_frame(frame: Frame<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let len = u32::try_from(frame.body.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&frame.seq.to_le_bytes());
    out.extend_from_slice(&frame.synced.to_le_bytes());
    out.push(frame.kind);
    out.extend_from_slice(frame.body);
    let crc = crc32c::crc32c(out.get(start + 4..).unwrap_or_default());
    if let Some(slot) = out.get_mut(start..start + 4) {
        slot.copy_from_slice(&crc.to_le_bytes());
    }
}

/// Reads the frame at the start of `bytes`.
pub(crate) fn parse_frame(bytes: &[u8]) -> Parsed<'_> {
    if bytes.is_empty() {
        return Parsed::End;
    }
    let Some((crc, rest)) = bytes.split_first_chunk::<4>() else {
        return Parsed::Bad(SHORT);
    };
    let Some((len, fields)) = rest.split_first_chunk::<4>() else {
        return Parsed::Bad(SHORT);
    };
    let Some((seq, fields)) = fields.split_first_chunk::<8>() else {
        return Parsed::Bad(SHORT);
    };
    let Some((synced, fields)) = fields.split_first_chunk::<8>() else {
        return Parsed::Bad(SHORT);
    };
    let Some((kind, body)) = fields.split_first() else {
        return Parsed::Bad(SHORT);
    };
    let len = u32::from_le_bytes(*len) as usize;
    if len > MAX_BODY_LEN {
        return Parsed::Bad("the length of the frame is absurd");
    }
    let Some(body) = body.get(..len) else {
        return Parsed::Bad("the file ends inside a frame");
    };
    let covered = rest.get(..FRAME_HEADER_LEN - 4 + len).unwrap_or_default();
    if crc32c::crc32c(covered) != u32::from_le_bytes(*crc) {
        return Parsed::Bad("the checksum of the frame is wrong");
    }
    let frame = Frame {
        seq: u64::from_le_bytes(*seq),
        synced: u64::from_le_bytes(*synced),
        kind: *kind,
        body,
    };
    Parsed::Frame(frame, FRAME_HEADER_LEN + len)
}

const SHORT: &str = "the file ends inside the header of a frame";

/// The sequence number that a frame at the start of `bytes` would have; cheap, unchecked.
pub(crate) fn peek_seq(bytes: &[u8]) -> Option<u64> {
    bytes
        .get(8..16)
        .and_then(|seq| seq.try_into().ok())
        .map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_round_trip_and_every_flipped_bit_is_seen() {
        let frame = Frame {
            seq: 7,
            synced: 5,
            kind: 3,
            body: b"hello",
        };
        let mut bytes = Vec::new();
        encode_frame(frame, &mut bytes);
        assert_eq!(parse_frame(&bytes), Parsed::Frame(frame, bytes.len()));
        assert_eq!(peek_seq(&bytes), Some(7));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(parse_frame(&damaged), Parsed::Bad(_)), "bit {bit}");
        }
        for cut in 1..bytes.len() {
            assert!(
                matches!(parse_frame(&bytes[..cut]), Parsed::Bad(_)),
                "cut at {cut}"
            );
        }
    }
}
