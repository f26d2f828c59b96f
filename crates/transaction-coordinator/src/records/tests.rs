use super::*;

fn partition(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition::new(TopicName::new(topic).unwrap(), partition)
}

fn sample() -> Transaction {
    Transaction {
        producer: Producer {
            id: 0x0102_0304_0506_0708,
            epoch: 9,
        },
        last_producer_epoch: NO_PRODUCER_EPOCH,
        previous_producer_id: NO_PRODUCER_ID,
        next_producer_id: NO_PRODUCER_ID,
        timeout_ms: 60_000,
        state: TransactionState::Ongoing,
        partitions: [partition("b", 2), partition("a", 7), partition("b", 1)].into(),
        start_ms: 1000,
        last_update_ms: 2000,
        client_version: TransactionVersion::V0,
    }
}

const PRODUCER: &[u8] = b"\x01\x02\x03\x04\x05\x06\x07\x08\x00\x09";
const TIMEOUT: &[u8] = b"\x00\x00\xea\x60";
const TIMES: &[u8] = b"\x00\x00\x00\x00\x00\x00\x07\xd0\x00\x00\x00\x00\x00\x00\x03\xe8";

// 5.1: golden bytes of the key.
#[test]
fn the_key_has_kafkas_bytes() {
    let key = encode_key("orders").unwrap();
    assert_eq!(key.as_ref(), b"\x00\x00\x00\x06orders");
    let decoded = RecordKey::TransactionalId("orders".to_owned());
    assert_eq!(RecordKey::decode(&key), Ok(decoded));
    let other = RecordKey::decode(b"\x00\x07anything");
    assert_eq!(other, Ok(RecordKey::Other { version: 7 }));
    assert!(encode_key(&"x".repeat(40_000)).is_err());
}

// 5.1: golden bytes of version 0.
#[test]
fn version_0_has_kafkas_bytes() {
    let golden = [
        b"\x00\x00",
        PRODUCER,
        TIMEOUT,
        b"\x01",
        b"\x00\x00\x00\x02",
        b"\x00\x01a\x00\x00\x00\x01\x00\x00\x00\x07",
        b"\x00\x01b\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x02",
        TIMES,
    ]
    .concat();
    assert_eq!(encode_value(&sample(), 0).unwrap().as_ref(), golden);
    assert_eq!(decode_value(&golden), Ok(sample()));
}

// 5.1: golden bytes of version 1; fields at their defaults are no tags.
#[test]
fn version_1_has_kafkas_bytes() {
    let body = [
        b"\x00\x01",
        PRODUCER,
        TIMEOUT,
        b"\x01",
        b"\x03",
        b"\x02a\x02\x00\x00\x00\x07\x00",
        b"\x02b\x03\x00\x00\x00\x01\x00\x00\x00\x02\x00",
        TIMES,
    ]
    .concat();
    let golden = [&body[..], b"\x00"].concat();
    assert_eq!(encode_value(&sample(), 1).unwrap().as_ref(), golden);
    assert_eq!(decode_value(&golden), Ok(sample()));
    let tagged = Transaction {
        previous_producer_id: 5,
        next_producer_id: 6,
        client_version: TransactionVersion::V2,
        ..sample()
    };
    let tags = b"\x03\x00\x08\x00\x00\x00\x00\x00\x00\x00\x05\x01\x08\x00\x00\x00\x00\x00\x00\x00\x06\x02\x02\x00\x02";
    let golden = [&body[..], tags].concat();
    assert_eq!(encode_value(&tagged, 1).unwrap().as_ref(), golden);
    assert_eq!(decode_value(&golden), Ok(tagged.clone()));
    // W-4: a tag of a later version is passed over.
    let future = [&body[..], b"\x01\x09\x02\xff\xff"].concat();
    assert_eq!(decode_value(&future), Ok(sample()));
    // Version 0 has no place for them.
    let stored = decode_value(&encode_value(&tagged, 0).unwrap());
    assert_eq!(stored, Ok(sample()));
}

// 5.1: an id without a transaction has a null list.
#[test]
fn empty_is_a_null_list() {
    let empty = Transaction {
        state: TransactionState::Empty,
        partitions: BTreeSet::new(),
        start_ms: -1,
        ..sample()
    };
    let v0 = encode_value(&empty, 0).unwrap();
    assert_eq!(v0.as_ref()[17..21], [0xff; 4]);
    let v1 = encode_value(&empty, 1).unwrap();
    assert_eq!(v1.as_ref()[17], 0);
    assert_eq!(decode_value(&v0), Ok(empty.clone()));
    assert_eq!(decode_value(&v1), Ok(empty));
}

#[test]
fn damage_is_an_error() {
    for version in [0, 1] {
        let bytes = encode_value(&sample(), version).unwrap();
        for len in 0..bytes.len() {
            assert!(decode_value(&bytes[..len]).is_err(), "{len} bytes");
        }
    }
    let bytes = encode_value(&sample(), 0).unwrap();
    for (at, value) in [(1, 2), (1, 9), (16, 7), (16, 8), (16, 0xff), (23, b'/')] {
        let mut bad = bytes.to_vec();
        bad[at] = value;
        assert!(decode_value(&bad).is_err(), "byte {at}");
    }
    assert!(encode_value(&sample(), 2).is_err());
}

#[test]
fn every_state_reads_back() {
    for state in TransactionState::ALL {
        if state == TransactionState::PrepareEpochFence {
            continue; // never stored
        }
        let transaction = Transaction {
            state,
            partitions: BTreeSet::new(),
            ..sample()
        };
        let bytes = encode_value(&transaction, 1).unwrap();
        assert_eq!(decode_value(&bytes), Ok(transaction));
    }
}
