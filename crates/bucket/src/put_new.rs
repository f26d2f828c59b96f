//! Put-if-absent that knows whose object is there: "already exists" is never taken at face value.
//!
//! A PUT that landed but answered 5xx comes back as "already exists" when it is repeated, and S3
//! answers 409 while another conditional PUT is in flight, with nothing written. So the object is
//! read back and compared. The caller's bytes must carry something unique (a writer id), or two
//! writers of equal bytes would both be told that the object is theirs.

use bytes::Bytes;

use crate::bucket::Bucket;
use crate::error::{BucketError, BucketErrorKind, Outcome};

/// What a put-if-absent led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutNew {
    /// Written, and the store said so.
    Created,
    /// Written by an attempt of ours whose answer was lost.
    Ours,
    /// Somebody else's object is there, with these bytes.
    Theirs(Bytes),
}

impl Bucket {
    /// Writes an object only if there is none under the key.
    ///
    /// Errors: with [`Outcome::MaybeDone`] our bytes may be there, now or a little later: read the
    /// key before you decide anything.
    pub async fn put_new(&self, key: &str, body: Bytes) -> Result<PutNew, BucketError> {
        let policy = self.retry.conditional;
        let mut maybe_done = false;
        for number in 1.. {
            let error = match self.try_create(key, &body).await {
                Ok(()) => return Ok(PutNew::Created),
                Err(error) => error,
            };
            maybe_done |= error.outcome() == Outcome::MaybeDone;
            if maybe_done || error.kind() == BucketErrorKind::Conflict {
                match self.get(key).await {
                    Ok(found) if found == body => return Ok(PutNew::Ours),
                    Ok(found) => return Ok(PutNew::Theirs(found)),
                    Err(read) if read.is_not_found() => {}
                    Err(read) => return Err(read.with_outcome(Outcome::MaybeDone)),
                }
            }
            if !error.is_retriable() || number >= policy.attempts {
                let outcome = if maybe_done {
                    Outcome::MaybeDone
                } else {
                    error.outcome()
                };
                return Err(error.with_outcome(outcome));
            }
            tracing::debug!(%error, attempt = number, "conditional put failed, trying again");
            tokio::time::sleep(policy.backoff(number)).await;
        }
        unreachable!("the loop above ends by return")
    }
}
