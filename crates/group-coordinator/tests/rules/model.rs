//! Random members, a log that may fail, and time: what must hold in every history.
//!
//! Every request is answered exactly once; generations never fall; all members of a generation
//! know the same leader and protocol; silent members cannot keep a group from becoming Empty
//! what is loaded from the log is what is live (G-71); nobody sees an offset that has not
//! committed, and what has committed counts however late (G-53, X-71). The harness checks the invariants GC-1…GC-8 after every call.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use strandline_coordinator::{AppendError, RequestId};
use strandline_group_coordinator::{
    DeleteGroupRequest, GroupConfig, GroupError, GroupState, HeartbeatRequest, JoinReply,
    JoinRequest, LeaveRequest, LeavingMember, ListGroupsFilter, OffsetFetchQuery, Reply, Request,
    SyncRequest,
};

use crate::harness::{Bench, GROUP, commit, config, fetch_from, join, offset_delete, subscription};

const CLIENTS: usize = 4;

#[derive(Debug, Clone)]
enum Step {
    Join {
        client: usize,
        variant: usize,
    },
    Sync {
        client: usize,
    },
    Heartbeat {
        client: usize,
    },
    Leave {
        client: usize,
    },
    Commit {
        client: usize,
        offset: i64,
    },
    AdminCommit {
        offset: i64,
    },
    /// Forgets its member id, as after a restart.
    Crash {
        client: usize,
    },
    Pass {
        ms: i64,
    },
    CommitAppends,
    CommitOneAppend,
    FailAppends,
    LateAppends,
    DeleteGroup,
    DeleteOffsets,
    DeleteTopic,
    FailOver,
    /// All clients behave for a while, so that histories get beyond the first rebalance.
    Settle {
        variant: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let client = 0..CLIENTS;
    let step = prop_oneof![
        12 => (client.clone(), 0_usize..3).prop_map(|(client, variant)| Step::Join { client, variant }),
        12 => client.clone().prop_map(|client| Step::Sync { client }),
        8 => client.clone().prop_map(|client| Step::Heartbeat { client }),
        2 => client.clone().prop_map(|client| Step::Leave { client }),
        6 => (client.clone(), 0_i64..100).prop_map(|(client, offset)| Step::Commit { client, offset }),
        2 => (0_i64..100).prop_map(|offset| Step::AdminCommit { offset }),
        2 => client.prop_map(|client| Step::Crash { client }),
        8 => prop_oneof![0_i64..50, 2_900_i64..3_100, 4_000_i64..12_000, 50_000_i64..70_000]
            .prop_map(|ms| Step::Pass { ms }),
        10 => Just(Step::CommitAppends),
        3 => Just(Step::CommitOneAppend),
        2 => Just(Step::FailAppends),
        2 => Just(Step::LateAppends),
        1 => Just(Step::DeleteGroup),
        1 => Just(Step::DeleteOffsets),
        1 => Just(Step::DeleteTopic),
        1 => Just(Step::FailOver),
        4 => (0_usize..3).prop_map(|variant| Step::Settle { variant }),
    ];
    prop::collection::vec(step, 1..120)
}

#[derive(Debug, Default, Clone)]
struct Client {
    member_id: String,
    generation: i32,
    instance_id: Option<String>,
}

#[derive(Debug)]
enum Asked {
    Join {
        client: usize,
        requested_id: String,
    },
    Sync {
        client: usize,
        generation: i32,
        member_id: String,
    },
    Other,
}

struct World {
    bench: Bench,
    clients: Vec<Client>,
    asked: BTreeMap<RequestId, Asked>,
    /// Leader and protocol by generation, since the group was last absent.
    generations: BTreeMap<i32, (String, Option<String>)>,
    highest_generation: i32,
}

impl World {
    fn new(max_size: usize, delay_ms: i64) -> Self {
        let mut bench = Bench::with(GroupConfig {
            max_size,
            initial_rebalance_delay_ms: delay_ms,
            ..config()
        });
        bench.commits_at_once = false;
        let mut clients = vec![Client::default(); CLIENTS];
        for (index, client) in clients.iter_mut().take(2).enumerate() {
            client.instance_id = Some(format!("i{index}"));
        }
        let (asked, generations) = (BTreeMap::new(), BTreeMap::new());
        Self {
            bench,
            clients,
            asked,
            generations,
            highest_generation: 0,
        }
    }

    fn send(&mut self, request: Request, asked: Asked) {
        let id = self.bench.send(request);
        self.asked.insert(id, asked);
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Join { client, variant } => self.join(client, variant),
            Step::Sync { client } => self.sync(client),
            Step::Heartbeat { client } => {
                let Client {
                    member_id,
                    generation,
                    instance_id,
                } = self.clients[client].clone();
                let request = HeartbeatRequest {
                    group_id: GROUP.to_owned(),
                    generation_id: generation,
                    member_id,
                    group_instance_id: instance_id,
                };
                self.send(Request::Heartbeat(request), Asked::Other);
            }
            Step::Leave { client } => {
                let Client {
                    member_id,
                    instance_id,
                    ..
                } = self.clients[client].clone();
                let members = vec![LeavingMember {
                    member_id,
                    group_instance_id: instance_id,
                }];
                let request = LeaveRequest {
                    group_id: GROUP.to_owned(),
                    members,
                };
                self.send(Request::Leave(request), Asked::Other);
            }
            Step::Commit { client, offset } => {
                let Client {
                    member_id,
                    generation,
                    instance_id,
                } = self.clients[client].clone();
                let mut request = commit(generation, &member_id, offset);
                request.group_instance_id = instance_id;
                self.send(Request::OffsetCommit(request), Asked::Other);
            }
            Step::AdminCommit { offset } => {
                self.send(Request::OffsetCommit(commit(-1, "", offset)), Asked::Other);
            }
            Step::Crash { client } => self.clients[client].member_id.clear(),
            Step::Pass { ms } => self.bench.pass(ms),
            Step::CommitAppends => self.bench.commit_all(),
            Step::CommitOneAppend => {
                if let Some(append) = self.bench.appends.pop_front() {
                    self.bench.write(append.batch);
                    self.bench.resolve(append.token, Ok(()));
                }
            }
            Step::FailAppends => self.bench.fail_all(AppendError::NotEnoughReplicas),
            Step::LateAppends => self.bench.late_all(),
            Step::DeleteGroup => {
                let request = DeleteGroupRequest {
                    group_id: GROUP.to_owned(),
                };
                self.send(Request::DeleteGroup(request), Asked::Other);
            }
            Step::DeleteOffsets => {
                let request = Request::OffsetDelete(offset_delete(&[("t", &[0])]));
                self.send(request, Asked::Other);
            }
            Step::DeleteTopic => self.bench.topics_deleted(&["t"]),
            Step::FailOver => {
                self.bench.fail_over();
                // A generation that was not written may come again with other members.
                self.generations.clear();
                self.highest_generation = 0;
            }
            Step::Settle { variant } => self.settle(variant),
        }
        self.take_replies();
        self.check_visible_offset();
    }

    fn settle(&mut self, variant: usize) {
        for _ in 0..3 {
            (0..CLIENTS).for_each(|client| self.join(client, variant));
            self.take_replies();
        }
        self.bench.pass(6_500);
        self.take_replies();
        (0..CLIENTS).for_each(|client| self.sync(client));
        self.bench.commit_all();
    }

    fn join(&mut self, client: usize, variant: usize) {
        let Client {
            member_id,
            instance_id,
            ..
        } = self.clients[client].clone();
        let protocols: &[&str] = match variant {
            0 => &["range", "sticky"],
            1 => &["sticky", "range"],
            _ => &["sticky"],
        };
        let topics = subscription(&["t"]);
        let request = JoinRequest {
            group_instance_id: instance_id,
            protocols: protocols
                .iter()
                .map(|p| ((*p).to_owned(), topics.clone()))
                .collect(),
            require_known_member_id: client % 2 == 1,
            supports_skip_assignment: variant == 0,
            ..join(&member_id)
        };
        self.send(
            Request::Join(request),
            Asked::Join {
                client,
                requested_id: member_id,
            },
        );
    }

    fn sync(&mut self, client: usize) {
        let Client {
            member_id,
            generation,
            instance_id,
        } = self.clients[client].clone();
        // Whoever leads gives everybody the generation and the member's own id.
        let ids = self.clients.iter().map(|client| client.member_id.clone());
        let request = SyncRequest {
            group_id: GROUP.to_owned(),
            generation_id: generation,
            member_id: member_id.clone(),
            group_instance_id: instance_id,
            protocol_type: Some("consumer".to_owned()),
            protocol_name: None,
            assignments: ids
                .map(|id| (id.clone(), format!("{generation} {id}").into()))
                .collect(),
        };
        self.send(
            Request::Sync(request),
            Asked::Sync {
                client,
                generation,
                member_id,
            },
        );
    }

    fn take_replies(&mut self) {
        let answered = self.asked.keys().filter(|id| self.bench.is_answered(**id));
        let answered: Vec<RequestId> = answered.copied().collect();
        for id in answered {
            let Some(asked) = self.asked.remove(&id) else {
                continue;
            };
            match (asked, self.bench.reply(id)) {
                (
                    Asked::Join {
                        client,
                        requested_id,
                    },
                    Reply::Join(reply),
                ) => {
                    self.on_join_reply(client, &requested_id, reply);
                }
                (
                    Asked::Sync {
                        client,
                        generation,
                        member_id,
                    },
                    Reply::Sync(reply),
                ) => {
                    let is_own = format!("{generation} {member_id}");
                    let is_fine = reply.error.is_some()
                        || reply.assignment.is_empty()
                        || reply.assignment.ends_with(member_id.as_bytes())
                        // An assignment outlives the restarts of a static member.
                        || self.clients[client].instance_id.is_some();
                    assert!(is_fine, "{:?} instead of {is_own}", reply.assignment);
                }
                (_, _) => {}
            }
        }
    }

    fn on_join_reply(&mut self, client: usize, requested_id: &str, reply: JoinReply) {
        match reply.error {
            None => {
                self.on_generation(&reply);
                self.clients[client].member_id = reply.member_id;
                self.clients[client].generation = reply.generation_id;
            }
            Some(GroupError::MemberIdRequired) => {
                self.clients[client].member_id = reply.member_id;
            }
            Some(
                GroupError::UnknownMemberId
                | GroupError::FencedInstanceId
                | GroupError::GroupMaxSizeReached,
            ) if self.clients[client].member_id == requested_id => {
                self.clients[client].member_id.clear();
            }
            Some(_) => {}
        }
    }

    fn on_generation(&mut self, reply: &JoinReply) {
        assert!(reply.generation_id >= 1);
        if !reply.members.is_empty() {
            assert_eq!(
                reply.leader, reply.member_id,
                "only the leader sees the members"
            );
            let ids: BTreeSet<_> = reply
                .members
                .iter()
                .map(|member| &member.member_id)
                .collect();
            assert!(ids.contains(&reply.leader) && ids.len() == reply.members.len());
        }
        // Static restarts change ids within a generation, so only the protocol is compared then.
        let told = (reply.leader.clone(), reply.protocol_name.clone());
        let known = self
            .generations
            .entry(reply.generation_id)
            .or_insert_with(|| told.clone());
        assert_eq!(
            known.1, told.1,
            "one protocol in generation {}",
            reply.generation_id
        );
        let is_static = |id: &str| id.starts_with("i0-") || id.starts_with("i1-");
        if !is_static(&known.0) && !is_static(&told.0) {
            assert_eq!(
                known.0, told.0,
                "one leader in generation {}",
                reply.generation_id
            );
        }
    }

    /// The generation of a group never falls while the group exists.
    fn check_generation(&mut self) {
        if !self.bench.group_exists() {
            self.highest_generation = 0;
            self.generations.clear();
        }
        let highest = self.generations.keys().next_back().copied().unwrap_or(0);
        assert!(
            highest >= self.highest_generation,
            "{highest} < {}",
            self.highest_generation
        );
        self.highest_generation = highest;
    }

    /// what is visible is what a failover would leave, or what a tombstone of a deleted
    /// topic, which could not be written, has hidden.
    fn check_visible_offset(&self) {
        let live = self.bench.fetch("t", 0).offset;
        let stored = fetch_from(&self.bench.loaded(), "t", 0).offset;
        assert!(
            live == stored || live == -1,
            "visible {live}, stored {stored}"
        );
    }

    /// G-71: a second coordinator sees what this one sees.
    fn check_rebuilt(&self) {
        let loaded = self.bench.loaded();
        loaded.check().unwrap();
        let live = self.bench.shard.describe_group(GROUP);
        match live {
            Ok(group) if group.state == GroupState::Stable => {
                assert_eq!(loaded.describe_group(GROUP).as_ref(), Ok(&group));
            }
            _ => {}
        }
        let query = OffsetFetchQuery {
            group_id: GROUP.to_owned(),
            topics: None,
            require_stable: false,
        };
        let stored = loaded.fetch_offsets(&query).unwrap();
        let live = self.bench.shard.fetch_offsets(&query).unwrap();
        assert!(live == stored || live.is_empty());
    }

    /// all clients vanish; the log works again.
    fn abandon(&mut self) {
        for _ in 0..40 {
            self.bench.commit_all();
            self.bench.pass(60_000);
            self.take_replies();
        }
        self.bench.commit_all();
        self.take_replies();
        assert_eq!(
            self.bench.unanswered_count(),
            0,
            "a request was never answered"
        );
        assert!(self.asked.is_empty());
        let groups = self
            .bench
            .shard
            .list_groups(&ListGroupsFilter::default())
            .unwrap();
        assert!(
            groups.iter().all(|group| group.state == GroupState::Empty),
            "{groups:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn random_histories_keep_every_promise(
        steps in steps(),
        max_size in prop_oneof![Just(usize::MAX), 2_usize..4],
        delay_ms in prop_oneof![Just(0_i64), Just(3_000_i64)],
    ) {
        let mut world = World::new(max_size, delay_ms);
        for step in &steps {
            world.run(step);
            world.check_generation();
        }
        world.bench.commit_all();
        world.take_replies();
        world.check_rebuilt();
        world.abandon();
    }
}
