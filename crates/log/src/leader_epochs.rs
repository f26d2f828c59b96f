//! Which leader epoch began where, and its file `leader-epoch-checkpoint` (O-21, R-9, L-23).

use std::fmt::Write;
use std::fs;
use std::path::Path;

use strandline_types::{LeaderEpoch, Offset};

use crate::error::LogError;

pub(crate) const FILE_NAME: &str = "leader-epoch-checkpoint";

/// An epoch and the first offset that was, or would have been, appended in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochEntry {
    /// The leader epoch.
    pub epoch: LeaderEpoch,
    /// First offset of the epoch (inclusive).
    pub start_offset: Offset,
}

/// The answer to "where did this epoch end" (O-21).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochEnd {
    /// Largest known epoch that is not above the one asked for; -1 when unknown.
    pub epoch: LeaderEpoch,
    /// Offset after the last one of that epoch; -1 when unknown.
    pub end_offset: Offset,
}

/// Epochs in ascending order; start offsets ascend too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeaderEpochs {
    entries: Vec<EpochEntry>,
}

impl LeaderEpochs {
    /// All entries, oldest first.
    pub fn entries(&self) -> &[EpochEntry] {
        &self.entries
    }

    /// The newest epoch.
    pub fn latest(&self) -> Option<LeaderEpoch> {
        self.entries.last().map(|e| e.epoch)
    }

    /// Notes that `epoch` begins at `start`; true when that is news. An entry that began
    /// where nothing was written is replaced.
    pub(crate) fn assign(&mut self, epoch: LeaderEpoch, start: Offset) -> bool {
        if epoch < 0 || self.latest().is_some_and(|latest| latest >= epoch) {
            return false;
        }
        while self.entries.last().is_some_and(|e| e.start_offset >= start) {
            self.entries.pop();
        }
        self.entries.push(EpochEntry {
            epoch,
            start_offset: start,
        });
        true
    }

    /// Takes what `older` knows of offsets and epochs below all of these; true when that is news.
    /// The first epoch of these may have begun in `older`: what was rebuilt from batches knows it
    /// only from the first batch on that is left (O-22).
    pub(crate) fn complete_with(&mut self, older: &Self) -> bool {
        let mut is_news = false;
        if let Some(first) = self.entries.first_mut() {
            let same = older.entries.iter().find(|e| e.epoch == first.epoch);
            if let Some(began) = same.filter(|e| e.start_offset < first.start_offset) {
                first.start_offset = began.start_offset;
                is_news = true;
            }
        }
        let first = self.entries.first().copied();
        let is_before = |entry: &&EpochEntry| {
            first.is_none_or(|f| entry.epoch < f.epoch && entry.start_offset < f.start_offset)
        };
        let missing: Vec<_> = older.entries.iter().filter(is_before).copied().collect();
        is_news |= !missing.is_empty();
        self.entries.splice(0..0, missing);
        is_news
    }

    /// The epoch that offset `offset` was written in.
    pub fn epoch_for_offset(&self, offset: Offset) -> Option<LeaderEpoch> {
        let after = self.entries.partition_point(|e| e.start_offset <= offset);
        self.entries.get(after.checked_sub(1)?).map(|e| e.epoch)
    }

    /// Where `epoch` ended (O-21).
    pub fn end_offset_for(&self, epoch: LeaderEpoch, log_end: Offset) -> EpochEnd {
        const UNKNOWN: EpochEnd = EpochEnd {
            epoch: -1,
            end_offset: -1,
        };
        let (Some(first), Some(last)) = (self.entries.first(), self.entries.last()) else {
            return UNKNOWN;
        };
        if epoch < 0 || epoch > last.epoch {
            return UNKNOWN;
        }
        if epoch == last.epoch {
            return EpochEnd {
                epoch,
                end_offset: log_end,
            };
        }
        if epoch < first.epoch {
            return EpochEnd {
                epoch,
                end_offset: first.start_offset,
            };
        }
        let next = self.entries.partition_point(|e| e.epoch <= epoch);
        match (
            self.entries.get(next.saturating_sub(1)),
            self.entries.get(next),
        ) {
            (Some(floor), Some(next)) => EpochEnd {
                epoch: floor.epoch,
                end_offset: next.start_offset,
            },
            _ => UNKNOWN,
        }
    }

    /// Forgets epochs that begin at or after `end` (L-23); true when something changed.
    pub(crate) fn truncate_from_end(&mut self, end: Offset) -> bool {
        let before = self.entries.len();
        self.entries.retain(|e| e.start_offset < end);
        before != self.entries.len()
    }

    /// Forgets epochs that ended at or before `start`; the one that holds `start` begins there.
    /// True when something changed.
    pub(crate) fn truncate_from_start(&mut self, start: Offset) -> bool {
        let after = self.entries.partition_point(|e| e.start_offset <= start);
        let Some(holder) = after.checked_sub(1) else {
            return false;
        };
        let changed = holder > 0 || self.entries.first().is_some_and(|e| e.start_offset < start);
        self.entries.drain(..holder);
        if let Some(first) = self.entries.first_mut() {
            first.start_offset = start;
        }
        changed
    }

    /// The entries of offsets in `[from, end)`, the first one beginning at `from` (S-4).
    pub fn between(&self, from: Offset, end: Offset) -> Self {
        let mut part = self.clone();
        part.truncate_from_end(end);
        part.truncate_from_start(from);
        part
    }

    /// The file's text: version, count, then `epoch start` lines.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        let _ = write!(text, "0\n{}\n", self.entries.len());
        for e in &self.entries {
            let _ = writeln!(text, "{} {}", e.epoch, e.start_offset);
        }
        text
    }

    /// Reads the text of the file; `None` when it is not one.
    pub fn decode(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        if lines.next()?.trim() != "0" {
            return None;
        }
        let count: usize = lines.next()?.trim().parse().ok()?;
        let mut entries: Vec<EpochEntry> = Vec::new();
        for line in lines.filter(|l| !l.trim().is_empty()) {
            let (epoch, start) = line.split_once(' ')?;
            let entry = EpochEntry {
                epoch: epoch.parse().ok()?,
                start_offset: start.trim().parse().ok()?,
            };
            let grows = entries
                .last()
                .is_none_or(|l| l.epoch < entry.epoch && l.start_offset < entry.start_offset);
            if !grows || entry.epoch < 0 || entry.start_offset < 0 {
                return None;
            }
            entries.push(entry);
        }
        (entries.len() == count).then_some(Self { entries })
    }

    /// Reads the file of a partition folder. `Ok(None)`: missing or not readable as one, to be
    /// rebuilt from the batches.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>, LogError> {
        let path = folder.join(FILE_NAME);
        match fs::read(&path) {
            Ok(bytes) => {
                let text = std::str::from_utf8(&bytes).ok();
                // A power cut may have left a part of it that ends within a number.
                let whole = text.filter(|text| text.ends_with('\n'));
                Ok(whole.and_then(Self::decode))
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(LogError::io("read", path, e)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // S-13, O-22, O-23: epochs of the tiered range come back from the bucket, the one that spans the
    // border with its true start
    #[test]
    fn older_epochs_complete_what_is_known() {
        let of = |text: &str| LeaderEpochs::decode(text).unwrap();
        let mut known = of("0\n2\n5 700\n6 900\n");
        let older = of("0\n4\n0 0\n3 500\n5 650\n6 900\n");
        assert!(known.complete_with(&older));
        assert_eq!(known, of("0\n4\n0 0\n3 500\n5 650\n6 900\n"));
        assert_eq!(known.end_offset_for(3, 1000).end_offset, 650);
        assert!(!known.complete_with(&older));
        let mut spanning = of("0\n1\n3 700\n");
        assert!(spanning.complete_with(&of("0\n1\n3 500\n")));
        assert_eq!(spanning, of("0\n1\n3 500\n"));
        assert!(!spanning.complete_with(&of("0\n1\n3 600\n")));
        let mut none = LeaderEpochs::default();
        assert!(none.complete_with(&older));
        assert_eq!(none, older);
    }

    fn epochs() -> LeaderEpochs {
        let mut epochs = LeaderEpochs::default();
        for (epoch, start) in [(2, 0), (4, 10), (7, 25)] {
            assert!(epochs.assign(epoch, start));
        }
        epochs
    }

    // O-21
    #[test]
    fn every_kind_of_epoch_has_its_answer() {
        let end = |e| {
            let end = epochs().end_offset_for(e, 40);
            (end.epoch, end.end_offset)
        };
        assert_eq!(end(-1), (-1, -1));
        assert_eq!(end(7), (7, 40));
        assert_eq!(end(8), (-1, -1));
        assert_eq!(end(1), (1, 0));
        assert_eq!(end(2), (2, 10));
        assert_eq!(end(3), (2, 10));
        assert_eq!(end(6), (4, 25));
        let none = LeaderEpochs::default().end_offset_for(0, 5);
        assert_eq!((none.epoch, none.end_offset), (-1, -1));
    }

    // R-9, L-23
    #[test]
    fn assigning_and_truncating_keep_the_order() {
        let mut e = epochs();
        assert!(!e.assign(7, 30));
        assert!(!e.assign(3, 30));
        assert!(e.assign(9, 25)); // nothing was written in epoch 7
        assert_eq!(e.entries().len(), 3);
        assert_eq!(e.epoch_for_offset(24), Some(4));
        assert_eq!(e.epoch_for_offset(25), Some(9));
        assert_eq!(e.epoch_for_offset(-1), None);
        assert!(e.truncate_from_end(25));
        assert_eq!(e.latest(), Some(4));
        assert!(e.truncate_from_start(12));
        assert_eq!(
            e.entries(),
            [EpochEntry {
                epoch: 4,
                start_offset: 12
            }]
        );
        assert!(!e.truncate_from_start(12));
        let part = epochs().between(5, 20);
        assert_eq!(part.encode(), "0\n2\n2 5\n4 10\n");
    }

    // L-23
    #[test]
    fn of_a_file_that_was_cut_off_nothing_is_believed() {
        let folder = tempfile::tempdir().unwrap();
        let text = epochs().encode();
        for end in 0..=text.len() {
            fs::write(folder.path().join(FILE_NAME), &text[..end]).unwrap();
            let read = LeaderEpochs::read(folder.path()).unwrap();
            assert_eq!(read, (end == text.len()).then(epochs), "{end} bytes");
        }
    }

    #[test]
    fn the_text_is_kafkas_and_reads_back() {
        assert_eq!(epochs().encode(), "0\n3\n2 0\n4 10\n7 25\n");
        assert_eq!(LeaderEpochs::decode(&epochs().encode()), Some(epochs()));
        for bad in [
            "",
            "0\n1\n",
            "0\n2\n2 0\n1 5\n",
            "0\n2\n2 5\n3 4\n",
            "0\n1\nx 5\n",
        ] {
            assert!(LeaderEpochs::decode(bad).is_none(), "{bad:?}");
        }
    }
}
