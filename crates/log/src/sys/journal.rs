//! What tests learn of the changes to a folder, so that they can say what a power cut leaves of it:
//! everything that was flushed, and an arbitrary part of the rest.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

/// One change; files are known by their inode.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Folder(PathBuf),
    Create(PathBuf, u64),
    Write(u64, u64, Vec<u8>),
    SetLen(u64, u64),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    /// What was done to the file before the op of this number is on the device.
    Synced(u64, usize),
    /// The names in the folder, as above.
    FolderSynced(PathBuf, usize),
    AllSynced(usize),
    /// Something that the test promised to itself.
    Mark(&'static str, i64),
}

struct Journal {
    root: PathBuf,
    ops: Vec<Op>,
}

static JOURNALS: Mutex<Vec<Journal>> = Mutex::new(Vec::new());

/// Begins to note what happens below `root`.
pub(crate) fn begin(root: &Path) {
    JOURNALS.lock().push(Journal {
        root: root.to_path_buf(),
        ops: Vec::new(),
    });
}

/// Ends it; what happened.
pub(crate) fn end(root: &Path) -> Vec<Op> {
    let mut journals = JOURNALS.lock();
    let at = journals.iter().position(|j| j.root == root);
    at.map(|at| journals.swap_remove(at).ops)
        .unwrap_or_default()
}

/// Notes something of the test's own.
pub(crate) fn mark(root: &Path, what: &'static str, value: i64) {
    note(root, |_| Op::Mark(what, value));
}

fn note(path: &Path, op: impl FnOnce(usize) -> Op) {
    if let Some(journal) = JOURNALS
        .lock()
        .iter_mut()
        .find(|j| path.starts_with(&j.root))
    {
        let op = op(journal.ops.len());
        journal.ops.push(op);
    }
}

fn path_of(file: &File) -> PathBuf {
    fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default()
}

fn inode(file: &File) -> u64 {
    file.metadata().map(|m| m.ino()).unwrap_or(0)
}

/// How many changes there were until now; what a flush that begins now will cover.
pub(super) fn position(path: &Path) -> usize {
    let journals = JOURNALS.lock();
    let found = journals.iter().find(|j| path.starts_with(&j.root));
    found.map_or(0, |j| j.ops.len())
}

pub(super) fn position_of(file: &File) -> usize {
    if JOURNALS.lock().is_empty() {
        return 0;
    }
    position(&path_of(file))
}

fn on_file(file: &File, op: impl FnOnce(u64) -> Op) {
    if !JOURNALS.lock().is_empty() {
        let inode = inode(file);
        note(&path_of(file), |_| op(inode));
    }
}

/// The bytes of a vectored write.
pub(super) fn joined(pieces: &[io::IoSlice<'_>]) -> Vec<u8> {
    pieces
        .iter()
        .flat_map(|piece| piece.iter().copied())
        .collect()
}

pub(super) fn created(path: &Path, file: &File) {
    let inode = inode(file);
    note(path, |_| Op::Create(path.to_path_buf(), inode));
}

pub(super) fn folder_made(path: &Path) {
    note(path, |_| Op::Folder(path.to_path_buf()));
}

pub(super) fn wrote(file: &File, position: u64, bytes: &[u8]) {
    on_file(file, |inode| Op::Write(inode, position, bytes.to_vec()));
}

pub(super) fn set_len(file: &File, len: u64) {
    on_file(file, |inode| Op::SetLen(inode, len));
}

pub(super) fn synced(file: &File, until: usize) {
    on_file(file, |inode| Op::Synced(inode, until));
}

pub(super) fn folder_synced(folder: &Path, until: usize) {
    note(folder, |_| Op::FolderSynced(folder.to_path_buf(), until));
}

pub(super) fn all_synced(folder: &Path, until: usize) {
    note(folder, |_| Op::AllSynced(until));
}

pub(super) fn renamed(from: &Path, to: &Path) {
    note(from, |_| Op::Rename(from.to_path_buf(), to.to_path_buf()));
}

pub(super) fn removed(path: &Path) {
    note(path, |_| Op::Remove(path.to_path_buf()));
}

/// A file by its inode and the op that made it: an inode is used again for another file, while the name
/// of the one before may still be what the device has.
type FileId = (u64, usize);

/// Which file has an inode, while one goes through the ops.
#[derive(Default)]
struct Inodes(BTreeMap<u64, usize>);

impl Inodes {
    fn made(&mut self, inode: u64, number: usize) -> FileId {
        self.0.insert(inode, number);
        (inode, number)
    }

    fn id(&self, inode: u64) -> FileId {
        (inode, self.0.get(&inode).copied().unwrap_or(0))
    }
}

/// Which of the changes before a cut reached the device, and what the disk looks like then.
pub(crate) struct Disk {
    folders: Vec<PathBuf>,
    names: BTreeMap<PathBuf, FileId>,
    contents: BTreeMap<FileId, Vec<u8>>,
}

impl Disk {
    /// The disk after a cut before the op `at`. What was not flushed got there or not, as `luck` says:
    /// of each folder the names up to some change, of each file any writes, the last of them torn, and any
    /// change of its length.
    pub(crate) fn after_cut(ops: &[Op], at: usize, luck: &mut dyn FnMut(usize) -> usize) -> Self {
        let ops = &ops[..at];
        let mut disk = Self {
            folders: Vec::new(),
            names: BTreeMap::new(),
            contents: BTreeMap::new(),
        };
        let mut names_until: BTreeMap<PathBuf, usize> = BTreeMap::new();
        let mut file_until: BTreeMap<FileId, usize> = BTreeMap::new();
        let mut all_until = 0;
        let mut inodes = Inodes::default();
        for (number, op) in ops.iter().enumerate() {
            match op {
                Op::Create(_, inode) => {
                    inodes.made(*inode, number);
                }
                Op::Synced(inode, until) => {
                    let known = file_until.entry(inodes.id(*inode)).or_default();
                    *known = (*known).max(*until);
                }
                Op::FolderSynced(folder, until) => {
                    let known = names_until.entry(folder.clone()).or_default();
                    *known = (*known).max(*until);
                }
                Op::AllSynced(until) => all_until = all_until.max(*until),
                _ => {}
            }
        }
        // Names go to the device in their order: each folder has a point up to which they did.
        let mut reached: BTreeMap<PathBuf, usize> = BTreeMap::new();
        let mut name_is_there =
            |path: &Path, number: usize, luck: &mut dyn FnMut(usize) -> usize| {
                let folder = path.parent().unwrap_or(path).to_path_buf();
                let least = names_until
                    .get(&folder)
                    .copied()
                    .unwrap_or(0)
                    .max(all_until);
                let point = *reached
                    .entry(folder)
                    .or_insert_with(|| least + luck(at - least.min(at) + 1));
                number < point
            };
        let is_on_device = |id: FileId, number: usize| {
            number < all_until || file_until.get(&id).is_some_and(|until| number < *until)
        };
        let mut inodes = Inodes::default();
        for (number, op) in ops.iter().enumerate() {
            match op {
                // A folder's own name counts as durable: what is in it may not be.
                Op::Folder(path) => disk.folders.push(path.clone()),
                Op::Create(path, inode) => {
                    let id = inodes.made(*inode, number);
                    if name_is_there(path, number, luck) {
                        disk.names.insert(path.clone(), id);
                    }
                }
                Op::Rename(from, to) => {
                    if name_is_there(to, number, luck) {
                        disk.rename(from, to);
                    }
                }
                Op::Remove(path) => {
                    if name_is_there(path, number, luck) {
                        disk.names.retain(|name, _| !name.starts_with(path));
                    }
                }
                Op::Write(inode, position, bytes) => {
                    let id = inodes.id(*inode);
                    let is_durable = is_on_device(id, number);
                    let part = if is_durable {
                        bytes.len()
                    } else {
                        luck(bytes.len() + 1)
                    };
                    if is_durable || luck(2) == 1 {
                        disk.write(id, *position as usize, &bytes[..part]);
                    }
                }
                // A length is written back as bytes are: later, or not at all.
                Op::SetLen(inode, len) => {
                    let id = inodes.id(*inode);
                    if is_on_device(id, number) || luck(2) == 1 {
                        let content = disk.contents.entry(id).or_default();
                        content.resize(*len as usize, 0);
                    }
                }
                Op::Synced(..) | Op::FolderSynced(..) | Op::AllSynced(_) | Op::Mark(..) => {}
            }
        }
        disk
    }

    fn write(&mut self, id: FileId, position: usize, bytes: &[u8]) {
        let content = self.contents.entry(id).or_default();
        let end = position + bytes.len();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[position..end].copy_from_slice(bytes);
    }

    fn rename(&mut self, from: &Path, to: &Path) {
        if let Some(id) = self.names.remove(from) {
            self.names.insert(to.to_path_buf(), id);
        }
        // A folder: with all that is in it.
        let inside: Vec<_> = self
            .names
            .keys()
            .filter(|n| n.starts_with(from))
            .cloned()
            .collect();
        for name in inside {
            if let (Ok(rest), Some(id)) = (name.strip_prefix(from), self.names.get(&name).copied())
            {
                self.names.remove(&name);
                self.names.insert(to.join(rest), id);
            }
        }
    }

    /// Puts it all into another folder.
    pub(crate) fn write_to(&self, root: &Path, target: &Path) -> io::Result<()> {
        let moved = |path: &Path| target.join(path.strip_prefix(root).unwrap_or(path));
        for folder in &self.folders {
            fs::create_dir_all(moved(folder))?;
        }
        for (name, id) in &self.names {
            let path = moved(name);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, self.contents.get(id).map_or(&[][..], Vec::as_slice))?;
        }
        Ok(())
    }
}
