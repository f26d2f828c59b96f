//! XXH32 with seed 0, the checksum of LZ4 frames.

const PRIME_1: u32 = 0x9E37_79B1;
const PRIME_2: u32 = 0x85EB_CA77;
const PRIME_3: u32 = 0xC2B2_AE3D;
const PRIME_4: u32 = 0x27D4_EB2F;
const PRIME_5: u32 = 0x1656_67B1;
const STRIPE_BYTES: usize = 16;

/// A checksum in progress.
pub(super) struct Xxh32 {
    lanes: [u32; 4],
    /// Bytes that do not fill a stripe yet.
    pending: Vec<u8>,
    total: u64,
}

impl Xxh32 {
    pub(super) fn new() -> Self {
        let lanes = [
            PRIME_1.wrapping_add(PRIME_2),
            PRIME_2,
            0,
            0_u32.wrapping_sub(PRIME_1),
        ];
        Self {
            lanes,
            pending: Vec::with_capacity(STRIPE_BYTES),
            total: 0,
        }
    }

    /// The checksum of `data` alone.
    pub(super) fn of(data: &[u8]) -> u32 {
        let mut hash = Self::new();
        hash.update(data);
        hash.digest()
    }

    pub(super) fn update(&mut self, mut data: &[u8]) {
        self.total = self.total.wrapping_add(data.len() as u64);
        if !self.pending.is_empty() {
            let room = STRIPE_BYTES - self.pending.len();
            let (now, later) = data.split_at(room.min(data.len()));
            self.pending.extend_from_slice(now);
            data = later;
            if let Some(stripe) = self.pending.first_chunk() {
                mix(&mut self.lanes, stripe);
                self.pending.clear();
            }
        }
        let (stripes, rest) = data.as_chunks::<STRIPE_BYTES>();
        for stripe in stripes {
            mix(&mut self.lanes, stripe);
        }
        self.pending.extend_from_slice(rest);
    }

    pub(super) fn digest(&self) -> u32 {
        let mut hash = if self.total < STRIPE_BYTES as u64 {
            PRIME_5
        } else {
            let rotations = [1, 7, 12, 18];
            let rotated = self
                .lanes
                .iter()
                .zip(rotations)
                .map(|(lane, by)| lane.rotate_left(by));
            rotated.fold(0, u32::wrapping_add)
        };
        hash = hash.wrapping_add(self.total as u32);
        let (words, bytes) = self.pending.as_chunks::<4>();
        for word in words {
            let word = u32::from_le_bytes(*word).wrapping_mul(PRIME_3);
            hash = hash
                .wrapping_add(word)
                .rotate_left(17)
                .wrapping_mul(PRIME_4);
        }
        for &byte in bytes {
            let byte = u32::from(byte).wrapping_mul(PRIME_5);
            hash = hash
                .wrapping_add(byte)
                .rotate_left(11)
                .wrapping_mul(PRIME_1);
        }
        hash = (hash ^ (hash >> 15)).wrapping_mul(PRIME_2);
        hash = (hash ^ (hash >> 13)).wrapping_mul(PRIME_3);
        hash ^ (hash >> 16)
    }
}

fn mix(lanes: &mut [u32; 4], stripe: &[u8; STRIPE_BYTES]) {
    let (words, _) = stripe.as_chunks::<4>();
    for (lane, word) in lanes.iter_mut().zip(words) {
        let word = u32::from_le_bytes(*word).wrapping_mul(PRIME_2);
        *lane = lane
            .wrapping_add(word)
            .rotate_left(13)
            .wrapping_mul(PRIME_1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Published test vectors of XXH32.
    #[test]
    fn known_inputs_have_known_sums() {
        assert_eq!(Xxh32::of(b""), 0x02CC_5D05);
        assert_eq!(Xxh32::of(b"a"), 0x550D_7456);
        assert_eq!(Xxh32::of(b"abc"), 0x32D1_53FF);
        assert_eq!(
            Xxh32::of(b"Nobody inspects the spammish repetition"),
            0xE229_3B2F
        );
    }

    #[test]
    fn pieces_give_the_same_sum_as_the_whole() {
        let data: Vec<u8> = (0..1000_u32).map(|i| (i * 7) as u8).collect();
        for piece in [1, 3, 15, 16, 17, 100] {
            let mut hash = Xxh32::new();
            data.chunks(piece).for_each(|chunk| hash.update(chunk));
            assert_eq!(hash.digest(), Xxh32::of(&data));
        }
    }
}
