//! Hashes whose fields expire, in the forms of Redis 7.4 and of Valkey 9: they take the bytes that
//! those servers give them, and are read again.

use proptest::prelude::*;
use stillframe_rdb::{
    Decoder, Element, Encoder, Event, HashField, Head, Origin, PayloadError, Version, scan,
};

/// Name, value, and when it expires.
type Field = (Vec<u8>, Vec<u8>, Option<i64>);

const KEY: Head<'_> = Head::Key { db: 3, key: b"k", expire_at_ms: Some(7) };
const LAST: i64 = (1 << 48) - 1;

fn put(encoder: &mut Encoder<&mut Vec<u8>>, head: Head<'_>, fields: &[Field]) -> bool {
    let each = || {
        let pairs = fields.iter();
        pairs.map(|it| HashField { name: &it.0, value: &it.1, expire_at_ms: it.2 })
    };
    encoder.expiring_hash(head, fields.len(), each).expect("a Vec takes everything")
}

fn payload(version: Version, fields: &[Field]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes).compress(false).version(version);
    assert!(put(&mut encoder, Head::Payload, fields));
    encoder.finish_payload().expect("a Vec takes everything");
    bytes
}

fn file(version: Version, fields: &[Field]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes).version(version);
    let origin = Origin { created_s: 1_700_000_000, used_memory_bytes: 0, aof_base: false };
    encoder.begin(&origin).expect("a Vec takes everything");
    assert!(put(&mut encoder, KEY, fields));
    encoder.finish().expect("a Vec takes everything");
    bytes
}

fn fields(mut decoder: Decoder<&[u8]>) -> Result<Vec<Field>, stillframe_rdb::DecodeError> {
    let mut found = Vec::new();
    while let Some(event) = decoder.next()? {
        match event {
            Event::Element(Element::Pair(name, value)) => {
                found.push((name.to_vec(), value.to_vec(), None));
            }
            Event::Element(Element::Expiring(name, value, at)) => {
                found.push((name.to_vec(), value.to_vec(), Some(at)));
            }
            Event::Element(other) => panic!("{other:?} in a hash"),
            _ => {}
        }
    }
    Ok(found)
}

fn field(name: &str, value: &str, at: Option<i64>) -> Field {
    (name.as_bytes().to_vec(), value.as_bytes().to_vec(), at)
}

/// DUMP of Redis 8.0.6 and Valkey 9.1.2, without version and checksum.
#[test]
fn the_bytes_are_those_of_redis_and_of_valkey() {
    let at = Some(2_147_483_648_000);
    let hash = [field("b", "2", None), field("a", "1", at)];
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let value = |version, hash: &[Field]| {
        let bytes = payload(version, hash);
        hex(&bytes[..bytes.len() - 10])
    };
    // The field that expires comes first.
    let packed = "1900000000f40100001d1d00000006008161020101f400000000f40100000981620202010001ff";
    assert_eq!(value(Version::Redis12, &hash), packed);
    let pairs = [hash[1].clone(), hash[0].clone()];
    assert_eq!(value(Version::Redis12, &pairs), packed);
    let valkey = "16020161c00100000000f40100000162c002ffffffffffffffff";
    assert_eq!(value(Version::Valkey80, &pairs), valkey);
    let long = [field("b", &"x".repeat(65), None), field("a", "1", at)];
    let table = format!("1800000000f4010000020001624041{}010161c001", "78".repeat(65));
    assert_eq!(value(Version::Redis12, &long), table);
}

#[test]
fn a_packed_hash_has_its_fields_by_time() {
    let times = [Some(50), None, Some(7), Some(50), None, Some(LAST), Some(8)];
    let hash: Vec<Field> =
        times.into_iter().zip('a'..).map(|(at, name)| field(&name.to_string(), "v", at)).collect();
    let written = payload(Version::Redis12, &hash);
    assert_eq!((written[0], &written[1..9]), (25, &7u64.to_le_bytes()[..]));
    let found = fields(Decoder::of_payload(&written).expect("sound")).expect("sound");
    let names: Vec<_> = found.iter().map(|it| String::from_utf8_lossy(&it.0)).collect();
    assert_eq!(names, ["c", "g", "a", "d", "f", "b", "e"]);
}

#[test]
fn the_form_follows_the_limits_of_a_listpack() {
    let hash = |count: i64, bytes: usize| -> Vec<Field> {
        let field = |n| (format!("{n:0bytes$}").into_bytes(), vec![b'v'; bytes], Some(LAST - n));
        (0..count).map(field).collect()
    };
    let kind = |hash: &[Field]| payload(Version::Redis12, hash)[0];
    assert_eq!([hash(512, 64), hash(513, 64), hash(1, 65)].map(|it| kind(&it)), [25, 24, 24]);
    for (count, bytes) in [(512, 64), (513, 64), (3000, 80)] {
        for version in [Version::Redis12, Version::Valkey80] {
            let hash = hash(count, bytes);
            let mut found = fields(Decoder::new(&file(version, &hash)[..])).expect("sound");
            found.sort();
            assert!(found == hash, "{count} fields of {bytes} bytes, {version:?}");
        }
    }
}

/// Redis takes 0 for never and refuses what is beyond 48 bits; Valkey takes -1 for never.
#[test]
fn no_time_becomes_none_nor_refused() {
    for (at, redis, valkey) in [
        (i64::MIN, 1, 0),
        (-1, 1, 0),
        (0, 1, 0),
        (1, 1, 1),
        (LAST, LAST, LAST),
        (i64::MAX, LAST, i64::MAX),
    ] {
        for long in [false, true] {
            let value = if long { vec![b'v'; 70] } else { b"v".to_vec() };
            let hash = [(b"f".to_vec(), value, Some(at)), field("g", "w", Some(9))];
            for (version, expected) in [(Version::Redis12, redis), (Version::Valkey80, valkey)] {
                let written = payload(version, &hash);
                let found = fields(Decoder::of_payload(&written).expect("sound")).expect("sound");
                let found = found.iter().find(|it| it.0 == b"f").expect("it is there");
                assert_eq!(found.2, Some(expected), "{at} in {version:?}");
            }
        }
    }
}

#[test]
fn older_versions_have_no_form_for_them_and_take_none() {
    for version in [Version::Redis10, Version::Redis11] {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes).version(version);
        assert!(!put(&mut encoder, KEY, &[field("f", "v", Some(9))]), "{version:?}");
        assert_eq!(encoder.written_bytes(), 0);
    }
}

#[test]
fn files_and_payloads_say_their_version() {
    for (version, head, number) in [
        (Version::Redis10, "REDIS0010", 10),
        (Version::Redis11, "REDIS0011", 11),
        (Version::Redis12, "REDIS0012", 12),
        (Version::Valkey80, "VALKEY080", 80),
    ] {
        assert_eq!(version.number(), number);
        let (mut whole, mut alone) = (Vec::new(), Vec::new());
        let mut encoder = Encoder::new(&mut whole).version(version);
        let origin = Origin { created_s: 0, used_memory_bytes: 0, aof_base: true };
        let pairs = || [(&b"f"[..], &b"v"[..])].into_iter();
        encoder.begin(&origin).and_then(|()| encoder.hash(KEY, 1, pairs)).expect("memory");
        encoder.finish().expect("memory");
        assert!(whole.starts_with(head.as_bytes()));
        let (summary, error) = scan(&whole[..], whole.len() as u64);
        assert!(error.is_none() && summary.version == u32::from(number), "{error:?}");
        let mut encoder = Encoder::new(&mut alone).version(version);
        encoder.hash(Head::Payload, 1, pairs).expect("memory");
        encoder.finish_payload().expect("memory");
        assert_eq!(alone[alone.len() - 10..][..2], number.to_le_bytes());
        assert_eq!(alone[0], 16, "without times a hash has the form that it always had");
    }
}

fn hash() -> impl Strategy<Value = Vec<Field>> {
    let text = prop_oneof![
        6 => prop::collection::vec(any::<u8>(), 0..20),
        1 => prop::collection::vec(any::<u8>(), 60..70),
        1 => any::<i32>().prop_map(|number| number.to_string().into_bytes()),
    ];
    let at = prop_oneof![
        Just(None),
        (1..=LAST).prop_map(Some),
        (0..50i64).prop_map(|n| Some(1_700_000_000_000 + n)),
    ];
    let size = prop_oneof![6 => 1usize..12, 1 => 500usize..530];
    let fields = size.prop_flat_map(move |size| {
        prop::collection::vec((text.clone(), text.clone(), at.clone()), size)
    });
    fields.prop_map(|mut fields| {
        fields.sort();
        fields.dedup_by(|one, other| one.0 == other.0);
        fields
    })
}

fn sorted(mut fields: Vec<Field>) -> Vec<Field> {
    fields.sort();
    fields
}

/// Cases of the random test; many more on demand.
fn cases() -> u32 {
    if std::env::var_os("STILLFRAME_LONG").is_some() { 5000 } else { 100 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn what_is_written_is_read(hash in hash()) {
        for version in [Version::Redis12, Version::Valkey80] {
            let (whole, alone) = (file(version, &hash), payload(version, &hash));
            prop_assert_eq!(&sorted(fields(Decoder::new(&whole[..])).expect("sound")), &hash);
            let decoder = Decoder::of_payload(&alone).expect("sound");
            prop_assert_eq!(&sorted(fields(decoder).expect("sound")), &hash);
            let (summary, error) = scan(&whole[..], whole.len() as u64);
            prop_assert!(error.is_none() && summary.unsupported == 0);
        }
    }

    #[test]
    fn no_part_of_it_is_taken_for_the_whole(hash in hash(), at in any::<prop::sample::Index>()) {
        for version in [Version::Redis12, Version::Valkey80] {
            let (whole, alone) = (file(version, &hash), payload(version, &hash));
            prop_assert!(fields(Decoder::new(&whole[..at.index(whole.len())])).is_err());
            match Decoder::of_unverified_payload(&alone[..at.index(alone.len())]) {
                // Its last bytes may look like a version.
                Ok(decoder) => prop_assert!(fields(decoder).is_err()),
                Err(PayloadError::Short { .. } | PayloadError::Version { .. }) => {}
                Err(other) => return Err(TestCaseError::fail(other.to_string())),
            }
        }
    }
}
