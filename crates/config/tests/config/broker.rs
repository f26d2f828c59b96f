//! Loading the broker's settings: defaults, layers, what is wrong.

use std::collections::BTreeSet;
use std::path::Path;

use strandline_config::{
    DynamicConfigs, LogLineFormat, ProduceCheck, Scope, Sources, describe_broker,
    describe_broker_defaults, environment_name, settings_of,
};

use crate::{GIB, broker, errors, load, load_from, map};

#[test]
fn nothing_set_is_one_broker_on_this_machine() {
    let loaded = load_from(&Sources::default()).unwrap();
    let config = loaded.config;
    assert_eq!(loaded.warnings, []);
    assert_eq!(config.settings.node_id, 1);
    assert_eq!(config.listeners[0].address.to_string(), "127.0.0.1:9092");
    assert_eq!(config.advertised_listeners, config.listeners);
    assert_eq!(config.http_listener.unwrap().to_string(), "127.0.0.1:9644");
    assert_eq!(config.data_dir, Path::new("/home/it/data"));
    assert_eq!(config.log_dirs, [Path::new("/home/it/data/log")]);
    assert_eq!(config.metadata_log_dir, Path::new("/home/it/data/metadata"));
    assert_eq!(config.cache_dir, Path::new("/home/it/data/cache"));
    assert_eq!(config.store_url, "file:///home/it/data/bucket");
    assert_eq!(config.strandline.cache_memory_bytes, GIB / 2);
    assert_eq!(config.strandline.cache_disk_bytes, 0);
    assert_eq!(config.strandline.tail_memory_bytes, GIB / 16);
    assert_eq!(config.strandline.produce_check, ProduceCheck::Full);
    assert_eq!(config.strandline.log_format, LogLineFormat::Human);
    assert!(config.settings.remote_log_storage_system_enable);
    assert_eq!(config.settings.offsets_topic_num_partitions, 50);
    assert_eq!(config.strandline.cluster_id, None);
}

#[test]
fn directories_follow_the_data_directory_unless_set() {
    let config = broker("strandline.data.dir = /var/lib/s\nlog.dirs=/fast, b\nlog.dir=/slow");
    let dirs = [Path::new("/fast"), Path::new("/home/it/b")];
    assert_eq!(config.log_dirs, dirs);
    assert_eq!(config.metadata_log_dir, Path::new("/var/lib/s/metadata"));
    assert_eq!(config.store_url, "file:///var/lib/s/bucket");
    assert_eq!(broker("log.dir=./x").log_dirs, [Path::new("/home/it/x")]);
    assert_eq!(
        broker("strandline.store.url=file://./b").store_url,
        "file:///home/it/b"
    );
    let config = broker("strandline.store.url=s3://bucket/prefix");
    assert_eq!(config.store_url, "s3://bucket/prefix");
    assert_eq!(config.strandline.cache_disk_bytes, 64 * GIB);
    assert!(broker("strandline.http.listener=").http_listener.is_none());
    assert_eq!(broker("broker.id=7").settings.node_id, 7);
    assert_eq!(broker("broker.id=7\nnode.id=7").settings.node_id, 7);
}

#[test]
fn a_later_layer_wins() {
    let sources = Sources {
        file: Some((
            "f".into(),
            "num.partitions=2\nnum.partitions=3\nmessage.max.bytes=9".into(),
        )),
        environment: vec![
            ("STRANDLINE_NUM_PARTITIONS".into(), "4".into()),
            ("STRANDLINE_DATA_DIR".into(), "/d".into()),
            ("STRANDLINE_LOG_RETENTION_MS".into(), "5000".into()),
            ("HOME".into(), "/root".into()),
        ],
        flags: vec!["num.partitions=5".into(), "num.partitions=6".into()],
    };
    let config = load_from(&sources).unwrap().config;
    assert_eq!(config.settings.num_partitions, 6);
    assert_eq!(config.data_dir, Path::new("/d"));
    let sources = Sources {
        flags: vec![],
        ..sources
    };
    assert_eq!(
        load_from(&sources).unwrap().config.settings.num_partitions,
        4
    );
}

#[test]
fn everything_wrong_is_said_at_once() {
    let sources = Sources {
        file: Some((
            "server.properties".into(),
            "num.partitions=none\nlog.retetion.ms=1\nretention.ms=5\nstrandline.tier.delay=1\n\
             log.dirs=/a,/b,/a\nlog.cleanup.policy=compact\ngroup.min.session.timeout.ms=9999999\n\
             node.id=1\nbroker.id=2\nlog.local.retention.ms=3600001\nlog.retention.hours=1\n\
             log.local.retention.bytes=-1\nlog.retention.bytes=5"
                .into(),
        )),
        environment: vec![
            ("STRANDLINE_MAX_CONNECTIONS".into(), "-1".into()),
            ("STRANDLINE_NUM_PARTITION".into(), "8".into()),
            ("STRANDLINE_X_Y".into(), "8".into()),
        ],
        flags: vec!["nonsense".into(), "listeners=SSL://:9093".into()],
    };
    let said = errors(load_from(&sources));
    let expected = [
        "server.properties:1: num.partitions = 'none' is not allowed: must be INT, 1 to 2147483647",
        "server.properties:2: unknown setting 'log.retetion.ms'; did you mean 'log.retention.ms'?",
        "server.properties:3: unknown setting 'retention.ms'; did you mean 'log.retention.ms'?",
        "server.properties:4: unknown setting 'strandline.tier.delay'; \
         did you mean 'strandline.tier.max.delay.ms'?",
        "environment variable STRANDLINE_MAX_CONNECTIONS: max.connections = '-1' is not allowed: \
         must be INT, 0 or more",
        "environment variable STRANDLINE_NUM_PARTITION names no setting; \
         did you mean 'STRANDLINE_NUM_PARTITIONS'?",
        "environment variable STRANDLINE_X_Y names no setting",
        "--set: must be name=value",
        "node.id = '1', broker.id = '2': both name the id of this broker and must be equal",
        "log.dirs = '/a,/b,/a': names a directory twice",
        "group.min.session.timeout.ms = '9999999', group.max.session.timeout.ms = '1800000': \
         the least must not be above the greatest",
        "log.cleanup.policy = 'compact', remote.log.storage.system.enable = 'true': a compacted \
         topic cannot be tiered: set cleanup.policy on the topics that are to be compacted",
        "log.local.retention.ms = '3600001', log.retention.ms = '3600000': \
         the local retention must not exceed the total one",
        "log.local.retention.bytes = '-1', log.retention.bytes = '5': \
         the local retention must not exceed the total one",
        "listeners = 'SSL://:9093' is not served yet: SSL is not, only PLAINTEXT",
    ];
    assert_eq!(said, expected);
}

#[test]
fn what_kafka_has_and_we_do_not_is_a_warning() {
    let sources = Sources {
        file: Some((
            "f".into(),
            "num.network.threads=3\nzookeeper.connect=z:2181\ninter.broker.protocol.version=3.9\n\
             listener.name.internal.ssl.keystore.location=/k\nrsm.config.x=y\nssl.key.password=p\n\
             log.remote.copy.lag.ms=5\nsuper.users=User:a\nauthorizer.class.name=a.B"
                .into(),
        )),
        environment: vec![
            ("STRANDLINE_NUM_IO_THREADS".into(), "8".into()),
            ("STRANDLINE_RSM_CONFIG_X".into(), "p".into()),
            ("STRANDLINE_SERVICE_HOST".into(), "p".into()),
            ("STRANDLINE_ZOOKEEPER_X".into(), "p".into()),
        ],
        flags: vec![],
    };
    let loaded = load_from(&sources).unwrap();
    let said: Vec<_> = loaded.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 13, "{said:#?}");
    assert_eq!(
        said[0],
        "f:1: num.network.threads is known to Kafka and not served yet: ignored"
    );
    assert_eq!(
        said[1],
        "f:2: zookeeper.connect was removed from Kafka: ignored"
    );
    assert!(said[8].contains("every client may do everything"));
    let of_variables = [
        "environment variable STRANDLINE_NUM_IO_THREADS: num.io.threads is known to Kafka and not \
         served yet: ignored",
        "environment variable STRANDLINE_RSM_CONFIG_X: rsm_config_x is known to Kafka and not \
         served yet: ignored",
        "environment variable STRANDLINE_SERVICE_HOST names no setting and looks like one that a \
         container platform sets: ignored",
        "environment variable STRANDLINE_ZOOKEEPER_X: zookeeper_x was removed from Kafka: ignored",
    ];
    assert_eq!(said[9..13], of_variables);
    // No value of a warning, which may be a secret, is repeated.
    assert!(
        !said
            .iter()
            .any(|line| line.contains('p') && line.ends_with("=p"))
    );
}

/// The file that comes with Kafka, in its own words for its own quorum.
#[test]
fn a_stock_server_properties_starts() {
    let loaded = load(
        "process.roles=broker,controller\nnode.id=1\n\
         controller.quorum.bootstrap.servers=localhost:9093\n\
         listeners=PLAINTEXT://:9092,CONTROLLER://:9093\n\
         inter.broker.listener.name=PLAINTEXT\n\
         advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n\
         controller.listener.names=CONTROLLER\n\
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL\n\
         num.network.threads=3\nlog.dirs=/tmp/kraft-combined-logs\n\
         offsets.topic.replication.factor=1\ntransaction.state.log.min.isr=1\n\
         log.retention.hours=168\nlog.segment.bytes=1073741824\n",
    );
    let config = loaded.unwrap().config;
    assert_eq!(config.listeners.len(), 1);
    assert_eq!(
        config.advertised_listeners[0].address.to_string(),
        "localhost:9092"
    );
}

#[test]
fn environment_names_are_unambiguous() {
    let mut seen = BTreeSet::new();
    for setting in settings_of(Scope::Broker) {
        assert!(
            seen.insert(environment_name(setting.name)),
            "{}",
            setting.name
        );
        assert!(!setting.name.contains('_'), "{}", setting.name);
    }
    assert_eq!(
        environment_name("log.segment.bytes"),
        "STRANDLINE_LOG_SEGMENT_BYTES"
    );
    assert_eq!(
        environment_name("strandline.data.dir"),
        "STRANDLINE_DATA_DIR"
    );
}

// D-33, D-35
#[test]
fn a_broker_is_described_with_sources() {
    let config = broker("log.retention.hours=5\nmax.connections=10");
    let dynamic = DynamicConfigs {
        cluster: map(&[("max.connections", "20"), ("message.max.bytes", "5")]),
        broker: map(&[("max.connections", "30"), ("num.partitions", "4")]),
    };
    let (config, problems) = config.with_dynamic(&dynamic);
    assert_eq!(problems.0.len(), 1, "num.partitions is not dynamic");
    assert_eq!(config.settings.max_connections, 30);
    assert_eq!(config.settings.num_partitions, 1);
    let all = describe_broker(&config, None);
    assert!(all.is_sorted_by_key(|entry| entry.name));
    let entry = |name: &str| all.iter().find(|entry| entry.name == name).unwrap();
    let connections = entry("max.connections");
    let layers: Vec<_> = connections
        .synonyms
        .iter()
        .map(|s| (s.value.as_deref().unwrap(), s.source.wire()))
        .collect();
    assert_eq!(layers, [("30", 2), ("20", 3), ("10", 4), ("2147483647", 5)]);
    assert_eq!(
        (connections.source.wire(), connections.read_only),
        (2, false)
    );
    let partitions = entry("num.partitions");
    assert_eq!((partitions.source.wire(), partitions.read_only), (5, true));
    let retention = entry("log.retention.ms");
    assert_eq!(
        (retention.value.as_deref(), retention.source.wire()),
        (None, 4)
    );
    assert_eq!(entry("log.dir").value.as_deref(), Some("./data/log"));
    // D-31
    let defaults = describe_broker_defaults(&config, None);
    let names: Vec<_> = defaults
        .iter()
        .map(|e| (e.name, e.value.as_deref().unwrap()))
        .collect();
    assert_eq!(
        names,
        [("max.connections", "20"), ("message.max.bytes", "5")]
    );
}
