//! XXH3, 64 bits, without a seed: the digest of a string as Redis shows it.
//!
//! Yann Collet, "xxHash fast digest algorithm", <https://github.com/Cyan4973/xxHash/tree/dev/doc>.
//! Up to 240 bytes are folded by multiplications of 64 to 128 bits; longer texts go through eight
//! lanes, a stripe of 64 bytes at a time, which are scrambled after each block of 16 stripes.

const SECRET: [u8; 192] = [
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
];

const PRIME32: [u64; 3] = [0x9e37_79b1, 0x85eb_ca77, 0xc2b2_ae3d];
const PRIME64: [u64; 5] = [
    0x9e37_79b1_85eb_ca87,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0x85eb_ca77_c2b2_ae63,
    0x27d4_eb2f_1656_67c5,
];

const STRIPE: usize = 64;
/// Bytes of the secret by which a stripe moves on.
const STEP: usize = 8;
const STRIPES_OF_BLOCK: usize = (SECRET.len() - STRIPE) / STEP;
const BLOCK: usize = STRIPE * STRIPES_OF_BLOCK;
const SHORT_SECRET: usize = 136;

fn read32(bytes: &[u8], at: usize) -> u64 {
    let word = bytes[at..].first_chunk().copied().unwrap_or_default();
    u32::from_le_bytes(word).into()
}

fn read64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..].first_chunk().copied().unwrap_or_default())
}

/// The halves of a product of 128 bits, one on the other.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

fn avalanche(mut hash: u64) -> u64 {
    hash = (hash ^ hash >> 37).wrapping_mul(0x1656_6791_9e37_79f9);
    hash ^ hash >> 32
}

/// The avalanche of the older XXH64.
fn old_avalanche(mut hash: u64) -> u64 {
    hash = (hash ^ hash >> 33).wrapping_mul(PRIME64[1]);
    hash = (hash ^ hash >> 29).wrapping_mul(PRIME64[2]);
    hash ^ hash >> 32
}

fn mix16(bytes: &[u8], at: usize, secret: usize) -> u64 {
    let half = |by: usize| read64(bytes, at + by) ^ read64(&SECRET, secret + by);
    fold(half(0), half(8))
}

/// XXH3 of a text, 64 bits.
pub(super) fn xxh3_64(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    match len {
        0 => old_avalanche(read64(&SECRET, 56) ^ read64(&SECRET, 64)),
        1..=3 => {
            let byte = |at: usize| u64::from(bytes[at]);
            let all = byte(0) << 16 | byte(len / 2) << 24 | byte(len - 1) | (len as u64) << 8;
            old_avalanche(all ^ read32(&SECRET, 0) ^ read32(&SECRET, 4))
        }
        4..=8 => {
            let both = read32(bytes, len - 4) | read32(bytes, 0) << 32;
            let mut hash = both ^ read64(&SECRET, 8) ^ read64(&SECRET, 16);
            hash ^= hash.rotate_left(49) ^ hash.rotate_left(24);
            hash = hash.wrapping_mul(0x9fb2_1c65_1e98_df25);
            hash ^= (hash >> 35).wrapping_add(len as u64);
            hash = hash.wrapping_mul(0x9fb2_1c65_1e98_df25);
            hash ^ hash >> 28
        }
        9..=16 => {
            let low = read64(bytes, 0) ^ read64(&SECRET, 24) ^ read64(&SECRET, 32);
            let high = read64(bytes, len - 8) ^ read64(&SECRET, 40) ^ read64(&SECRET, 48);
            let sum = (len as u64).wrapping_add(low.swap_bytes()).wrapping_add(high);
            avalanche(sum.wrapping_add(fold(low, high)))
        }
        17..=128 => {
            let mut sum = (len as u64).wrapping_mul(PRIME64[0]);
            for pair in 0..=(len - 1) / 32 {
                sum = sum.wrapping_add(mix16(bytes, 16 * pair, 32 * pair));
                sum = sum.wrapping_add(mix16(bytes, len - 16 * (pair + 1), 32 * pair + 16));
            }
            avalanche(sum)
        }
        129..=240 => {
            let mix = |sum: u64, at, secret| sum.wrapping_add(mix16(bytes, at, secret));
            let start = (len as u64).wrapping_mul(PRIME64[0]);
            let head = (0..8).fold(start, |sum, round| mix(sum, 16 * round, 16 * round));
            let tail = mix16(bytes, len - 16, SHORT_SECRET - 17);
            let rest = 8..len / 16;
            let tail = rest.fold(tail, |sum, round| mix(sum, 16 * round, 16 * (round - 8) + 3));
            avalanche(avalanche(head).wrapping_add(tail))
        }
        _ => long(bytes),
    }
}

fn accumulate(lanes: &mut [u64; 8], stripe: &[u8], secret: usize) {
    for lane in 0..8 {
        let value = read64(stripe, lane * 8);
        let key = value ^ read64(&SECRET, secret + lane * 8);
        lanes[lane ^ 1] = lanes[lane ^ 1].wrapping_add(value);
        lanes[lane] = lanes[lane].wrapping_add((key & 0xffff_ffff) * (key >> 32));
    }
}

/// A text of more than 240 bytes.
fn long(bytes: &[u8]) -> u64 {
    let mut lanes = [
        PRIME32[2], PRIME64[0], PRIME64[1], PRIME64[2], PRIME64[3], PRIME32[1], PRIME64[4],
        PRIME32[0],
    ];
    let last = SECRET.len() - STRIPE;
    // The last block is not scrambled; the last stripe, which may overlap, comes by itself.
    let blocks = (bytes.len() - 1) / BLOCK;
    for block in bytes[..blocks * BLOCK].chunks_exact(BLOCK) {
        for (number, stripe) in block.chunks_exact(STRIPE).enumerate() {
            accumulate(&mut lanes, stripe, number * STEP);
        }
        for (number, lane) in lanes.iter_mut().enumerate() {
            *lane = (*lane ^ *lane >> 47) ^ read64(&SECRET, last + number * 8);
            *lane = lane.wrapping_mul(PRIME32[0]);
        }
    }
    let rest = &bytes[blocks * BLOCK..bytes.len() - 1];
    for (number, stripe) in rest.chunks_exact(STRIPE).enumerate() {
        accumulate(&mut lanes, stripe, number * STEP);
    }
    accumulate(&mut lanes, &bytes[bytes.len() - STRIPE..], last - 7);
    let start = (bytes.len() as u64).wrapping_mul(PRIME64[0]);
    let merged = (0..4).fold(start, |sum, pair| {
        let half = |by: usize| lanes[2 * pair + by] ^ read64(&SECRET, 11 + 16 * pair + 8 * by);
        sum.wrapping_add(fold(half(0), half(1)))
    });
    avalanche(merged)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values are those of the reference implementation, 0.8.2.
    #[test]
    fn digests_are_those_of_the_reference() {
        let text: Vec<u8> = (0..3_000u32).map(|at| (at * 7 + 3) as u8).collect();
        for (len, expected) in [
            (0, 0x2d06_8005_38d3_94c2),
            (1, 0x13e6_08bc_156d_efed),
            (3, 0xa908_8dda_485b_481c),
            (4, 0x6d92_53b1_6c8b_1ed3),
            (8, 0x6053_9db6_3047_1163),
            (9, 0xfeff_6683_61d7_23a8),
            (16, 0xb8c8_59b0_f030_b585),
            (17, 0x714a_0440_8e79_b80f),
            (32, 0x19ff_4ee1_d6ba_1a55),
            (33, 0x3e44_983a_d216_79c8),
            (64, 0x287e_b1fa_9e4b_e2c1),
            (96, 0xf084_e7cf_bc62_4743),
            (128, 0x6742_5a03_6502_61bf),
            (129, 0xc664_bf33_11c6_abc4),
            (130, 0xa620_cbbc_569e_eeab),
            (144, 0x606a_17fa_700b_b932),
            (145, 0x58ce_ebee_1ff9_e519),
            (200, 0x746c_d002_5327_bf5b),
            (240, 0x6455_6dc6_b462_a6cf),
            (241, 0x8bea_dd3a_8874_fe17),
            (256, 0x3c38_817f_6d79_c0da),
            (1024, 0x9b81_661c_641c_72b1),
            (1025, 0x806c_2072_ed71_3576),
            (1087, 0x0d05_8f8d_bd85_227e),
            (1088, 0x2f87_81e0_1841_f0da),
            (1089, 0x2a90_437f_e231_e7e8),
            (2048, 0xabe6_0481_3ba6_2ed1),
            (2999, 0xc61d_8aac_87f8_6f7a),
        ] {
            assert_eq!(xxh3_64(&text[..len]), expected, "{len} bytes");
        }
        assert_eq!(xxh3_64(b"hello world"), 0xd447_b1ea_40e6_988b);
    }
}
