//! Features of the cluster that this broker supports, and how a new cluster begins. Rules: A-5,
//! D-60, D-62.

use strandline_metadata::SupportedFeature;

/// Which protocol transactions have (5.9): from level 1 on records are flexible, from level 2 on
/// clients may leave it to the broker to add partitions, and get a new epoch at each end.
pub(crate) const TRANSACTION_VERSION: &str = "transaction.version";

/// A feature and the levels of it that are supported, both inclusive.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Supported {
    pub(crate) name: &'static str,
    pub(crate) min: i16,
    pub(crate) max: i16,
}

/// All of them, by name.
pub(crate) const SUPPORTED: [Supported; 1] = [Supported {
    name: TRANSACTION_VERSION,
    min: 0,
    max: 2,
}];

/// The same, as the controller is told.
pub(crate) fn registered() -> Vec<SupportedFeature> {
    let of = |f: &Supported| SupportedFeature {
        name: f.name.to_owned(),
        min: f.min,
        max: f.max,
    };
    SUPPORTED.iter().map(of).collect()
}

/// What a new cluster begins with: the newest of each.
pub(crate) fn bootstrap() -> Vec<(String, i16)> {
    let newest = SUPPORTED.iter().map(|f| (f.name.to_owned(), f.max));
    newest.collect()
}
