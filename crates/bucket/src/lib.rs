//! The only door to the object store: requests without meaning, with one retry policy per class,
//! limits, metrics, and errors that tell whether a write may have happened.

mod body;
mod bucket;
mod buffers;
mod direct;
mod error;
#[cfg(any(test, feature = "testing"))]
pub mod faulty;
mod in_flight;
mod metrics;
mod multipart;
mod open;
mod options;
mod probe;
mod profile;
mod put_new;
mod retry;

pub use bucket::{Bucket, ObjectInfo, ObjectPage, PutBody, RangeRead};
pub use error::{BucketError, BucketErrorKind, Outcome};
pub use metrics::{BucketMetrics, Op};
pub use multipart::{PART_BYTES, SINGLE_PUT_BYTES};
pub use open::OpenBucketError;
pub use options::{
    BucketOptions, ParseServerSideEncryptionError, S3Options, ServerSideEncryption, StoreKind,
};
pub use put_new::PutNew;
pub use retry::{RetryPolicies, RetryPolicy};

#[cfg(test)]
mod tests;
