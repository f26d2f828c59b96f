use proptest::prelude::*;

use super::*;
use crate::test_batches::{
    CODECS, RawRecord, any_codec, any_records, batch_of, batch_with, dense, header, with_length,
};
use crate::varint::put_varint;

const MAX: usize = 1 << 24;

fn read(batch: &Batch) -> Result<Vec<Record>, BatchError> {
    records(batch, MAX)?.collect()
}

fn one(body: &[u8]) -> Result<Vec<Record>, BatchError> {
    read(&batch_of(&header(Compression::None, 1), &with_length(body)))
}

// 0.4, CRATES 1.5: repeated keys, keys that are no text
#[test]
fn headers_are_bytes_in_their_order() {
    for codec in CODECS {
        let headers: Vec<(Vec<u8>, Option<Vec<u8>>)> = vec![
            (b"k".to_vec(), Some(b"1".to_vec())),
            (b"k".to_vec(), Some(b"2".to_vec())),
            (vec![0xff, 0xfe], None),
            (vec![], Some(vec![])),
        ];
        let raw = RawRecord {
            headers: headers.clone(),
            ..RawRecord::default()
        };
        let read = read(&batch_with(&header(codec, 1), &[raw])).unwrap();
        let expected: Vec<_> = headers
            .into_iter()
            .map(|(k, v)| (Bytes::from(k), v.map(Bytes::from)))
            .collect();
        assert_eq!(read[0].headers, expected);
    }
}

#[test]
fn payloads_are_slices_of_a_plain_batch() {
    let batch = batch_with(&header(Compression::None, 1), &dense(1));
    let record = records(&batch, 0).unwrap().next().unwrap().unwrap();
    let (body, value) = (batch.body().as_ptr_range(), record.value.unwrap());
    assert!(body.contains(&value.as_ptr()));
}

// P-33
#[test]
fn the_iterator_ends_behind_the_first_malformed_record() {
    let mut plain: Vec<u8> = dense(2).iter().flat_map(RawRecord::encode).collect();
    plain.extend_from_slice(&[0x01, 0, 0]);
    let mut all = records(&batch_of(&header(Compression::None, 4), &plain), MAX).unwrap();
    assert!(all.next().unwrap().is_ok() && all.next().unwrap().is_ok());
    assert_eq!(all.next(), Some(Err(RecordFault::Length(-1).at(2))));
    assert_eq!((all.next(), all.next()), (None, None));
}

// P-33
#[test]
fn malformed_records_are_errors() {
    let error = |fault: RecordFault| Err(fault.at(0));
    assert_eq!(
        one(&[0, 0, 0, 1, 1, 0, 0]),
        error(RecordFault::LengthMismatch(7))
    );
    assert_eq!(one(&[0, 0, 0, 1, 1]), error(RecordFault::LengthMismatch(5)));
    assert_eq!(
        one(&[0, 0, 0, 3, 1, 0]),
        error(RecordFault::FieldLength(-2))
    );
    assert_eq!(
        one(&[0, 0, 0, 1, 1, 1]),
        error(RecordFault::HeaderCount(-1))
    );
    assert_eq!(
        one(&[0, 0, 0, 1, 1, 2, 1, 0]),
        error(RecordFault::HeaderKey(-1))
    );
    assert_eq!(
        one(&[0, 0, 1, 1, 1, 0]),
        error(RecordFault::OffsetDelta(-1))
    );
    let trailing = batch_of(
        &header(Compression::None, 1),
        &[&with_length(&[0, 0, 0, 1, 1, 0])[..], &[9]].concat(),
    );
    assert_eq!(
        read(&trailing),
        Err(BatchError::TrailingBytes { records: 1 })
    );
}

#[test]
fn a_claimed_number_of_headers_is_not_allocated() {
    let mut body = vec![0, 0, 0, 1, 1];
    put_varint(&mut body, i32::MAX);
    body.extend_from_slice(&[0, 1]);
    assert!(one(&body).is_err());
    let claim = batch_with(&header(Compression::None, i32::MAX), &dense(1));
    assert!(records(&claim, MAX).unwrap().size_hint().1.unwrap() < 100);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn records_read_back_as_written(codec in any_codec(), raw in any_records()) {
        let batch = batch_with(&header(codec, raw.len() as i32), &raw);
        let read = read(&batch).unwrap();
        prop_assert_eq!(read.len(), raw.len());
        for (record, raw) in read.iter().zip(&raw) {
            prop_assert_eq!(record.offset, i64::from(raw.offset_delta));
            prop_assert_eq!(record.timestamp, 1000 + raw.timestamp_delta);
            prop_assert_eq!(record.key.as_deref(), raw.key.as_deref());
            prop_assert_eq!(record.value.as_deref(), raw.value.as_deref());
            let headers: Vec<_> =
                record.headers.iter().map(|(k, v)| (k.to_vec(), v.as_ref().map(|v| v.to_vec()))).collect();
            prop_assert_eq!(&headers, &raw.headers);
        }
    }
}
