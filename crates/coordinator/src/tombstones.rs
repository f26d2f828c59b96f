//! How many tombstones go into one batch.

/// More do not fit into a batch of the default size, with keys of ordinary length.
const MAX_COUNT: usize = 1_000;
/// Bytes of their keys: half of the smallest default of `max.message.bytes`, and room for the rest of a record.
const MAX_BYTES: usize = 512 * 1024;

/// Cuts `keys` so that the tombstones of each part fit into a batch; `size` is the length of a key in bytes.
pub fn tombstone_batches<'k, K>(
    keys: &'k [K],
    size: impl Fn(&K) -> usize + 'k,
) -> impl Iterator<Item = &'k [K]> {
    let (mut count, mut bytes) = (0, 0);
    keys.chunk_by(move |before, next| {
        if count == 0 {
            (count, bytes) = (1, size(before));
        }
        (count, bytes) = (count + 1, bytes + size(next));
        let fits = count <= MAX_COUNT && bytes <= MAX_BYTES;
        if !fits {
            count = 0;
        }
        fits
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(keys: &[usize]) -> Vec<usize> {
        let batches = tombstone_batches(keys, |size| *size);
        batches.map(<[_]>::len).collect()
    }

    #[test]
    fn a_batch_has_a_limit_of_keys_and_one_of_bytes() {
        assert_eq!(lengths(&[10; 2_500]), [1_000, 1_000, 500]);
        assert_eq!(lengths(&[32_767; 33]), [16, 16, 1]);
        assert_eq!(lengths(&[600_000, 1, 600_000]), [1, 1, 1]);
        assert_eq!(lengths(&[]), [0; 0]);
        let mixed: Vec<usize> = (0..5_000).map(|n| n * 37 % 3_000).collect();
        assert_eq!(lengths(&mixed).iter().sum::<usize>(), 5_000);
    }
}
