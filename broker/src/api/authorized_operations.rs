//! The fields of authorized operations: bits of the codes of Kafka's AclOperation.
//!
//! Without an authorizer a client may do whatever there is to do with a resource, and is told so when it
//! asks.

const READ: u32 = 3;
const WRITE: u32 = 4;
const CREATE: u32 = 5;
const DELETE: u32 = 6;
const ALTER: u32 = 7;
const DESCRIBE: u32 = 8;
const CLUSTER_ACTION: u32 = 9;
const DESCRIBE_CONFIGS: u32 = 10;
const ALTER_CONFIGS: u32 = 11;
const IDEMPOTENT_WRITE: u32 = 12;

/// "Not asked for".
pub(super) const NOT_ASKED: i32 = i32::MIN;

/// All that can be done with a topic.
const TOPIC: i32 = bits(&[
    READ,
    WRITE,
    CREATE,
    DELETE,
    ALTER,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    ALTER_CONFIGS,
]);
const CLUSTER: i32 = bits(&[
    CREATE,
    ALTER,
    DESCRIBE,
    CLUSTER_ACTION,
    DESCRIBE_CONFIGS,
    ALTER_CONFIGS,
    IDEMPOTENT_WRITE,
]);
const GROUP: i32 = bits(&[READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS]);

const fn bits(operations: &[u32]) -> i32 {
    let (mut out, mut at) = (0, 0);
    while at < operations.len() {
        out |= 1 << operations[at];
        at += 1;
    }
    out
}

pub(super) const fn of_topic(asked: bool) -> i32 {
    if asked { TOPIC } else { NOT_ASKED }
}

pub(super) const fn of_cluster(asked: bool) -> i32 {
    if asked { CLUSTER } else { NOT_ASKED }
}

pub(super) const fn of_group(asked: bool) -> i32 {
    if asked { GROUP } else { NOT_ASKED }
}

#[cfg(test)]
mod tests {
    use super::*;

    // what Kafka answers without an authorizer.
    #[test]
    fn all_operations_are_kafkas() {
        assert_eq!([TOPIC, CLUSTER, GROUP], [3576, 8096, 3400]);
    }
}
