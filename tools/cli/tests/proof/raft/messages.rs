//! PUBLISH and SPUBLISH reach the subscribers of all members, whichever member takes the message.
//! Notifications of changed keys are those of each member.

use super::{Group, leader};
use crate::support::{Client, Server, encode, wait_until};

fn listener(server: &Server, request: &str) -> Client {
    let mut client = server.client();
    client.ok(request);
    client
}

/// The next message, as words.
fn next_message(client: &mut Client) -> Vec<String> {
    client.reply().list().iter().map(|part| part.text()).collect()
}

#[test]
fn a_message_comes_to_the_subscribers_of_all_members() {
    let group = Group::with_members(3, 3, &["--raft-election-timeout", "5000"]);
    let mut servers = group.start_founders();
    let leads = leader(&servers);
    let requests = ["SUBSCRIBE news", "PSUBSCRIBE n*", "SSUBSCRIBE part"];
    let mut listeners: Vec<[Client; 3]> =
        servers.iter().map(|server| requests.map(|request| listener(server, request))).collect();
    for (from, server) in servers.iter().enumerate() {
        let mut client = server.client();
        // As in Redis, the count is that of this member's subscribers.
        assert_eq!(client.ask(&format!("PUBLISH news {from}")).int(), 2);
        assert_eq!(client.ask(&format!("SPUBLISH part {from}")).int(), 1);
        assert_eq!(client.ask("PUBLISH other x").int(), 0);
        let from = from.to_string();
        for [plain, pattern, shard] in &mut listeners {
            assert_eq!(next_message(plain), ["message", "news", &from]);
            assert_eq!(next_message(pattern), ["pmessage", "n*", "news", &from]);
            assert_eq!(next_message(shard), ["smessage", "part", &from]);
        }
    }
    // In order, and each once; from a transaction and a script, too.
    let from = (leads + 1) % 3;
    let mut client = servers[from].client();
    let mut bytes = Vec::new();
    for i in 0..20_000 {
        encode(&[b"PUBLISH", b"news", i.to_string().as_bytes()], &mut bytes);
    }
    let sent = std::thread::spawn(move || {
        assert!(client.send_raw(&bytes));
        (0..20_000).for_each(|_| assert_eq!(client.reply().int(), 2));
        client.ok("MULTI");
        client.ok("PUBLISH news last");
        client.ok("EXEC");
        client.ok("EVAL return{redis.call('PUBLISH','news','script')} 0");
    });
    for i in (0..20_000).map(|i| i.to_string()).chain(["last", "script"].map(str::to_owned)) {
        for [plain, _, _] in &mut listeners {
            assert_eq!(next_message(plain), ["message", "news", &i]);
        }
    }
    sent.join().expect("all was sent");
    // A member that is away misses what is said, and no other does.
    let away = (leads + 2) % 3;
    servers[away].kill();
    servers[leads].client().ok("PUBLISH news missed");
    servers[away] = group.start(away);
    let mut back = listener(&servers[away], "SUBSCRIBE news");
    // What is said before the leader notices is lost with the old connection: say it until it is
    // heard.
    let (mut spoken, mut hears) = (0, false);
    wait_until("it hears again", || {
        spoken += 1;
        servers[leads].client().ok(&format!("PUBLISH news again:{spoken}"));
        back.send(&[b"PING"]);
        while let [kind, _, text] = &next_message(&mut back)[..] {
            assert_eq!(kind, "message");
            assert_ne!(text, "missed");
            hears = true;
        }
        hears
    });
    servers[leads].client().ok("PUBLISH news end");
    while next_message(&mut back)[2] != "end" {}
    let [plain, _, _] = &mut listeners[from];
    assert_eq!(next_message(plain)[2], "missed");
    (1..=spoken).for_each(|i| assert_eq!(next_message(plain)[2], format!("again:{i}")));
    assert_eq!(next_message(plain)[2], "end");
}

#[test]
fn each_member_notifies_of_changed_keys_itself() {
    let group = Group::with_members(3, 3, &["--raft-election-timeout", "5000"]);
    let servers = group.start_founders();
    let leads = leader(&servers);
    let follows = (leads + 1) % 3;
    let listens = [leads, follows].map(|it| {
        servers[it].client().ok("CONFIG SET notify-keyspace-events KEA");
        listener(&servers[it], "PSUBSCRIBE __keyevent@*")
    });
    let mut client = servers[leads].client();
    client.ok("SET k v PX 50");
    client.ok("RPUSH list x");
    wait_until("it expires", || client.ask("EXISTS k").int() == 0);
    client.ok("DEL list");
    for (mut listens, gone) in listens.into_iter().zip(["expired", "del"]) {
        let mut events: Vec<String> = Vec::new();
        while events.last().is_none_or(|last| last != "del list") {
            let [_, _, event, key] = &next_message(&mut listens)[..] else { panic!("four words") };
            events.push(format!("{} {key}", event.trim_start_matches("__keyevent@0__:")));
        }
        let of = |key: &str| -> Vec<&str> {
            events.iter().filter_map(|it| it.strip_suffix(key)?.strip_suffix(' ')).collect()
        };
        assert_eq!(of("list"), ["rpush", "del"]);
        // Who follows gets an expiry as a deletion, as a replica of Redis does.
        assert_eq!(of("k"), ["set", "expire", gone]);
    }
}
