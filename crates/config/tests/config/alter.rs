//! Changes by clients: operations on lists, dynamic broker settings.

use strandline_config::{
    AlterEntry, AlterOp, TopicConfig, TopicKind, apply_to_broker, apply_to_topic, describe_broker,
    validate_broker_dynamic,
};

use crate::{Map, broker, errors, map};

fn entry(name: &str, op: AlterOp, value: Option<&str>) -> AlterEntry {
    AlterEntry {
        name: name.into(),
        op,
        value: value.map(Into::into),
    }
}

fn after(current: &[(&str, &str)], entries: &[AlterEntry]) -> Map {
    apply_to_topic(&map(current), entries, &broker(""), TopicKind::User).unwrap()
}

// D-41
#[test]
fn operations_set_delete_append_and_subtract() {
    let set = entry("retention.ms", AlterOp::Set, Some("5"));
    assert_eq!(
        after(&[("retention.ms", "1")], &[set]),
        map(&[("retention.ms", "5")])
    );
    let delete = entry("retention.ms", AlterOp::Delete, None);
    assert_eq!(
        after(&[("retention.ms", "1")], std::slice::from_ref(&delete)),
        map(&[])
    );
    assert_eq!(after(&[], &[delete]), map(&[]));
    // Appending starts from the default where nothing is set, and skips what is there.
    let append = entry("cleanup.policy", AlterOp::Append, Some("compact, delete"));
    let both = map(&[("cleanup.policy", "delete,compact")]);
    assert_eq!(after(&[], std::slice::from_ref(&append)), both);
    let both_set = [("cleanup.policy", "delete,compact")];
    assert_eq!(after(&both_set, &[append]), both);
    let subtract = entry("cleanup.policy", AlterOp::Subtract, Some("delete"));
    assert_eq!(
        after(&both_set, &[subtract]),
        map(&[("cleanup.policy", "compact")])
    );
    assert_eq!(AlterOp::from_wire(3), Some(AlterOp::Subtract));
    assert_eq!(AlterOp::from_wire(4), None);
}

// D-40, D-41
#[test]
fn operations_that_make_no_sense_are_refused() {
    let entries = [
        entry("retention.ms", AlterOp::Append, Some("5")),
        entry("segment.ms", AlterOp::Set, None),
        entry("no.such", AlterOp::Append, Some("5")),
    ];
    let result = apply_to_topic(&map(&[]), &entries, &broker(""), TopicKind::User);
    let said = errors(result);
    assert_eq!(
        said,
        [
            "retention.ms is not a list: it takes SET and DELETE only",
            "segment.ms has no value",
            "request: unknown setting 'no.such'",
        ]
    );
    let append = entry("max.connections", AlterOp::Append, Some("5"));
    assert_eq!(
        errors(apply_to_broker(&map(&[]), &[append], &broker(""))).len(),
        1
    );
}

#[test]
fn long_names_and_values_are_cut_in_messages() {
    let long = "é".repeat(1 << 20);
    let mut wanted = map(&[("retention.ms", &long), (&long, "1")]);
    wanted.extend((0..5000).map(|n| (format!("unknown.{n}"), String::new())));
    let result = TopicConfig::resolve(&wanted, &broker(""), TopicKind::User);
    let message = result.unwrap_err().to_string();
    assert!(
        message.len() < 5_000 && message.contains("(2097152 bytes)"),
        "{message}"
    );
    assert!(message.ends_with("; and 1 more"), "{message}");
}

// D-43
#[test]
fn what_can_be_applied_live_may_be_changed() {
    let broker = broker("");
    let good = map(&[
        ("log.cleaner.delete.retention.ms", "1"),
        ("log.retention.ms", "5"),
        ("message.max.bytes", "7"),
    ]);
    assert_eq!(validate_broker_dynamic(&good, &broker), Ok(good));
    let bad = map(&[
        ("listeners", "PLAINTEXT://:1"),
        ("log.segment.bytes", "5"),
        ("num.io.threads", "4"),
        ("log.retention.mss", "4"),
        ("log.cleanup.policy", "compact"),
    ]);
    let said = errors(validate_broker_dynamic(&bad, &broker));
    assert_eq!(
        said,
        [
            "listeners cannot be changed while the broker runs: set it in the file and restart",
            "log.cleanup.policy = 'compact', remote.log.storage.system.enable = 'true': a compacted \
             topic cannot be tiered: set cleanup.policy on the topics that are to be compacted",
            "request: unknown setting 'log.retention.mss'; did you mean 'log.retention.ms'?",
            "request: log.segment.bytes = '5' is not allowed: must be INT, 1048576 or more",
            "num.io.threads = '4' is not served yet: it cannot be set",
        ]
    );
}

// D-42
#[test]
fn a_broker_may_be_written_back_as_it_was_read() {
    let broker = broker("max.connections=9\nlog.retention.hours=3");
    let all: Map = describe_broker(&broker, None)
        .into_iter()
        .filter_map(|entry| Some((entry.name.to_owned(), entry.value?)))
        .collect();
    let stored = validate_broker_dynamic(&all, &broker).unwrap();
    assert_eq!(stored.get("max.connections").map(String::as_str), Some("9"));
    assert!(
        !stored.contains_key("listeners"),
        "read-only settings are not stored"
    );
}
