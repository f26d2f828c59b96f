//! gzip: members are read one after the other, one member is written (SEMANTICS 0.4).

use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::{Buffer, CodecError, read_piece};

pub(super) struct Decoder<'a>(MultiGzDecoder<&'a [u8]>);

impl<'a> Decoder<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self(MultiGzDecoder::new(data))
    }

    pub(super) fn read_more(&mut self, out: &mut Buffer, limit: usize) -> Result<bool, CodecError> {
        read_piece(&mut self.0, out, limit)
    }
}

pub(super) type Encoder = GzEncoder<Vec<u8>>;

/// Levels 1 to 9; `None` and -1 are the library's default, as in Kafka.
pub(super) fn encoder(level: Option<i32>) -> Encoder {
    let level = match level {
        None | Some(-1) => flate2::Compression::default(),
        Some(level) => flate2::Compression::new(level.clamp(1, 9) as u32),
    };
    GzEncoder::new(Vec::new(), level)
}
