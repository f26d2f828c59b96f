//! The length in front of each frame (W-1).
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use crate::error::WireError;

/// The largest frame that is accepted, in bytes: `socket.request.max.bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLimit(pub u32);

/// Reads the length of the frame whose first bytes are in `bytes`; `None` when fewer than four are
/// there. Errors: negative, above the limit, or too short for any header.
pub fn frame_length(bytes: &[u8], limit: FrameLimit) -> Result<Option<usize>, WireError> {
    let Some(first) = bytes.first_chunk::<4>() else {
        return Ok(None);
    };
    let length = i32::from_be_bytes(*first);
    match u32::try_from(length) {
        Ok(l) if l <= limit.0 => Ok(Some(l as usize)),
        _ => Err(WireError::FrameLength {
            length,
            limit: limit.0,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // W-1
    #[test]
    fn lengths_outside_the_limit_are_refused() {
        let limit = FrameLimit(100);
        assert_eq!(frame_length(&[0, 0, 0], limit), Ok(None));
        assert_eq!(frame_length(&[0, 0, 0, 100, 9], limit), Ok(Some(100)));
        assert!(frame_length(&[0, 0, 0, 101], limit).is_err());
        assert!(frame_length(&[0xff, 0xff, 0xff, 0xff], limit).is_err());
    }
}
