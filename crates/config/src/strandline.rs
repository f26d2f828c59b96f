//! Our own settings, all under `strandline.`, one row each.

use crate::def::ConfigType::{Long, String as Text};
use crate::def::{boolean, derived, long, one_of, optional, string};
use crate::table::settings;
use crate::value::{LogLineFormat, ProduceCheck};

settings! {
    /// Typed settings that Kafka does not have; the field is the name with `_` for `.`, without
    /// `strandline`.
    pub struct StrandlineSettings from STRANDLINE_SETTINGS;

    "Root of the directories that are not set on their own: `log`, `metadata`, `cache`, `bucket`."
    data_dir: String = string("strandline.data.dir", "./data").check("STRING, not empty", is_filled);
    "Address of metrics and health, `host:port`; empty = no HTTP."
    http_listener: String = string("strandline.http.listener", "127.0.0.1:9644").check("`host:port`, or empty for no HTTP", crate::listeners::is_host_port_or_empty);
    "Id of the cluster, for a first start; unset = a new one is made and kept. A later start with another id is refused."
    cluster_id: Option<String> = optional("strandline.cluster.id", Text).check("STRING, 22 characters of URL-safe base64, not all zero", is_cluster_id);
    "The bucket: `file:///directory` or `s3://bucket/prefix`."
    store_url: String = derived("strandline.store.url", Text, "`file://<strandline.data.dir>/bucket`").check("`file:///directory` or `s3://bucket/prefix`, the bucket's name 3 to 63 letters, digits, `.`, `_` and `-` (others are not served yet)", is_store_url);
    "URL of an S3 server other than Amazon's."
    store_s3_endpoint: Option<String> = optional("strandline.store.s3.endpoint", Text).check("`http://` or `https://` URL", is_http_url);
    "Region of the bucket; unset = from the environment or profile."
    store_s3_region: Option<String> = optional("strandline.store.s3.region", Text).check("STRING, not empty", is_filled);
    "The bucket is in the path of the URL and not in the host name, as most servers other than Amazon's need it."
    store_s3_path_style_access: bool = boolean("strandline.store.s3.path.style.access", "false");
    "How S3 encrypts what it stores; `none` = as the bucket is set up, `aws:kms` with the account's default key."
    store_s3_server_side_encryption: String = string("strandline.store.s3.server.side.encryption", "none").check("one of none, AES256, aws:kms, aws:kms:<key id or ARN>", is_encryption);
    "Topics are tiered unless their `remote.storage.enable` says otherwise. Compacted and internal topics never are."
    remote_storage_enable: bool = boolean("strandline.remote.storage.enable", "true");
    "Longest time that a record stays un-tiered, in ms; 0 = until its segment is rolled."
    tier_max_delay_ms: i64 = long("strandline.tier.max.delay.ms", "3600000").at_least(0).dynamic();
    "Memory for chunks of the cold tier, in bytes."
    cache_memory_bytes: u64 = derived("strandline.cache.memory.bytes", Long, "1/32 of the memory, at least 16 MiB and at most 512 MiB").at_least(0);
    "Disk for chunks of the cold tier that had to be fetched more than once, in bytes; 0 = none."
    cache_disk_bytes: u64 = derived("strandline.cache.disk.bytes", Long, "10 % of the free disk, at most 64 GiB; 0 for a bucket in a local directory").at_least(0);
    "Memory for the newest batches of all partitions together, in bytes."
    tail_memory_bytes: u64 = derived("strandline.tail.memory.bytes", Long, "1/128 of the memory, at least 16 MiB and at most 64 MiB").at_least(0);
    "How far a compressed batch is checked at produce: decompressed and walked (`full`, as Kafka does), or header and checksum only (`header`, for producers that are trusted)."
    produce_check: ProduceCheck = one_of("strandline.produce.check", "full", &["full", "header"]);
    "Form of the log lines."
    log_format: LogLineFormat = one_of("strandline.log.format", "human", &["human", "json"]);
    "Least level of the log lines that are written, or a filter such as `info,strandline_tiering=debug`."
    log_level: String = string("strandline.log.level", "info").check("a level (off, error, warn, info, debug, trace) or a filter `level,target=level,…`", is_log_filter);
}

fn is_filled(text: &str) -> bool {
    !text.is_empty()
}

/// As Kafka writes the 16 bytes of a random UUID.
fn is_cluster_id(text: &str) -> bool {
    text.parse::<strandline_types::TopicId>()
        .is_ok_and(|id| !id.is_zero())
}

fn is_http_url(text: &str) -> bool {
    let rest = text
        .strip_prefix("http://")
        .or_else(|| text.strip_prefix("https://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
}

fn is_encryption(text: &str) -> bool {
    let has_key = text
        .strip_prefix("aws:kms:")
        .is_some_and(|key| !key.is_empty());
    matches!(text, "none" | "AES256" | "aws:kms") || has_key
}

/// A `file://` URL has an absolute path, or one that begins with `.` and is taken from the working
/// directory; anything else between the slashes would be a host, which files do not have.
fn is_store_url(text: &str) -> bool {
    if let Some(path) = text.strip_prefix("file://") {
        return path.starts_with('/')
            || path == "."
            || path.starts_with("./")
            || path.starts_with("../");
    }
    text.strip_prefix("s3://").is_some_and(|rest| {
        let bucket = rest.split('/').next().unwrap_or_default();
        let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        (3..=63).contains(&bucket.len()) && bucket.bytes().all(legal)
    })
}

fn is_log_filter(text: &str) -> bool {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let is_level = |word: &str| LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word));
    text.split(',')
        .map(str::trim)
        .all(|part| match part.split_once('=') {
            Some((target, level)) => !target.is_empty() && is_level(level),
            None => is_level(part),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_urls_are_checked() {
        for good in [
            "file:///a/b",
            "file://./data/bucket",
            "s3://bucket",
            "s3://my-bucket/a/b",
        ] {
            assert!(is_store_url(good), "{good}");
        }
        for bad in [
            "file://host/path",
            "/a/b",
            "s3://",
            "s3:///x",
            "s3://xy/prefix",
            "gs://bucket",
            "S3://bucket",
        ] {
            assert!(!is_store_url(bad), "{bad}");
        }
    }

    #[test]
    fn log_filters_are_checked() {
        assert!(is_log_filter("info") && is_log_filter("WARN, strandline_log=trace"));
        assert!(!is_log_filter("loud") && !is_log_filter("=info") && !is_log_filter(""));
    }
}
