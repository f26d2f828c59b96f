//! Kafka's text checkpoints of a log directory: one offset per partition (SEMANTICS 6.1).

use std::collections::HashMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use strandline_types::{Offset, TopicName, TopicPartition};

use crate::error::LogError;

pub(crate) const RECOVERY_POINT: &str = "recovery-point-offset-checkpoint";
pub(crate) const LOG_START: &str = "log-start-offset-checkpoint";
pub(crate) const HIGH_WATERMARK: &str = "replication-offset-checkpoint";
pub(crate) const CLEANED_TO: &str = "cleaner-offset-checkpoint";

pub(crate) type OffsetMap = HashMap<TopicPartition, Offset>;

/// The text of a checkpoint: version, count, then `topic partition offset` lines.
pub(crate) fn encode(entries: &mut [(TopicPartition, Offset)]) -> String {
    entries.sort_unstable();
    let mut text = String::with_capacity(16 + entries.len() * 32);
    let _ = write!(text, "0\n{}\n", entries.len());
    for (tp, offset) in entries.iter() {
        let _ = writeln!(text, "{} {} {offset}", tp.topic, tp.partition);
    }
    text
}

/// Reads a checkpoint; a missing one is empty. Errors: it cannot be read, or is not one.
pub(crate) fn read(path: &Path) -> Result<OffsetMap, LogError> {
    match fs::read_to_string(path) {
        Ok(text) => decode(&text).ok_or_else(|| LogError::corrupt(path, "not a checkpoint")),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(OffsetMap::new()),
        Err(e) if e.kind() == std::io::ErrorKind::InvalidData => {
            Err(LogError::corrupt(path, "not text"))
        }
        Err(e) => Err(LogError::io("read", path, e)),
    }
}

fn decode(text: &str) -> Option<OffsetMap> {
    let mut lines = text.lines();
    if lines.next()?.trim() != "0" {
        return None;
    }
    let count: usize = lines.next()?.trim().parse().ok()?;
    let mut map = OffsetMap::new();
    for line in lines.filter(|line| !line.trim().is_empty()) {
        let mut words = line.split_ascii_whitespace();
        let topic = TopicName::new(words.next()?).ok()?;
        let partition = words.next()?.parse().ok()?;
        let offset = words.next()?.parse().ok().filter(|offset| *offset >= 0)?;
        if words.next().is_some() {
            return None;
        }
        map.insert(TopicPartition::new(topic, partition), offset);
    }
    (map.len() == count).then_some(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_kafkas_and_reads_back() {
        let tp = |n: &str, p| TopicPartition::new(TopicName::new(n).unwrap(), p);
        let mut entries = vec![(tp("b", 1), 7), (tp("a", 10), 1 << 40)];
        let text = encode(&mut entries);
        assert_eq!(text, "0\n2\na 10 1099511627776\nb 1 7\n");
        assert_eq!(decode(&text).unwrap(), entries.into_iter().collect());
        for bad in [
            "",
            "1\n0\n",
            "0\n2\na 1 1\n",
            "0\n1\na 1\n",
            "0\n1\na/b 1 1\n",
            "0\n1\na 1 -1\n",
        ] {
            assert!(decode(bad).is_none(), "{bad:?}");
        }
    }
}
