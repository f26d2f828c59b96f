//! The whole crate through its handle, on a real directory.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use strandline_metadata::{
    BrokerRegistration, ConfigMap, ConfigResource, ConfigValidator, ConfigsImage, CreateTopics,
    Listener, Metadata, MetadataOptions, NewTopic, OpenError, RequestError, SecurityProtocol,
};
use strandline_types::BrokerId;
use uuid::Uuid;

/// Knows `retention.ms` (a number) and `cleanup.policy` (a list).
#[derive(Debug)]
struct Validator;

impl ConfigValidator for Validator {
    fn validate(
        &self,
        _resource: &ConfigResource,
        overrides: &ConfigMap,
        _configs: &ConfigsImage,
    ) -> Result<(), RequestError> {
        for (name, value) in overrides {
            let known = match name.as_str() {
                "retention.ms" => value.parse::<i64>().is_ok(),
                "cleanup.policy" => true,
                _ => false,
            };
            if !known {
                return Err(RequestError::InvalidConfig(format!("{name} = {value}")));
            }
        }
        Ok(())
    }

    fn list_default(&self, _resource: &ConfigResource, name: &str) -> Option<String> {
        (name == "cleanup.policy").then(|| "delete".to_owned())
    }
}

fn options(dir: &Path) -> MetadataOptions {
    let mut options = MetadataOptions::new(dir.to_path_buf(), BrokerId(1), Arc::new(Validator));
    options.bootstrap_features = vec![("metadata.version".to_owned(), 20)];
    options
}

fn broker() -> BrokerRegistration {
    BrokerRegistration {
        broker_id: BrokerId(1),
        incarnation_id: Uuid::new_v4(),
        listeners: vec![Listener {
            name: "PLAINTEXT".to_owned(),
            host: "127.0.0.1".to_owned(),
            port: 9092,
            security_protocol: SecurityProtocol::Plaintext,
        }],
        rack: None,
        log_dirs: vec![Uuid::new_v4()],
        features: vec![strandline_metadata::SupportedFeature {
            name: "metadata.version".to_owned(),
            min: 1,
            max: 30,
        }],
        fenced: false,
    }
}

fn topic(name: &str, num_partitions: i32) -> NewTopic {
    NewTopic {
        name: name.to_owned(),
        num_partitions,
        replication_factor: 1,
        configs: vec![("retention.ms".to_owned(), Some("5".to_owned()))],
        ..NewTopic::default()
    }
}

async fn create(metadata: &Metadata, topics: Vec<NewTopic>) {
    let request = CreateTopics {
        topics,
        ..CreateTopics::default()
    };
    for result in metadata.create_topics(request).await.unwrap() {
        result.unwrap();
    }
}

//
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_keeps_everything_and_begins_new_leaderships() {
    let dir = tempfile::tempdir().unwrap();
    let metadata = Metadata::open(options(dir.path())).await.unwrap();
    let cluster_id = metadata.cluster_id().to_owned();
    assert_eq!(cluster_id.len(), 22);
    let first_epoch = metadata.register_broker(broker()).await.unwrap();
    create(&metadata, vec![topic("a", 3), topic("b", 1)]).await;
    let before = metadata.image();
    assert_eq!(before.topics().len(), 2);
    metadata.shutdown().await;

    let metadata = Metadata::open(options(dir.path())).await.unwrap();
    assert_eq!(metadata.cluster_id(), cluster_id);
    let image = metadata.image();
    assert_eq!(image.features().level("metadata.version"), 20);
    assert_eq!(image.topics().by_name("a"), before.topics().by_name("a"));
    assert_eq!(image.configs().topic("a"), before.configs().topic("a"));
    assert_eq!(image.cluster(), before.cluster());

    let offset = metadata.image().offset();
    let second_epoch = metadata.register_broker(broker()).await.unwrap();
    assert!(second_epoch > first_epoch);
    let image = metadata.image();
    assert_eq!(
        image.offset(),
        offset + 1,
        "one entry, however many partitions"
    );
    for topic in image.topics().iter() {
        for partition in topic.partitions() {
            assert_eq!(partition.leader, Some(BrokerId(1)));
            assert_eq!((partition.leader_epoch, partition.partition_epoch), (1, 1));
        }
    }
    strandline_metadata::check_invariants(&image).unwrap();
    metadata.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_wrong_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let metadata = Metadata::open(options(dir.path())).await.unwrap();
    let cluster_id = metadata.cluster_id().to_owned();
    let second = Metadata::open(options(dir.path())).await;
    assert!(matches!(second, Err(OpenError::Locked(_))), "{second:?}");
    metadata.shutdown().await;

    let mut other = options(dir.path());
    other.cluster_id = Some("AAAAAAAAAAAAAAAAAAAAAQ".to_owned());
    let error = Metadata::open(other).await.unwrap_err().to_string();
    assert!(
        error.contains(&cluster_id) && error.contains("AAAAAAAAAAAAAAAAAAAAAQ"),
        "{error}"
    );

    let mut other = options(dir.path());
    other.node_id = BrokerId(2);
    let error = Metadata::open(other).await.unwrap_err();
    assert!(
        matches!(
            error,
            OpenError::WrongNode {
                found: 1,
                expected: 2,
                ..
            }
        ),
        "{error}"
    );
}

// DESIGN §1: starts in well under a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opening_takes_no_election_timeout() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        let start = Instant::now();
        let metadata = Metadata::open(options(dir.path())).await.unwrap();
        let took = start.elapsed();
        eprintln!("open to ready: {took:?}");
        // The bound is loose for a busy machine; an election timeout is a second and more.
        assert!(took < Duration::from_millis(500), "{took:?}");
        let registered = Instant::now();
        metadata.register_broker(broker()).await.unwrap();
        eprintln!("register: {:?}", registered.elapsed());
        metadata.shutdown().await;
    }
}
