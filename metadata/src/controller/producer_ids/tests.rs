use super::*;
use crate::fixtures::{apply, brokers};

// T-5
#[test]
fn blocks_follow_each_other_and_need_the_current_broker_epoch() {
    let mut image = brokers(1);
    for block in 0..3 {
        let (records, reply) = allocate(&image, BrokerId(0), 10).unwrap();
        assert_eq!(
            reply,
            ProducerIdBlock {
                first: block * 1000,
                count: 1000
            }
        );
        image = apply(&image, &records);
    }
    let stale = allocate(&image, BrokerId(0), 9);
    assert_eq!(
        stale,
        Err(RequestError::StaleBrokerEpoch {
            given: 9,
            current: 10
        })
    );
    let unknown = allocate(&image, BrokerId(5), 10);
    assert_eq!(unknown, Err(RequestError::BrokerIdNotRegistered(5)));
}
