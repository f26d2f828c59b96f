//! Large objects in parts, a bounded number of them in flight; nothing is visible before the end.
//!
//! **Crash safety**: an upload that was not completed leaves parts that the store keeps apart (set
//! a rule that aborts incomplete multipart uploads) or, in a local directory, a file `<name>#<n>`.

use bytes::Bytes;
use futures::stream::FuturesUnordered;
use futures::{Stream, StreamExt};
use object_store::{ObjectStoreExt, PutPayload};

use crate::bucket::Bucket;
use crate::error::{BucketError, BucketErrorKind, Outcome};
use crate::metrics::Op;

/// Size of the parts of a large object in bytes; all but the last must have it.
pub const PART_BYTES: usize = 8 * 1024 * 1024;
/// Objects up to this size in bytes are worth one request.
pub const SINGLE_PUT_BYTES: u64 = 16 * 1024 * 1024;

impl Bucket {
    /// Writes a large object from a stream of parts, each of [`PART_BYTES`] but the last. An error
    /// of the stream ends the upload and comes back as [`BucketErrorKind::Io`] with outcome
    /// [`Outcome::NotDone`]. There is no repetition of the whole: begin again under another key.
    pub async fn put_parts<E>(
        &self,
        key: &str,
        parts: impl Stream<Item = Result<Bytes, E>>,
    ) -> Result<(), BucketError>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let path = self.path(key);
        let mut upload = self
            .retrying(Op::Put, key, self.retry.write, || {
                let path = &path;
                async move { Ok((self.store.put_multipart(path).await?, 0)) }
            })
            .await?;
        let sent = self.send_parts(key, upload.as_mut(), parts).await;
        let finished = match sent {
            Ok(()) => self.complete(key, upload.as_mut()).await,
            Err(error) => Err(error),
        };
        if let Err(error) = finished {
            if error.outcome() == Outcome::NotDone
                && let Err(abort) = upload.abort().await
            {
                tracing::debug!(key, %abort, "could not abort a multipart upload");
            }
            return Err(error);
        }
        Ok(())
    }

    async fn send_parts<E>(
        &self,
        key: &str,
        upload: &mut dyn object_store::MultipartUpload,
        parts: impl Stream<Item = Result<Bytes, E>>,
    ) -> Result<(), BucketError>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let mut parts = std::pin::pin!(parts);
        let mut in_flight = FuturesUnordered::new();
        while let Some(part) = parts.next().await {
            let part = part.map_err(|error| {
                not_done(BucketError::new(Op::Put, key, BucketErrorKind::Io, error))
            })?;
            if in_flight.len() >= self.multipart_concurrency
                && let Some(done) = in_flight.next().await
            {
                done?;
            }
            in_flight.push(self.send_part(
                key,
                upload.put_part(PutPayload::from_bytes(part.clone())),
                part.len(),
            ));
        }
        while let Some(done) = in_flight.next().await {
            done?;
        }
        Ok(())
    }

    /// The store's own client repeats a part; a second part of the same number is not possible here.
    async fn send_part(
        &self,
        key: &str,
        part: object_store::UploadPart,
        len: usize,
    ) -> Result<(), BucketError> {
        let mut part = Some(part);
        let policy = crate::retry::RetryPolicy {
            attempts: 1,
            ..self.retry.write
        };
        self.retrying(Op::Put, key, policy, || {
            let part = part.take();
            async move {
                if let Some(part) = part {
                    part.await?;
                }
                Ok(((), len as u64))
            }
        })
        .await
        .map_err(not_done)
    }

    async fn complete(
        &self,
        key: &str,
        upload: &mut dyn object_store::MultipartUpload,
    ) -> Result<(), BucketError> {
        let started = std::time::Instant::now();
        let answer =
            tokio::time::timeout(self.retry.write.request_timeout, upload.complete()).await;
        let took = started.elapsed();
        let error = match answer {
            Ok(Ok(_)) => {
                self.metrics.observe(Op::Put, "ok", 0, took);
                return Ok(());
            }
            Ok(Err(error)) => BucketError::from_store(Op::Put, key, error),
            Err(_) => BucketError::new(
                Op::Put,
                key,
                BucketErrorKind::Timeout,
                "completing timed out",
            ),
        };
        self.metrics.observe(Op::Put, error.kind().label(), 0, took);
        Err(error)
    }
}

/// A failed part changes nothing that a reader could see.
fn not_done(error: BucketError) -> BucketError {
    error.with_outcome(Outcome::NotDone)
}
