//! What the controller decides: pure functions from an image and a request to records and a reply.
//!
//! No clock, no chance, no I/O; the caller passes what is random. See the crate docs for who calls.

pub(crate) mod cluster;
pub(crate) mod configs;
pub(crate) mod features;
pub(crate) mod placement;
pub(crate) mod producer_ids;
pub(crate) mod topics;

use crate::error::RequestError;
use crate::image::{ConfigMap, ConfigsImage};
use crate::record::{ConfigResource, Record};

/// Most records that one request of a user may need (D-11).
pub const MAX_RECORDS_PER_USER_OP: usize = 10_000;

/// Records to commit, and the reply for when they are.
pub(crate) type Decision<T> = Result<(Vec<Record>, T), RequestError>;

/// Knows the configs: their names, types, values and relations. The metadata only stores them.
pub trait ConfigValidator: Send + Sync + std::fmt::Debug {
    /// Checks the set of overrides that a resource would have (D-4, D-43, D-44), and returns those of
    /// them that are to be stored: what a tool writes back as it read it may be accepted and yet be no
    /// override (D-42). `configs` are the current ones, for values that are inherited from the broker's
    /// dynamic configs.
    fn validate(
        &self,
        resource: &ConfigResource,
        overrides: &ConfigMap,
        configs: &ConfigsImage,
    ) -> Result<ConfigMap, RequestError>;

    /// The default of a config of type LIST, from which APPEND and SUBTRACT start if there is no
    /// override (D-41); `None` if the config is not a list.
    fn list_default(&self, resource: &ConfigResource, name: &str) -> Option<String>;
}
