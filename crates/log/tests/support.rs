//! A log directory in a temporary folder, and batches with real records.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use strandline_log::{
    AppendError, Appended, Log, LogConfig, LogDir, LogDirOptions, LogError, LogRead, TailBudget,
};
use strandline_records::{Batch, BatchBuilder, Compression};
use strandline_types::{BrokerId, Offset, TimestampType, TopicId, TopicName, TopicPartition};
use tempfile::TempDir;

/// Settings for tests: tiny segments, an index entry for every few batches.
pub(crate) fn small() -> LogConfig {
    LogConfig {
        segment_bytes: 1000,
        index_interval_bytes: 100,
        retention_ms: -1,
        file_delete_delay_ms: 0,
        ..LogConfig::default()
    }
}

pub(crate) fn partition() -> TopicPartition {
    TopicPartition::new(TopicName::new("flights").unwrap(), 3)
}

/// How far the writer is, told by its callback.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    state: Mutex<(Offset, Option<LogError>)>,
    changed: Condvar,
}

impl Progress {
    pub(crate) fn watch(log: &Log) -> Arc<Self> {
        let progress = Arc::new(Self::default());
        let told = Arc::clone(&progress);
        log.set_on_written(Box::new(move |result| {
            let mut state = told.state.lock();
            match result {
                Ok(end) => state.0 = state.0.max(end),
                Err(error) => state.1 = Some(error),
            }
            told.changed.notify_all();
        }));
        progress
    }

    /// Waits until `offset` (exclusive) is written; the error if it never will be.
    pub(crate) fn wait(&self, log: &Log, offset: Offset) -> Option<LogError> {
        let mut state = self.state.lock();
        loop {
            if let Some(error) = &state.1 {
                return Some(error.clone());
            }
            if log.written_end_offset() >= offset {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }
}

/// A directory with one log.
pub(crate) struct Fixture {
    pub(crate) temp: TempDir,
    pub(crate) tail: usize,
    pub(crate) config: LogConfig,
    pub(crate) topic_id: TopicId,
    pub(crate) dir: Option<Arc<LogDir>>,
    pub(crate) log: Option<Arc<Log>>,
    pub(crate) progress: Option<Arc<Progress>>,
}

impl Fixture {
    pub(crate) fn new(config: LogConfig, tail: usize) -> Self {
        let mut fixture = Self {
            temp: TempDir::new().unwrap(),
            tail,
            config: config.clone(),
            topic_id: TopicId::random(),
            dir: None,
            log: None,
            progress: None,
        };
        fixture.open_dir();
        let dir = fixture.dir.clone().unwrap();
        fixture.set_log(
            dir.create_log(partition(), fixture.topic_id, config)
                .unwrap(),
        );
        fixture
    }

    pub(crate) fn options(&self) -> LogDirOptions {
        LogDirOptions::new("a-cluster", BrokerId(1), TailBudget::new(self.tail))
    }

    pub(crate) fn open_dir(&mut self) {
        self.dir = Some(LogDir::open(self.temp.path(), self.options()).unwrap());
    }

    pub(crate) fn set_log(&mut self, log: Arc<Log>) {
        self.progress = Some(Progress::watch(&log));
        self.log = Some(log);
    }

    pub(crate) fn log(&self) -> &Arc<Log> {
        self.log.as_ref().unwrap()
    }

    pub(crate) fn dir(&self) -> &Arc<LogDir> {
        self.dir.as_ref().unwrap()
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.temp.path().join("flights-3")
    }

    pub(crate) fn file(&self, base: Offset, extension: &str) -> PathBuf {
        self.folder().join(format!("{base:020}.{extension}"))
    }

    /// Forgets the open directory as a crash would.
    pub(crate) fn crash(&mut self) {
        self.progress = None;
        self.log = None;
        self.dir = None;
    }

    pub(crate) fn close(&mut self) {
        self.dir().close().unwrap();
        self.crash();
    }

    /// Opens the directory again and loads the log; its error if it cannot be loaded.
    pub(crate) fn try_load(&mut self) -> Result<(), LogError> {
        self.open_dir();
        let config = self.config.clone();
        let loaded = self.dir().load_logs(&|_, _| Some(config.clone())).unwrap();
        if let Some(failed) = loaded.failed.into_iter().next() {
            return Err(failed.error);
        }
        self.set_log(loaded.logs.into_iter().next().expect("a log"));
        Ok(())
    }

    pub(crate) fn load(&mut self) {
        self.try_load().unwrap();
    }

    pub(crate) fn reopen_cleanly(&mut self) {
        self.close();
        self.load();
    }

    pub(crate) fn reopen_after_crash(&mut self) {
        self.written();
        self.crash();
        self.load();
    }

    pub(crate) fn append(&self, batch: Batch) -> Result<Appended, AppendError> {
        self.log().append_as_leader(batch, 0, 0)
    }

    /// Appends and waits until it is written and below the high watermark.
    pub(crate) fn put(&self, batch: Batch) -> Appended {
        let appended = self.append(batch).unwrap();
        self.written();
        appended
    }

    pub(crate) fn written(&self) {
        let log = self.log();
        let end = log.log_end_offset();
        assert!(self.progress.as_ref().unwrap().wait(log, end).is_none());
        log.set_high_watermark(end);
    }

    /// Waits until the writer has sealed all segments but the active one.
    pub(crate) fn sealed(&self) {
        self.written();
        let log = self.log();
        while log.sealed_segments(-1, Offset::MAX).unwrap().len() + 1 < log.segment_count() {
            std::thread::yield_now();
        }
    }

    pub(crate) fn read(&self, start: Offset, max_bytes: usize) -> LogRead {
        self.log()
            .read(start, max_bytes, Offset::MAX, true)
            .unwrap()
    }

    /// Base offsets of the segment files.
    pub(crate) fn segment_files(&self) -> Vec<Offset> {
        self.files_with(".log")
    }

    pub(crate) fn files_with(&self, suffix: &str) -> Vec<Offset> {
        let names = std::fs::read_dir(self.folder()).unwrap();
        let names = names.map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut bases: Vec<_> = names
            .filter_map(|n| n.strip_suffix(suffix)?.parse().ok())
            .collect();
        bases.sort_unstable();
        bases
    }
}

/// What a test batch looks like.
#[derive(Debug, Clone)]
pub(crate) struct Spec {
    pub(crate) timestamps: Vec<i64>,
    pub(crate) value_size: usize,
    pub(crate) producer: Option<(i64, i16, i32)>,
    pub(crate) transactional: bool,
    pub(crate) compression: Compression,
    pub(crate) timestamp_type: TimestampType,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            timestamps: vec![1000],
            value_size: 10,
            producer: None,
            transactional: false,
            compression: Compression::None,
            timestamp_type: TimestampType::CreateTime,
        }
    }
}

impl Spec {
    pub(crate) fn count(count: usize) -> Self {
        Self {
            timestamps: vec![1000; count],
            ..Self::default()
        }
    }

    pub(crate) fn at(timestamps: &[i64]) -> Self {
        Self {
            timestamps: timestamps.to_vec(),
            ..Self::default()
        }
    }

    pub(crate) fn build(&self) -> Batch {
        let mut builder = BatchBuilder::new(self.compression, self.timestamp_type, 0);
        if let Some((id, epoch, sequence)) = self.producer {
            builder = builder.with_producer(id, epoch, sequence);
        }
        if self.transactional {
            builder = builder.transactional();
        }
        let value = vec![b'x'; self.value_size];
        for timestamp in &self.timestamps {
            builder
                .append(*timestamp, Some(b"key"), Some(&value), &[])
                .unwrap();
        }
        builder.build().unwrap()
    }
}

/// The bytes of a batch as the log stores it.
pub(crate) fn stored(mut batch: Batch, base: Offset) -> Bytes {
    batch.set_offset_and_epoch(base, 0);
    batch.to_bytes()
}

/// All bytes of a read.
pub(crate) fn bytes_of(read: &LogRead) -> Vec<u8> {
    let bytes: Vec<u8> = read
        .parts
        .iter()
        .flat_map(|p| p.to_bytes().unwrap())
        .collect();
    assert_eq!(bytes.len(), read.size_in_bytes);
    bytes
}
