//! The decoder and the scanner of RDB files.

use stillframe_rdb::{Crc64, DecodeError, Decoder, Encoder, Event, Origin, Value, scan};

/// Reads `data` as an RDB file, as it is and as the body of a file with a right checksum.
pub fn rdb(data: &[u8]) {
    read(data);
    let mut sealed = [b"REDIS0010", data, b"\xff"].concat();
    let mut crc = Crc64::new();
    crc.update(&sealed);
    sealed.extend_from_slice(&crc.value().to_le_bytes());
    read(&sealed);
}

type Entry = (u64, Vec<u8>, Vec<u8>, Option<i64>);

/// The entries of a file, values as text.
fn decode(file: &[u8]) -> Result<Vec<Entry>, DecodeError> {
    let mut decoder = Decoder::new(file).with_file_bytes(file.len() as u64);
    let mut entries = Vec::new();
    while let Some(event) = decoder.next()? {
        if let Event::Entry { db, key, value, expire_at_ms } = event {
            entries.push((db, key.to_vec(), text(value), expire_at_ms));
        }
    }
    Ok(entries)
}

fn text(value: Value<'_>) -> Vec<u8> {
    match value {
        Value::Int(value) => value.to_string().into_bytes(),
        Value::Bytes(bytes) => bytes.to_vec(),
    }
}

fn read(file: &[u8]) {
    let (summary, error) = scan(file, file.len() as u64);
    let entries = match (decode(file), error) {
        (Ok(entries), None) => entries,
        (Err(_), Some(_)) => return,
        // What this server cannot hold may be sound all the same.
        (
            Err(
                DecodeError::UnsupportedType { .. }
                | DecodeError::UnsupportedSection { .. }
                // The name of a module or library, which the scanner steps over, may be any string.
                | DecodeError::Damaged { .. },
            ),
            None,
        ) => return,
        (decoded, error) => panic!("{decoded:?}, {error:?}"),
    };
    let listed: u64 = summary.databases.iter().map(|database| database.total()).sum();
    assert_eq!(listed + summary.keys_elsewhere, entries.len() as u64);
    // What was read can be written, and is read again.
    let mut written = Vec::new();
    let mut encoder = Encoder::new(&mut written);
    let origin = Origin { created_s: 0, used_memory_bytes: 0, aof_base: false };
    encoder.begin(&origin).expect("a Vec takes all");
    for (db, key, value, expire_at_ms) in &entries {
        encoder.entry(*db, key, Value::Bytes(value), *expire_at_ms).expect("a Vec takes all");
    }
    encoder.finish().expect("a Vec takes all");
    assert_eq!(decode(&written).expect("it was written just now"), entries);
}
