//! One member of a classic group.
//!
//! Rules: G-4, G-7, G-11, G-21.

use std::sync::Arc;

use bytes::Bytes;

use crate::config::GroupConfig;
use crate::query::MemberDescription;
use crate::records::MemberMetadata;
use crate::request::JoinRequest;
use strandline_coordinator::RequestId;

/// A member, with the requests it has parked.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) id: Arc<str>,
    pub(crate) instance_id: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) session_timeout_ms: i32,
    pub(crate) rebalance_timeout_ms: i32,
    /// Name and metadata, in order of preference.
    pub(crate) protocols: Vec<(String, Bytes)>,
    pub(crate) assignment: Bytes,
    /// Grows with each member that is added to the group.
    pub(crate) joined_order: u64,
    /// Waits in its first join: the session timeout does not hold yet (G-4).
    pub(crate) is_new: bool,
    /// False from the end of a join phase until it syncs (G-32).
    pub(crate) has_synced: bool,
    pub(crate) parked_join: Option<RequestId>,
    pub(crate) parked_sync: Option<RequestId>,
}

impl Member {
    pub(crate) fn new(id: Arc<str>, request: JoinRequest, parked_join: RequestId) -> Self {
        let mut member = Self {
            id,
            instance_id: request.group_instance_id.clone(),
            client_id: String::new(),
            client_host: String::new(),
            session_timeout_ms: 0,
            rebalance_timeout_ms: 0,
            protocols: Vec::new(),
            assignment: Bytes::new(),
            joined_order: 0,
            is_new: true,
            has_synced: true,
            parked_join: Some(parked_join),
            parked_sync: None,
        };
        member.take_attributes(request);
        member
    }

    /// A member as the log remembers it (G-71).
    pub(crate) fn from_record(record: MemberMetadata, protocol: &str, joined_order: u64) -> Self {
        Self {
            id: record.member_id.into(),
            instance_id: record.group_instance_id,
            client_id: record.client_id,
            client_host: record.client_host,
            session_timeout_ms: record.session_timeout_ms,
            rebalance_timeout_ms: record.rebalance_timeout_ms,
            protocols: vec![(protocol.to_owned(), record.subscription)],
            assignment: record.assignment,
            joined_order,
            is_new: false,
            has_synced: true,
            parked_join: None,
            parked_sync: None,
        }
    }

    /// Everything that a join says about a member (G-21).
    pub(crate) fn take_attributes(&mut self, request: JoinRequest) {
        // G-2: version 0 has no rebalance timeout.
        self.rebalance_timeout_ms = if request.rebalance_timeout_ms < 0 {
            request.session_timeout_ms
        } else {
            request.rebalance_timeout_ms
        };
        self.session_timeout_ms = request.session_timeout_ms;
        self.client_id = request.client_id;
        self.client_host = request.client_host;
        self.protocols = request.protocols;
    }

    /// How long it may be silent, in ms. In its first join that is longer than its session: it has
    /// no id to send heartbeats with, and its connection is silent anyway (G-4).
    pub(crate) fn session_ms(&self, config: &GroupConfig) -> i64 {
        if self.is_new {
            config.new_member_join_timeout_ms
        } else {
            i64::from(self.session_timeout_ms)
        }
    }

    pub(crate) fn is_static(&self) -> bool {
        self.instance_id.is_some()
    }

    pub(crate) fn supports(&self, protocol: &str) -> bool {
        self.protocols.iter().any(|(name, _)| name == protocol)
    }

    /// Its metadata for a protocol, empty if it does not have it.
    pub(crate) fn metadata(&self, protocol: &str) -> Bytes {
        let found = self.protocols.iter().find(|(name, _)| name == protocol);
        found
            .map(|(_, metadata)| metadata.clone())
            .unwrap_or_default()
    }

    pub(crate) fn to_record(&self, protocol: &str, assignment: Bytes) -> MemberMetadata {
        MemberMetadata {
            member_id: self.id.to_string(),
            group_instance_id: self.instance_id.clone(),
            client_id: self.client_id.clone(),
            client_host: self.client_host.clone(),
            rebalance_timeout_ms: self.rebalance_timeout_ms,
            session_timeout_ms: self.session_timeout_ms,
            subscription: self.metadata(protocol),
            assignment,
        }
    }

    /// G-80: metadata and assignment only with a protocol, which means Stable.
    pub(crate) fn describe(&self, protocol: Option<&str>) -> MemberDescription {
        MemberDescription {
            member_id: self.id.to_string(),
            group_instance_id: self.instance_id.clone(),
            client_id: self.client_id.clone(),
            client_host: self.client_host.clone(),
            metadata: protocol
                .map(|protocol| self.metadata(protocol))
                .unwrap_or_default(),
            assignment: protocol
                .map(|_| self.assignment.clone())
                .unwrap_or_default(),
        }
    }
}
