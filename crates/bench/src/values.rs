//! Values of records.

/// Bytes of values to choose from.
const POOL_BYTES: usize = 1 << 20;

/// Random values, so that nothing on the way gains by compressing them.
#[derive(Debug)]
pub struct Values {
    size: usize,
    pool: Vec<u8>,
    next: usize,
}

impl Values {
    /// Values of `size` bytes.
    pub fn new(size: usize) -> Self {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let pool = (0..(POOL_BYTES + size).div_ceil(8)).flat_map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        });
        Self {
            size,
            pool: pool.collect(),
            next: 0,
        }
    }

    /// The next value.
    pub fn next_value(&mut self) -> &[u8] {
        let at = self.next;
        self.next = (at + self.size) % POOL_BYTES;
        self.pool.get(at..at + self.size).unwrap_or_default()
    }
}
