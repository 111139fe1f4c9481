//! Rights on every way into a command: before AUTH, for users with few rights, in a transaction,
//! inline, through HELLO. The tests try every command that the server lists.
//!
//! A refused request never runs, so that even SHUTDOWN can be tried; what may run is asked by
//! `ACL DRYRUN`, and run for real where the commands are those of [`crate::mixed`].

use std::collections::HashMap;

use stillframe_peers::requests::ALL;

use crate::collections::redis;
use crate::mixed;
use crate::support::beside::{Words, shown, slices};
use crate::support::{Client, Kind, Random, Reply, Server, redis_is_here, rounds};

/// What COMMAND says of a command: its name (`config|get`), its arity, and where its keys are.
struct Known {
    name: String,
    arity: i64,
    keys: [i64; 3],
    /// How many of the servers have it, ours first: Redis 7.0 lacks those of later versions.
    servers: usize,
}

impl Known {
    /// A request with as few arguments as the command takes, or `more`; each key is `key`.
    fn request(&self, more: usize, key: &[u8]) -> Words {
        let mut words: Words = self.name.split('|').map(Into::into).collect();
        let count = self.arity.unsigned_abs() as usize + if self.arity < 0 { more } else { 0 };
        words.resize(count.max(words.len()), b"1".to_vec());
        let [first, last, step] = self.keys;
        let last = if last < 0 { words.len() as i64 + last } else { last };
        let mut at = first;
        while first > 0 && step > 0 && at <= last && (at as usize) < words.len() {
            words[at as usize] = key.to_vec();
            at += step;
        }
        words
    }
}

/// Every command and sub-command that a server lists.
fn known(client: &mut Client) -> Vec<Known> {
    fn add(found: &mut Vec<Known>, described: &Reply) {
        let parts = described.list();
        let number = |place: usize| parts[place].int();
        let subs = parts.get(9).map_or(&[][..], Reply::list);
        subs.iter().for_each(|sub| add(found, sub));
        if !subs.is_empty() {
            return; // without one of them it is no command
        }
        found.push(Known {
            name: parts[0].text().to_lowercase(),
            arity: number(1),
            keys: [number(3), number(4), number(5)],
            servers: 1,
        });
    }
    let mut found = Vec::new();
    client.ask("COMMAND").list().iter().for_each(|described| add(&mut found, described));
    assert!(found.len() > 250, "{} commands", found.len());
    // Redis refuses these in other words, before it looks at the user, unless they are enabled.
    found.retain(|command| !command.name.starts_with("module|"));
    // This one Redis does not have.
    found.retain(|command| !command.name.starts_with("stillframe|"));
    found
}

/// What ours lists. Of a command that others have, their arity counts: ours may take more.
fn known_to(admins: &mut [Client]) -> Vec<Known> {
    let mut lists: Vec<Vec<Known>> = admins.iter_mut().map(known).collect();
    let mut found = lists.remove(0);
    for theirs in lists {
        let arities: HashMap<_, _> = theirs.into_iter().map(|it| (it.name, it.arity)).collect();
        for command in &mut found {
            if let Some(&arity) = arities.get(&command.name) {
                command.arity = arity;
                command.servers += 1;
            }
        }
    }
    found
}

/// Every client gets replies to these, before AUTH, too.
fn is_open(name: &str) -> bool {
    ["auth", "hello", "quit", "reset"].contains(&name)
}

/// How the refusal of a command begins.
fn discarded(command: &Known) -> &'static str {
    match &*command.name {
        "exec" => "EXECABORT Transaction discarded because of: ",
        _ => "",
    }
}

fn inline(words: &Words) -> Vec<u8> {
    [words.join(&b' '), b"\r\n".to_vec()].concat()
}

/// Redis looks at no key of a PFMERGE without sources: docs/reference/compatibility.md.
fn is_pfmerge_alone(request: &Words) -> bool {
    request[0] == b"pfmerge" && request.len() == 2
}

/// Ours, and redis-server if it is there.
fn servers(test: &str) -> Vec<Server> {
    let mut servers = vec![Server::start(Kind::subject("imprint"))];
    servers.extend(redis_is_here(test).then(|| redis(None, "")));
    servers
}

/// Sends one request to all and returns the reply, which has to be the same.
fn agreed(clients: &mut [Client], request: &[u8]) -> String {
    clients.iter_mut().for_each(|client| assert!(client.send_raw(request)));
    let replies: Vec<String> = clients.iter_mut().map(|client| text(&client.raw())).collect();
    let shown = request.escape_ascii();
    assert!(replies.iter().all(|reply| *reply == replies[0]), "{shown}: ours first: {replies:#?}");
    replies.into_iter().next().expect("one at least")
}

/// A reply without the number of the connection, which HELLO shows and which differs.
fn text(raw: &[u8]) -> String {
    let text = raw.escape_ascii().to_string();
    let Some((head, tail)) = text.split_once("$2\\r\\nid\\r\\n:") else { return text };
    format!("{head}id {}", tail.trim_start_matches(|digit: char| digit.is_ascii_digit()))
}

fn resp(words: &Words) -> Vec<u8> {
    let mut bytes = Vec::new();
    crate::support::encode(&slices(words), &mut bytes);
    bytes
}

#[test]
fn nothing_runs_before_a_password_was_given() {
    let servers = servers("nothing_runs_before_a_password_was_given");
    let mut admins: Vec<Client> = servers.iter().map(Server::client).collect();
    let commands = known_to(&mut admins);
    agreed(&mut admins, b"SET precious kept\r\n");
    agreed(&mut admins, b"CONFIG SET requirepass secret\r\n");
    for protocol in ["", "HELLO 3\r\n", "AUTH wrong\r\n", "AUTH default wrong\r\n", "RESET\r\n"] {
        let mut strangers: Vec<Client> = servers.iter().map(Server::client).collect();
        if !protocol.is_empty() {
            agreed(&mut strangers, protocol.as_bytes());
        }
        for command in commands.iter().filter(|command| !is_open(&command.name)) {
            for more in [0, 2] {
                let words = command.request(more, b"precious");
                for request in [resp(&words), inline(&words)] {
                    let reply = agreed(&mut strangers[..command.servers], &request);
                    let refusal = "NOAUTH Authentication required.\\r\\n";
                    assert_eq!(reply, format!("-{}{refusal}", discarded(command)));
                }
            }
            // Too few arguments come first, as an unknown command does.
            let short = command.name.split('|').next().expect("a name").to_owned() + "\r\n";
            let reply = agreed(&mut strangers[..command.servers], short.as_bytes());
            assert!(reply.starts_with('-'), "{short}: {reply}");
        }
        agreed(&mut strangers, b"NOSUCH command\r\n");
        agreed(&mut strangers, b"PING\r\n");
        // Still able to log in, on either way.
        agreed(&mut strangers, b"AUTH default secret\r\n");
        assert_eq!(agreed(&mut strangers, b"GET precious\r\n"), "$4\\r\\nkept\\r\\n");
        agreed(&mut strangers, b"RESET\r\n");
        agreed(&mut strangers, b"GET precious\r\n");
    }
}

/// Before AUTH, a client cannot announce much to the server.
#[test]
fn strangers_are_kept_short() {
    let servers = servers("strangers_are_kept_short");
    let mut admins: Vec<Client> = servers.iter().map(Server::client).collect();
    agreed(&mut admins, b"CONFIG SET requirepass secret\r\n");
    for request in ["*11\r\n", "*2147483647\r\n", "*2\r\n$4\r\nECHO\r\n$16385\r\n"] {
        let mut strangers: Vec<Client> = servers.iter().map(Server::client).collect();
        let reply = agreed(&mut strangers, request.as_bytes());
        assert!(reply.contains("unauthenticated"), "{reply}");
        strangers.iter_mut().for_each(|client| assert_eq!(client.try_raw(), None));
        let mut known: Vec<Client> = servers.iter().map(Server::client).collect();
        agreed(&mut known, b"AUTH secret\r\n");
        known.iter_mut().for_each(|client| assert!(client.send_raw(b"*11\r\n")));
        known.iter_mut().for_each(|client| assert!(client.send_raw(&b"$1\r\nx\r\n".repeat(11))));
        agreed(&mut known, b"");
    }
}

#[test]
fn a_user_without_rights_is_refused_every_command() {
    let servers = servers("a_user_without_rights_is_refused_every_command");
    let mut admins: Vec<Client> = servers.iter().map(Server::client).collect();
    let commands = known_to(&mut admins);
    agreed(&mut admins, b"SET precious kept\r\n");
    for (rules, reason) in [
        ("~* &*", "NOPERM this user has no permissions to run the"),
        ("+multi +exec ~* &*", "NOPERM this user has no permissions to run the"),
        ("+@all &*", "NOPERM this user has no permissions to access one of the keys"),
    ] {
        agreed(&mut admins, format!("ACL SETUSER poor reset on nopass {rules}\r\n").as_bytes());
        let mut clients: Vec<Client> = servers.iter().map(Server::client).collect();
        agreed(&mut clients, b"AUTH poor x\r\n");
        let (queues, no_keys) = (rules.starts_with("+multi"), rules.starts_with("+@all"));
        for command in &commands {
            let allowed = queues && ["multi", "exec"].contains(&&*command.name);
            // Without keys a request of this user would run.
            let speaks = ["publish", "subscribe"].iter().any(|part| command.name.contains(part));
            let harmless = command.keys[0] == 0 || speaks;
            if is_open(&command.name) || allowed || no_keys && harmless {
                continue;
            }
            let clients = &mut clients[..command.servers];
            if queues {
                agreed(clients, b"MULTI\r\n");
            }
            for more in [0, 2] {
                let words = command.request(more, b"precious");
                if no_keys && is_pfmerge_alone(&words) {
                    continue;
                }
                for request in [resp(&words), inline(&words)] {
                    let reply = agreed(clients, &request);
                    let never = "-ERR Command not allowed inside a transaction";
                    let fits = reply.starts_with(&format!("-{}{reason}", discarded(command)))
                        || queues && reply.starts_with(never);
                    assert!(fits, "{rules}: {}: {reply}", shown(&words));
                }
            }
            if queues {
                assert!(agreed(clients, b"EXEC\r\n").starts_with("-EXECABORT"));
            }
        }
    }
    assert_eq!(agreed(&mut admins, b"GET precious\r\n"), "$4\\r\\nkept\\r\\n");
}

const RULES: [&str; 40] = [
    "+@all",
    "-@all",
    "+@read",
    "-@read",
    "+@write",
    "-@write",
    "+@string",
    "-@hash",
    "+@list",
    "-@set",
    "+@sortedset",
    "-@geo",
    "+@bitmap",
    "-@hyperloglog",
    "+@keyspace",
    "-@slow",
    "+@fast",
    "-@dangerous",
    "+@admin",
    "+@connection",
    "-@transaction",
    "+@pubsub",
    "+get",
    "-set",
    "+sort",
    "-object|encoding",
    "+config|get",
    "+@blocking",
    "~*",
    "~[a-d]",
    "%R~[ab]*",
    "%W~[bc]*",
    "%RW~w?",
    "%R~*",
    "resetkeys",
    "&news*",
    "&*",
    "(+get ~e)",
    // Redis looks at no key of a PFMERGE without sources.
    "(+@write %W~* -del -pfmerge)",
    "+@all",
];

/// A user with random rights, the same on all servers.
fn random_user(random: &mut Random, admins: &mut [Client]) -> String {
    let mut rules = "ACL SETUSER some reset on nopass resetchannels +select".to_owned();
    for _ in 0..1 + random.below(9) {
        rules += " ";
        rules += random.pick(&RULES);
    }
    let reply = agreed(admins, format!("{rules}\r\n").as_bytes());
    // A pattern behind `~*` is refused, and changes nothing.
    if reply.starts_with('-') {
        agreed(admins, b"ACL SETUSER some reset on nopass +@all ~[a-d] %R~e\r\n");
    }
    agreed(admins, b"ACL GETUSER nobody\r\n");
    rules
}

/// Every command and sub-command with random rights: asked by ACL DRYRUN.
#[test]
fn rights_to_every_command_are_those_of_redis() {
    let test = "rights_to_every_command_are_those_of_redis";
    if !redis_is_here(test) {
        return;
    }
    let servers = servers(test);
    let mut random = Random::new(test);
    let mut admins: Vec<Client> = servers.iter().map(Server::client).collect();
    let commands = known_to(&mut admins);
    for _ in 0..rounds(25, 1_000) {
        let rules = random_user(&mut random, &mut admins);
        println!("{rules}");
        for command in &commands {
            let key = random.pick(&[&b"a"[..], b"b", b"c", b"e", b"w1", b"news", b"1"]);
            let request = command.request(random.below(3), key);
            if is_pfmerge_alone(&request) {
                continue;
            }
            let mut words: Words = ["ACL", "DRYRUN", "some"].map(Into::into).into();
            words.extend(request);
            agreed(&mut admins[..command.servers], &resp(&words));
        }
    }
}

/// Commands on all types by users with random rights, run for real: the same replies, the same log
/// of refusals.
#[test]
fn users_with_some_rights_are_refused_what_redis_refuses() {
    let test = "users_with_some_rights_are_refused_what_redis_refuses";
    if !redis_is_here(test) {
        return;
    }
    let mut random = Random::new(test);
    let [theirs, ours] = [redis(None, ""), Server::start(Kind::subject("imprint"))];
    for _ in 0..rounds(12, 400) {
        let mut admins = [&theirs, &ours].map(Server::client);
        admins.iter_mut().for_each(|admin| admin.ok("ACL LOG RESET"));
        let rules = random_user(&mut random, &mut admins);
        println!("{rules}");
        // As in the selector.
        admins.iter_mut().for_each(|admin| admin.ok("ACL SETUSER some -pfmerge"));
        let mut pair = [&theirs, &ours].map(Server::client);
        pair.iter_mut().for_each(|client| client.ok("AUTH some x"));
        let mut history = Vec::new();
        for _ in 0..4 {
            mixed::run_batch(&mut pair, &ALL, &mut random, &mut history);
        }
        for channel in ["news", "news:1", "other"] {
            for name in ["PUBLISH", "SPUBLISH", "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"] {
                let words = [name, channel, "text"];
                let end = if name.contains("PUBLISH") { 3 } else { 2 };
                let mut fresh = [&theirs, &ours].map(Server::client);
                fresh.iter_mut().for_each(|client| client.ok("AUTH some x"));
                agreed(&mut fresh, (words[..end].join(" ") + "\r\n").as_bytes());
            }
        }
        let [theirs, ours] = admins.each_mut().map(refusals);
        let differs = theirs.iter().zip(&ours).find(|(theirs, ours)| theirs != ours);
        assert!(theirs == ours, "ACL LOG: {differs:?} of {} and {}", theirs.len(), ours.len());
        mixed::same_digests(&mut admins, &history);
    }
}

/// What ACL LOG shows, without times and addresses.
fn refusals(client: &mut Client) -> Vec<String> {
    let log = client.ask("ACL LOG 1000");
    let entry = |entry: &Reply| {
        let parts = entry.list();
        let fields = ["count", "reason", "context", "object", "username"];
        let value = |name: &&str| {
            let place = parts.iter().position(|part| *part == Reply::Text(name.as_bytes().into()));
            match &parts[place.expect("the field is there") + 1] {
                Reply::Int(count) => count.to_string(),
                text => text.text(),
            }
        };
        fields.iter().map(value).collect::<Vec<_>>().join(" ")
    };
    log.list().iter().map(entry).collect()
}
