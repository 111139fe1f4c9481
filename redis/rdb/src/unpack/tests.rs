//! Packing and walking are each other's inverse, and no bytes lead a walk astray.

use proptest::prelude::*;

use super::*;
use crate::Value;
use crate::pack::{self, FRAME_BYTES, Listpack};

/// The elements of packed bytes, as text.
fn walked(form: Form, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Flaw> {
    let mut walk = Walk::new(form, bytes)?;
    let mut elements = Vec::new();
    while let Some(item) = walk.next(bytes)? {
        elements.push(match item {
            Item::Text(range) => bytes[range].to_vec(),
            Item::Int(value) => value.to_string().into_bytes(),
        });
    }
    Ok(elements)
}

fn packed_bytes(text: &[u8]) -> usize {
    pack::packed_bytes(Value::Bytes(text))
}

fn element() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (any::<i64>(), 0u32..64).prop_map(|(n, shift)| (n >> shift).to_string().into_bytes()),
        prop::collection::vec(any::<u8>(), 0..150),
        (4000usize..5000).prop_map(|length| vec![b'x'; length]),
    ]
}

#[test]
fn every_edge_of_an_integer_is_read_back() {
    let edges = [7, 12, 15, 23, 31, 63].map(|bits| 1i128 << bits);
    let values = edges.iter().flat_map(|edge| [edge - 1, *edge, -edge, -edge - 1]);
    for value in values.filter_map(|value| i64::try_from(value).ok()) {
        let mut pack = Listpack::within(vec![0; 100].into());
        let text = value.to_string().into_bytes();
        pack.push(&text).expect("there is room");
        assert_eq!(pack.bytes().len(), packed_bytes(&text) + FRAME_BYTES);
        assert_eq!(walked(Form::Listpack, pack.bytes()), Ok(vec![text]), "{value}");
    }
}

#[test]
fn more_elements_than_a_head_can_count_are_read() {
    let mut pack = Listpack::within(vec![0; 200_000].into());
    (0..70_000).for_each(|_| pack.push(b"7").expect("there is room"));
    assert_eq!(walked(Form::Listpack, pack.bytes()).map(|all| all.len()), Ok(70_000));
}

#[test]
fn an_intset_has_the_least_width() {
    for (most, width) in [(5, 2), (0x7fff, 2), (0x8000, 4), (1 << 31, 8)] {
        let mut room = [0; 100];
        let bytes = crate::pack::intset(&mut [most, -1, 0], &mut room).expect("there is room");
        assert_eq!(bytes.len(), 8 + 3 * width);
        let texts: Vec<_> = [-1, 0, most].map(|n| n.to_string().into_bytes()).into();
        assert_eq!(walked(Form::Intset, bytes), Ok(texts));
    }
}

proptest! {
    #[test]
    fn a_listpack_gives_back_what_was_put_in(
        elements in prop::collection::vec(element(), 0..40), room in 7usize..20_000
    ) {
        let mut pack = Listpack::within(vec![0; room].into());
        let fitting = elements.iter().take_while(|element| pack.push(element).is_some()).count();
        let elements_bytes: usize = elements[..fitting].iter().map(|it| packed_bytes(it)).sum();
        let bytes = FRAME_BYTES + elements_bytes;
        prop_assert_eq!(pack.bytes().len(), bytes);
        prop_assert_eq!(walked(Form::Listpack, pack.bytes()), Ok(elements[..fitting].to_vec()));
        if let Some(next) = elements.get(fitting) {
            prop_assert!(bytes + packed_bytes(next) > room);
        }
    }

    #[test]
    fn no_bytes_make_a_walk_panic_or_go_on_for_ever(
        mut bytes in prop::collection::vec(any::<u8>(), 0..60), frame in any::<bool>()
    ) {
        if frame && bytes.len() > 6 {
            let length = bytes.len() as u32 + 1;
            bytes[..4].copy_from_slice(&length.to_le_bytes());
            bytes.push(0xff);
        }
        for form in [Form::Ziplist, Form::Listpack, Form::Intset, Form::Zipmap] {
            if let Ok(elements) = walked(form, &bytes) {
                prop_assert!(elements.len() <= bytes.len());
            }
        }
    }
}
