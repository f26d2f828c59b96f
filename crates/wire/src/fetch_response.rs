//! The fetch response, written by hand so that record bytes are never copied (DESIGN §3).
//!
//! The frame is a run of own bytes with gaps; the caller sends the records of partition *n* in gap
//! *n*, from memory or from a file.

use bytes::{BufMut, Bytes, BytesMut};
use uuid::Uuid;

use crate::error::WireError;
use crate::header::RequestHeader;

/// An aborted transaction that overlaps the returned data (F-31).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// Producer of the transaction.
    pub producer_id: i64,
    /// First offset of the transaction in the partition (inclusive).
    pub first_offset: i64,
}

/// Where the log of the leader leaves the reader's (F-23).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochEndOffset {
    /// Largest epoch that both know.
    pub epoch: i32,
    /// Its end offset on the leader (exclusive).
    pub end_offset: i64,
}

/// The leader to go to (F-24).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaderIdAndEpoch {
    /// Broker id, -1 for unknown.
    pub leader_id: i32,
    /// Leader epoch, -1 for unknown.
    pub leader_epoch: i32,
}

/// Address of a leader that the response names (F-24).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEndpoint {
    /// Broker id.
    pub node_id: i32,
    /// Host for this listener.
    pub host: String,
    /// Port for this listener.
    pub port: i32,
    /// Rack of the broker.
    pub rack: Option<String>,
}

/// One partition of the response, without its records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchPartitionHead {
    /// Index of the partition.
    pub partition: i32,
    /// Error code, 0 for none.
    pub error_code: i16,
    /// High watermark (exclusive), -1 on error.
    pub high_watermark: i64,
    /// Last stable offset (exclusive), -1 on error.
    pub last_stable_offset: i64,
    /// Log start offset, -1 on error.
    pub log_start_offset: i64,
    /// Divergence, from version 12.
    pub diverging_epoch: Option<EpochEndOffset>,
    /// Leader hint, from version 12.
    pub current_leader: Option<LeaderIdAndEpoch>,
    /// `None` for read_uncommitted (F-31).
    pub aborted_transactions: Option<Vec<AbortedTransaction>>,
    /// Broker to read from instead, -1 for none; from version 11.
    pub preferred_read_replica: i32,
    /// Bytes of records that the caller will put into the gap.
    pub records_bytes: usize,
}

/// One topic of the response: the name up to version 12, the id from 13.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchTopicHead {
    /// Name of the topic; may be empty from version 13.
    pub name: String,
    /// Id of the topic.
    pub topic_id: Uuid,
    /// Its partitions.
    pub partitions: Vec<FetchPartitionHead>,
}

/// The response, without records.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FetchResponseHead {
    /// Throttle time in ms.
    pub throttle_time_ms: i32,
    /// Error of the whole, from version 7.
    pub error_code: i16,
    /// Fetch session, from version 7.
    pub session_id: i32,
    /// Topics in the order of the response.
    pub topics: Vec<FetchTopicHead>,
    /// Leaders named by partitions, from version 16.
    pub node_endpoints: Vec<NodeEndpoint>,
}

/// Own bytes of a frame, and where the records of each partition go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplicedFrame {
    /// Length prefix, header and all fields but the records.
    pub bytes: Bytes,
    /// For each partition in order: the position in `bytes` in front of which its records go.
    pub gaps: Vec<usize>,
}

struct Writer {
    out: BytesMut,
    is_flexible: bool,
}

impl Writer {
    fn varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.out.put_u8((value as u8 & 0x7f) | 0x80);
            value >>= 7;
        }
        self.out.put_u8(value as u8);
    }

    /// Length of an array; `None` is a null array.
    fn array(&mut self, length: Option<usize>) {
        match (self.is_flexible, length) {
            (true, Some(n)) => self.varint(n as u32 + 1),
            (true, None) => self.varint(0),
            (false, Some(n)) => self.out.put_i32(n as i32),
            (false, None) => self.out.put_i32(-1),
        }
    }

    fn string(&mut self, text: &str) {
        if self.is_flexible {
            self.varint(text.len() as u32 + 1);
        } else {
            self.out.put_i16(text.len() as i16);
        }
        self.out.put_slice(text.as_bytes());
    }

    fn tagged(&mut self, tag: u32, bytes: &[u8]) {
        self.varint(tag);
        self.varint(bytes.len() as u32);
        self.out.put_slice(bytes);
    }

    fn partition(&mut self, version: i16, p: &FetchPartitionHead) {
        self.out.put_i32(p.partition);
        self.out.put_i16(p.error_code);
        self.out.put_i64(p.high_watermark);
        self.out.put_i64(p.last_stable_offset);
        if version >= 5 {
            self.out.put_i64(p.log_start_offset);
        }
        self.array(p.aborted_transactions.as_ref().map(Vec::len));
        for aborted in p.aborted_transactions.iter().flatten() {
            self.out.put_i64(aborted.producer_id);
            self.out.put_i64(aborted.first_offset);
            if self.is_flexible {
                self.varint(0);
            }
        }
        if version >= 11 {
            self.out.put_i32(p.preferred_read_replica);
        }
        // The records' length; never null (F-11).
        if self.is_flexible {
            self.varint(p.records_bytes as u32 + 1);
        } else {
            self.out.put_i32(p.records_bytes as i32);
        }
    }

    fn partition_tags(&mut self, p: &FetchPartitionHead) {
        if !self.is_flexible {
            return;
        }
        let count = u32::from(p.diverging_epoch.is_some()) + u32::from(p.current_leader.is_some());
        self.varint(count);
        if let Some(diverging) = p.diverging_epoch {
            let mut bytes = [0; 13];
            bytes[..4].copy_from_slice(&diverging.epoch.to_be_bytes());
            bytes[4..12].copy_from_slice(&diverging.end_offset.to_be_bytes());
            self.tagged(0, &bytes);
        }
        if let Some(leader) = p.current_leader {
            let mut bytes = [0; 9];
            bytes[..4].copy_from_slice(&leader.leader_id.to_be_bytes());
            bytes[4..8].copy_from_slice(&leader.leader_epoch.to_be_bytes());
            self.tagged(1, &bytes);
        }
    }

    fn endpoints(&mut self, endpoints: &[NodeEndpoint]) {
        let mut inner = Self {
            out: BytesMut::new(),
            is_flexible: true,
        };
        inner.array(Some(endpoints.len()));
        for endpoint in endpoints {
            inner.out.put_i32(endpoint.node_id);
            inner.string(&endpoint.host);
            inner.out.put_i32(endpoint.port);
            match &endpoint.rack {
                Some(rack) => inner.string(rack),
                None => inner.varint(0),
            }
            inner.varint(0);
        }
        self.tagged(0, &inner.out);
    }
}

/// Encodes the frame of a fetch response around its records. Errors: a frame above 2 GiB.
pub fn encode_fetch_response(
    header: &RequestHeader,
    head: &FetchResponseHead,
) -> Result<SplicedFrame, WireError> {
    let version = header.version;
    let is_flexible = header.api.is_flexible(version);
    let partitions: usize = head.topics.iter().map(|t| t.partitions.len()).sum();
    let capacity = 64 + head.topics.len() * 40 + partitions * 64;
    let mut w = Writer {
        out: BytesMut::with_capacity(capacity),
        is_flexible,
    };
    let mut gaps = Vec::with_capacity(partitions);
    w.out.put_i32(0); // the frame's length, set at the end
    w.out.put_i32(header.correlation_id);
    if is_flexible {
        w.varint(0);
    }
    w.out.put_i32(head.throttle_time_ms);
    if version >= 7 {
        w.out.put_i16(head.error_code);
        w.out.put_i32(head.session_id);
    }
    w.array(Some(head.topics.len()));
    let mut records_bytes = 0;
    for topic in &head.topics {
        if version >= 13 {
            w.out.put_slice(topic.topic_id.as_bytes());
        } else {
            w.string(&topic.name);
        }
        w.array(Some(topic.partitions.len()));
        for partition in &topic.partitions {
            w.partition(version, partition);
            gaps.push(w.out.len());
            records_bytes += partition.records_bytes;
            w.partition_tags(partition);
        }
        if is_flexible {
            w.varint(0);
        }
    }
    if is_flexible {
        let named = version >= 16 && !head.node_endpoints.is_empty();
        w.varint(u32::from(named));
        if named {
            w.endpoints(&head.node_endpoints);
        }
    }
    let length = i32::try_from(w.out.len() - 4 + records_bytes).map_err(|e| WireError::Encode {
        api: header.api.name,
        version,
        reason: e.to_string(),
    })?;
    w.out[..4].copy_from_slice(&length.to_be_bytes());
    Ok(SplicedFrame {
        bytes: w.out.freeze(),
        gaps,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::served;
    use kafka_protocol::messages::fetch_response as kp;
    use kafka_protocol::messages::{FetchResponse, TopicName};
    use kafka_protocol::protocol::{Encodable, StrBytes};

    fn head(version: i16) -> (FetchResponseHead, Vec<&'static [u8]>) {
        let records: Vec<&'static [u8]> = vec![b"first", b"", b"the third"];
        let partition = |i: usize, records: &[u8]| FetchPartitionHead {
            partition: i as i32,
            error_code: if i == 1 { 6 } else { 0 },
            high_watermark: 10 + i as i64,
            last_stable_offset: 9,
            log_start_offset: 1,
            diverging_epoch: (version >= 12 && i == 2).then_some(EpochEndOffset {
                epoch: 3,
                end_offset: 44,
            }),
            current_leader: (version >= 12 && i == 1).then_some(LeaderIdAndEpoch {
                leader_id: 5,
                leader_epoch: 6,
            }),
            aborted_transactions: match i {
                0 => None,
                1 => Some(vec![]),
                _ => Some(vec![AbortedTransaction {
                    producer_id: 1,
                    first_offset: 2,
                }]),
            },
            preferred_read_replica: -1,
            records_bytes: records.len(),
        };
        let topic = |name: &str, id: u128, range: std::ops::Range<usize>| FetchTopicHead {
            name: name.into(),
            topic_id: Uuid::from_u128(id),
            partitions: range.map(|i| partition(i, records[i])).collect(),
        };
        let head = FetchResponseHead {
            throttle_time_ms: 3,
            error_code: 0,
            session_id: if version >= 7 { 99 } else { 0 },
            topics: vec![topic("one", 1, 0..2), topic("another", 2, 2..3)],
            node_endpoints: if version >= 16 {
                vec![NodeEndpoint {
                    node_id: 5,
                    host: "h".into(),
                    port: 9092,
                    rack: None,
                }]
            } else {
                vec![]
            },
        };
        (head, records)
    }

    fn stock(version: i16, head: &FetchResponseHead, records: &[&'static [u8]]) -> FetchResponse {
        let mut next = records.iter();
        let topics = head.topics.iter().map(|t| {
            let partitions = t.partitions.iter().map(|p| {
                let mut out = kp::PartitionData::default()
                    .with_partition_index(p.partition)
                    .with_error_code(p.error_code)
                    .with_high_watermark(p.high_watermark)
                    .with_last_stable_offset(p.last_stable_offset)
                    .with_log_start_offset(p.log_start_offset)
                    .with_preferred_read_replica(p.preferred_read_replica.into())
                    .with_records(next.next().map(|r| Bytes::from_static(r)))
                    .with_aborted_transactions(p.aborted_transactions.as_ref().map(|list| {
                        list.iter()
                            .map(|a| {
                                kp::AbortedTransaction::default()
                                    .with_producer_id(a.producer_id.into())
                                    .with_first_offset(a.first_offset)
                            })
                            .collect()
                    }));
                if let Some(d) = p.diverging_epoch {
                    out.diverging_epoch = kp::EpochEndOffset::default()
                        .with_epoch(d.epoch)
                        .with_end_offset(d.end_offset);
                }
                if let Some(l) = p.current_leader {
                    out.current_leader = kp::LeaderIdAndEpoch::default()
                        .with_leader_id(l.leader_id.into())
                        .with_leader_epoch(l.leader_epoch);
                }
                out
            });
            let mut out =
                kp::FetchableTopicResponse::default().with_partitions(partitions.collect());
            if version >= 13 {
                out.topic_id = t.topic_id;
            } else {
                out.topic = TopicName(StrBytes::from_string(t.name.clone()));
            }
            out
        });
        FetchResponse::default()
            .with_throttle_time_ms(head.throttle_time_ms)
            .with_session_id(head.session_id)
            .with_responses(topics.collect())
            .with_node_endpoints(
                head.node_endpoints
                    .iter()
                    .map(|n| {
                        kp::NodeEndpoint::default()
                            .with_node_id(n.node_id.into())
                            .with_host(StrBytes::from_string(n.host.clone()))
                            .with_port(n.port)
                            .with_rack(None)
                    })
                    .collect(),
            )
    }

    #[test]
    fn every_version_equals_the_stock_encoding() {
        let api = served(1).unwrap();
        for version in api.min..=api.max {
            let (head, records) = head(version);
            let header = RequestHeader {
                api,
                version,
                correlation_id: 7,
                client_id: None,
            };
            let spliced = encode_fetch_response(&header, &head).unwrap();
            let mut ours = BytesMut::new();
            let mut from = 0;
            for (gap, records) in spliced.gaps.iter().zip(&records) {
                ours.put_slice(&spliced.bytes[from..*gap]);
                ours.put_slice(records);
                from = *gap;
            }
            ours.put_slice(&spliced.bytes[from..]);

            let mut body = BytesMut::new();
            stock(version, &head, &records)
                .encode(&mut body, version)
                .unwrap();
            let mut theirs = BytesMut::new();
            let extra = usize::from(version >= 12);
            theirs.put_i32((body.len() + 4 + extra) as i32);
            theirs.put_i32(7);
            theirs.put_slice(&vec![0; extra]);
            theirs.put_slice(&body);
            assert_eq!(ours, theirs, "version {version}");
        }
    }
}
