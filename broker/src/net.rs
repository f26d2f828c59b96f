//! Sockets: listeners, connections, responses.

pub(crate) mod connection;
pub(crate) mod listener;
pub(crate) mod response;
mod socket_options;
pub(crate) mod writer;
