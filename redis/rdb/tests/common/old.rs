//! Layouts that Redis 7 reads and writes no more, made by hand from their descriptions.

use super::{Owned, ranked};

/// A length, in the form that takes four bytes.
pub(crate) fn length(length: usize) -> Vec<u8> {
    [&b"\x80"[..], &(length as u32).to_be_bytes()].concat()
}

/// A string, not compressed and not an integer.
pub(crate) fn string(bytes: &[u8]) -> Vec<u8> {
    [&length(bytes.len())[..], bytes].concat()
}

fn number(text: &[u8]) -> Option<i64> {
    let value: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (value.to_string().as_bytes() == text).then_some(value)
}

/// A ziplist; short integers are packed as such.
pub(crate) fn ziplist<'a>(elements: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let (mut body, mut before, mut last, mut count) = (Vec::new(), 0, 10, 0usize);
    for element in elements {
        last = 10 + body.len();
        let start = body.len();
        match before {
            0..254 => body.push(before as u8),
            _ => body.extend([&[254], &(before as u32).to_le_bytes()[..]].concat()),
        }
        let bytes = |value: i64, count: usize| value.to_le_bytes()[..count].to_vec();
        let (head, text) = match number(element) {
            Some(value @ 0..=12) => (vec![0xf1 + value as u8], &b""[..]),
            Some(value @ -128..128) => ([&[0xfe], &bytes(value, 1)[..]].concat(), &b""[..]),
            Some(value @ -0x8000..0x8000) => ([&[0xc0], &bytes(value, 2)[..]].concat(), &b""[..]),
            Some(value @ -0x80_0000..0x80_0000) => {
                ([&[0xf0], &bytes(value, 3)[..]].concat(), &b""[..])
            }
            Some(value @ -0x8000_0000..0x8000_0000) => {
                ([&[0xd0], &bytes(value, 4)[..]].concat(), &b""[..])
            }
            Some(value) => ([&[0xe0], &bytes(value, 8)[..]].concat(), &b""[..]),
            None => match element.len() {
                short @ 0..64 => (vec![short as u8], element),
                long @ 64..16384 => (vec![0x40 | (long >> 8) as u8, long as u8], element),
                huge => ([&[0x80], &(huge as u32).to_be_bytes()[..]].concat(), element),
            },
        };
        body.extend([&head, text].concat());
        (before, count) = (body.len() - start, count + 1);
    }
    let bytes = 11 + body.len() as u32;
    let count = u16::try_from(count).unwrap_or(u16::MAX).to_le_bytes();
    [&bytes.to_le_bytes(), &(last as u32).to_le_bytes(), &count[..], &body, &[0xff]].concat()
}

/// A zipmap; every other value has a gap behind it.
pub(crate) fn zipmap<'a>(pairs: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Vec<u8> {
    let (mut body, mut count) = (Vec::new(), 0usize);
    let length = |length: usize| match length {
        0..254 => vec![length as u8],
        _ => [&[254], &(length as u32).to_le_bytes()[..]].concat(),
    };
    for (field, value) in pairs {
        let gap = count % 2 * 3;
        body.extend([&length(field.len()), field, &length(value.len()), &[gap as u8]].concat());
        body.extend([value, &b"???"[..gap]].concat());
        count += 1;
    }
    [&[u8::try_from(count).unwrap_or(254).min(254)], &body[..], &[0xff]].concat()
}

/// Every old layout of a value: types and bytes.
pub(crate) fn layouts(value: &Owned) -> Vec<(u8, Vec<u8>)> {
    let all = |strings: &mut dyn Iterator<Item = &Vec<u8>>, count: usize| {
        let strings: Vec<u8> = strings.flat_map(|text| string(text)).collect();
        [length(count), strings].concat()
    };
    match value {
        Owned::Int(_) | Owned::Bytes(_) | Owned::Stream(_) => Vec::new(),
        Owned::List(list) => {
            let nodes: Vec<_> = list
                .chunks(7)
                .map(|node| string(&ziplist(node.iter().map(Vec::as_slice))))
                .collect();
            vec![
                (1, all(&mut list.iter(), list.len())),
                (10, string(&ziplist(list.iter().map(Vec::as_slice)))),
                (14, [length(nodes.len()), nodes.concat()].concat()),
            ]
        }
        Owned::Set(set) => vec![(2, all(&mut set.iter(), set.len()))],
        Owned::Hash(hash) => {
            let pairs = || hash.iter().map(|(field, value)| (&field[..], &value[..]));
            vec![
                (4, all(&mut hash.iter().flat_map(|(f, v)| [f, v]), hash.len())),
                (9, string(&zipmap(pairs()))),
                (13, string(&ziplist(pairs().flat_map(|(field, value)| [field, value])))),
            ]
        }
        Owned::Sorted(sorted) => {
            let scores: Vec<(&[u8], Vec<u8>)> = ranked(sorted)
                .into_iter()
                .map(|(member, score)| (member, score.to_string().into_bytes()))
                .collect();
            let text = |(member, score): &(&[u8], Vec<u8>)| {
                let score = match &score[..] {
                    b"inf" => vec![254],
                    b"-inf" => vec![255],
                    text => [&[text.len() as u8], text].concat(),
                };
                [string(member), score].concat()
            };
            let texts: Vec<u8> = scores.iter().flat_map(text).collect();
            let both = scores.iter().flat_map(|(member, score)| [*member, &score[..]]);
            vec![(3, [length(scores.len()), texts].concat()), (12, string(&ziplist(both)))]
        }
    }
}
