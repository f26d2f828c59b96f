//! Lookups by time against a plain search over all records (O-2, O-5, O-9).

use proptest::collection::vec;
use proptest::prelude::*;
use strandline_log::LogConfig;
use strandline_records::Compression;

use crate::support::{Fixture, Spec, small};

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 500, ..Default::default() })]

    #[test]
    fn a_lookup_finds_what_a_plain_search_finds(
        batches in vec(vec(-20..60_i64, 1..4), 1..60),
        slope in 0..5_i64,
        interval in prop_oneof![Just(0_u32), Just(200)],
        compressed in any::<bool>(),
        reopen in any::<bool>(),
        deleted in 0..40_i64,
    ) {
        let config = LogConfig {
            segment_bytes: 2000,
            index_interval_bytes: interval,
            ..small()
        };
        let mut fixture = Fixture::new(config, 0);
        let compression = if compressed { Compression::Lz4 } else { Compression::None };
        let mut records = Vec::new();
        for (i, offsets) in batches.iter().enumerate() {
            let timestamps: Vec<i64> =
                offsets.iter().map(|t| (1000 + t + i as i64 * slope).max(-1)).collect();
            records.extend(&timestamps);
            fixture.put(Spec { timestamps, compression, ..Spec::default() }.build());
        }
        if reopen {
            fixture.reopen_cleanly();
        }
        let log = fixture.log();
        let end = log.log_end_offset();
        log.set_high_watermark(end);
        let start = log.delete_records_to(deleted.min(end)).unwrap();
        let visible = || (0..end).zip(&records).skip(start as usize);
        for timestamp in 970..1100 + 60 * slope {
            for upper in [end, end / 2] {
                let want = visible().find(|(_, t)| **t >= timestamp).map(|(o, t)| (o, *t));
                let want = want.filter(|(o, _)| *o < upper);
                let found = log.offset_for_timestamp(timestamp, upper).unwrap();
                prop_assert_eq!(found.map(|f| (f.offset, f.timestamp)), want, "{}", timestamp);
            }
        }
        let greatest = records.iter().skip(start as usize).max();
        let want = visible().find(|(_, t)| Some(*t) == greatest);
        let found = log.max_timestamp_record().unwrap().map(|f| (f.offset, f.timestamp));
        prop_assert_eq!(found, want.map(|(o, t)| (o, *t)).filter(|(_, t)| *t >= 0));
    }
}
