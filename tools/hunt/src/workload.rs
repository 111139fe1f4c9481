//! The workload: transactions that touch every type, each a function of seed, writer and number.
//!
//! Transaction `n` of writer `w` stores `n`
//! - as the writer's stamp, in a string, in a field of a hash, at the end of a list of 16, and as a
//!   score of a sorted set, all of the writer's own;
//! - and moves a member from one set to another, and a key from one database to another;
//! - and moves an amount between two accounts, and adds one to a stamp, all of which the writers
//!   share: the accounts always add up to zero, and the stamp is the sum of the writers' stamps.

use stillframe_measure::draw::{Rng, mix};

/// A request, as words.
pub type Request = Vec<String>;

/// Fields of a hash, and members of a sorted set.
const FIELDS: u64 = 10;
/// Elements of a list.
const LENGTH: u64 = 16;
/// Members that stay in a set, so that it has the same encoding in every version of Redis.
const MEMBERS_KEPT: u64 = 200;
const ACCOUNTS: u64 = 100;

/// The transactions of all writers.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Seed of all draws, and part of the keys' names.
    pub seed: u64,
    /// Writers.
    pub writers: usize,
    /// Strings of all writers; of each other type there is a tenth.
    pub keys: u64,
    /// Whether keys are moved between databases 0 and 1.
    pub moves: bool,
}

fn request<const N: usize>(words: [&str; N]) -> Request {
    words.map(str::to_owned).to_vec()
}

impl Workload {
    /// How all keys begin.
    #[must_use]
    pub fn prefix(&self) -> String {
        format!("hunt:{}:", self.seed)
    }

    /// The key of what all writers share.
    fn shared(&self, what: &str) -> String {
        format!("hunt:{}:{what}", self.seed)
    }

    /// A key that only `writer` changes.
    fn key(&self, writer: usize, what: &str, number: u64) -> String {
        format!("hunt:{}:{writer}:{what}:{number}", self.seed)
    }

    /// The key with the number of a writer's last transaction.
    #[must_use]
    pub fn stamp(&self, writer: usize) -> String {
        format!("hunt:{}:{writer}:stamp", self.seed)
    }

    /// The key that the hunter writes between transactions; no image is judged by it.
    #[must_use]
    pub fn mark(&self) -> String {
        self.shared("mark")
    }

    fn strings(&self) -> u64 {
        (self.keys / self.writers as u64).max(10)
    }

    fn collections(&self) -> u64 {
        self.strings() / 10
    }

    /// The requests before the first transaction, in database 0.
    #[must_use]
    pub fn fill(&self) -> Vec<Request> {
        let mut requests = self.delete();
        requests.push(request(["SET", &self.shared("stamp"), "0"]));
        for account in 0..ACCOUNTS {
            requests.push(request(["SET", &self.shared(&format!("account:{account}")), "0"]));
        }
        for writer in 0..self.writers {
            let key = |what, number| self.key(writer, what, number);
            requests.push(request(["SET", &self.stamp(writer), "0"]));
            for number in 0..self.strings() {
                requests.push(request(["SET", &key("string", number), "0"]));
            }
            for number in 0..self.collections() {
                let mut hash = request(["HSET", &key("hash", number)]);
                let mut sorted = request(["ZADD", &key("zset", number)]);
                for field in 0..FIELDS {
                    hash.extend([format!("f{field}"), "0".to_owned()]);
                    sorted.extend(["0".to_owned(), format!("m{field}")]);
                }
                requests.extend([hash, sorted]);
                requests.push(request(["RPUSH", &key("list", number), "0"]));
                requests.push(request(["SET", &key("token", number), &number.to_string()]));
            }
            for set in 0..2 {
                let mut words = request(["SADD", &key("set", set)]);
                words.extend((0..MEMBERS_KEPT).map(|member| format!("kept:{member}")));
                if set == 0 {
                    words.extend((0..self.collections()).map(|member| format!("t{member}")));
                }
                requests.push(words);
            }
        }
        requests
    }

    /// The requests that delete every key of both databases; they leave database 0 selected.
    #[must_use]
    pub fn delete(&self) -> Vec<Request> {
        let mut names = vec![self.shared("stamp"), self.mark()];
        let accounts = (0..ACCOUNTS).map(|account| self.shared(&format!("account:{account}")));
        names.extend(accounts);
        let mut tokens = Vec::new();
        for writer in 0..self.writers {
            let keys = |what, count| (0..count).map(move |number| self.key(writer, what, number));
            names.push(self.stamp(writer));
            names.extend(keys("string", self.strings()).chain(keys("set", 2)));
            for what in ["hash", "zset", "list"] {
                names.extend(keys(what, self.collections()));
            }
            tokens.extend(keys("token", self.collections()));
        }
        names.extend(tokens.iter().cloned());
        let delete = |names: &[String]| -> Vec<Request> {
            let batches = names.chunks(500);
            batches.map(|batch| [&["DEL".to_owned()][..], batch].concat()).collect()
        };
        let mut requests = Vec::new();
        if self.moves {
            requests.push(request(["SELECT", "1"]));
            requests.extend(delete(&tokens));
            requests.push(request(["SELECT", "0"]));
        }
        requests.extend(delete(&names));
        requests
    }

    /// Transaction `n` of `writer`, the first being 1, without MULTI and EXEC. Starts and ends in
    /// database 0.
    #[must_use]
    pub fn transaction(&self, writer: usize, n: u64) -> Vec<Request> {
        let mut rng = Rng(mix(self.seed ^ mix(n) ^ (writer as u64) << 56));
        let mut draw = |below: u64| rng.below(below);
        let key = |what, number| self.key(writer, what, number);
        let number = n.to_string();
        let [string, hash, list, zset] =
            [self.strings(), self.collections(), self.collections(), self.collections()]
                .map(&mut draw);
        let [field, member] = [FIELDS, FIELDS].map(&mut draw);
        let [from, to, amount] = [ACCOUNTS, ACCOUNTS, 1000].map(&mut draw);
        // Each member and token is moved in turn, forth in one round and back in the next.
        let (turn, is_back) = (n % self.collections(), n / self.collections() % 2 == 1);
        let [source, target] = if is_back { [1, 0] } else { [0, 1] };
        let amount = amount.to_string();
        let list = key("list", list);
        let mut requests = vec![
            request(["SET", &self.stamp(writer), &number]),
            request(["DECRBY", &self.shared(&format!("account:{from}")), &amount]),
            request(["SET", &key("string", string), &number]),
            request(["HSET", &key("hash", hash), &format!("f{field}"), &number]),
            request(["RPUSH", &list, &number]),
            request(["LTRIM", &list, &format!("-{LENGTH}"), "-1"]),
            request(["ZADD", &key("zset", zset), &number, &format!("m{member}")]),
            request(["SMOVE", &key("set", source), &key("set", target), &format!("t{turn}")]),
        ];
        if self.moves {
            let token = key("token", turn);
            requests.push(request(["SELECT", &source.to_string()]));
            requests.push(request(["MOVE", &token, &target.to_string()]));
            requests.push(request(["SELECT", "0"]));
        }
        requests.push(request(["INCRBY", &self.shared(&format!("account:{to}")), &amount]));
        requests.push(request(["INCR", &self.shared("stamp")]));
        requests
    }
}
