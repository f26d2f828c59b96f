//! Snapshots: one checksummed file that holds the records of an image.
//!
//! Written as `.tmp`, synced, renamed, folder synced; older ones are removed after that. See
//! `docs/formats/metadata-snapshot.md`.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::codec::{DecodeError, Reader, Writer};
use crate::delta::Delta;
use crate::error::OpenError;
use crate::image::Image;
use crate::raft::encoding::{
    decode_opt_log_id, decode_stored_membership, encode_opt_log_id, encode_stored_membership,
};
use crate::raft::types::SnapshotMeta;
use crate::raft::wal::{
    FILE_HEADER_LEN, FileHeader, Frame, Parsed, encode_frame, parse_frame, sync_dir,
};
use crate::record::{decode_records, encode_record};

const MAGIC: [u8; 8] = *b"STRLMSNP";
/// Kinds of frames.
const META: u8 = 16;
const RECORDS: u8 = 17;
const END: u8 = 18;
/// Records are put together into frames of about this many bytes.
const FRAME_BYTES: usize = 64 * 1024;

/// A snapshot that can be read, here or on its way to another node. It stays readable when a newer one
/// takes its place.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotFile {
    file: Arc<File>,
    path: PathBuf,
}

impl SnapshotFile {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: Arc::new(File::open(path)?),
            path: path.to_path_buf(),
        })
    }

    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut file = &*self.file;
        file.seek(SeekFrom::Start(0))?;
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// The folder of snapshots: it holds one, or none.
#[derive(Debug)]
pub(crate) struct SnapshotStore {
    dir: PathBuf,
    current: Mutex<Option<(SnapshotMeta, PathBuf)>>,
}

impl SnapshotStore {
    /// Opens the folder and reads the snapshot in it, if there is one.
    pub(crate) fn open(
        dir: &Path,
        cluster_id: &str,
    ) -> Result<(Self, Option<(SnapshotMeta, Image)>), OpenError> {
        let mut paths = Vec::new();
        for entry in fs::read_dir(dir).map_err(OpenError::io("list", dir))? {
            let path = entry.map_err(OpenError::io("list", dir))?.path();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("snapshot") => paths.push(path),
                Some("tmp") => {
                    fs::remove_file(&path).map_err(OpenError::io("remove", &path))?;
                }
                _ => {}
            }
        }
        // Names sort by offset. An older one is left if a crash came before its removal.
        paths.sort();
        let found = match paths.last() {
            None => None,
            Some(path) => {
                let bytes = fs::read(path).map_err(OpenError::io("read", path))?;
                let (meta, image) = decode(&bytes, path, cluster_id)?;
                Some((meta, image, path.clone()))
            }
        };
        let current = found
            .as_ref()
            .map(|(meta, _, path)| (meta.clone(), path.clone()));
        let store = Self {
            dir: dir.to_path_buf(),
            current: Mutex::new(current),
        };
        Ok((store, found.map(|(meta, image, _)| (meta, image))))
    }

    /// The current snapshot.
    pub(crate) fn current(&self) -> io::Result<Option<(SnapshotMeta, SnapshotFile)>> {
        match &*self.current.lock() {
            None => Ok(None),
            Some((meta, path)) => Ok(Some((meta.clone(), SnapshotFile::open(path)?))),
        }
    }

    /// Makes `bytes` the current snapshot, unless a newer one came first. Blocks on the disk.
    pub(crate) fn put(&self, meta: &SnapshotMeta, bytes: &[u8]) -> io::Result<SnapshotFile> {
        let (index, term) = meta
            .last_log_id
            .map_or((0, 0), |id| (id.index, id.leader_id.term));
        let path = self.dir.join(format!("{index:020}-{term:020}.snapshot"));
        let tmp = path.with_extension("tmp");
        let mut current = self.current.lock();
        let mut file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&tmp)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        let written = SnapshotFile {
            file: Arc::new(file),
            path: path.clone(),
        };
        if current
            .as_ref()
            .is_some_and(|(newer, _)| newer.last_log_id > meta.last_log_id)
        {
            fs::remove_file(&tmp)?;
            return Ok(written);
        }
        fs::rename(&tmp, &path)?;
        sync_dir(&self.dir)?;
        if let Some((_, old)) = current.replace((meta.clone(), path.clone()))
            && old != path
            && let Err(error) = fs::remove_file(&old)
        {
            // The next start takes the newest.
            tracing::warn!(path = %old.display(), %error, "an old metadata snapshot stays");
        }
        Ok(written)
    }
}

/// The bytes of a snapshot of `image`.
pub(crate) fn encode(meta: &SnapshotMeta, image: &Image) -> Vec<u8> {
    let number = meta.last_log_id.map_or(0, |id| id.index);
    let mut out = FileHeader {
        magic: MAGIC,
        number,
        first_seq: 1,
    }
    .encode()
    .to_vec();
    let mut seq = 0;
    let mut frame = |kind: u8, body: &[u8]| {
        seq += 1;
        encode_frame(
            Frame {
                seq,
                synced: 0,
                kind,
                body,
            },
            &mut out,
        );
    };
    let mut head = Writer::default();
    head.str(image.cluster_id());
    encode_opt_log_id(meta.last_log_id.as_ref(), &mut head);
    encode_stored_membership(&meta.last_membership, &mut head);
    head.varint(image.offset());
    head.uvarint(image.epoch());
    frame(META, &head.out);
    let mut body = Writer::default();
    let mut count = 0_u64;
    image.for_each_record(|record| {
        encode_record(&record, &mut body);
        count += 1;
        if body.out.len() >= FRAME_BYTES {
            frame(RECORDS, &body.out);
            body.out.clear();
        }
    });
    if !body.out.is_empty() {
        frame(RECORDS, &body.out);
    }
    let mut end = Writer::default();
    end.uvarint(count);
    frame(END, &end.out);
    out
}

/// Reads a snapshot; `path` is for messages. A snapshot of another cluster is refused.
pub(crate) fn decode(
    bytes: &[u8],
    path: &Path,
    cluster_id: &str,
) -> Result<(SnapshotMeta, Image), OpenError> {
    FileHeader::decode(bytes, MAGIC, path)?;
    let mut frames = Frames {
        bytes,
        at: FILE_HEADER_LEN,
        seq: 1,
        path,
    };
    let (at, head) = frames.next()?;
    if head.kind != META {
        return Err(OpenError::corrupt(path, at, "the first frame is not META"));
    }
    let head = decode_head(head.body).map_err(corrupt(path, at))?;
    if head.cluster_id != cluster_id {
        return Err(OpenError::WrongCluster {
            path: path.to_path_buf(),
            found: head.cluster_id,
            expected: cluster_id.to_owned(),
        });
    }
    let delta = decode_body(&mut frames, Delta::new(&Image::empty(cluster_id)))?;
    Ok((head.meta, delta.finish(head.offset, head.epoch)))
}

/// Replays the frames of records up to the last frame, which says how many records there are.
fn decode_body(frames: &mut Frames<'_>, mut delta: Delta) -> Result<Delta, OpenError> {
    let path = frames.path;
    let mut count = 0_u64;
    loop {
        let (at, frame) = frames.next()?;
        match frame.kind {
            RECORDS => {
                for record in decode_records(frame.body).map_err(corrupt(path, at))? {
                    delta.replay(&record).map_err(corrupt(path, at))?;
                    count += 1;
                }
            }
            END => {
                let mut end = Reader::new(frame.body);
                let expected = end.uvarint().map_err(corrupt(path, at))?;
                end.finish().map_err(corrupt(path, at))?;
                if expected != count || frames.at != frames.bytes.len() {
                    return Err(OpenError::corrupt(path, at, "records are missing"));
                }
                return Ok(delta);
            }
            kind => {
                let reason = format!("frames of kind {kind} are unknown to this version");
                return Err(OpenError::corrupt(path, at, reason));
            }
        }
    }
}

fn corrupt<E: std::fmt::Display>(path: &Path, at: u64) -> impl FnOnce(E) -> OpenError {
    move |error| OpenError::corrupt(path, at, error.to_string())
}

struct Head {
    cluster_id: String,
    meta: SnapshotMeta,
    offset: i64,
    epoch: u64,
}

fn decode_head(body: &[u8]) -> Result<Head, DecodeError> {
    let mut from = Reader::new(body);
    let head = Head {
        cluster_id: from.str()?.to_owned(),
        meta: SnapshotMeta {
            last_log_id: decode_opt_log_id(&mut from)?,
            last_membership: decode_stored_membership(&mut from)?,
        },
        offset: from.varint()?,
        epoch: from.uvarint()?,
    };
    from.finish()?;
    Ok(head)
}

struct Frames<'a> {
    bytes: &'a [u8],
    at: usize,
    seq: u64,
    path: &'a Path,
}

impl<'a> Frames<'a> {
    /// The next frame and its place.
    fn next(&mut self) -> Result<(u64, Frame<'a>), OpenError> {
        let place = self.at as u64;
        let reason = match parse_frame(self.bytes.get(self.at..).unwrap_or_default()) {
            Parsed::Frame(frame, len) if frame.seq == self.seq => {
                self.seq += 1;
                self.at += len;
                return Ok((place, frame));
            }
            Parsed::Frame(..) => "a frame is missing before this one",
            Parsed::End => "the file ends before its last frame",
            Parsed::Bad(reason) => reason,
        };
        Err(OpenError::corrupt(self.path, place, reason))
    }
}

#[cfg(test)]
mod tests;
