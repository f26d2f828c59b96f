//! `partition.metadata`: the topic id of a partition folder (SEMANTICS 6.1, R-20).

use std::fs;
use std::path::Path;

use strandline_types::TopicId;

use crate::error::LogError;
use crate::sys;

pub(crate) const FILE_NAME: &str = "partition.metadata";

pub(crate) fn write(folder: &Path, topic_id: TopicId) -> Result<(), LogError> {
    let text = format!("version: 0\ntopic_id: {topic_id}");
    sys::replace_file(&folder.join(FILE_NAME), text.as_bytes(), false)
}

/// The topic id, or `None` when the file is missing.
pub(crate) fn read(folder: &Path) -> Result<Option<TopicId>, LogError> {
    let path = folder.join(FILE_NAME);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(LogError::io("read", path, e)),
    };
    let field = |name: &str| {
        text.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    if field("version").as_deref() != Some("0") {
        return Err(LogError::corrupt(path, "the version is not 0"));
    }
    let id = field("topic_id").and_then(|id| id.parse().ok());
    id.map(Some)
        .ok_or_else(|| LogError::corrupt(path, "the topic id cannot be read"))
}
