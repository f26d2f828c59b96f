//! `meta.properties`: whose directory this is (cluster, node, directory id), and the marker of a
//! clean end (SEMANTICS 6.1). Beside it the machine's boot id as of the last start: it tells a process
//! that was killed, which loses nothing that it wrote, from a machine that went down. That the machine
//! went down stays noted until somebody says that it does not matter any more, over any number of starts.

use std::fs;
use std::path::Path;

use strandline_types::TopicId;

use crate::error::LogError;
use crate::sys;

const FILE_NAME: &str = "meta.properties";
const CLEAN_MARKER: &str = ".kafka_cleanshutdown";
const BOOT_ID: &str = "boot-id";
const POWER_LOST: &str = "power-was-lost";
const MACHINE_BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Reads a directory's identity, or writes it into a new one. The directory id.
/// Errors: it belongs to another cluster or node, or the file cannot be read.
pub(crate) fn claim(dir: &Path, cluster_id: &str, node_id: i32) -> Result<String, LogError> {
    let path = dir.join(FILE_NAME);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let directory_id = TopicId::random().to_string();
            let text = format!(
                "#\nversion=1\ncluster.id={cluster_id}\nnode.id={node_id}\n\
                 directory.id={directory_id}\n"
            );
            sys::replace_file(&path, text.as_bytes(), true)?;
            return Ok(directory_id);
        }
        Err(e) => return Err(LogError::io("read", path, e)),
    };
    let field = |name: &str| {
        text.lines().find_map(|line| {
            let (key, value) = line.split_once('=')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    let need = |name: &str| {
        field(name).ok_or_else(|| LogError::corrupt(&path, format!("{name} is missing")))
    };
    if need("version")? != "1" {
        return Err(LogError::corrupt(&path, "the version is not 1"));
    }
    let found = need("cluster.id")?;
    if found != cluster_id {
        let (path, expected) = (dir.to_path_buf(), cluster_id.to_owned());
        return Err(LogError::WrongCluster {
            path,
            found,
            expected,
        });
    }
    let found = need("node.id")?;
    if found != node_id.to_string() {
        return Err(LogError::WrongNode {
            path: dir.to_path_buf(),
            found,
            expected: node_id,
        });
    }
    need("directory.id")
}

/// True when the directory was closed cleanly. The marker is taken away, so that a crash from now
/// on is seen.
pub(crate) fn take_clean_marker(dir: &Path) -> Result<bool, LogError> {
    let path = dir.join(CLEAN_MARKER);
    match sys::remove_file(&path) {
        Ok(()) => sys::sync_folder(&path).map(|()| true),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(LogError::io("remove", path, e)),
    }
}

/// Notes that the directory was closed cleanly.
pub(crate) fn put_clean_marker(dir: &Path) -> Result<(), LogError> {
    let path = dir.join(CLEAN_MARKER);
    sys::replace_file(&path, b"{\"version\":0,\"brokerEpoch\":-1}", true)
}

/// True when the machine was restarted since the last start, which had not ended cleanly, or when that
/// cannot be told; not for a directory that was never used. Stays true until [`forget_power_loss`].
pub(crate) fn note_boot(dir: &Path, was_clean: bool) -> Result<bool, LogError> {
    let path = dir.join(BOOT_ID);
    let before = fs::read_to_string(&path).ok();
    let now = fs::read_to_string(MACHINE_BOOT_ID).ok();
    let is_same = before.is_some() && before == now;
    let lost = dir.join(POWER_LOST);
    if !is_same && before.is_some() && !was_clean {
        // First, as the boot id tells it only once.
        sys::replace_file(&lost, &[], true)?;
    }
    if !is_same {
        sys::replace_file(&path, now.unwrap_or_default().as_bytes(), true)?;
    }
    lost.try_exists()
        .map_err(|e| LogError::io("look at", lost, e))
}

/// What the power loss took is known by now, or was replaced.
pub(crate) fn forget_power_loss(dir: &Path) -> Result<(), LogError> {
    let path = dir.join(POWER_LOST);
    match sys::remove_file(&path) {
        Ok(()) => sys::sync_folder(&path),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(LogError::io("remove", path, e)),
    }
}
