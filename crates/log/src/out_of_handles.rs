//! A process without a free file handle waits for one: nothing goes offline, nothing is promised that is not
//! on the device (L-27).

use std::path::Path;
use std::sync::Arc;
use std::thread::{sleep, yield_now};
use std::time::Duration;

use strandline_types::{BrokerId, TopicId, TopicName, TopicPartition};
use tempfile::TempDir;

use crate::checkpoint::{self, RECOVERY_POINT};
use crate::janitor::Chore;
use crate::sys::handles::NoHandles;
use crate::testing::BatchSpec;
use crate::{Log, LogConfig, LogDir, LogDirOptions, TailBudget};

const LONG_ENOUGH: Duration = Duration::from_millis(300);

fn until(done: impl Fn() -> bool) {
    while !done() {
        yield_now();
    }
}

fn open(folder: &Path) -> Arc<LogDir> {
    let options = LogDirOptions::new("c", BrokerId(1), TailBudget::new(1 << 20));
    LogDir::open(folder, options).unwrap()
}

fn partition() -> TopicPartition {
    TopicPartition::new(TopicName::new("t").unwrap(), 0)
}

fn begin(flush_messages: i64) -> (TempDir, Arc<LogDir>, Arc<Log>) {
    let folder = TempDir::new().unwrap();
    let dir = open(folder.path());
    let config = LogConfig {
        flush_messages,
        ..LogConfig::default()
    };
    let log = dir.create_log(partition(), TopicId::random(), config);
    (folder, dir, log.unwrap())
}

fn append(log: &Log) {
    log.append_as_leader(BatchSpec::default().build(), 0, 0)
        .unwrap();
}

// L-27
#[test]
fn a_checkpoint_is_written_later() {
    let (folder, dir, log) = begin(i64::MAX);
    append(&log);
    until(|| log.written_end_offset() == 1);
    log.flush().unwrap();
    let none = NoHandles::below(folder.path());
    assert!(dir.checkpoint().unwrap_err().is_out_of_handles());
    drop(none);
    assert!(!dir.is_offline());
    dir.checkpoint().unwrap();
    let written = checkpoint::read(&folder.path().join(RECOVERY_POINT)).unwrap();
    assert_eq!(written.get(&partition()), Some(&1));
}

//
#[test]
fn what_a_checkpoint_says_of_a_log_that_is_gone_does_not_meet_a_new_one() {
    let (folder, dir, log) = begin(i64::MAX);
    append(&log);
    until(|| log.written_end_offset() == 1);
    log.flush().unwrap();
    dir.checkpoint().unwrap();
    let none = NoHandles::below(folder.path());
    log.delete().unwrap();
    assert!(dir.checkpoint().is_err());
    drop(none);
    let config = LogConfig::default();
    dir.create_log(partition(), TopicId::random(), config)
        .unwrap();
    let written = checkpoint::read(&folder.path().join(RECOVERY_POINT)).unwrap();
    assert_eq!(written.get(&partition()), None);
}

// L-27
#[test]
fn a_roll_waits_and_its_flush_follows() {
    let (folder, dir, log) = begin(i64::MAX);
    append(&log);
    until(|| log.written_end_offset() == 1);
    let none = NoHandles::below(folder.path());
    log.roll(0).unwrap();
    sleep(LONG_ENOUGH);
    assert!(!dir.is_offline());
    assert_eq!(log.lock_state().writing, 0);
    drop(none);
    until(|| log.lock_state().writing == 1 && log.recovery_point() == 1);
}

// L-27
#[test]
fn the_janitor_tries_a_flush_again() {
    let (folder, dir, log) = begin(i64::MAX);
    append(&log);
    until(|| log.written_end_offset() == 1);
    let none = NoHandles::below(folder.path());
    assert!(log.flush().unwrap_err().is_out_of_handles());
    let flush = Chore::FlushDue(Arc::downgrade(&log));
    log.dir().janitor.add(flush, 0);
    sleep(LONG_ENOUGH);
    assert!(!dir.is_offline());
    assert_eq!(log.recovery_point(), 0);
    drop(none);
    until(|| log.recovery_point() == 1);
}

// L-27
#[test]
fn a_record_is_acknowledged_when_its_flush_has_found_a_handle() {
    let (folder, dir, log) = begin(1);
    let none = NoHandles::below(folder.path());
    append(&log);
    sleep(LONG_ENOUGH);
    assert!(!dir.is_offline());
    assert_eq!(log.written_end_offset(), 0);
    drop(none);
    until(|| log.written_end_offset() == 1 && log.recovery_point() == 1);
}

// L-27
#[test]
fn a_stop_does_not_wait_for_handles() {
    let (folder, dir, log) = begin(1);
    let none = NoHandles::below(folder.path());
    append(&log);
    sleep(LONG_ENOUGH);
    drop((log, dir));
    drop(none);
    let dir = open(folder.path());
    let loaded = dir.load_logs(&|_, _| Some(LogConfig::default())).unwrap();
    assert_eq!(loaded.logs[0].log_end_offset(), 0);
}
