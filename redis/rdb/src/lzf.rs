//! LZF, the compression inside RDB strings: own code for the format drawn at the crate's head.
//!
//! The compressor looks three bytes up in a table of recent positions and takes the match. On data
//! without repetitions it steps faster and faster, so random values cost little. Its
//! table is allocated once and never cleared between inputs: an entry holds its position plus the
//! sum of all earlier inputs' lengths, so places of earlier inputs are too small.

const MATCH_BYTES_MIN: usize = 3;
const MATCH_BYTES_MAX: usize = 7 + 255 + 2;
const DISTANCE_MAX: usize = 1 << 13;
const LITERALS_MAX: usize = 32;

/// No input unpacks to more than this many times its length: three bytes make 264.
const EXPANSION_MAX: u64 = 88;

const TABLE_BITS: u32 = 13;

#[derive(Debug)]
pub(crate) struct Compressor {
    table: Box<[u32]>,
    base: u32,
}

impl Compressor {
    pub(crate) fn new() -> Self {
        // Not zero, which touches the memory here: entries below `base` do not count.
        Compressor { table: vec![1; 1 << TABLE_BITS].into(), base: 2 }
    }

    /// A compressor without memory, after a move.
    pub(crate) fn spent() -> Self {
        Compressor { table: Box::default(), base: 1 }
    }

    /// Packs `input` (shorter than 2 GiB) into `out`: the packed length, or `None` if it does not
    /// fit there.
    pub(crate) fn compress(&mut self, input: &[u8], out: &mut [u8]) -> Option<usize> {
        let input_bytes = u32::try_from(input.len()).ok()?;
        if self.base.checked_add(input_bytes).is_none() {
            self.table.fill(0);
            self.base = 1;
        }
        let base = self.base;
        self.base = base.checked_add(input_bytes)?;

        let mut packed = Packed { out, length: 0 };
        // `input[literals..at]` is read and not yet written.
        let (mut at, mut literals) = (0, 0);
        while let Some(next) = input.get(at..at + MATCH_BYTES_MIN) {
            let slot = &mut self.table[hash(next)];
            let seen = std::mem::replace(slot, base + at as u32);
            let found = seen
                .checked_sub(base)
                .map(|position| position as usize)
                .filter(|&position| at - position <= DISTANCE_MAX)
                .filter(|&position| input[position..position + MATCH_BYTES_MIN] == *next);
            let Some(position) = found else {
                at += 1 + (at - literals) / 32;
                continue;
            };
            let length = common_length(input, position, at);
            packed.literals(&input[literals..at])?;
            packed.copy(at - position, length)?;
            at += length;
            literals = at;
            // One position inside the match helps the next to be found.
            if let Some(last) = input.get(at - 1..at - 1 + MATCH_BYTES_MIN) {
                self.table[hash(last)] = base + at as u32 - 1;
            }
        }
        packed.literals(&input[literals..])?;
        Some(packed.length)
    }
}

fn hash(bytes: &[u8]) -> usize {
    let word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
    (word.wrapping_mul(0x9E37_79B1) >> (32 - TABLE_BITS)) as usize
}

/// How many bytes at `at`, three at least, repeat those at `position`.
fn common_length(input: &[u8], position: usize, at: usize) -> usize {
    let end = input.len().min(at + MATCH_BYTES_MAX);
    let (new, old) = (&input[at..end], &input[position..position + (end - at)]);
    let (new_words, old_words) = (new.as_chunks::<8>().0, old.as_chunks::<8>().0);
    for (number, (a, b)) in new_words.iter().zip(old_words).enumerate() {
        let difference = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if difference != 0 {
            return number * 8 + difference.trailing_zeros() as usize / 8;
        }
    }
    let checked = new_words.len() * 8;
    checked + new[checked..].iter().zip(&old[checked..]).take_while(|(a, b)| a == b).count()
}

struct Packed<'a> {
    out: &'a mut [u8],
    length: usize,
}

impl Packed<'_> {
    fn literals(&mut self, bytes: &[u8]) -> Option<()> {
        for run in bytes.chunks(LITERALS_MAX) {
            let out = self.out.get_mut(self.length..self.length + 1 + run.len())?;
            out[0] = run.len() as u8 - 1;
            out[1..].copy_from_slice(run);
            self.length += 1 + run.len();
        }
        Some(())
    }

    fn copy(&mut self, distance: usize, length: usize) -> Option<()> {
        let (offset, extra) = (distance - 1, length - 2);
        let high = (offset >> 8) as u8;
        let out = self.out.get_mut(self.length..)?;
        self.length += match (extra, out) {
            (..7, [first, second, ..]) => {
                *first = (extra as u8) << 5 | high;
                *second = offset as u8;
                2
            }
            (7.., [first, second, third, ..]) => {
                *first = 7 << 5 | high;
                *second = (extra - 7) as u8;
                *third = offset as u8;
                3
            }
            _ => return None,
        };
        Some(())
    }
}

/// Unpacks `input` to `out` (cleared first), which must come to exactly `length` bytes; `None` if
/// it does not. Memory follows the unpacked bytes, not `length`.
pub(crate) fn decompress(mut input: &[u8], length: u64, out: &mut Vec<u8>) -> Option<()> {
    out.clear();
    if length > EXPANSION_MAX.saturating_mul(input.len() as u64) {
        return None;
    }
    let length = usize::try_from(length).ok()?;
    while let [control, rest @ ..] = input {
        let (count, high) = (usize::from(control >> 5), usize::from(control & 31));
        if count == 0 {
            let (run, rest) = rest.split_at_checked(high + 1)?;
            out.extend_from_slice(run);
            input = rest;
        } else {
            let (count, low, rest) = match rest {
                [more, low, rest @ ..] if count == 7 => (7 + usize::from(*more), low, rest),
                [low, rest @ ..] if count < 7 => (count, low, rest),
                _ => return None,
            };
            repeat(out, (high << 8 | usize::from(*low)) + 1, count + 2)?;
            input = rest;
        }
        if out.len() > length {
            return None;
        }
    }
    (out.len() == length).then_some(())
}

/// Appends `count` bytes starting `distance` bytes before the end; they may overlap their source.
fn repeat(out: &mut Vec<u8>, distance: usize, mut count: usize) -> Option<()> {
    let start = out.len().checked_sub(distance)?;
    // Each turn copies what is there since `start`, which is a whole number of periods.
    while count > 0 {
        let step = count.min(out.len() - start);
        out.extend_from_within(start..start + step);
        count -= step;
    }
    Some(())
}

/// Checks whether a packed string that comes in pieces would unpack, as [`decompress`] finds, by
/// its lengths alone.
pub(crate) struct Check {
    /// Bytes that it should unpack to, and that it has so far.
    wanted: u64,
    unpacked: u64,
    packed: u64,
    next: Next,
}

/// The meaning of the next byte.
enum Next {
    Control,
    Literals {
        left: u64,
    },
    /// The length of a repetition goes on; `high` bits of its distance are known.
    More {
        high: u64,
    },
    Low {
        high: u64,
        count: u64,
    },
    Wrong,
}

impl Check {
    pub(crate) fn new(wanted: u64) -> Self {
        Self { wanted, unpacked: 0, packed: 0, next: Next::Control }
    }

    pub(crate) fn update(&mut self, mut piece: &[u8]) {
        self.packed += piece.len() as u64;
        while let [byte, rest @ ..] = piece {
            let byte = u64::from(*byte);
            piece = rest;
            self.next = match self.next {
                Next::Control => match (byte >> 5, byte & 31) {
                    (0, run) => Next::Literals { left: run + 1 },
                    (7, high) => Next::More { high },
                    (count, high) => Next::Low { high, count: count + 2 },
                },
                Next::Literals { left } => {
                    let step = (left - 1).min(rest.len() as u64);
                    piece = &rest[step as usize..];
                    self.unpacked += 1 + step;
                    match left - 1 - step {
                        0 => Next::Control,
                        left => Next::Literals { left },
                    }
                }
                Next::More { high } => Next::Low { high, count: 7 + byte + 2 },
                Next::Low { high, .. } if (high << 8 | byte) + 1 > self.unpacked => Next::Wrong,
                Next::Low { count, .. } => {
                    self.unpacked += count;
                    Next::Control
                }
                Next::Wrong => return,
            };
        }
    }

    /// Whether all pieces together are a string of the length wanted.
    pub(crate) fn is_whole(&self) -> bool {
        self.wanted <= EXPANSION_MAX.saturating_mul(self.packed)
            && matches!(self.next, Next::Control)
            && self.unpacked == self.wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pack(compressor: &mut Compressor, input: &[u8]) -> Vec<u8> {
        let mut out = vec![0; input.len() * 33 / 32 + 2];
        let length = compressor.compress(input, &mut out).expect("literals alone fit");
        out.truncate(length);
        out
    }

    fn unpack(input: &[u8], length: u64) -> Option<Vec<u8>> {
        let mut out = b"left over".to_vec();
        decompress(input, length, &mut out).map(|()| out)
    }

    #[test]
    fn hand_made_streams_unpack() {
        let cases: &[(&[u8], &[u8])] = &[
            (b"", b""),
            (b"\x00a", b"a"),
            (b"\x02abc", b"abc"),
            (b"\x00a\x20\x00", b"aaaa"),
            (b"\x01ab\x60\x01", b"abababa"),
            (b"\x02abc\x20\x02\x00d", b"abcabcd"),
            (b"\x00a\xe0\x00\x00", b"aaaaaaaaaa"),
            (b"\x00a\xe0\x02\x00\x00b", b"aaaaaaaaaaaab"),
        ];
        for (packed, plain) in cases {
            let unpacked = unpack(packed, plain.len() as u64);
            assert_eq!(unpacked.as_deref(), Some(*plain), "{}", packed.escape_ascii());
        }
        let far: Vec<u8> = (0..8192u32).map(|n| (n * 7 / 8) as u8).collect();
        let mut packed: Vec<u8> =
            far.chunks(32).flat_map(|run| [&[31u8][..], run].concat()).collect();
        packed.extend_from_slice(&[0x20 | 31, 255]);
        assert_eq!(unpack(&packed, 8195), Some([&far[..], &far[..3]].concat()));
    }

    #[test]
    fn wrong_streams_and_lengths_are_refused() {
        let cases: &[(&[u8], u64)] = &[
            (b"\x00", 1),
            (b"\x02ab", 3),
            (b"\x20\x00", 3),
            (b"\x00a\x20\x01", 4),
            (b"\x00a\x20", 4),
            (b"\x00a\xe0\x00", 10),
            (b"\x00a", 2),
            (b"\x00a\x00b", 1),
            (b"\x00a", u64::MAX),
        ];
        for (packed, length) in cases {
            assert_eq!(unpack(packed, *length), None, "{}", packed.escape_ascii());
        }
    }

    #[test]
    fn repetitions_shrink_and_noise_is_given_up() {
        let mut compressor = Compressor::new();
        let input = b"stillframe ".repeat(100);
        assert!(pack(&mut compressor, &input).len() < 40);
        assert_eq!(compressor.compress(&[7; 10_000], &mut [0; 130]), Some(116));
        let mut state = 1u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 56) as u8
        })
        .take(1000)
        .collect();
        assert_eq!(compressor.compress(&noise, &mut [0; 996]), None);
    }

    #[test]
    fn positions_of_earlier_inputs_are_not_taken_even_when_the_count_wraps() {
        let mut compressor = Compressor::new();
        compressor.base = u32::MAX - 2500;
        let input: Vec<u8> = (0..1000u32).flat_map(|n| (n / 3).to_le_bytes()).take(999).collect();
        for _ in 0..8 {
            let packed = pack(&mut compressor, &input);
            assert_eq!(unpack(&packed, 999).as_deref(), Some(&input[..]));
        }
    }

    proptest! {
        #[test]
        fn all_data_round_trip(
            inputs in prop::collection::vec(
                (prop::collection::vec(any::<u8>(), 0..300), 1usize..60, 0u8..8), 1..4)
        ) {
            let mut compressor = Compressor::new();
            for (seed, times, shift) in inputs {
                let input: Vec<u8> =
                    seed.repeat(times).iter().map(|byte| byte >> shift).collect();
                let packed = pack(&mut compressor, &input);
                prop_assert_eq!(unpack(&packed, input.len() as u64), Some(input));
            }
        }

        #[test]
        fn packing_stops_at_any_room(
            input in prop::collection::vec(0u8..3, 0..200), room in 0usize..100
        ) {
            let length = pack(&mut Compressor::new(), &input).len();
            let fits = Compressor::new().compress(&input, &mut vec![0; room]);
            prop_assert_eq!(fits, (length <= room).then_some(length));
        }

        #[test]
        fn the_check_agrees_with_unpacking_whatever_the_pieces(
            seed in prop::collection::vec(any::<u8>(), 0..60), times in 1usize..20,
            flip in prop::option::of((any::<usize>(), 1u8..)), piece in 1usize..40, more in 0u64..2
        ) {
            let input = seed.repeat(times);
            let mut packed = pack(&mut Compressor::new(), &input);
            if let (Some((at, bits)), false) = (flip, packed.is_empty()) {
                let at = at % packed.len();
                packed[at] ^= bits;
            }
            let length = input.len() as u64 + more;
            let mut check = Check::new(length);
            packed.chunks(piece).for_each(|piece| check.update(piece));
            prop_assert_eq!(check.is_whole(), unpack(&packed, length).is_some());
        }

        #[test]
        fn random_bytes_never_panic(
            input in prop::collection::vec(any::<u8>(), 0..100), length in 0u64..300
        ) {
            if let Some(out) = unpack(&input, length) {
                prop_assert_eq!(out.len() as u64, length);
            }
        }
    }
}
