//! What operators see: metrics and log lines.
//!
//! Each crate defines its own metrics and registers them in a [`MetricsRegistry`] that it is
//! given; `/metrics` serves [`MetricsRegistry::encode`]. Log lines are `tracing` events.

mod registry;
mod throttle;
mod tracing;

pub use self::registry::{LATENCY_BUCKETS, METRICS_CONTENT_TYPE, MetricsRegistry};
pub use self::throttle::Throttle;
pub use self::tracing::{InitError, LineFormat, init_tracing};
