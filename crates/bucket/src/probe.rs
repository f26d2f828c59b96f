//! The start-up test: does the store keep the promises that the cold tier stands on?

use bytes::Bytes;
use uuid::Uuid;

use crate::bucket::{Bucket, ObjectInfo};
use crate::error::{BucketError, BucketErrorKind, Outcome};
use crate::metrics::Op;

/// Age at which another probe's object is surely left over, in ms.
const LEFT_OVER_MS: i64 = 3_600_000;

impl Bucket {
    /// Writes, reads, lists and deletes an object below `probe/`.
    ///
    /// Errors: the request that failed and why (a missing bucket, denied access, an unreachable
    /// endpoint), or [`BucketErrorKind::Unsuitable`] for a store that answers but ignores the
    /// condition of a conditional PUT, a range, or loses what it accepted.
    pub async fn probe(&self) -> Result<(), BucketError> {
        let key = format!("probe/{}", Uuid::new_v4());
        let probed = self.probe_object(&key).await;
        if let Err(error) = &probed
            && error.outcome() == Outcome::NotDone
            && error.key() == key
            && error.kind() != BucketErrorKind::Unsuitable
        {
            // Most likely nothing can be done here, so there is nothing to clean up either.
            return probed;
        }
        let deleted = self.delete_many(std::slice::from_ref(&key)).await;
        probed?;
        deleted?;
        match self.head(&key).await {
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(unsuitable(
                Op::Delete,
                &key,
                "a deleted object is still there",
            )),
        }
    }

    async fn probe_object(&self, key: &str) -> Result<(), BucketError> {
        let first = Bytes::from(format!("first of {key}"));
        let second = Bytes::from(format!("second of {key}"));
        self.put_new(key, first.clone()).await?;
        self.probe_condition(key, &second).await?;
        let read = self.get_range(key, 1..5).await?;
        if read.bytes != first.slice(1..5) || read.object_size != first.len() as u64 {
            return Err(unsuitable(
                Op::Get,
                key,
                "a ranged read returned something else",
            ));
        }
        let listed = self.list("probe", None).await?;
        let Some(ours) = listed.iter().find(|object| object.key == key) else {
            return Err(unsuitable(
                Op::List,
                key,
                "a listing lacks an object just written",
            ));
        };
        // What a probe left that was killed.
        let old =
            |object: &&ObjectInfo| object.last_modified_ms < ours.last_modified_ms - LEFT_OVER_MS;
        let left: Vec<String> = listed
            .iter()
            .filter(old)
            .map(|object| object.key.clone())
            .collect();
        self.delete_many(&left).await
    }
}

impl Bucket {
    async fn probe_condition(&self, key: &str, second: &Bytes) -> Result<(), BucketError> {
        let policy = self.retry.conditional;
        let mut number = 0;
        loop {
            number += 1;
            match self.try_create(key, second).await {
                Err(error) if error.kind() == BucketErrorKind::Conflict => return Ok(()),
                Err(error) if error.is_retriable() && number < policy.attempts => {
                    tokio::time::sleep(policy.backoff(number)).await;
                }
                Err(error) => return Err(error),
                Ok(()) => {
                    let why = "it ignores the condition of a put-if-absent (If-None-Match: *), \
                               so two brokers could overwrite each other";
                    return Err(unsuitable(Op::Put, key, why));
                }
            }
        }
    }
}

fn unsuitable(op: Op, key: &str, why: &str) -> BucketError {
    BucketError::new(op, key, BucketErrorKind::Unsuitable, why.to_owned())
}
