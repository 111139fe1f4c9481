//! Which refusal a request gets where several apply: in every combination of a failed save, memory
//! that is used up, missing replicas, a read-only replica and stale data, as redis-server answers.

use crate::support::{Client, Kind, Reply, Server, redis_is_here};
use std::fs;

const LIBRARY: &str = "#!lua name=lib\n\
    redis.register_function('writes', function() return redis.call('SET', 'k', '1') end)\n\
    redis.register_function{function_name='reads', flags={'no-writes'},\n\
        callback=function() return redis.call('GET', 'k') end}\n\
    redis.register_function{function_name='stale', flags={'no-writes', 'allow-stale'},\n\
        callback=function() return redis.call('GET', 'k') end}";

/// Requests as words.
fn requests() -> Vec<Vec<Vec<u8>>> {
    let set = "return redis.call('SET', 'k', '1')";
    let get = "return redis.call('GET', 'k')";
    let mut all: Vec<Vec<Vec<u8>>> = ["SET k 1", "GET k", "PING", "INFO server", "DEL k"]
        .iter()
        .map(|line| line.split(' ').map(|word| word.as_bytes().to_vec()).collect())
        .collect();
    let heads = [
        "",
        "#!lua\n",
        "#!lua flags=no-writes\n",
        "#!lua flags=allow-oom\n",
        "#!lua flags=allow-stale\n",
        "#!lua flags=allow-stale,no-writes\n",
    ];
    for command in ["EVAL", "EVAL_RO"] {
        for (head, body) in
            heads.iter().flat_map(|head| [(head, set), (head, get), (head, "return 1")])
        {
            all.push(
                [command, &format!("{head}{body}"), "0"].map(|it| it.as_bytes().to_vec()).into(),
            );
        }
    }
    for command in ["FCALL", "FCALL_RO"] {
        for function in ["writes", "reads", "stale"] {
            all.push([command, function, "0"].map(|it| it.as_bytes().to_vec()).into());
        }
    }
    all
}

/// The replies in every state, each with what was asked and when.
fn replies(kind: Kind) -> Vec<String> {
    let server = Server::start(kind);
    let mut client = server.client();
    client.call(&[b"FUNCTION", b"LOAD", LIBRARY.as_bytes()]);
    client.ask("FCALL reads 0");
    client.ok("SET k 0");
    let in_the_way = server.dump();
    fs::create_dir_all(in_the_way.join("full")).expect("a directory where the dump should be");
    client.call(&[b"CONFIG", b"SET", b"save", b"3600 1", b"replica-ignore-maxmemory", b"no"]);
    assert_eq!(client.save_in_background(), "err");
    let mut all = Vec::new();
    for state in 0..32u32 {
        let on = |bit: u32| state >> bit & 1 == 1;
        let yes = |is: bool| if is { "yes" } else { "no" };
        client.ok(&format!("CONFIG SET stop-writes-on-bgsave-error {}", yes(on(0))));
        client.ok(&format!("CONFIG SET maxmemory {}", u32::from(on(1))));
        client.ok(&format!("CONFIG SET min-replicas-to-write {}", u32::from(on(2))));
        client.ok(if on(3) { "REPLICAOF 127.0.0.1 1" } else { "REPLICAOF NO ONE" });
        client.ok(&format!("CONFIG SET replica-serve-stale-data {}", yes(!on(4))));
        let names = ["failed save", "no memory", "few replicas", "replica", "stale"];
        let on: Vec<&str> = (0..5).filter(|&bit| on(bit)).map(|bit| names[bit as usize]).collect();
        let on = on.join(", ");
        for request in requests() {
            let words: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
            let reply = ask(&mut client, &words);
            let shown: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
            all.push(format!("[{on}] {}: {reply}", shown.join(" ").replace('\n', " ")));
        }
        client.ok("MULTI");
        let queued = ask(&mut client, &[b"SET", b"k", b"1"]);
        all.push(format!("[{on}] MULTI SET: {queued}, EXEC: {}", ask(&mut client, &[b"EXEC"])));
    }
    all
}

/// A reply without what differs from server to server.
fn ask(client: &mut Client, words: &[&[u8]]) -> String {
    match client.call(words) {
        Reply::Error(text) => text.split(" script: ").next().unwrap_or_default().to_owned(),
        _ if words[0] == b"INFO" => "text".to_owned(),
        // What else it says depends on which writes went through.
        _ => "served".to_owned(),
    }
}

#[test]
fn of_several_reasons_a_request_is_told_the_one_that_redis_tells() {
    let ours = replies(Kind::subject("imprint"));
    assert!(ours.len() > 1000);
    if !redis_is_here("refusals") {
        return;
    }
    let redis = replies(Kind::Redis);
    let wrong: Vec<_> = redis.iter().zip(&ours).filter(|(redis, ours)| redis != ours).collect();
    let shown: Vec<_> =
        wrong.iter().take(40).map(|(redis, ours)| format!("redis {redis}\nours  {ours}")).collect();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), shown.join("\n"));
}
