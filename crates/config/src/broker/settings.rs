//! Broker settings under Kafka's names that we serve, one row each, with Kafka's defaults.
//!
//! The row is the single source: name, type, bounds, default, what it does. Settings that only
//! supply a topic's value are in `topic_defaults.rs`; those that we do not serve in `known.rs`.
//! Rules: SEMANTICS 8.2, 12.1.

use crate::def::ConfigType::{Int, List, String as Text};
use crate::def::{boolean, derived, fraction, int, list, long, optional, short, string};
use crate::table::settings;

const GIB_MAX: i64 = i32::MAX as i64;

settings! {
    /// Typed broker settings under Kafka's names; the field is the name with `_` for `.`.
    ///
    /// Values that several settings decide together (listeners, directories, node id) are resolved
    /// in [`BrokerConfig`](crate::BrokerConfig): take them from there.
    pub struct BrokerSettings from KAFKA_SETTINGS;

    // Identity, listeners, directories.
    "Id of this broker, unique in the cluster."
    node_id: i32 = derived("node.id", Int, "`broker.id` if that is set, else 1").at_least(0);
    "Older name of `node.id`; -1 = not set."
    broker_id: i32 = int("broker.id", "-1").at_least(-1);
    "Rack or zone of this broker, shown in Metadata."
    broker_rack: Option<String> = optional("broker.rack", Text);
    "Where clients connect: `NAME://host:port`, separated by commas. An empty host means all interfaces, port 0 a free one."
    listeners: Vec<String> = list("listeners", "PLAINTEXT://127.0.0.1:9092").unlike_kafka("PLAINTEXT://:9092");
    "What clients are told to connect to, by listener name; unset = `listeners`, with the host name of the machine for an empty host."
    advertised_listeners: Option<Vec<String>> = optional("advertised.listeners", List);
    "Security protocol of each listener name: `NAME:PROTOCOL`, separated by commas. Only PLAINTEXT is served yet."
    listener_security_protocol_map: String = string("listener.security.protocol.map", "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT");
    "Listeners of `listeners` that are meant for controllers: left out, since the quorum is inside the broker for now."
    controller_listener_names: Option<Vec<String>> = optional("controller.listener.names", List);
    "Directories of the hot log, one folder per partition. A new partition goes where the fewest are; when a directory fails, those in it are offline and the others serve on."
    log_dir: Vec<String> = derived("log.dir", List, "`<strandline.data.dir>/log`").unlike_kafka("/tmp/kafka-logs");
    "Same as `log.dir`, and wins over it."
    log_dirs: Option<Vec<String>> = optional("log.dirs", List);
    "Directory of the cluster metadata."
    metadata_log_dir: String = derived("metadata.log.dir", Text, "`<strandline.data.dir>/metadata`");

    // Topics.
    "A Metadata request for an unknown topic creates it."
    auto_create_topics_enable: bool = boolean("auto.create.topics.enable", "true");
    "Topics may be deleted."
    delete_topic_enable: bool = boolean("delete.topic.enable", "true");
    "Partitions of a topic that is created without a number."
    num_partitions: i32 = int("num.partitions", "1").between(1, GIB_MAX);
    "Replicas of a topic that is created without a number."
    default_replication_factor: i32 = int("default.replication.factor", "1").between(1, 32767);
    "Most partitions in one DescribeTopicPartitions response."
    max_request_partition_size_limit: i32 = int("max.request.partition.size.limit", "2000").at_least(1);

    // Connections and requests.
    "Largest request, in bytes."
    socket_request_max_bytes: i32 = int("socket.request.max.bytes", "104857600").at_least(1);
    "Idle connections are closed after this long, in ms; -1 = never."
    connections_max_idle_ms: i64 = long("connections.max.idle.ms", "600000");
    "Most connections of the broker."
    max_connections: i32 = int("max.connections", "2147483647").at_least(0).dynamic();
    "Most connections from one address."
    max_connections_per_ip: i32 = int("max.connections.per.ip", "2147483647").at_least(0).dynamic();
    "Most bytes in one Fetch response; a first batch that is larger is sent all the same."
    fetch_max_bytes: i32 = int("fetch.max.bytes", "57671680").at_least(1024);
    "Fetch sessions that are kept; 0 = none."
    max_incremental_fetch_session_cache_slots: i32 = int("max.incremental.fetch.session.cache.slots", "1000").at_least(0);

    // Work in the background.
    "Accepted; the number of threads for such work is fixed."
    background_threads: i32 = int("background.threads", "10").at_least(1);
    "Threads that open and recover logs at start."
    num_recovery_threads_per_data_dir: i32 = int("num.recovery.threads.per.data.dir", "2").at_least(1);

    // Log housekeeping for all topics.
    "How often retention is applied, in ms."
    log_retention_check_interval_ms: i64 = long("log.retention.check.interval.ms", "300000").at_least(1);
    "Threads that clean compacted logs."
    log_cleaner_threads: i32 = int("log.cleaner.threads", "1").at_least(0);
    "How long a cleaner rests when no log needs it, in ms."
    log_cleaner_backoff_ms: i64 = long("log.cleaner.backoff.ms", "15000").at_least(0);
    "Memory for the keys of a log that is being cleaned, over all threads, in bytes; 20 bytes a key, and room."
    log_cleaner_dedupe_buffer_size: i64 = long("log.cleaner.dedupe.buffer.size", "134217728").at_least(1_048_576);
    "Memory for reading and writing while cleaning, over all threads, in bytes."
    log_cleaner_io_buffer_size: i32 = int("log.cleaner.io.buffer.size", "524288").at_least(0);
    "How full the memory for keys may get; fuller takes more keys at once and longer to find one."
    log_cleaner_io_buffer_load_factor: f64 = fraction("log.cleaner.io.buffer.load.factor", "0.9", 0.0, 1.0);
    "Bytes that all cleaners together read and write in a second."
    log_cleaner_io_max_bytes_per_second: f64 = fraction("log.cleaner.io.max.bytes.per.second", "1.7976931348623157E308", 0.0, f64::MAX);
    "The default of `flush.ms` where `log.flush.interval.ms` is not set, in ms; nothing else follows from it."
    log_flush_scheduler_interval_ms: i64 = long("log.flush.scheduler.interval.ms", "9223372036854775807").at_least(1);
    "Accepted; all checkpoints are written every `replica.high.watermark.checkpoint.interval.ms`."
    log_flush_offset_checkpoint_interval_ms: i32 = int("log.flush.offset.checkpoint.interval.ms", "60000").at_least(0);
    "Accepted; a log start that moves is written at once or with the other checkpoints."
    log_flush_start_offset_checkpoint_interval_ms: i32 = int("log.flush.start.offset.checkpoint.interval.ms", "60000").at_least(0);
    "How often high watermarks are written, in ms."
    replica_high_watermark_checkpoint_interval_ms: i64 = long("replica.high.watermark.checkpoint.interval.ms", "5000").at_least(1);
    "Idempotent producers that wrote nothing for this long are forgotten, in ms."
    producer_id_expiration_ms: i32 = int("producer.id.expiration.ms", "86400000").at_least(1).dynamic();
    "How often idle producers are looked for, in ms."
    producer_id_expiration_check_interval_ms: i32 = int("producer.id.expiration.check.interval.ms", "600000").at_least(1);

    // Groups.
    "Shortest session timeout that a group member may ask for, in ms."
    group_min_session_timeout_ms: i32 = int("group.min.session.timeout.ms", "6000");
    "Longest session timeout that a group member may ask for, in ms."
    group_max_session_timeout_ms: i32 = int("group.max.session.timeout.ms", "1800000");
    "How long the first rebalance of an empty group waits for more members, in ms."
    group_initial_rebalance_delay_ms: i32 = int("group.initial.rebalance.delay.ms", "3000").at_least(0);
    "Most members of a group."
    group_max_size: i32 = int("group.max.size", "2147483647").at_least(1);
    "Largest metadata of a committed offset, in bytes."
    offset_metadata_max_bytes: i32 = int("offset.metadata.max.bytes", "4096").at_least(0);
    "An offset commit that is not written after this long, in ms, is answered with an error; it may count later."
    offsets_commit_timeout_ms: i32 = int("offsets.commit.timeout.ms", "5000").at_least(1);
    "Offsets of a group without members are forgotten after this many minutes."
    offsets_retention_minutes: i32 = int("offsets.retention.minutes", "10080").at_least(1);
    "How often expired offsets are looked for, in ms."
    offsets_retention_check_interval_ms: i64 = long("offsets.retention.check.interval.ms", "600000").at_least(1);
    "Partitions of `__consumer_offsets`; not to be changed once it exists."
    offsets_topic_num_partitions: i32 = int("offsets.topic.num.partitions", "50").at_least(1);
    "Replicas of `__consumer_offsets`; as many as there are brokers if those are fewer."
    offsets_topic_replication_factor: i16 = short("offsets.topic.replication.factor", "3").at_least(1);
    "Segment size of `__consumer_offsets`, in bytes."
    offsets_topic_segment_bytes: i32 = int("offsets.topic.segment.bytes", "104857600").at_least(1_048_576);

    // Transactions.
    "Partitions of `__transaction_state`; not to be changed once it exists."
    transaction_state_log_num_partitions: i32 = int("transaction.state.log.num.partitions", "50").at_least(1);
    "Replicas of `__transaction_state`; as many as there are brokers if those are fewer."
    transaction_state_log_replication_factor: i16 = short("transaction.state.log.replication.factor", "3").at_least(1);
    "Replicas that must have a record of `__transaction_state`; as many as it has if those are fewer."
    transaction_state_log_min_isr: i32 = int("transaction.state.log.min.isr", "2").at_least(1);
    "Segment size of `__transaction_state`, in bytes."
    transaction_state_log_segment_bytes: i32 = int("transaction.state.log.segment.bytes", "104857600").at_least(1_048_576);
    "Longest transaction that a producer may ask for, in ms."
    transaction_max_timeout_ms: i32 = int("transaction.max.timeout.ms", "900000").at_least(1);
    "Transactional ids that nobody used for this long are forgotten, in ms."
    transactional_id_expiration_ms: i32 = int("transactional.id.expiration.ms", "604800000").at_least(1);
    "How often transactions that take too long are looked for, in ms."
    transaction_abort_timed_out_transaction_cleanup_interval_ms: i32 = int("transaction.abort.timed.out.transaction.cleanup.interval.ms", "10000").at_least(1);
    "How often transactional ids that nobody uses are looked for, in ms."
    transaction_remove_expired_transaction_cleanup_interval_ms: i32 = int("transaction.remove.expired.transaction.cleanup.interval.ms", "3600000").at_least(1);
    "Whether the coordinator is asked before a transaction begins on a partition."
    transaction_partition_verification_enable: bool = boolean("transaction.partition.verification.enable", "true").dynamic();
    "Between attempts to add a partition to a transaction whose last end is not complete, in ms."
    add_partitions_to_txn_retry_backoff_ms: i32 = int("add.partitions.to.txn.retry.backoff.ms", "20").at_least(1);
    "How long such attempts go on before the client is told to come back, in ms."
    add_partitions_to_txn_retry_backoff_max_ms: i32 = int("add.partitions.to.txn.retry.backoff.max.ms", "100").at_least(0);

    // The cold tier.
    "Whether this broker has a cold tier at all."
    remote_log_storage_system_enable: bool = boolean("remote.log.storage.system.enable", "true").unlike_kafka("false");
    "How often each partition is looked at for uploads and expiry, in ms; more than 1000 counts as 1000, unless there are so many partitions that looking each second takes more than a thousandth of a processor: then as seldom as each 30 s."
    remote_log_manager_task_interval_ms: i64 = long("remote.log.manager.task.interval.ms", "30000").at_least(1);
    "Most uploads at the same time."
    remote_log_manager_copier_thread_pool_size: i32 = int("remote.log.manager.copier.thread.pool.size", "10").at_least(1);
    "Longest wait of a Fetch for the cold tier, in ms."
    remote_fetch_max_wait_ms: i32 = int("remote.fetch.max.wait.ms", "500").at_least(1).dynamic();
    "Longest wait of a ListOffsets for the cold tier, in ms."
    remote_list_offsets_request_timeout_ms: i64 = long("remote.list.offsets.request.timeout.ms", "30000").at_least(1).dynamic();
}
