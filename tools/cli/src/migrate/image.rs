//! The image of a primary: received into a file, then passed on as a RESTORE for each key.

use std::io::Read;

use stillframe_commands::write_request;
use stillframe_durability::disk::{Directory, DiskFile, Input, write_all_at};
use stillframe_rdb::{Decoder, Event, Uses, finish_payload};
use stillframe_server::{Reception, slot};

use super::feed::Block;
use super::link::{Follower, Phase};
use super::wire::{Broken, Wire};

/// Bytes of requests that are passed on at once.
const BLOCK_BYTES: usize = 64 << 10;

/// An image that has come whole.
pub(super) struct Image {
    file: Input,
    bytes: u64,
}

/// A key whose value follows.
struct Key {
    db: u64,
    name: Vec<u8>,
    expire_at_ms: Option<i64>,
    uses: Uses,
}

fn useless(why: impl std::fmt::Display) -> Broken {
    Broken::Useless(why.to_string())
}

impl Follower<'_> {
    /// Receives the image that the primary announces next.
    pub(super) fn receive(&self, wire: &mut Wire) -> Result<Image, Broken> {
        let answer = self.line(wire)?;
        let mut reception =
            Reception::announced(answer).map_err(|why| Broken::Again(format!("fails: {why}")))?;
        let unkept = |error: &dyn std::fmt::Display| {
            useless(format!("sends an image that cannot be kept in a file: {error}"))
        };
        let file = self.spool().map_err(|error| unkept(&error))?;
        loop {
            let at = reception.received();
            let (taken, ends) = reception.take(&wire.input);
            let head = reception.check_head(&wire.input[..taken]);
            head.map_err(|why| useless(format!("sends an image of no use: {why}")))?;
            write_all_at(&*file, at, &wire.input[..taken]).map_err(|error| unkept(&error))?;
            wire.input.drain(..taken);
            if ends {
                return Ok(Image { file: Input::new(file), bytes: reception.image_bytes() });
            }
            self.show(Phase::Receiving { bytes: reception.received(), total: reception.total() });
            self.check(wire)?;
            wire.read()?;
        }
    }

    /// A file without a name.
    fn spool(&self) -> Result<Box<dyn DiskFile>, stillframe_durability::Error> {
        let directory = Directory::existing(std::env::temp_dir().as_path())?;
        let name = format!("stillframe-migrate-{}-{}", std::process::id(), self.shared.number());
        let file = directory.create_file(&name)?;
        directory.remove(&name)?;
        Ok(file)
    }

    /// Passes an image on.
    pub(super) fn restore(&self, wire: &mut Wire, offset: u64, image: Image) -> Result<(), Broken> {
        let Image { file, bytes } = image;
        let mut decoder = Decoder::new(file.at(0).take(bytes)).with_file_bytes(bytes);
        let (mut block, mut keys, mut key) = (Block::default(), 0, None);
        loop {
            let event = decoder
                .next()
                .map_err(|why| useless(format!("has data that cannot be moved: {why}")))?;
            let is_whole = matches!(event, Some(Event::Entry { .. } | Event::End));
            match event {
                None | Some(Event::Eof { .. }) => break,
                Some(Event::Library { source }) => {
                    self.shared.feed.add_library(source);
                    let words: [&[u8]; 4] = [b"FUNCTION", b"LOAD", b"REPLACE", source];
                    write_request(&mut block.bytes, &words);
                }
                Some(
                    Event::Entry { db, key: name, expire_at_ms, uses, .. }
                    | Event::Begin { db, key: name, expire_at_ms, uses, .. },
                ) => key = Some(Key { db, name: name.to_vec(), expire_at_ms, uses }),
                _ => {}
            }
            if let Some(key) = key.take_if(|_| is_whole)
                && self.link.slots.contains(slot(&key.name))
            {
                if block.bytes.len() >= BLOCK_BYTES || block.db[1] != key.db {
                    self.pass(wire, offset, &mut block)?;
                    self.show(Phase::Restoring { keys });
                }
                block.db = [key.db; 2];
                let payload = payload(&decoder, &file).map_err(|error| {
                    useless(format!("sent an image that cannot be read again: {error}"))
                })?;
                key.write(&payload, &mut block.bytes);
                keys += 1;
            }
        }
        self.pass(wire, offset, &mut block)?;
        tracing::info!("{}: {keys} keys of its image are on their way", self.link.address());
        Ok(())
    }

    fn pass(&self, wire: &mut Wire, offset: u64, block: &mut Block) -> Result<(), Broken> {
        self.attend(wire, offset)?;
        if !block.bytes.is_empty() {
            self.push(block, &mut || self.attend(wire, offset))?;
            block.bytes.clear();
        }
        Ok(())
    }
}

/// The payload of the value that `decoder` has just read from `file`.
fn payload<R: Read>(decoder: &Decoder<R>, file: &Input) -> std::io::Result<Vec<u8>> {
    let place = decoder.value_place();
    let mut payload = decoder.payload_head();
    let bytes = decoder.offset() - place.offset;
    let read = file.at(place.offset).take(bytes).read_to_end(&mut payload)?;
    if read as u64 != bytes {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    finish_payload(&mut payload, decoder.version());
    Ok(payload)
}

impl Key {
    /// Writes the request that restores it.
    fn write(&self, payload: &[u8], into: &mut Vec<u8>) {
        // 0 stands for none. A time before 1970 has passed as any other has.
        let expiry = self.expire_at_ms.map_or(0, |at| at.max(1)).to_string();
        let mut words: Vec<&[u8]> =
            vec![b"RESTORE", &self.name, expiry.as_bytes(), payload, b"REPLACE", b"ABSTTL"];
        let number;
        match self.uses {
            Uses::Unknown => {}
            Uses::IdleSeconds(seconds) => {
                number = seconds.to_string();
                words.extend([b"IDLETIME", number.as_bytes()]);
            }
            Uses::Frequency(count) => {
                number = count.to_string();
                words.extend([b"FREQ", number.as_bytes()]);
            }
        }
        write_request(into, &words);
    }
}
