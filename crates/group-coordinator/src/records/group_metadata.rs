//! The value of a classic group's metadata.
//!
//! Rules: section 4.3 (GroupMetadataValue: reads 0-4, writes 3).

use bytes::Bytes;

use strandline_coordinator::{Reader, RecordError, Writer};

const WRITTEN_VERSION: i16 = 3;

/// A classic group as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMetadata {
    /// "" for a group that never had members.
    pub protocol_type: String,
    /// Generation of the assignment.
    pub generation: i32,
    /// The chosen protocol; `None` for an empty group.
    pub protocol: Option<String>,
    /// Member id of the leader.
    pub leader: Option<String>,
    /// Since when the group is in its state, in ms since the Unix epoch; -1 if unknown.
    pub current_state_timestamp_ms: i64,
    /// Its members.
    pub members: Vec<MemberMetadata>,
}

/// A member as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberMetadata {
    /// Member id.
    pub member_id: String,
    /// Set for a static member.
    pub group_instance_id: Option<String>,
    /// Client id.
    pub client_id: String,
    /// Client host.
    pub client_host: String,
    /// Rebalance timeout; the session timeout in version 0, which has none.
    pub rebalance_timeout_ms: i32,
    /// Session timeout.
    pub session_timeout_ms: i32,
    /// Metadata for the chosen protocol.
    pub subscription: Bytes,
    /// What the leader assigned.
    pub assignment: Bytes,
}

impl GroupMetadata {
    /// Version 3.
    pub fn encode(&self) -> Result<Bytes, RecordError> {
        let mut writer = Writer::default();
        writer.i16(WRITTEN_VERSION);
        writer.string("protocol type", &self.protocol_type)?;
        writer.i32(self.generation);
        writer.nullable_string("protocol", self.protocol.as_deref())?;
        writer.nullable_string("leader", self.leader.as_deref())?;
        writer.i64(self.current_state_timestamp_ms);
        writer.array_len("members", self.members.len())?;
        for member in &self.members {
            member.encode(&mut writer)?;
        }
        Ok(writer.finish())
    }

    /// Reads versions 0 to 4.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let mut reader = Reader::new(bytes);
        let version = reader.i16("value version")?;
        if !(0..=4).contains(&version) {
            return Err(RecordError::ValueVersion(version));
        }
        reader.set_flexible(version >= 4);
        let protocol_type = reader.string("protocol type")?;
        let generation = reader.i32("generation")?;
        let protocol = reader.nullable_string("protocol")?;
        let leader = reader.nullable_string("leader")?;
        let current_state_timestamp_ms = if version >= 2 {
            reader.i64("current state timestamp")?
        } else {
            -1
        };
        let mut members = Vec::new();
        for _ in 0..reader.array_len("members")? {
            members.push(MemberMetadata::decode(&mut reader, version)?);
        }
        reader.tags()?;
        Ok(Self {
            protocol_type,
            generation,
            protocol,
            leader,
            current_state_timestamp_ms,
            members,
        })
    }
}

impl MemberMetadata {
    fn encode(&self, writer: &mut Writer) -> Result<(), RecordError> {
        writer.string("member id", &self.member_id)?;
        writer.nullable_string("group instance id", self.group_instance_id.as_deref())?;
        writer.string("client id", &self.client_id)?;
        writer.string("client host", &self.client_host)?;
        writer.i32(self.rebalance_timeout_ms);
        writer.i32(self.session_timeout_ms);
        writer.bytes("subscription", &self.subscription)?;
        writer.bytes("assignment", &self.assignment)
    }

    fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
        let member_id = reader.string("member id")?;
        let group_instance_id = if version >= 3 {
            reader.nullable_string("group instance id")?
        } else {
            None
        };
        let client_id = reader.string("client id")?;
        let client_host = reader.string("client host")?;
        let rebalance_timeout_ms = if version >= 1 {
            Some(reader.i32("rebalance timeout")?)
        } else {
            None
        };
        let session_timeout_ms = reader.i32("session timeout")?;
        let subscription = reader.bytes("subscription")?;
        let assignment = reader.bytes("assignment")?;
        reader.tags()?;
        Ok(Self {
            member_id,
            group_instance_id,
            client_id,
            client_host,
            rebalance_timeout_ms: rebalance_timeout_ms.unwrap_or(session_timeout_ms),
            session_timeout_ms,
            subscription,
            assignment,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> GroupMetadata {
        GroupMetadata {
            protocol_type: "consumer".to_owned(),
            generation: 5,
            protocol: Some("range".to_owned()),
            leader: Some("m1".to_owned()),
            current_state_timestamp_ms: 1_000,
            members: vec![MemberMetadata {
                member_id: "m1".to_owned(),
                group_instance_id: Some("i1".to_owned()),
                client_id: "c".to_owned(),
                client_host: "/h".to_owned(),
                rebalance_timeout_ms: 300_000,
                session_timeout_ms: 45_000,
                subscription: Bytes::from_static(b"sub"),
                assignment: Bytes::new(),
            }],
        }
    }

    const HEAD: &[u8] = b"\x00\x08consumer\x00\x00\x00\x05\x00\x05range\x00\x02m1";
    const SINCE: &[u8] = b"\x00\x00\x00\x00\x00\x00\x03\xe8";
    const ONE: &[u8] = b"\x00\x00\x00\x01";
    const CLIENT: &[u8] = b"\x00\x01c\x00\x02/h";
    const REBALANCE: &[u8] = b"\x00\x04\x93\xe0";
    const SESSION: &[u8] = b"\x00\x00\xaf\xc8";
    const BYTES: &[u8] = b"\x00\x00\x00\x03sub\x00\x00\x00\x00";

    // 4.3: golden bytes of the written version.
    #[test]
    fn version_3_has_kafkas_bytes() {
        let member = [b"\x00\x02m1\x00\x02i1", CLIENT, REBALANCE, SESSION, BYTES].concat();
        let golden = [b"\x00\x03", HEAD, SINCE, ONE, &member].concat();
        assert_eq!(sample().encode().unwrap().as_ref(), golden);
        assert_eq!(GroupMetadata::decode(&golden), Ok(sample()));
    }

    // 4.3: an empty group has null protocol and leader and no members.
    #[test]
    fn an_empty_group_has_nulls() {
        let empty = GroupMetadata {
            protocol: None,
            leader: None,
            members: Vec::new(),
            ..sample()
        };
        let golden = [
            b"\x00\x03\x00\x08consumer\x00\x00\x00\x05\xff\xff\xff\xff",
            SINCE,
            &[0; 4],
        ]
        .concat();
        assert_eq!(empty.encode().unwrap().as_ref(), golden);
        assert_eq!(GroupMetadata::decode(&golden), Ok(empty));
    }

    // 4.3: version 0 has no rebalance timeout, 0 and 1 no timestamp, 0 to 2 no instance id.
    #[test]
    fn older_versions_are_read() {
        let mut expected = sample();
        expected.members[0].group_instance_id = None;

        let member = [b"\x00\x02m1", CLIENT, REBALANCE, SESSION, BYTES].concat();
        let v2 = [b"\x00\x02", HEAD, SINCE, ONE, &member].concat();
        assert_eq!(GroupMetadata::decode(&v2).as_ref(), Ok(&expected));

        expected.current_state_timestamp_ms = -1;
        let v1 = [b"\x00\x01", HEAD, ONE, &member].concat();
        assert_eq!(GroupMetadata::decode(&v1).as_ref(), Ok(&expected));

        expected.members[0].rebalance_timeout_ms = 45_000;
        let member = [b"\x00\x02m1", CLIENT, SESSION, BYTES].concat();
        let v0 = [b"\x00\x00", HEAD, ONE, &member].concat();
        assert_eq!(GroupMetadata::decode(&v0), Ok(expected));
    }

    // 4.3: version 4 is version 3 in the flexible encoding.
    #[test]
    fn the_flexible_version_is_read() {
        let head: &[u8] = b"\x09consumer\x00\x00\x00\x05\x06range\x03m1";
        let member = [
            b"\x03m1\x03i1\x02c\x03/h",
            REBALANCE,
            SESSION,
            b"\x04sub\x01\x00",
        ]
        .concat();
        let v4 = [b"\x00\x04", head, SINCE, b"\x02", &member, b"\x00"].concat();
        assert_eq!(GroupMetadata::decode(&v4), Ok(sample()));
        assert_eq!(
            GroupMetadata::decode(b"\x00\x05"),
            Err(RecordError::ValueVersion(5))
        );
    }

    #[test]
    fn damage_is_an_error_and_costs_nothing() {
        let bytes = sample().encode().unwrap();
        for len in 0..bytes.len() {
            assert!(GroupMetadata::decode(&bytes[..len]).is_err(), "{len} bytes");
        }
        // Two billion members are claimed, none is there.
        let absurd = [b"\x00\x03", HEAD, SINCE, b"\x7f\xff\xff\xff"].concat();
        assert!(GroupMetadata::decode(&absurd).is_err());
    }
}
