//! Keys that expire while clocks jump: the leader decides, once.
//!
//! A key of this proof is set once. Somewhere between the set and eternity it goes, and then nobody
//! sees it again; one with a far deadline does not go at all.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use stillframe_peers::reply::Reply as Raw;

use super::clients::Seeker;
use crate::support::{Random, Stop};

/// Longer than all jumps of clocks together.
const FAR_MS: u64 = 1 << 40;
/// Longer than a round, and shorter than the greatest jump.
const LONG_MS: u64 = 20_000;

/// A key whose set was acknowledged.
struct Expiring {
    name: String,
    is_far: bool,
    /// A read that found nothing came back then.
    gone: Option<Instant>,
}

/// All keys that expire in the life of a group.
#[derive(Default)]
pub(super) struct Expiry {
    keys: Mutex<Vec<Expiring>>,
    wrong: Mutex<Option<String>>,
}

impl Expiry {
    /// Sets keys and reads them until the end.
    pub(super) fn set_and_read(&self, servers: &[SocketAddr], seed: u64, stop: &Stop) {
        let mut random = Random::with_seed(seed);
        let mut seeker = Seeker::new(servers, random.below(servers.len()));
        let mut number = 0;
        while !stop.is_due() {
            std::thread::sleep(Duration::from_millis(5));
            if random.below(6) > 0 {
                self.read(&mut seeker, &mut random);
                continue;
            }
            number += 1;
            let (name, is_far) = (format!("px:{seed:x}:{number}"), random.below(4) == 0);
            let ms = match random.below(4) {
                _ if is_far => FAR_MS,
                0 => LONG_MS,
                _ => 1 + random.below(1_500) as u64,
            };
            if seeker.ask(&["SET", &name, "v", "PX", &ms.to_string()]).is_some() {
                self.keys.lock().expect("whole").push(Expiring { name, is_far, gone: None });
            }
        }
    }

    fn read(&self, seeker: &mut Seeker, random: &mut Random) {
        let (place, name) = {
            let keys = self.keys.lock().expect("whole");
            if keys.is_empty() {
                return;
            }
            let place = keys.len() - 1 - random.below(keys.len().min(60));
            (place, keys[place].name.clone())
        };
        self.look_up(seeker, place, &name);
    }

    /// Reads a key; whether it is known to be gone.
    fn look_up(&self, seeker: &mut Seeker, place: usize, name: &str) -> Option<bool> {
        let invoked = Instant::now();
        let found = seeker.ask(&["GET", name])?;
        let returned = Instant::now();
        let mut keys = self.keys.lock().expect("whole");
        let key = &mut keys[place];
        match found {
            Raw::Null if key.is_far => self.note(format!("{name} has gone before its time")),
            Raw::Null => key.gone = Some(key.gone.map_or(returned, |gone| gone.min(returned))),
            _ if key.gone.is_some_and(|gone| gone < invoked) => {
                self.note(format!("{name} has come back after it had expired"));
            }
            _ => {}
        }
        Some(key.gone.is_some())
    }

    fn note(&self, what: String) {
        self.wrong.lock().expect("whole").get_or_insert(what);
    }

    /// Waits until all have gone that must by the clocks of now.
    ///
    /// # Errors
    /// What went wrong, here or before.
    pub(super) fn end(&self, servers: &[SocketAddr], patience: Duration) -> Result<(), String> {
        let mut seeker = Seeker::new(servers, 0);
        let deadline = Instant::now() + patience;
        let keys = std::mem::take(&mut *self.keys.lock().expect("whole"));
        for key in &keys {
            loop {
                let found = seeker.ask(&["GET", &key.name]);
                match (found, key.is_far) {
                    (Some(Raw::Null), true) => {
                        return Err(format!("{} has gone before its time", key.name));
                    }
                    (Some(Raw::Null), false) | (Some(_), true) => break,
                    (Some(_), false) if key.gone.is_some() => {
                        return Err(format!("{} has come back after it had expired", key.name));
                    }
                    _ if Instant::now() > deadline => {
                        return Err(format!("{} does not expire", key.name));
                    }
                    _ => std::thread::sleep(Duration::from_millis(10)),
                }
            }
        }
        self.wrong.lock().expect("whole").take().map_or(Ok(()), Err)
    }
}
