use super::*;
use crate::fixtures::{Validator, apply, brokers, new_topic, with_topic};

fn image() -> Image {
    with_topic(&brokers(1), new_topic("a", 1, 1))
}

fn change(name: &str, op: ConfigOp, value: Option<&str>) -> ConfigChange {
    ConfigChange {
        name: name.to_owned(),
        op,
        value: value.map(str::to_owned),
    }
}

fn decide(
    image: &Image,
    resources: Vec<(ConfigResource, ConfigAlteration)>,
) -> (Vec<Record>, Vec<Result<(), RequestError>>) {
    alter_configs(
        image,
        &AlterConfigs {
            resources,
            validate_only: false,
        },
        &Validator,
    )
    .unwrap()
}

/// Alters topic `a`.
fn alter_a(image: &Image, changes: Vec<ConfigChange>) -> Result<Image, RequestError> {
    let alteration = ConfigAlteration::Incremental(changes);
    let (records, mut replies) = decide(image, vec![(ConfigResource::topic("a"), alteration)]);
    replies.remove(0).map(|()| apply(image, &records))
}

fn value(image: &Image, name: &str) -> Option<String> {
    image
        .configs()
        .topic("a")
        .and_then(|configs| configs.get(name))
        .cloned()
}

// D-40
#[test]
fn duplicates_and_nulls_are_invalid_requests() {
    let twice = vec![
        change("number", ConfigOp::Set, Some("1")),
        change("number", ConfigOp::Delete, None),
    ];
    assert!(matches!(
        alter_a(&image(), twice),
        Err(RequestError::InvalidRequest(_))
    ));
    let null = vec![change("number", ConfigOp::Set, None)];
    assert!(matches!(
        alter_a(&image(), null),
        Err(RequestError::InvalidRequest(_))
    ));
    let empty = || ConfigAlteration::Incremental(Vec::new());
    let resource = || ConfigResource::topic("a");
    let (records, replies) = decide(&image(), vec![(resource(), empty()), (resource(), empty())]);
    assert!(records.is_empty());
    for reply in replies {
        assert!(matches!(reply, Err(RequestError::InvalidRequest(_))));
    }
}

// D-41
#[test]
fn set_and_delete() {
    let set = alter_a(&image(), vec![change("number", ConfigOp::Set, Some("1"))]).unwrap();
    assert_eq!(value(&set, "number").as_deref(), Some("1"));
    let deleted = alter_a(&set, vec![change("number", ConfigOp::Delete, None)]).unwrap();
    assert_eq!(value(&deleted, "number"), None);
    alter_a(&deleted, vec![change("number", ConfigOp::Delete, None)]).unwrap();
}

// D-41
#[test]
fn lists_grow_from_their_default_and_shrink() {
    let append = |image: &Image, items| {
        alter_a(image, vec![change("list", ConfigOp::Append, Some(items))]).unwrap()
    };
    let appended = append(&image(), "compact, delete");
    assert_eq!(value(&appended, "list").as_deref(), Some("delete,compact"));
    let same = append(&appended, "compact");
    assert_eq!(value(&same, "list").as_deref(), Some("delete,compact"));
    let less = alter_a(
        &same,
        vec![change("list", ConfigOp::Subtract, Some("delete,none"))],
    );
    assert_eq!(value(&less.unwrap(), "list").as_deref(), Some("compact"));
    for op in [ConfigOp::Append, ConfigOp::Subtract] {
        let error = alter_a(&image(), vec![change("number", op, Some("1"))]).unwrap_err();
        assert!(matches!(error, RequestError::InvalidConfig(_)), "{error}");
    }
}

// D-42
#[test]
fn the_legacy_request_replaces_all_overrides() {
    let both = vec![
        change("number", ConfigOp::Set, Some("1")),
        change("list", ConfigOp::Set, Some("x")),
    ];
    let image = alter_a(&image(), both).unwrap();
    let entries = vec![("number".to_owned(), Some("2".to_owned()))];
    let replace = ConfigAlteration::Replace(entries);
    let (records, replies) = decide(&image, vec![(ConfigResource::topic("a"), replace)]);
    assert_eq!(replies, [Ok(())]);
    let image = apply(&image, &records);
    assert_eq!(value(&image, "number").as_deref(), Some("2"));
    assert_eq!(value(&image, "list"), None);
    let null = ConfigAlteration::Replace(vec![("number".to_owned(), None)]);
    let (_, replies) = decide(&image, vec![(ConfigResource::topic("a"), null)]);
    assert!(matches!(replies[0], Err(RequestError::InvalidRequest(_))));
}

// D-42
#[test]
fn what_is_accepted_and_is_no_override_is_not_stored() {
    let entry = |name: &str| (name.to_owned(), Some("1".to_owned()));
    let replace = ConfigAlteration::Replace(vec![entry("number"), entry("fixed")]);
    let (records, replies) = decide(&image(), vec![(ConfigResource::topic("a"), replace)]);
    assert_eq!(replies, [Ok(())]);
    let image = apply(&image(), &records);
    assert_eq!(value(&image, "number").as_deref(), Some("1"));
    assert_eq!(value(&image, "fixed"), None);
}

// D-43
#[test]
fn the_resulting_set_is_validated_and_one_failure_spares_the_others() {
    let image = with_topic(&image(), new_topic("b", 1, 1));
    let set =
        |value| ConfigAlteration::Incremental(vec![change("number", ConfigOp::Set, Some(value))]);
    let (records, replies) = decide(
        &image,
        vec![
            (ConfigResource::topic("a"), set("-1")),
            (ConfigResource::topic("b"), set("1")),
            (ConfigResource::topic("x"), set("1")),
            (ConfigResource::topic("x y"), set("1")),
        ],
    );
    assert_eq!(
        replies[0],
        Err(RequestError::InvalidConfig("number=-1".to_owned()))
    );
    assert_eq!(replies[1], Ok(()));
    assert_eq!(
        replies[2],
        Err(RequestError::UnknownTopicOrPartition("x".to_owned()))
    );
    assert!(matches!(replies[3], Err(RequestError::InvalidTopicName(_))));
    let image = apply(&image, &records);
    assert!(image.configs().topic("a").is_none() && image.configs().topic("b").is_some());
}

#[test]
fn broker_configs_belong_to_a_registered_broker_or_to_all() {
    let set = || ConfigAlteration::Incremental(vec![change("number", ConfigOp::Set, Some("1"))]);
    let named = |name: &str| ConfigResource {
        kind: ConfigResourceType::Broker,
        name: name.to_owned(),
    };
    for name in ["9", "x", "-1", "00"] {
        let (_, replies) = decide(&image(), vec![(named(name), set())]);
        assert!(
            matches!(replies[0], Err(RequestError::InvalidRequest(_))),
            "{name}"
        );
    }
    let (records, replies) = decide(&image(), vec![(named("0"), set()), (named(""), set())]);
    assert_eq!(replies, [Ok(()), Ok(())]);
    let image = apply(&image(), &records);
    assert!(image.configs().broker(BrokerId(0)).is_some());
    assert!(image.configs().default_broker().is_some());
}

// D-45
#[test]
fn validate_only_changes_nothing_and_no_change_costs_no_record() {
    let set = ConfigAlteration::Incremental(vec![change("number", ConfigOp::Set, Some("1"))]);
    let resources = vec![(ConfigResource::topic("a"), set)];
    let request = AlterConfigs {
        resources: resources.clone(),
        validate_only: true,
    };
    let (records, replies) = alter_configs(&image(), &request, &Validator).unwrap();
    assert!(records.is_empty() && replies[0].is_ok());
    let (records, _) = decide(&image(), resources.clone());
    let changed = apply(&image(), &records);
    assert!(decide(&changed, resources).0.is_empty());
}
