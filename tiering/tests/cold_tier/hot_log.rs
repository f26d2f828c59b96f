//! The hot log's sealed segments, uploaded and read back.

use std::sync::Arc;

use strandline_log::{LogConfig, LogDir, LogDirOptions, TailBudget};
use strandline_records::Compression;
use strandline_types::{BrokerId, TopicName, TopicPartition};

use crate::support::{Spec, batch, id, small, stores, tier};

#[tokio::test]
async fn sealed_segments_come_back_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    let tail = TailBudget::new(1 << 20);
    let logs = LogDir::open(dir.path(), LogDirOptions::new("cluster", BrokerId(1), tail)).unwrap();
    let config = LogConfig {
        segment_bytes: 4096,
        remote: true,
        ..LogConfig::default()
    };
    let name = TopicPartition::new(TopicName::new("flights").unwrap(), 0);
    let log = logs.create_log(name, id(0).topic_id, config).unwrap();
    let mut expected = Vec::new();
    for i in 0..60 {
        let compression = if i % 2 == 0 {
            Compression::None
        } else {
            Compression::Zstd
        };
        let spec = Spec {
            compression,
            ..Spec::plain(7, 60, i * 10)
        };
        let appended = log.append_as_leader(batch(0, spec), 3, i).unwrap();
        let mut stored = batch(0, spec);
        stored.set_offset_and_epoch(appended.base_offset, 3);
        expected.push(stored);
    }
    log.roll(1000).unwrap();
    let end = log.log_end_offset();
    let sealed = || log.sealed_segments(0, end).unwrap();
    // The writer closes the last segment when it gets to it.
    while sealed().last().is_none_or(|last| last.next_offset < end) {
        tokio::task::yield_now().await;
    }
    for (bucket, _dir) in stores() {
        let partition = tier(small(&bucket)).open_partition(id(0), 3).await.unwrap();
        let segments = sealed();
        assert!(segments.len() > 3);
        for segment in segments {
            partition.upload(Arc::new(segment), end, 0).await.unwrap();
        }
        assert_eq!(partition.highest_offset(), Some(end - 1));
        assert_eq!(log.sealed_segments(end, end).unwrap().len(), 0);
        let (mut offset, mut got) = (0, Vec::new());
        while offset < end {
            let read = partition.read(offset, 1500, true).await.unwrap();
            got.extend(read.parts.concat());
            offset = read.end_offset;
        }
        let all: Vec<u8> = expected.iter().flat_map(|batch| batch.to_bytes()).collect();
        assert!(got == all, "{} bytes of {}", got.len(), all.len());
        assert_eq!(partition.view().epoch_for_offset(5), Some(3));
        let (snapshot, _) = partition.state_at(end).await.unwrap().unwrap();
        assert!(!snapshot.is_empty());
    }
    logs.close().unwrap();
}
