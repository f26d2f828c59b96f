//! Settings of a bucket beside its URL.

use std::str::FromStr;

use crate::retry::RetryPolicies;

/// What is behind a bucket's URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreKind {
    /// A directory of this machine (`file:///path`).
    LocalDirectory,
    /// S3 or a store that speaks its protocol (`s3://bucket/prefix`).
    S3,
    /// Memory of this process (`memory:`), for tests.
    Memory,
}

/// Server-side encryption of S3 objects (`strandline.store.s3.server.side.encryption`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ServerSideEncryption {
    /// As the bucket is configured.
    #[default]
    None,
    /// Keys managed by S3 (`AES256`).
    Aes256,
    /// Keys of KMS (`aws:kms` or `aws:kms:<key id or ARN>`).
    Kms {
        /// The key; the account's default key without one.
        key: Option<String>,
    },
}

/// The text names no kind of encryption.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no server-side encryption: allowed are none, AES256, aws:kms, aws:kms:<key>")]
pub struct ParseServerSideEncryptionError(String);

impl FromStr for ServerSideEncryption {
    type Err = ParseServerSideEncryptionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" | "" => Ok(Self::None),
            "AES256" => Ok(Self::Aes256),
            "aws:kms" => Ok(Self::Kms { key: None }),
            _ => match text.strip_prefix("aws:kms:") {
                Some(key) if !key.is_empty() => Ok(Self::Kms {
                    key: Some(key.to_owned()),
                }),
                _ => Err(ParseServerSideEncryptionError(text.to_owned())),
            },
        }
    }
}

/// How to reach an S3 bucket (`strandline.store.s3.*`). Credentials come from the usual chain: the
/// environment (`AWS_ACCESS_KEY_ID`, …), web identity, the profile files, container and instance
/// metadata.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct S3Options {
    /// `http://` or `https://` address of another store than AWS; else `AWS_ENDPOINT_URL`, else AWS.
    pub endpoint: Option<String>,
    /// Region; else `AWS_REGION`, else the profile's, else `us-east-1`.
    pub region: Option<String>,
    /// Bucket name in the path instead of the host name. Always so for endpoints that are IP
    /// addresses or `localhost`.
    pub path_style: bool,
    /// Server-side encryption to ask for.
    pub server_side_encryption: ServerSideEncryption,
}

/// Settings of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketOptions {
    /// For `s3://` URLs.
    pub s3: S3Options,
    /// Repetition and time limits.
    pub retry: RetryPolicies,
    /// Reading requests (GET, HEAD, LIST) in flight at most.
    pub max_concurrent_reads: usize,
    /// Writing requests (PUT, DELETE) in flight at most.
    pub max_concurrent_writes: usize,
    /// Parts in flight per large object.
    pub multipart_concurrency: usize,
}

impl Default for BucketOptions {
    fn default() -> Self {
        Self {
            s3: S3Options::default(),
            retry: RetryPolicies::default(),
            max_concurrent_reads: 64,
            max_concurrent_writes: 32,
            multipart_concurrency: 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encryption_is_parsed() {
        let parse = |text: &str| text.parse::<ServerSideEncryption>();
        assert_eq!(parse("none"), Ok(ServerSideEncryption::None));
        assert_eq!(parse("AES256"), Ok(ServerSideEncryption::Aes256));
        assert_eq!(
            parse("aws:kms"),
            Ok(ServerSideEncryption::Kms { key: None })
        );
        let key = Some("arn:aws:kms:eu-west-1:1:key/2".to_owned());
        assert_eq!(
            parse("aws:kms:arn:aws:kms:eu-west-1:1:key/2"),
            Ok(ServerSideEncryption::Kms { key })
        );
        assert!(parse("aes").is_err());
        assert!(parse("aws:kms:").is_err());
    }
}
