//! What openraft needs of the crate `base2histogram`, without its tables.
//!
//! The original computes, at the first histogram, lookup tables for sixteen widths, of which openraft uses
//! one: 26 MiB of memory that never goes away, and 40 to 70 ms of every start, in release. openraft records
//! into its histograms always but shows them only with its feature `runtime-stats`, which we do not use.
//! So this one has 65 buckets, one per power of two. To be dropped when the original makes its tables
//! on demand.

use std::fmt;
use std::marker::PhantomData;

const BUCKETS: usize = 65;

/// Counts of values by their number of significant bits.
pub struct Histogram<T = ()> {
    counts: [u64; BUCKETS],
    slots: PhantomData<fn() -> T>,
}

impl<T> Histogram<T> {
    /// An empty histogram.
    pub fn new() -> Self {
        Self {
            counts: [0; BUCKETS],
            slots: PhantomData,
        }
    }

    /// Counts one value.
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Counts a value `count` times.
    pub fn record_n(&mut self, value: u64, count: u64) {
        let bits = (u64::BITS - value.leading_zeros()) as usize;
        if let Some(bucket) = self.counts.get_mut(bits) {
            *bucket = bucket.saturating_add(count);
        }
    }

    /// Number of values.
    pub fn total(&self) -> u64 {
        self.counts
            .iter()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The lower bound of the bucket below whose end a share `p` (0 to 1) of the values lies.
    pub fn percentile(&self, p: f64) -> u64 {
        let wanted = (self.total() as f64 * p).ceil().max(1.0) as u64;
        let mut seen = 0_u64;
        for (bits, count) in self.counts.iter().enumerate() {
            seen = seen.saturating_add(*count);
            if seen >= wanted {
                return if bits == 0 { 0 } else { 1 << (bits - 1) };
            }
        }
        0
    }

    /// The percentiles that are shown.
    pub fn percentile_stats(&self) -> PercentileStats {
        PercentileStats {
            samples: self.total(),
            p0_1: self.percentile(0.001),
            p1: self.percentile(0.01),
            p5: self.percentile(0.05),
            p10: self.percentile(0.1),
            p50: self.percentile(0.5),
            p90: self.percentile(0.9),
            p99: self.percentile(0.99),
            p99_9: self.percentile(0.999),
        }
    }
}

impl<T> Default for Histogram<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for Histogram<T> {
    fn clone(&self) -> Self {
        Self {
            counts: self.counts,
            slots: PhantomData,
        }
    }
}

impl<T> PartialEq for Histogram<T> {
    fn eq(&self, other: &Self) -> bool {
        self.counts == other.counts
    }
}

impl<T> Eq for Histogram<T> {}

impl<T> fmt::Debug for Histogram<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.percentile_stats().fmt(f)
    }
}

/// Percentiles of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PercentileStats {
    /// Number of values.
    pub samples: u64,
    /// 0.1 %.
    pub p0_1: u64,
    /// 1 %.
    pub p1: u64,
    /// 5 %.
    pub p5: u64,
    /// 10 %.
    pub p10: u64,
    /// The median.
    pub p50: u64,
    /// 90 %.
    pub p90: u64,
    /// 99 %.
    pub p99: u64,
    /// 99.9 %.
    pub p99_9: u64,
}

impl fmt::Display for PercentileStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            samples,
            p50,
            p90,
            p99,
            ..
        } = self;
        write!(f, "{samples} values: median {p50}, 90 % {p90}, 99 % {p99}")
    }
}

/// Several histograms as text, one per line.
#[derive(Debug, Clone, Default)]
pub struct AsciiChart {
    series: Vec<(String, Histogram)>,
}

impl AsciiChart {
    /// Without histograms.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more.
    #[must_use]
    pub fn add(mut self, name: impl Into<String>, histogram: Histogram) -> Self {
        self.series.push((name.into(), histogram));
        self
    }
}

impl fmt::Display for AsciiChart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, histogram) in &self.series {
            writeln!(f, "{name}: {}", histogram.percentile_stats())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_power_of_two_below() {
        let mut histogram = Histogram::<()>::new();
        assert_eq!(histogram.percentile(0.5), 0);
        histogram.record(0);
        histogram.record_n(5, 8);
        histogram.record(u64::MAX);
        let stats = histogram.percentile_stats();
        assert_eq!(
            (stats.samples, stats.p1, stats.p50, stats.p99),
            (10, 0, 4, 1 << 63)
        );
    }
}
