//! Incremental fetch sessions (KIP-227). Pure: no I/O, the time is a parameter.
//!
//! Rules: F-40 … F-49.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use strandline_wire::ErrorCode;
use uuid::Uuid;

/// A session that was used in this time is not evicted by a newer one (F-48).
const MIN_EVICTION_AGE_MS: i64 = 120_000;
/// What all sessions together may hold, in bytes: their number alone bounds nothing, as a session lasts
/// when its connection is gone. Beyond it a client names its partitions in each request.
const MAX_BYTES: usize = 256 << 20;
/// What a partition costs beside the two copies of its topic's name.
const PARTITION_BYTES: usize = 256;

/// A partition as a fetch request names it: by topic name up to version 12, by id from 13.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PartitionKey {
    pub(crate) topic: String,
    pub(crate) topic_id: Uuid,
    pub(crate) partition: i32,
}

/// What the client wants of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartitionFetch {
    pub(crate) key: PartitionKey,
    pub(crate) fetch_offset: i64,
    pub(crate) max_bytes: i32,
    pub(crate) current_leader_epoch: i32,
    pub(crate) last_fetched_epoch: i32,
    pub(crate) log_start_offset: i64,
}

/// What of a partition's answer decides whether an incremental response names it (F-43).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartitionOutcome {
    pub(crate) has_records: bool,
    pub(crate) high_watermark: i64,
    pub(crate) log_start_offset: i64,
    pub(crate) has_error: bool,
    pub(crate) has_divergence_or_replica: bool,
}

/// The session fields of a fetch request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionRequest {
    pub(crate) session_id: i32,
    pub(crate) epoch: i32,
    pub(crate) uses_topic_ids: bool,
    pub(crate) is_follower: bool,
    pub(crate) partitions: Vec<PartitionFetch>,
    pub(crate) forgotten: Vec<PartitionKey>,
}

#[derive(Debug)]
struct CachedPartition {
    fetch: PartitionFetch,
    high_watermark: i64,
    log_start_offset: i64,
}

#[derive(Debug, Default)]
struct Partitions {
    by_order: BTreeMap<u64, CachedPartition>,
    orders: HashMap<PartitionKey, u64>,
    next_order: u64,
}

impl Partitions {
    fn put(&mut self, fetch: PartitionFetch) {
        if let Some(cached) = self
            .orders
            .get(&fetch.key)
            .and_then(|o| self.by_order.get_mut(o))
        {
            cached.fetch = fetch;
            return;
        }
        let order = self.next_order;
        self.next_order += 1;
        self.orders.insert(fetch.key.clone(), order);
        // No answer was sent yet, so the first one names the partition.
        let cached = CachedPartition {
            fetch,
            high_watermark: -1,
            log_start_offset: -1,
        };
        self.by_order.insert(order, cached);
    }

    /// Bytes that it would take to hold these as well.
    fn cost_of(&self, fetches: &[PartitionFetch]) -> usize {
        let new = fetches.iter().filter(|f| !self.orders.contains_key(&f.key));
        new.map(|f| cost(&f.key)).sum()
    }

    fn forget(&mut self, key: &PartitionKey) {
        if let Some(order) = self.orders.remove(key) {
            self.by_order.remove(&order);
        }
    }

    fn move_to_end(&mut self, key: &PartitionKey) {
        let Some(order) = self.orders.get_mut(key) else {
            return;
        };
        let Some(cached) = self.by_order.remove(order) else {
            return;
        };
        *order = self.next_order;
        self.by_order.insert(self.next_order, cached);
        self.next_order += 1;
    }

    fn fetches(&self) -> Vec<PartitionFetch> {
        self.by_order.values().map(|c| c.fetch.clone()).collect()
    }
}

#[derive(Debug)]
struct Session {
    id: i32,
    uses_topic_ids: bool,
    next_epoch: i32,
    partitions: Partitions,
}

#[derive(Debug)]
struct Entry {
    session: Arc<Mutex<Session>>,
    is_follower: bool,
    size: usize,
    bytes: usize,
    created_ms: i64,
    last_used_ms: i64,
}

/// All fetch sessions of the broker; in memory only (F-49).
#[derive(Debug)]
pub(crate) struct FetchSessions {
    slots: usize,
    max_bytes: usize,
    entries: Mutex<HashMap<i32, Entry>>,
}

/// One fetch in its session.
#[derive(Debug)]
pub(crate) struct FetchContext {
    /// The partitions to read, in the order in which bytes are given out (F-4, F-45).
    pub(crate) partitions: Vec<PartitionFetch>,
    session: Option<Arc<Mutex<Session>>>,
    is_incremental: bool,
}

impl FetchSessions {
    /// `slots` is `max.incremental.fetch.session.cache.slots`.
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            slots,
            max_bytes: MAX_BYTES,
            entries: Mutex::default(),
        }
    }

    /// Number of live sessions.
    pub(crate) fn len(&self) -> usize {
        self.entries.lock().len()
    }

    /// Finds, creates or closes the session that the request names (the table of 3.4).
    /// Errors: F-40.
    pub(crate) fn begin(
        &self,
        request: SessionRequest,
        now_ms: i64,
        random_id: impl FnMut() -> i32,
    ) -> Result<FetchContext, ErrorCode> {
        if request.epoch > 0 {
            return self.continue_session(request, now_ms);
        }
        if request.session_id != 0 {
            self.entries.lock().remove(&request.session_id);
        }
        let session = if request.epoch == 0 && !request.partitions.is_empty() {
            self.create(&request, now_ms, random_id)
        } else {
            None
        };
        Ok(FetchContext {
            partitions: request.partitions,
            session,
            is_incremental: false,
        })
    }

    fn continue_session(
        &self,
        request: SessionRequest,
        now_ms: i64,
    ) -> Result<FetchContext, ErrorCode> {
        let mut entries = self.entries.lock();
        let entry = entries
            .get_mut(&request.session_id)
            .ok_or(ErrorCode::FetchSessionIdNotFound)?;
        let shared = Arc::clone(&entry.session);
        let mut session = shared.lock();
        if session.next_epoch != request.epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        if session.uses_topic_ids != request.uses_topic_ids {
            return Err(ErrorCode::FetchSessionTopicIdError);
        }
        let more = session.partitions.cost_of(&request.partitions);
        entry.bytes += more;
        entry.last_used_ms = now_ms;
        if more > 0 && !fits(&mut entries, self.max_bytes, now_ms) {
            // The client begins anew, without a session.
            entries.remove(&request.session_id);
            return Err(ErrorCode::FetchSessionIdNotFound);
        }
        for fetch in request.partitions {
            session.partitions.put(fetch);
        }
        for key in &request.forgotten {
            session.partitions.forget(key);
        }
        let partitions = session.partitions.fetches();
        if partitions.is_empty() {
            // F-48: nothing left to fetch.
            entries.remove(&request.session_id);
            return Ok(FetchContext {
                partitions,
                session: None,
                is_incremental: false,
            });
        }
        session.next_epoch = next_epoch(session.next_epoch);
        if let Some(entry) = entries.get_mut(&request.session_id) {
            entry.size = partitions.len();
            if !request.forgotten.is_empty() {
                entry.bytes = partitions.iter().map(|p| cost(&p.key)).sum();
            }
        }
        drop(session);
        Ok(FetchContext {
            partitions,
            session: Some(shared),
            is_incremental: true,
        })
    }

    fn create(
        &self,
        request: &SessionRequest,
        now_ms: i64,
        mut random_id: impl FnMut() -> i32,
    ) -> Option<Arc<Mutex<Session>>> {
        let mut entries = self.entries.lock();
        let size = request.partitions.len();
        if entries.len() >= self.slots && !evict(&mut entries, request.is_follower, size, now_ms) {
            return None;
        }
        let id = loop {
            let id = random_id();
            if id > 0 && !entries.contains_key(&id) {
                break id;
            }
        };
        let mut partitions = Partitions::default();
        for fetch in &request.partitions {
            partitions.put(fetch.clone());
        }
        let bytes = partitions.orders.keys().map(cost).sum();
        let uses_topic_ids = request.uses_topic_ids;
        let session = Arc::new(Mutex::new(Session {
            id,
            uses_topic_ids,
            next_epoch: 1,
            partitions,
        }));
        let entry = Entry {
            session: Arc::clone(&session),
            is_follower: request.is_follower,
            size,
            bytes,
            created_ms: now_ms,
            last_used_ms: now_ms,
        };
        entries.insert(id, entry);
        if !fits(&mut entries, self.max_bytes, now_ms) {
            entries.remove(&id);
            return None;
        }
        Some(session)
    }
}

fn cost(key: &PartitionKey) -> usize {
    PARTITION_BYTES + 2 * key.topic.len()
}

/// Lets idle sessions go until the others may stay; false if they may not.
fn fits(entries: &mut HashMap<i32, Entry>, max_bytes: usize, now_ms: i64) -> bool {
    let mut bytes: usize = entries.values().map(|e| e.bytes).sum();
    while bytes > max_bytes {
        let idle = entries
            .iter()
            .filter(|(_, e)| now_ms - e.last_used_ms > MIN_EVICTION_AGE_MS)
            .min_by_key(|(id, e)| (e.last_used_ms, **id))
            .map(|(id, _)| *id);
        match idle.and_then(|id| entries.remove(&id)) {
            Some(gone) => bytes -= gone.bytes,
            None => return false,
        }
    }
    true
}

/// Makes room for a session; false when none may go (F-48).
fn evict(entries: &mut HashMap<i32, Entry>, is_follower: bool, size: usize, now_ms: i64) -> bool {
    let idle = |e: &Entry| now_ms - e.last_used_ms > MIN_EVICTION_AGE_MS;
    let settled = |e: &Entry| now_ms - e.created_ms > MIN_EVICTION_AGE_MS;
    let victim = entries
        .iter()
        .filter(|(_, e)| {
            idle(e)
                || (is_follower && !e.is_follower)
                || (is_follower == e.is_follower && e.size < size && settled(e))
        })
        .min_by_key(|(id, e)| (!idle(e), e.is_follower, e.size, e.last_used_ms, **id))
        .map(|(id, _)| *id);
    victim.is_some_and(|id| entries.remove(&id).is_some())
}

/// After the greatest epoch comes 1 (F-41).
fn next_epoch(epoch: i32) -> i32 {
    if epoch == i32::MAX { 1 } else { epoch + 1 }
}

impl FetchContext {
    /// Id for the response: 0 without a session.
    pub(crate) fn session_id(&self) -> i32 {
        self.session.as_ref().map_or(0, |s| s.lock().id)
    }

    /// Records what the response is about to say, and tells for each partition whether it belongs
    /// into the response (F-43, F-44). `outcomes` are in the order of `partitions`.
    pub(crate) fn finish(&self, outcomes: &[PartitionOutcome]) -> Vec<bool> {
        let Some(session) = &self.session else {
            return vec![true; outcomes.len()];
        };
        let mut session = session.lock();
        let named = self
            .partitions
            .iter()
            .zip(outcomes)
            .map(|(fetch, outcome)| {
                let is_named = session.record(&fetch.key, outcome);
                is_named || !self.is_incremental
            });
        named.collect()
    }
}

impl Session {
    fn record(&mut self, key: &PartitionKey, outcome: &PartitionOutcome) -> bool {
        let order = self.partitions.orders.get(key);
        let Some(cached) = order.and_then(|o| self.partitions.by_order.get_mut(o)) else {
            return true;
        };
        let is_named = outcome.has_records
            || outcome.has_error
            || outcome.has_divergence_or_replica
            || cached.high_watermark != outcome.high_watermark
            || cached.log_start_offset != outcome.log_start_offset;
        // After an error the next good answer must be sent, whatever it says (F-43).
        cached.high_watermark = if outcome.has_error {
            -1
        } else {
            outcome.high_watermark
        };
        cached.log_start_offset = outcome.log_start_offset;
        if outcome.has_records {
            self.partitions.move_to_end(key);
        }
        is_named
    }
}

#[cfg(test)]
mod tests;
