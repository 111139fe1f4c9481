//! Commands without a server: what tests run requests with.
//!
//! - A request goes the way that it goes in a server: its command is looked up, the number of its
//!   arguments checked, its handler run, its effects noted. Waiting clients are not served.
//! - The clock stands still until a test moves it.
//! - HELLO, which is the server's, has a stand-in here, which says nothing.

use stillframe_keyspace::{
    DATABASES, Group, Hash, Keyspace, KeyspaceOptions, Stream, StreamId, Value,
};
use stillframe_peers::transcript::{Stage, escape, words};
use stillframe_rdb::Version;
use stillframe_resp::Protocol::{Resp2, Resp3};
use stillframe_resp::{Limits, Out, Parser, Protocol};

use crate::command::{digest, register, transactions};
use crate::errors::wrong_arity;
use crate::{
    Address, Caller, Classes, Consumer, Context, Event, Handler, Ledger, Lookup, Random, Refusal,
    Settings, Table, flags,
};

/// Unix time at the start, in milliseconds.
pub(crate) const START_MS: i64 = 1_800_000_000_000;

/// Commands that are the server's.
#[derive(Clone, Copy)]
enum StandIn {
    Hello,
}

/// A keyspace, what is kept beside it, and callers by their letters.
pub(crate) struct Harness {
    pub(crate) keyspace: Keyspace,
    pub(crate) ledger: Ledger,
    pub(crate) now: i64,
    callers: Vec<(char, Caller, Protocol)>,
    table: Table<StandIn>,
    /// Replies that a transcript has not read, by caller.
    unread: Vec<(char, Vec<u8>)>,
}

/// One request of a stream of effects.
pub(crate) type Words = Vec<Vec<u8>>;

impl Harness {
    /// No data, as a server without any settings has it.
    pub(crate) fn new() -> Self {
        Self::with_seed(1)
    }

    /// As [`new`](Self::new): chance within commands follows from `seed`.
    pub(crate) fn with_seed(seed: u64) -> Self {
        Self::with_options(&KeyspaceOptions::default(), seed)
    }

    /// As [`new`](Self::new), with room for few keys.
    pub(crate) fn with_room_for(keys: usize) -> Self {
        let mut few = KeyspaceOptions::default();
        few.max_keys = keys;
        Self::with_options(&few, 1)
    }

    fn with_options(options: &KeyspaceOptions, seed: u64) -> Self {
        let mut keyspace = Keyspace::create(options).expect("a keyspace");
        keyspace.limits_mut().hash_entries = 512; // as the server's default
        let settings = Settings {
            bulk_bytes_max: 512 << 20,
            notify: Classes::default(),
            compresses: true,
            expiring_version: Version::Redis12,
            counts_frequency: false,
            keeps_uses: false,
        };
        let ledger = Ledger::new(settings, Random::with_seed(seed));
        let mut table = Table::empty();
        register(&mut table);
        table.add_server("hello", StandIn::Hello);
        Self { keyspace, ledger, now: START_MS, callers: Vec::new(), table, unread: Vec::new() }
    }

    /// From now on what requests do is noted, to be [taken](Self::effects).
    pub(crate) fn notes_effects(mut self) -> Self {
        self.ledger.effects.want(&mut self.keyspace, Consumer::Log, true);
        self
    }

    /// From now on events of these classes are collected, to be [taken](Self::events).
    pub(crate) fn notifies(mut self, classes: &str) -> Self {
        self.ledger.settings.notify = Classes::parse(classes).expect("classes");
        self.keyspace.keep_expired(true);
        self
    }

    /// The number of a caller in the table of callers.
    fn place(&mut self, who: char) -> usize {
        let known = self.callers.iter().position(|(name, ..)| *name == who);
        known.unwrap_or_else(|| {
            let place = self.callers.len();
            let caller = Caller::new(place as u64 + 1, Address::Unix("test".into()));
            self.callers.push((who, caller, Resp2));
            place
        })
    }

    /// The client that runs requests under this letter.
    pub(crate) fn caller(&mut self, who: char) -> &mut Caller {
        let place = self.place(who);
        &mut self.callers[place].1
    }

    /// Runs a request of caller `a`, written as in a transcript; the reply, escaped.
    pub(crate) fn run(&mut self, line: &str) -> String {
        self.run_as('a', line)
    }

    /// As [`run`](Self::run), for any caller.
    pub(crate) fn run_as(&mut self, who: char, line: &str) -> String {
        let words = words(line);
        let reply = self.ask(who, &words.iter().map(Vec::as_slice).collect::<Vec<_>>());
        escape(&reply).replace("\\r\\n", " ").trim_end().to_owned()
    }

    /// Runs requests that have to succeed.
    pub(crate) fn all(&mut self, lines: &[&str]) {
        for line in lines {
            let reply = self.run(line);
            assert!(!reply.starts_with('-'), "{line}: {reply}");
        }
    }

    /// Runs a request; the bytes of its reply, none if the caller waits now.
    pub(crate) fn ask(&mut self, who: char, args: &[&[u8]]) -> Vec<u8> {
        let place = self.place(who);
        let mut reply = Vec::new();
        let index = match self.table.lookup(args) {
            Lookup::Found(index) => index,
            _ => return self.refuse(place, "ERR unknown command".into()),
        };
        let command = self.table.get(index);
        if !command.accepts(args.len()) {
            return self.refuse(place, wrong_arity(command.name));
        }
        match &mut self.callers[place].1.transaction {
            Some(transaction) if !command.has(flags::NOT_QUEUED) => {
                transaction.requests.push(index, command.flags, args);
                Out::new(&mut reply, Resp2).simple("QUEUED");
            }
            _ => self.perform(place, index, args, &mut reply),
        }
        reply
    }

    /// Refuses a request before it runs.
    fn refuse(&mut self, place: usize, refusal: Refusal) -> Vec<u8> {
        if let Some(transaction) = &mut self.callers[place].1.transaction {
            transaction.failed = true;
        }
        let mut reply = Vec::new();
        Out::new(&mut reply, Resp2).error(refusal);
        reply
    }

    /// Runs the command at `index` of the table.
    fn perform(&mut self, place: usize, index: usize, args: &[&[u8]], reply: &mut Vec<u8>) {
        let (start, dirty) = (reply.len(), self.ledger.dirty);
        let (_, caller, protocol) = &mut self.callers[place];
        caller.last_command = index;
        self.ledger.begin(&self.keyspace, caller.db);
        let outcome = match self.table.get(index).handler {
            Handler::Data(handler) => handler(&mut self.context(place, reply), args),
            Handler::Server(StandIn::Hello) => {
                *protocol = if args.get(1) == Some(&&b"3"[..]) { Resp3 } else { Resp2 };
                Out::new(reply, *protocol).map(0);
                Ok(())
            }
            Handler::Exec => self.exec(place, reply),
        };
        if let Err(refusal) = outcome {
            reply.truncate(start);
            Out::new(reply, self.callers[place].2).error(refusal);
        }
        self.note(place, args, dirty);
    }

    /// What a command on data sees.
    fn context<'a>(&'a mut self, place: usize, reply: &'a mut Vec<u8>) -> Context<'a> {
        let Self { keyspace, ledger, now, callers, .. } = self;
        let (_, caller, protocol) = &mut callers[place];
        Context { keyspace, ledger, caller, out: Out::new(reply, *protocol), now: *now }
    }

    /// `EXEC`
    fn exec(&mut self, place: usize, reply: &mut Vec<u8>) -> Result<(), Refusal> {
        let begun = transactions::begin(&mut self.context(place, reply))?;
        let Some(requests) = begun else { return Ok(()) };
        requests.for_each(|command, args| self.perform(place, command, args, reply));
        transactions::end(&mut self.context(place, reply));
        Ok(())
    }

    /// What a server does once a handler has run.
    fn note(&mut self, place: usize, args: &[&[u8]], dirty: u64) {
        self.ledger.note_expired(&mut self.keyspace);
        if self.ledger.effects.wanted() {
            let stated = self.ledger.effects.take_stated();
            if self.ledger.dirty > dirty && !stated {
                self.ledger.effects.add(self.callers[place].1.db, args);
            }
            if !self.ledger.in_exec {
                self.ledger.effects.seal();
            }
        }
        let _ = self.keyspace.tend();
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, milliseconds: i64) {
        self.now += milliseconds;
    }

    /// Deletes the keys whose time has come, as a server does now and then.
    pub(crate) fn expire(&mut self) {
        while self.keyspace.expire_cycle(self.now, usize::MAX) > 0 {}
        self.expire_fields();
    }

    /// As [`expire`](Self::expire), for fields of hashes alone.
    pub(crate) fn expire_fields(&mut self) {
        while self.keyspace.expire_fields_cycle(self.now, usize::MAX) > 0 {}
        self.ledger.note_expired(&mut self.keyspace);
        self.ledger.effects.seal();
    }

    /// Has caller `w` watch keys of these names in all databases.
    pub(crate) fn watch_all<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]> + Clone) {
        let id = self.caller('w').id;
        for db in 0..DATABASES {
            for key in keys.clone() {
                let exists = self.keyspace.contains(db, key, self.now);
                self.ledger.watches.watch(id, db, key, exists);
            }
        }
    }

    /// Whether a key that a caller watches has changed; from now on it watches none.
    pub(crate) fn met_changes(&mut self, who: char) -> bool {
        let id = self.caller(who).id;
        let Self { keyspace, ledger, now, .. } = self;
        let changed = ledger.watches.changed(id, |db, key| keyspace.contains(db, key, *now));
        ledger.watches.forget(id);
        changed
    }

    /// What requests did since this was last asked, as requests; those of each unit on one line.
    pub(crate) fn effects(&mut self) -> Vec<String> {
        let shown =
            |words: &Words| words.iter().map(|word| escape(word)).collect::<Vec<_>>().join(" ");
        let units = self.ledger.effects.units();
        let lines =
            units.map(|(_, unit)| requests(unit).iter().map(shown).collect::<Vec<_>>().join("; "));
        let lines: Vec<String> = lines.collect();
        self.ledger.effects.clear();
        lines
    }

    /// As [`effects`](Self::effects), as one stream of requests.
    pub(crate) fn stream(&mut self) -> Vec<Words> {
        let stream = requests(self.ledger.effects.stream());
        self.ledger.effects.clear();
        stream
    }

    /// What happened to keys since this was last asked: `event database:key`.
    pub(crate) fn events(&mut self) -> Vec<String> {
        let taken = self.ledger.events.take();
        let shown = taken.iter().map(|event| match event {
            Event::Notice { event, db, key, fields } => {
                let fields = escape(fields.text());
                format!("{event} {db}:{} {fields}", escape(key)).trim_end().to_owned()
            }
            Event::Stale { key, by } => format!("(stale, by {by}) {}", escape(key)),
            Event::AllStale => "(all stale)".to_owned(),
        });
        shown.collect()
    }

    /// All keys, those included whose time has come, with times of expiry and digests of values.
    pub(crate) fn contents(&mut self) -> Vec<(usize, String, Option<i64>, String)> {
        let mut all = Vec::new();
        for db in 0..DATABASES {
            self.keyspace.for_each(db, i64::MIN, |entry| {
                let mut value = digest::of_value(entry);
                match entry.value() {
                    Value::Stream(stream) => value += &of_groups(stream),
                    Value::Hash(hash) => value += &of_deadlines(hash),
                    Value::Array(array) => value += &format!(" {:?}", array.inserted()),
                    _ => {}
                }
                all.push((db, escape(entry.key()), entry.expire_at(), value));
            });
        }
        all.sort();
        all
    }

    /// The names of all commands on data, and whether they may change any.
    pub(crate) fn commands(&self) -> impl Iterator<Item = (&'static str, bool)> {
        let data = self.table.all().iter().filter(|it| matches!(it.handler, Handler::Data(_)));
        data.map(|command| (command.name, command.has(flags::WRITE)))
    }
}

/// What the digest of a stream leaves out, but for when consumers were seen: no effect tells that.
fn of_groups(stream: Stream<'_>) -> String {
    let mut groups: Vec<_> = stream.groups().collect();
    groups.sort_by_key(|group| group.name());
    let of_group = |group: Group<'_>| {
        let pending: Vec<_> = group.pending_from(StreamId::MIN).collect();
        let consumers: Vec<_> = group.consumers().map(|consumer| consumer.name()).collect();
        let head = (group.name(), group.last_id(), group.entries_read());
        format!("{head:?} {pending:?} {consumers:?}")
    };
    let head = (stream.last_id(), stream.deleted_id(), stream.added());
    let groups: Vec<_> = groups.into_iter().map(of_group).collect();
    format!(" {head:?} {groups:?}")
}

/// The digest of a hash says which fields have deadlines, and not which they have.
fn of_deadlines(hash: Hash<'_>) -> String {
    let mut timed: Vec<_> = hash.fields().filter(|it| it.deadline.is_some()).collect();
    timed.sort_by_key(|it| it.field);
    timed.iter().map(|it| format!(" {}@{:?}", escape(it.field), it.deadline)).collect()
}

/// Requests as clients send them, taken apart.
pub(crate) fn requests(mut bytes: &[u8]) -> Vec<Words> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let (mut parser, mut buffer) = (Parser::new(Limits::OPEN), bytes.to_vec());
        let parsed = parser.parse(&mut buffer).expect("a request");
        let length = parsed.expect("a whole request");
        all.push(parser.args().iter().map(|range| buffer[range.clone()].to_vec()).collect());
        bytes = &bytes[length..];
    }
    all
}

impl Stage for Harness {
    /// A server meets keys whose time has come a few times a second.
    fn wait(&mut self, milliseconds: u64) {
        self.pass(milliseconds as i64);
        if milliseconds >= 1000 {
            self.expire();
        }
    }

    fn send(&mut self, connection: char, arguments: &[&[u8]]) {
        let reply = self.ask(connection, arguments);
        assert!(!self.caller(connection).waits, "a wait needs a server: {}", arguments.len());
        self.unread.push((connection, reply));
    }

    fn receive(&mut self, connection: char) -> Option<Vec<u8>> {
        let at = self.unread.iter().position(|(who, _)| *who == connection)?;
        Some(self.unread.remove(at).1)
    }
}
