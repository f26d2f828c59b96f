use super::*;
use crate::fixtures::{apply, brokers, listener, new_topic, with_topic};
use crate::record::FeatureLevelRecord;

fn registration(id: i32, incarnation: u128) -> BrokerRegistration {
    BrokerRegistration {
        broker_id: BrokerId(id),
        incarnation_id: Uuid::from_u128(incarnation),
        listeners: vec![listener()],
        rack: None,
        log_dirs: Vec::new(),
        features: vec![SupportedFeature {
            name: "f".to_owned(),
            min: 1,
            max: 5,
        }],
        fenced: false,
    }
}

// a restart is a new leadership, at the price of one record.
#[test]
fn a_new_incarnation_fences_the_previous_one_and_leads_anew() {
    let image = with_topic(&brokers(1), new_topic("a", 3, 1));
    let (records, epoch) = register(&image, &registration(0, 77)).unwrap();
    assert_eq!(records.len(), 2);
    let image = apply(&image, &records);
    for partition in image.topics().by_name("a").unwrap().partitions() {
        assert_eq!((partition.leader_epoch, partition.partition_epoch), (1, 1));
    }
    assert_eq!(image.cluster().broker(BrokerId(0)).unwrap().epoch, epoch);
    let old = check_epoch(&image, BrokerId(0), 10);
    assert!(matches!(
        old,
        Err(RequestError::StaleBrokerEpoch { given: 10, .. })
    ));
}

#[test]
fn the_same_incarnation_again_keeps_its_epoch_and_its_leaderships() {
    let image = brokers(1);
    let (records, epoch) = register(&image, &registration(0, 77)).unwrap();
    let image = with_topic(&apply(&image, &records), new_topic("a", 1, 1));
    assert_eq!(
        register(&image, &registration(0, 77)),
        Ok((Vec::new(), epoch))
    );
    let mut moved = registration(0, 77);
    moved.listeners[0].port = 1;
    let (records, same) = register(&image, &moved).unwrap();
    assert_eq!((records.len(), same), (1, epoch));
    let image = apply(&image, &records);
    assert_eq!(
        image.topics().by_name("a").unwrap().partitions()[0].leader_epoch,
        0
    );
}

#[test]
fn epochs_grow_over_all_brokers() {
    let mut image = brokers(0);
    let mut last = -1;
    for id in 0..5 {
        let (records, epoch) = register(&image, &registration(id % 2, 50 + id as u128)).unwrap();
        assert!(epoch > last);
        last = epoch;
        image = apply(&image, &records);
    }
}

//
#[test]
fn a_fenced_broker_joins_when_it_is_unfenced() {
    let mut request = registration(1, 1);
    request.fenced = true;
    let image = brokers(0);
    let (records, epoch) = register(&image, &request).unwrap();
    let image = apply(&image, &records);
    assert_eq!(image.cluster().unfenced_brokers().count(), 0);
    assert!(unfence(&image, BrokerId(1), epoch - 1).is_err());
    let (records, ()) = unfence(&image, BrokerId(1), epoch).unwrap();
    let image = apply(&image, &records);
    assert_eq!(image.cluster().alive_ids(), [BrokerId(1)]);
    assert!(unfence(&image, BrokerId(1), epoch).unwrap().0.is_empty());
}

#[test]
fn bad_registrations_are_refused() {
    let level = FeatureLevelRecord {
        name: "f".to_owned(),
        level: 3,
    };
    let image = apply(&brokers(1), &[Record::FeatureLevel(level)]);
    let mut bad = vec![registration(-1, 1); 4];
    bad[1] = BrokerRegistration {
        listeners: Vec::new(),
        ..registration(1, 1)
    };
    bad[2] = BrokerRegistration {
        listeners: vec![listener(); 2],
        ..registration(1, 1)
    };
    bad[3] = BrokerRegistration {
        features: Vec::new(),
        ..registration(1, 1)
    };
    for request in bad {
        let error = register(&image, &request).unwrap_err();
        assert!(matches!(error, RequestError::InvalidRequest(_)), "{error}");
    }
}
