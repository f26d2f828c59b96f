use proptest::prelude::*;

use super::*;
use crate::fixtures::any_record;

proptest! {
    #[test]
    fn records_round_trip(records in prop::collection::vec(any_record(), 0..20)) {
        let bytes = encode_records(&records);
        prop_assert_eq!(decode_records(&bytes), Ok(records));
    }

    #[test]
    fn hostile_bytes_are_an_error_and_no_panic(
        records in prop::collection::vec(any_record(), 1..3),
        noise in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = encode_records(&records);
        for (at, byte) in noise {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        drop(decode_records(&bytes));
    }
}

#[test]
fn what_a_newer_version_wrote_is_refused_by_name() {
    let unknown = decode_records(&[99, 0, 0]);
    assert_eq!(unknown, Err(DecodeError::UnknownRecord { kind: 99 }));
    let newer = decode_records(&[9, 1, 0]);
    let expected = DecodeError::NewerRecord {
        record: "RemoveTopicRecord",
        version: 1,
        newest: 0,
    };
    assert_eq!(newer, Err(expected));
    let mut longer = vec![9, 0, 17];
    longer.extend([0; 17]);
    assert_eq!(
        decode_records(&longer),
        Err(DecodeError::Trailing { count: 1 })
    );
}

// Golden bytes: a change here is a new version of the record, not a new expectation.
#[test]
fn bytes_of_version_0_stay_as_they_are() {
    let id = TopicId(uuid::Uuid::from_u128(
        0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10,
    ));
    let id_bytes: Vec<u8> = (1..=16).collect();
    let topic = Record::Topic(TopicRecord {
        name: TopicName::new("ab").unwrap(),
        topic_id: id,
    });
    assert_eq!(
        encode_records(&[topic]),
        [&[2, 0, 19, 2, b'a', b'b'][..], &id_bytes].concat()
    );
    let list = BrokerList::from(vec![BrokerId(1), BrokerId(2)]);
    let partition = Record::Partition(PartitionRecord {
        topic_id: id,
        partition: 3,
        replicas: list.clone(),
        isr: list,
        leader: None,
        leader_epoch: 4,
        partition_epoch: 5,
    });
    let tail = [6, 2, 2, 4, 2, 2, 4, 1, 8, 10];
    assert_eq!(
        encode_records(&[partition]),
        [&[3, 0, 26][..], &id_bytes, &tail].concat()
    );
    let ids = Record::ProducerIds(ProducerIdsRecord {
        broker_id: BrokerId(1),
        broker_epoch: -1,
        next_producer_id: 1000,
    });
    assert_eq!(encode_records(&[ids]), [15, 0, 4, 2, 1, 0xd0, 0x0f]);
    let leaderships = Record::BrokerLeaderships(BrokerLeadershipsRecord {
        broker_id: BrokerId(1),
    });
    assert_eq!(encode_records(&[leaderships]), [0xe8, 0x07, 0, 1, 2]);
}
