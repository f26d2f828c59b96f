//! ApiVersions (18). Rules: A-1 … A-6, W-11, D-60.

use bytes::Bytes;
use strandline_wire::messages::ApiVersionsRequest;
use strandline_wire::messages::api_versions_response::{
    ApiVersion, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};
use strandline_wire::{
    ErrorCode, WireError, decode_request, encode_response_with_header, served_apis,
};

use super::{RequestContext, respond, text};
use crate::features;
use crate::net::response::Outcome;

pub(super) fn handle(context: &RequestContext, body: Bytes) -> Result<Outcome, WireError> {
    let header = &context.header;
    if !header.api.serves(header.version) {
        // in version 0, which every client reads.
        let response = ApiVersionsResponse::default()
            .with_error_code(ErrorCode::UnsupportedVersion.code())
            .with_api_keys(keys());
        let bytes = encode_response_with_header(header.api, 0, header.correlation_id, &response)?;
        return Ok(Outcome::frame(bytes));
    }
    let request: ApiVersionsRequest = decode_request(header, body)?;
    if header.version >= 3 && !names_software(&request) {
        // W-11: the connection stays open.
        let response =
            ApiVersionsResponse::default().with_error_code(ErrorCode::InvalidRequest.code());
        return Ok(respond(header, &response));
    }
    let mut response = ApiVersionsResponse::default().with_api_keys(keys());
    if header.version >= 3 {
        add_features(context, &mut response);
    }
    Ok(respond(header, &response))
}

fn keys() -> Vec<ApiVersion> {
    let row = |api: &strandline_wire::ServedApi| {
        ApiVersion::default()
            .with_api_key(api.key)
            .with_min_version(api.advertised_min())
            .with_max_version(api.max)
    };
    served_apis().iter().map(row).collect()
}

/// D-60: what this broker supports, and what the metadata says that the cluster works with.
fn add_features(context: &RequestContext, response: &mut ApiVersionsResponse) {
    let image = context.broker.metadata.image();
    // old clients refuse a range that begins at 0.
    let told = features::SUPPORTED
        .iter()
        .filter(|f| f.min > 0 || context.version() >= 4);
    let supported = told.map(|feature| {
        SupportedFeatureKey::default()
            .with_name(text(feature.name))
            .with_min_version(feature.min)
            .with_max_version(feature.max)
    });
    response.supported_features = supported.collect();
    let finalized = image.features().iter().map(|(name, level)| {
        FinalizedFeatureKey::default()
            .with_name(text(name))
            .with_max_version_level(level)
            .with_min_version_level(level)
    });
    response.finalized_features = finalized.collect();
    // never negative, and it grows with each change.
    response.finalized_features_epoch = image.offset().max(0);
}

/// W-11: letters, digits, `-` and `.`, beginning and ending with a letter or digit.
fn names_software(request: &ApiVersionsRequest) -> bool {
    let legal = |name: &str| {
        let bytes = name.as_bytes();
        let ends_well = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
        ends_well(bytes.first())
            && ends_well(bytes.last())
            && bytes
                .iter()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'))
    };
    legal(&request.client_software_name) && legal(&request.client_software_version)
}

#[cfg(test)]
mod tests {
    use super::*;

    // W-11
    #[test]
    fn software_names_are_checked() {
        let named = |name: &str, version: &str| {
            names_software(
                &ApiVersionsRequest::default()
                    .with_client_software_name(text(name))
                    .with_client_software_version(text(version)),
            )
        };
        assert!(named("librdkafka", "2.0.2"));
        assert!(named("a", "1"));
        assert!(!named("", "1"));
        assert!(!named("-a", "1"));
        assert!(!named("a b", "1"));
        assert!(!named("a", "1."));
    }
}
