//! XXH3 with 128 bits, without a seed.
//!
//! Y. Collet, "XXH3 Algorithm Description", part of the specification of xxHash. Redis makes the id
//! of a message of its fields with it (IDMPAUTO); data that comes from there holds such ids.
//!
//! Up to 16 bytes, up to 240 bytes, and more are hashed in three ways.

const PRIME32: [u64; 3] = [0x9E37_79B1, 0x85EB_CA77, 0xC2B2_AE3D];
const PRIME64: [u64; 5] = [
    0x9E37_79B1_85EB_CA87,
    0xC2B2_AE3D_27D4_EB4F,
    0x1656_67B1_9E37_79F9,
    0x85EB_CA77_C2B2_AE63,
    0x27D4_EB2F_1656_67C5,
];
const PRIME_MX1: u64 = 0x1656_6791_9E37_79F9;
const PRIME_MX2: u64 = 0x9FB2_1C65_1E98_DF25;

/// The specification's default.
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

const STRIPE: usize = 64;
/// Stripes between two scrambles.
const STRIPES: usize = (SECRET.len() - STRIPE) / 8;

/// The hash of some bytes: its low half, then its high half.
pub(super) fn xxh3_128(input: &[u8]) -> [u64; 2] {
    match input.len() {
        0 => [xxh64_avalanche(secrets(64)), xxh64_avalanche(secrets(80))],
        1..=3 => few(input),
        4..=8 => some(input),
        9..=16 => up_to_16(input),
        17..=240 => medium(input),
        _ => large(input),
    }
}

/// The 32-bit number at an offset.
fn u32_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes)))
}

/// The 64-bit number at an offset.
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Two numbers of the secret in one.
fn secrets(at: usize) -> u64 {
    u64_at(&SECRET, at) ^ u64_at(&SECRET, at + 8)
}

/// The product of 128 bits: its low half, then its high half.
fn product(a: u64, b: u64) -> [u64; 2] {
    let product = u128::from(a) * u128::from(b);
    [product as u64, (product >> 64) as u64]
}

fn avalanche(mut x: u64) -> u64 {
    x ^= x >> 37;
    x = x.wrapping_mul(PRIME_MX1);
    x ^ x >> 32
}

fn xxh64_avalanche(mut x: u64) -> u64 {
    x ^= x >> 33;
    x = x.wrapping_mul(PRIME64[1]);
    x ^= x >> 29;
    x = x.wrapping_mul(PRIME64[2]);
    x ^ x >> 32
}

/// 1 to 3 bytes.
fn few(input: &[u8]) -> [u64; 2] {
    let len = input.len();
    let combined = u32::from_le_bytes([input[len - 1], len as u8, input[0], input[len >> 1]]);
    let low = u32_at(&SECRET, 0) ^ u32_at(&SECRET, 4) ^ u64::from(combined);
    let turned = combined.swap_bytes().rotate_left(13);
    let high = u32_at(&SECRET, 8) ^ u32_at(&SECRET, 12) ^ u64::from(turned);
    [xxh64_avalanche(low), xxh64_avalanche(high)]
}

/// 4 to 8 bytes.
fn some(input: &[u8]) -> [u64; 2] {
    let len = input.len();
    let value = secrets(16) ^ u32_at(input, 0) ^ u32_at(input, len - 4) << 32;
    let [mut low, mut high] = product(value, PRIME64[0].wrapping_add((len as u64) << 2));
    high = high.wrapping_add(low << 1);
    low ^= high >> 3;
    low ^= low >> 35;
    low = low.wrapping_mul(PRIME_MX2);
    low ^= low >> 28;
    [low, avalanche(high)]
}

/// 9 to 16 bytes.
fn up_to_16(input: &[u8]) -> [u64; 2] {
    let len = input.len();
    let (first, last) = (u64_at(input, 0), u64_at(input, len - 8));
    let (one, two) = (secrets(32) ^ first ^ last, secrets(48) ^ last);
    let [low, high] = product(one, PRIME64[0]);
    let low = low.wrapping_add((len as u64 - 1) << 54);
    let high = high
        .wrapping_add(two)
        .wrapping_add((two & u64::from(u32::MAX)).wrapping_mul(PRIME32[1] - 1));
    let low = low ^ high.swap_bytes();
    let [low, carried] = product(low, PRIME64[1]);
    let high = carried.wrapping_add(high.wrapping_mul(PRIME64[1]));
    [avalanche(low), avalanche(high)]
}

fn mix(input: &[u8], at: usize, secret: usize) -> u64 {
    let one = u64_at(input, at) ^ u64_at(&SECRET, secret);
    let two = u64_at(input, at + 8) ^ u64_at(&SECRET, secret + 8);
    let [low, high] = product(one, two);
    low ^ high
}

fn mix_both(acc: &mut [u64; 2], input: &[u8], at: [usize; 2], secret: usize) {
    let sum = |at: usize| u64_at(input, at).wrapping_add(u64_at(input, at + 8));
    acc[0] = acc[0].wrapping_add(mix(input, at[0], secret)) ^ sum(at[1]);
    acc[1] = acc[1].wrapping_add(mix(input, at[1], secret + 16)) ^ sum(at[0]);
}

/// 17 to 240 bytes.
fn medium(input: &[u8]) -> [u64; 2] {
    let len = input.len();
    let mut acc = [(len as u64).wrapping_mul(PRIME64[0]), 0];
    if len <= 128 {
        for i in (0..=(len - 1) / 32).rev() {
            mix_both(&mut acc, input, [i * 16, len - i * 16 - 16], i * 32);
        }
    } else {
        (0..4).for_each(|i| mix_both(&mut acc, input, [i * 32, i * 32 + 16], i * 32));
        acc = acc.map(avalanche);
        for i in 4..len / 32 {
            mix_both(&mut acc, input, [i * 32, i * 32 + 16], (i - 4) * 32 + 3);
        }
        mix_both(&mut acc, input, [len - 16, len - 32], 103);
    }
    let low = acc[0].wrapping_add(acc[1]);
    let high = acc[0]
        .wrapping_mul(PRIME64[0])
        .wrapping_add(acc[1].wrapping_mul(PRIME64[3]))
        .wrapping_add((len as u64).wrapping_mul(PRIME64[1]));
    [avalanche(low), avalanche(high).wrapping_neg()]
}

/// The accumulators of a long input.
struct Lanes([u64; 8]);

impl Lanes {
    fn accumulate(&mut self, stripe: &[u8], secret: usize) {
        for i in 0..8 {
            let word = u64_at(stripe, i * 8);
            let value = word ^ u64_at(&SECRET, secret + i * 8);
            self.0[i ^ 1] = self.0[i ^ 1].wrapping_add(word);
            let halves = (value & u64::from(u32::MAX)).wrapping_mul(value >> 32);
            self.0[i] = self.0[i].wrapping_add(halves);
        }
    }

    fn scramble(&mut self) {
        for (i, lane) in self.0.iter_mut().enumerate() {
            *lane ^= *lane >> 47;
            *lane ^= u64_at(&SECRET, SECRET.len() - STRIPE + i * 8);
            *lane = lane.wrapping_mul(PRIME32[0]);
        }
    }

    fn merge(&self, start: u64, secret: usize) -> u64 {
        let halves = self.0.as_chunks::<2>().0.iter().enumerate();
        avalanche(halves.fold(start, |sum, (i, [one, two])| {
            let at = secret + i * 16;
            let [low, high] = product(one ^ u64_at(&SECRET, at), two ^ u64_at(&SECRET, at + 8));
            sum.wrapping_add(low ^ high)
        }))
    }
}

/// More than 240 bytes.
fn large(input: &[u8]) -> [u64; 2] {
    let [p1, p2, p3] = PRIME32;
    let [q1, q2, q3, q4, q5] = PRIME64;
    let mut lanes = Lanes([p3, q1, q2, q3, q4, p2, q5, p1]);
    let len = input.len();
    // The last stripe comes last, whether or not it is whole.
    for (n, stripe) in input[..len - 1].chunks_exact(STRIPE).enumerate() {
        if n > 0 && n % STRIPES == 0 {
            lanes.scramble();
        }
        lanes.accumulate(stripe, n % STRIPES * 8);
    }
    if (len - 1) / STRIPE % STRIPES == 0 && (len - 1) / STRIPE > 0 {
        lanes.scramble();
    }
    lanes.accumulate(&input[len - STRIPE..], SECRET.len() - STRIPE - 7);
    let len = len as u64;
    let low = lanes.merge(len.wrapping_mul(PRIME64[0]), 11);
    let high = !len.wrapping_mul(PRIME64[1]);
    [low, lanes.merge(high, SECRET.len() - STRIPE - 11)]
}

#[cfg(test)]
mod tests {
    use super::xxh3_128;

    /// Hashes of the bytes 0, 1, 2.. modulo 251, by the reference implementation.
    #[test]
    fn hashes_are_those_of_the_reference() {
        let bytes: Vec<u8> = (0..5000).map(|at| (at % 251) as u8).collect();
        for (len, low, high) in KNOWN {
            assert_eq!(xxh3_128(&bytes[..len]), [low, high], "{len} bytes");
        }
    }

    const KNOWN: [(usize, u64, u64); 30] = [
        (0, 0x6001_c324_468d_497f, 0x99aa_06d3_0147_98d8),
        (1, 0xc44b_dff4_074e_ecdb, 0xa6cd_5e93_9200_0f6a),
        (2, 0xd664_5fc3_051a_9457, 0x6a4a_5274_c1b0_d3ad),
        (3, 0x5f42_99fc_161c_9cbb, 0xe3b5_5f57_945a_17cf),
        (4, 0xa611_1d53_e80a_3db5, 0xeb70_bf5f_c779_e9e6),
        (7, 0xdbb2_0782_1e6d_5efe, 0x61ce_291b_c3a4_357d),
        (8, 0xcfd5_0c61_c8bb_98c1, 0xe1e4_432a_6221_7fe4),
        (9, 0x9079_3197_9dca_3746, 0x16c7_69d8_3e4a_ebce),
        (12, 0x7780_eb31_198f_13ca, 0x38f9_2247_a7f7_3cc5),
        (16, 0x8428_12cc_870d_cae2, 0x7295_0631_8276_07e2),
        (17, 0xc06e_233d_f772_9217, 0x685b_c458_b37d_057f),
        (32, 0x457d_9566_b6fc_d697, 0x25e7_c9b3_424c_eed2),
        (33, 0xe08d_8495_1339_de86, 0x0217_5c3a_abb0_0637),
        (64, 0x90c1_971d_db04_ce74, 0x9c6e_140a_4655_45e5),
        (100, 0x29b2_0ba5_f03e_c01e, 0xda95_ef16_fd95_66f3),
        (128, 0x0532_1a0b_64d6_7b41, 0x1479_2fc3_af88_dc6c),
        (129, 0xbc30_b633_82b0_9a3b, 0xdd5e_74ac_6b45_f54e),
        (160, 0xc67f_cd13_c31b_09f4, 0x4e95_c1cd_6dc7_bb85),
        (192, 0x050f_429c_4f52_b688, 0x10c9_87dc_285c_756b),
        (240, 0xc92b_68e1_6f83_bbb6, 0x65b5_be86_da55_40e7),
        (241, 0x02e8_cd95_421c_6d02, 0x1da1_cb61_bcb8_a2a1),
        (256, 0x44f5_d90d_acde_463a, 0x96c3_6c85_d00e_5bc5),
        (257, 0x88fc_3f79_34a6_c9be, 0x8c65_0dc0_594a_e281),
        (512, 0x5c02_1aac_1395_4143, 0x5884_ea91_ad71_02d7),
        (1024, 0xe5d7_8baf_a45b_2aa5, 0xd0ac_1f7b_93bf_57b9),
        (1025, 0xe95c_4228_8f28_186e, 0x2882_ebca_04ec_915c),
        (1088, 0x1a84_8d80_7034_c403, 0x2955_19bc_5298_1c5c),
        (2048, 0x2533_9063_db86_1586, 0xa514_1efe_dfef_c1af),
        (2049, 0x6c96_00c0_e506_e2ae, 0x39a5_4bc9_3f74_921b),
        (5000, 0xb418_500f_c423_20ee, 0xb92e_c02c_39d3_3ce7),
    ];
}
