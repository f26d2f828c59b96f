//! The metadata directory: its lock, and to which cluster and node it belongs (`meta.properties`,
//! in Kafka's format). Rule: A-23.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use strandline_types::{BrokerId, TopicId};

use crate::error::OpenError;

const PROPERTIES: &str = "meta.properties";

/// An opened and locked directory.
#[derive(Debug)]
pub(crate) struct Directory {
    cluster_id: String,
    directory_id: String,
    lock: Arc<File>,
}

impl Directory {
    /// Opens and locks `dir`, which may be new, for this node and cluster.
    pub(crate) fn open(
        dir: &Path,
        node_id: BrokerId,
        wanted: Option<String>,
    ) -> Result<Self, OpenError> {
        let path = dir.join(PROPERTIES);
        if node_id.0 < 0 {
            let reason = format!("node id {node_id} is negative");
            return Err(OpenError::Properties { path, reason });
        }
        if let Some(id) = &wanted {
            check_cluster_id(id)?;
        }
        fs::create_dir_all(dir).map_err(OpenError::io("create", dir))?;
        let lock = lock(dir)?;
        let (cluster_id, directory_id) = match fs::read_to_string(&path) {
            Ok(text) => belongs(&path, &text, node_id, wanted)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let cluster_id = wanted.unwrap_or_else(new_id);
                let directory_id = new_id();
                write(dir, &cluster_id, node_id, &directory_id)?;
                (cluster_id, directory_id)
            }
            Err(source) => {
                return Err(OpenError::Io {
                    action: "read",
                    path,
                    source,
                });
            }
        };
        Ok(Self {
            cluster_id,
            directory_id,
            lock: Arc::new(lock),
        })
    }

    pub(crate) fn cluster_id(&self) -> &str {
        &self.cluster_id
    }

    pub(crate) fn directory_id(&self) -> &str {
        &self.directory_id
    }

    /// The lock: it lasts as long as somebody holds it, or until [`Self::unlock`].
    pub(crate) fn lock(&self) -> Arc<File> {
        Arc::clone(&self.lock)
    }

    /// Gives the directory free.
    pub(crate) fn unlock(&self) {
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(%error, "unlock the metadata directory");
        }
    }
}

/// An id as Kafka makes them: random, not zero, not beginning with `-`.
fn new_id() -> String {
    TopicId::random().to_string()
}

fn check_cluster_id(id: &str) -> Result<(), OpenError> {
    match id.parse::<TopicId>() {
        Ok(parsed) if !parsed.is_zero() => Ok(()),
        _ => Err(OpenError::InvalidClusterId(id.to_owned())),
    }
}

fn lock(dir: &Path) -> Result<File, OpenError> {
    let path = dir.join(".lock");
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path);
    let file = file.map_err(OpenError::io("open", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked(dir.to_path_buf())),
        Err(TryLockError::Error(source)) => Err(OpenError::Io {
            action: "lock",
            path,
            source,
        }),
    }
}

/// Reads the properties and compares; returns cluster id and directory id.
fn belongs(
    path: &Path,
    text: &str,
    node_id: BrokerId,
    wanted: Option<String>,
) -> Result<(String, String), OpenError> {
    let bad = |reason: String| OpenError::Properties {
        path: path.to_path_buf(),
        reason,
    };
    let value = |key: &str| {
        text.lines()
            .filter_map(|line| line.split_once('='))
            .find(|(name, _)| name.trim() == key)
            .map(|(_, value)| value.trim().to_owned())
            .ok_or_else(|| bad(format!("there is no {key}")))
    };
    let version = value("version")?;
    if version != "1" {
        return Err(bad(format!("version is {version}, this version reads 1")));
    }
    let dir = path.parent().unwrap_or(path).to_path_buf();
    let found = value("node.id")?;
    let found: i32 = found
        .parse()
        .map_err(|_| bad(format!("node.id is {found}, not a number")))?;
    if found != node_id.0 {
        return Err(OpenError::WrongNode {
            path: dir,
            found,
            expected: node_id.0,
        });
    }
    let cluster_id = value("cluster.id")?;
    check_cluster_id(&cluster_id)
        .map_err(|_| bad(format!("cluster.id is {cluster_id}, not an id")))?;
    if let Some(expected) = wanted.filter(|wanted| *wanted != cluster_id) {
        return Err(OpenError::WrongCluster {
            path: dir,
            found: cluster_id,
            expected,
        });
    }
    Ok((cluster_id, value("directory.id")?))
}

/// Writes the properties so that they are whole or not there.
fn write(
    dir: &Path,
    cluster_id: &str,
    node_id: BrokerId,
    directory_id: &str,
) -> Result<(), OpenError> {
    let path = dir.join(PROPERTIES);
    let tmp = dir.join("meta.properties.tmp");
    let text = format!(
        "#\nversion=1\ncluster.id={cluster_id}\nnode.id={node_id}\ndirectory.id={directory_id}\n"
    );
    let write = || {
        let mut file = File::create(&tmp)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&tmp, &path)?;
        File::open(dir)?.sync_all()
    };
    write().map_err(OpenError::io("write", &path))
}

#[cfg(test)]
mod tests;
