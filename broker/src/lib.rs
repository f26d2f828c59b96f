//! The broker: sockets, tasks, wiring. Everything that decides lies in the crates below.

mod api;
mod append_room;
mod auto_create;
mod broker;
pub mod cli;
mod configs;
mod coordinators;
mod error_codes;
mod features;
mod fetch_session;
mod gauges;
mod housekeeping;
mod http;
mod log_cleaner;
mod log_dirs;
mod metrics;
#[cfg(test)]
mod model;
mod net;
mod partition;
mod replica_manager;
mod restore;
mod server;
mod settings;
mod tier_scheduler;
