use super::*;
use crate::fixtures::{apply, brokers};

fn update_to(level: i16, allow_downgrade: bool) -> FeatureUpdate {
    FeatureUpdate {
        name: "f".to_owned(),
        level,
        allow_downgrade,
    }
}

// D-61
#[test]
fn a_level_must_be_supported_by_all_and_not_fall_unasked() {
    let image = brokers(2);
    let (records, ()) = update(&image, &[update_to(3, false)], false).unwrap();
    let image = apply(&image, &records);
    assert_eq!(image.features().level("f"), 3);
    let refused = |updates: &[FeatureUpdate]| update(&image, updates, false).unwrap_err();
    for bad in [
        update_to(6, false),
        update_to(2, false),
        update_to(-1, true),
    ] {
        assert!(matches!(
            refused(&[bad]),
            RequestError::InvalidUpdateVersion(_)
        ));
    }
    let other = FeatureUpdate {
        name: "g".to_owned(),
        level: 1,
        allow_downgrade: false,
    };
    assert!(matches!(
        refused(&[other]),
        RequestError::InvalidUpdateVersion(_)
    ));
    let twice = [update_to(4, false), update_to(4, false)];
    assert!(matches!(refused(&twice), RequestError::InvalidRequest(_)));
    let (records, ()) = update(&image, &[update_to(2, true)], false).unwrap();
    assert_eq!(apply(&image, &records).features().level("f"), 2);
    assert!(
        update(&image, &[update_to(4, false)], true)
            .unwrap()
            .0
            .is_empty()
    );
}
