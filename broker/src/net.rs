//! Sockets: listeners, connections, responses.

pub(crate) mod connection;
pub(crate) mod listener;
pub(crate) mod response;
pub(crate) mod writer;
