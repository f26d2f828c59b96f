//! Names and headers of the numbered files.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::OpenError;

/// Newest version of the header and of the frames, of log and snapshot.
const VERSION: u32 = 1;

/// Bytes of the header.
pub(crate) const FILE_HEADER_LEN: usize = 32;

/// The first 32 bytes of a log or snapshot file: magic, version, number, first sequence number, CRC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileHeader {
    /// What kind of file it is.
    pub(crate) magic: [u8; 8],
    /// Number of the file among its like.
    pub(crate) number: u64,
    /// Sequence number of its first frame.
    pub(crate) first_seq: u64,
}

/// Magic of a log file.
pub(crate) const LOG_MAGIC: [u8; 8] = *b"STRLMLOG";

impl FileHeader {
    /// Its bytes.
    pub(crate) fn encode(self) -> [u8; FILE_HEADER_LEN] {
        let mut out = Vec::with_capacity(FILE_HEADER_LEN);
        out.extend_from_slice(&self.magic);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.first_seq.to_le_bytes());
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        let mut header = [0; FILE_HEADER_LEN];
        header.copy_from_slice(&out);
        header
    }

    /// Reads and checks the header of the file at `path`, whose content is `bytes`.
    pub(crate) fn decode(bytes: &[u8], magic: [u8; 8], path: &Path) -> Result<Self, OpenError> {
        let corrupt = |reason| OpenError::corrupt(path, 0, reason);
        let header = bytes
            .first_chunk::<FILE_HEADER_LEN>()
            .ok_or_else(|| corrupt("the header is cut"))?;
        let field = |from: usize, len: usize| {
            let mut value = [0; 8];
            for (slot, byte) in value.iter_mut().zip(header.iter().skip(from).take(len)) {
                *slot = *byte;
            }
            u64::from_le_bytes(value)
        };
        if header.first_chunk::<8>() != Some(&magic) {
            return Err(corrupt(
                "the file does not begin with the magic of its kind",
            ));
        }
        if u64::from(crc32c::crc32c(header.get(..28).unwrap_or_default())) != field(28, 4) {
            return Err(corrupt("the checksum of the header is wrong"));
        }
        let version = u32::try_from(field(8, 4)).unwrap_or(u32::MAX);
        if version != VERSION {
            return Err(OpenError::NewerFormat {
                path: path.to_path_buf(),
                found: version,
                newest: VERSION,
            });
        }
        Ok(Self {
            magic,
            number: field(12, 8),
            first_seq: field(20, 8),
        })
    }
}

/// Path of log file `number`.
pub(crate) fn log_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:020}.log"))
}

/// The numbers of the log files in `dir`, sorted.
pub(crate) fn log_numbers(dir: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name();
        let stem = name.to_str().and_then(|name| name.strip_suffix(".log"));
        numbers.extend(stem.and_then(|stem| stem.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Makes creations, renames and removals in a folder durable.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
