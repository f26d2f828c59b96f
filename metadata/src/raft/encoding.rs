//! Bytes of log ids, votes, memberships and entries. See `docs/formats/metadata-log.md`.

use std::collections::{BTreeMap, BTreeSet};

use openraft::{BasicNode, EntryPayload};

use crate::codec::{DecodeError, Reader, Writer};
use crate::raft::types::{
    Entry, LeaderId, LogId, Membership, Payload, RecordBatch, StoredMembership, Vote,
};
use crate::record::{decode_records, encode_record};

const BLANK: u8 = 0;
const RECORDS: u8 = 1;
const MEMBERSHIP: u8 = 2;

pub(crate) fn encode_log_id(id: &LogId, out: &mut Writer) {
    out.uvarint(id.leader_id.term);
    out.uvarint(id.leader_id.node_id);
    out.uvarint(id.index);
}

pub(crate) fn decode_log_id(from: &mut Reader<'_>) -> Result<LogId, DecodeError> {
    let leader_id = LeaderId {
        term: from.uvarint()?,
        node_id: from.uvarint()?,
    };
    Ok(LogId {
        leader_id,
        index: from.uvarint()?,
    })
}

pub(crate) fn encode_opt_log_id(id: Option<&LogId>, out: &mut Writer) {
    out.bool(id.is_some());
    if let Some(id) = id {
        encode_log_id(id, out);
    }
}

pub(crate) fn decode_opt_log_id(from: &mut Reader<'_>) -> Result<Option<LogId>, DecodeError> {
    if from.bool()? {
        decode_log_id(from).map(Some)
    } else {
        Ok(None)
    }
}

pub(crate) fn encode_vote(vote: &Vote) -> Vec<u8> {
    let mut out = Writer::default();
    out.uvarint(vote.leader_id.term);
    out.uvarint(vote.leader_id.node_id);
    out.bool(vote.committed);
    out.out
}

pub(crate) fn decode_vote(bytes: &[u8]) -> Result<Vote, DecodeError> {
    let mut from = Reader::new(bytes);
    let leader_id = LeaderId {
        term: from.uvarint()?,
        node_id: from.uvarint()?,
    };
    let vote = Vote {
        leader_id,
        committed: from.bool()?,
    };
    from.finish()?;
    Ok(vote)
}

pub(crate) fn encode_entry(entry: &Entry) -> Vec<u8> {
    let mut out = Writer::default();
    encode_log_id(&entry.log_id, &mut out);
    match &entry.payload {
        EntryPayload::Blank => out.u8(BLANK),
        EntryPayload::Normal(RecordBatch(records)) => {
            out.u8(RECORDS);
            for record in records {
                encode_record(record, &mut out);
            }
        }
        EntryPayload::Membership(membership) => {
            out.u8(MEMBERSHIP);
            encode_membership(membership, &mut out);
        }
    }
    out.out
}

pub(crate) fn decode_entry(bytes: &[u8]) -> Result<Entry, DecodeError> {
    let mut from = Reader::new(bytes);
    let log_id = decode_log_id(&mut from)?;
    let payload: Payload = match from.u8()? {
        BLANK => EntryPayload::Blank,
        RECORDS => {
            let rest = from.take(from.remaining())?;
            EntryPayload::Normal(RecordBatch(decode_records(rest)?))
        }
        MEMBERSHIP => EntryPayload::Membership(decode_membership(&mut from)?),
        value => {
            return Err(DecodeError::Value {
                what: "an entry",
                value: value.into(),
            });
        }
    };
    from.finish()?;
    Ok(Entry { log_id, payload })
}

pub(crate) fn encode_stored_membership(membership: &StoredMembership, out: &mut Writer) {
    encode_opt_log_id(membership.log_id().as_ref(), out);
    encode_membership(membership.membership(), out);
}

pub(crate) fn decode_stored_membership(
    from: &mut Reader<'_>,
) -> Result<StoredMembership, DecodeError> {
    let log_id = decode_opt_log_id(from)?;
    Ok(StoredMembership::new(log_id, decode_membership(from)?))
}

fn encode_membership(membership: &Membership, out: &mut Writer) {
    let configs = membership.get_joint_config();
    out.len(configs.len());
    for config in configs {
        out.len(config.len());
        for id in config {
            out.uvarint(*id);
        }
    }
    out.len(membership.nodes().count());
    for (id, node) in membership.nodes() {
        out.uvarint(*id);
        out.str(&node.addr);
    }
}

fn decode_membership(from: &mut Reader<'_>) -> Result<Membership, DecodeError> {
    let mut configs = Vec::new();
    for _ in 0..from.count()? {
        let mut config = BTreeSet::new();
        for _ in 0..from.count()? {
            config.insert(from.uvarint()?);
        }
        configs.push(config);
    }
    let mut nodes = BTreeMap::new();
    for _ in 0..from.count()? {
        let id = from.uvarint()?;
        nodes.insert(id, BasicNode::new(from.str()?));
    }
    Membership::new(configs, nodes).map_err(|_| DecodeError::Value {
        what: "a membership without voters or addresses",
        value: 0,
    })
}
