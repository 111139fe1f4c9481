//! Pairs that are always written together, and the exact check of an image of them.
//!
//! Writer `w` owns every pair `i` with `i % WRITERS == w` and stores its transactions' own numbers:
//! its transaction `n` sets `a:i` and `b:i` to `n`, where `i` follows from `w` and `n` alone. MULTI
//! and EXEC, or a script, make the two SETs one. So an image is right if and only if it is, for
//! each writer, what its transactions `1..=m` leave, for one `m` between what was acknowledged
//! before the image began and what was sent by its end: nothing torn, lost, reordered, stale or
//! from the future can pass. With streams an entry and what is pending of it join the two SETs.

use crate::support::{Client, Random, Reply, Stop};
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) const WRITERS: usize = 2;
/// Transactions that a writer sends at once.
const DEPTH: u64 = 16;

/// How a writer makes two SETs one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// By MULTI and EXEC.
    Multi,
    /// By a script that declares no key and reads what it wrote.
    Script,
    /// By MULTI and EXEC, with an entry of the writer's stream between them: a group reads it, and
    /// acknowledges the one of [`PENDING`] transactions before.
    Stream,
}

/// Entries that stay pending, and most of a stream.
const PENDING: u64 = 8;
const ENTRIES_MAX: u64 = 100;

impl Form {
    /// The transaction that sets pair `i` to `n`, as inline requests.
    fn request(self, w: usize, i: usize, n: u64) -> String {
        match self {
            Self::Stream => format!(
                "MULTI\r\nSET a:{i} {n}\r\nXADD s:{w} MAXLEN {ENTRIES_MAX} {n}-0 pair {i}\r\n\
                 XREADGROUP GROUP g c COUNT 1 STREAMS s:{w} >\r\nXACK s:{w} g {}-0\r\n\
                 SET b:{i} {n}\r\nEXEC\r\n",
                n.saturating_sub(PENDING)
            ),
            Self::Multi => format!("MULTI\r\nSET a:{i} {n}\r\nSET b:{i} {n}\r\nEXEC\r\n"),
            Self::Script => format!("EVAL \"{SCRIPT}\" 0 {i} {n}\r\n"),
        }
    }

    fn replies(self, w: usize, i: usize, n: u64) -> Vec<String> {
        let (ok, queued) = ("+OK\r\n".to_owned(), "+QUEUED\r\n".to_owned());
        match self {
            Self::Multi => vec![ok, queued.clone(), queued, "*2\r\n+OK\r\n+OK\r\n".to_owned()],
            Self::Script => vec![ok],
            Self::Stream => {
                let acknowledged = u8::from(n > PENDING);
                let id = bulk(format!("{n}-0"));
                let read = [bulk(format!("s:{w}")), "*1\r\n".to_owned(), entry(i, n)].concat();
                let done = format!("*5\r\n{ok}{id}*1\r\n*2\r\n{read}:{acknowledged}\r\n{ok}");
                [vec![ok], vec![queued; 5], vec![done]].concat()
            }
        }
    }
}

fn bulk(text: impl std::fmt::Display) -> String {
    let text = text.to_string();
    format!("${}\r\n{text}\r\n", text.len())
}

/// The entry of transaction `n`, as a reply.
fn entry(i: usize, n: u64) -> String {
    format!("*2\r\n{}*2\r\n{}{}", bulk(format!("{n}-0")), bulk("pair"), bulk(i))
}

const SCRIPT: &str = "redis.call('SET', 'a:' .. ARGV[1], ARGV[2]) \
    local n = redis.call('GET', 'a:' .. ARGV[1]) \
    return redis.call('SET', 'b:' .. ARGV[1], n)";

/// The pairs of one server, and how far their writers have come.
pub(crate) struct Pairs {
    form: Form,
    pub(crate) count: usize,
    pub(crate) sent: [AtomicU64; WRITERS],
    pub(crate) acknowledged: [AtomicU64; WRITERS],
    pub(crate) stop: Stop,
}

/// The values of all pairs as one image holds them.
pub(crate) type Values = Vec<(u64, u64)>;

/// For each writer a number of transactions.
pub(crate) type Counts = [u64; WRITERS];

impl Pairs {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            form: Form::Multi,
            count,
            sent: Default::default(),
            acknowledged: Default::default(),
            stop: Stop::default(),
        }
    }

    pub(crate) fn by(self, form: Form) -> Self {
        Self { form, ..self }
    }

    /// Stores every pair as 0.
    pub(crate) fn prefill(&self, client: &mut Client) {
        if self.form == Form::Stream {
            (0..WRITERS).for_each(|w| client.ok(&format!("XGROUP CREATE s:{w} g 0 MKSTREAM")));
        }
        for from in (0..self.count).step_by(1000) {
            let pairs = from..(from + 1000).min(self.count);
            let words: Vec<Vec<u8>> = pairs
                .flat_map(|i| [format!("a:{i}"), "0".into(), format!("b:{i}"), "0".into()])
                .map(String::into_bytes)
                .collect();
            let mut command = vec![b"MSET".as_slice()];
            command.extend(words.iter().map(Vec::as_slice));
            assert_eq!(client.call(&command), Reply::Text(b"OK".to_vec()));
        }
    }

    /// Reads every pair; a missing key is an error that names it.
    pub(crate) fn read(&self, client: &mut Client) -> Result<Values, String> {
        let mut image = Values::new();
        for from in (0..self.count).step_by(1000) {
            let pairs = from..(from + 1000).min(self.count);
            let keys: Vec<String> =
                pairs.flat_map(|i| [format!("a:{i}"), format!("b:{i}")]).collect();
            let mut command = vec![b"MGET".as_slice()];
            command.extend(keys.iter().map(String::as_bytes));
            let reply = client.call(&command);
            let mut values = Vec::new();
            for (key, value) in keys.iter().zip(reply.list()) {
                let text = value.bytes().ok_or_else(|| format!("{key} is missing"))?;
                let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                values.push(number.ok_or_else(|| format!("{key} holds {text:?}"))?);
            }
            image.extend(values.chunks(2).map(|pair| (pair[0], pair[1])));
        }
        Ok(image)
    }

    /// The pair that transaction `n` of writer `w` sets.
    fn pair(&self, w: usize, n: u64) -> usize {
        let owned = self.count / WRITERS;
        Random::with_seed(n ^ (w as u64) << 56).below(owned) * WRITERS + w
    }

    pub(crate) fn counts(counters: &[AtomicU64; WRITERS]) -> Counts {
        counters.each_ref().map(|counter| counter.load(Ordering::SeqCst))
    }

    /// Writes as writer `w` at full speed, until `stop` is due or the server is gone.
    pub(crate) fn write(&self, w: usize, client: &mut Client) {
        while !self.stop.is_due() {
            let first = self.sent[w].load(Ordering::SeqCst) + 1;
            let mut bytes = Vec::new();
            for n in first..first + DEPTH {
                bytes.extend_from_slice(self.form.request(w, self.pair(w, n), n).as_bytes());
            }
            self.sent[w].store(first + DEPTH - 1, Ordering::SeqCst);
            if !client.send_raw(&bytes) {
                return;
            }
            for n in first..first + DEPTH {
                for expected in self.form.replies(w, self.pair(w, n), n) {
                    let Some(raw) = client.try_raw() else { return };
                    assert_eq!(
                        raw.escape_ascii().to_string(),
                        expected.escape_default().to_string()
                    );
                }
                self.acknowledged[w].store(n, Ordering::SeqCst);
            }
        }
    }

    /// How many keys there are.
    pub(crate) fn keys(&self) -> usize {
        2 * self.count + if self.form == Form::Stream { WRITERS } else { 0 }
    }

    /// Whether all that a server holds is right, and for which counts.
    pub(crate) fn judge(
        &self,
        client: &mut Client,
        low: Counts,
        high: Counts,
    ) -> Result<Counts, String> {
        let image = self.read(client)?;
        let counts = self.check(&image, low, high)?;
        if self.form == Form::Stream {
            (0..WRITERS).try_for_each(|w| self.check_stream(client, w, counts[w]))?;
        }
        Ok(counts)
    }

    /// Whether the stream of writer `w` is what its transactions `1..=m` leave.
    fn check_stream(&self, client: &mut Client, w: usize, m: u64) -> Result<(), String> {
        if m == 0 {
            return Ok(());
        }
        let (pending, last) = (m.min(PENDING), bulk(format!("{m}-0")));
        let first = bulk(format!("{}-0", m - pending + 1));
        let consumer = format!("*2\r\n{}{}", bulk("c"), bulk(pending));
        let newest = entry(self.pair(w, m), m);
        for (request, expected) in [
            (format!("XLEN s:{w}"), format!(":{}\r\n", m.min(ENTRIES_MAX))),
            (format!("XREVRANGE s:{w} + - COUNT 1"), format!("*1\r\n{newest}")),
            (
                format!("XPENDING s:{w} g"),
                format!("*4\r\n:{pending}\r\n{first}{last}*1\r\n{consumer}"),
            ),
        ] {
            client.send_raw(format!("{request}\r\n").as_bytes());
            let raw = client.try_raw().ok_or("the connection ended")?;
            if raw != expected.as_bytes() {
                let (raw, expected) = (raw.escape_ascii(), expected.escape_default());
                return Err(format!("{request} is {raw} where {expected} was at transaction {m}"));
            }
        }
        Ok(())
    }

    /// Whether an image is right, as the head of this file says, and for which counts.
    pub(crate) fn check(
        &self,
        image: &Values,
        low: Counts,
        high: Counts,
    ) -> Result<Counts, String> {
        for (i, (a, b)) in image.iter().enumerate() {
            if a != b {
                return Err(format!("pair {i} is torn: a:{i} is {a}, b:{i} is {b}"));
            }
        }
        let mut counts = [0; WRITERS];
        for w in 0..WRITERS {
            let owned = || (w..self.count).step_by(WRITERS);
            let m = owned().map(|i| image[i].0).max().unwrap_or(0);
            if m < low[w] || m > high[w] {
                let (low, high) = (low[w], high[w]);
                return Err(format!("writer {w} is at {m}, which is not in {low}..={high}"));
            }
            let mut expected = vec![0; self.count];
            (1..=m).for_each(|n| expected[self.pair(w, n)] = n);
            if let Some(i) = owned().find(|&i| image[i].0 != expected[i]) {
                let (value, right) = (image[i].0, expected[i]);
                return Err(format!("pair {i} is {value} where {right} was at transaction {m}"));
            }
            counts[w] = m;
        }
        Ok(counts)
    }
}

/// What checks images must itself reject wrong ones.
#[test]
fn the_check_of_pairs_rejects_wrong_images() {
    let pairs = Pairs::new(100);
    let mut right = vec![(0, 0); 100];
    (1..=30).for_each(|n| right[pairs.pair(0, n)] = (n, n));
    (1..=40).for_each(|n| right[pairs.pair(1, n)] = (n, n));
    assert_eq!(pairs.check(&right, [20, 20], [50, 50]), Ok([30, 40]));
    assert!(pairs.check(&right, [31, 20], [50, 50]).is_err(), "stale");
    assert!(pairs.check(&right, [20, 20], [50, 39]).is_err(), "from the future");
    let wrong = |change: fn(&mut (u64, u64))| {
        let mut image = right.clone();
        change(&mut image[pairs.pair(0, 28)]);
        pairs.check(&image, [20, 20], [50, 50])
    };
    assert!(wrong(|pair| pair.0 -= 1).is_err(), "torn");
    assert!(wrong(|pair| *pair = (0, 0)).is_err(), "lost");
}
