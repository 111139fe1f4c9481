//! Single requests: what they answer, what they must not go by.

use super::*;

fn state() -> (TempDir, KeyspaceState) {
    let folder = tempfile::tempdir().expect("a folder");
    let opened = KeyspaceState::open(folder.path().into(), &Options::default(), Box::new(drop));
    (folder, opened.expect("it is new"))
}

fn command(now_ms: i64, lines: &[&str]) -> Command {
    let words = |line: &&str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let requests: Vec<Vec<Vec<u8>>> = lines.iter().map(words).collect();
    let is_transaction = requests.len() != 1;
    Command { now_ms, seed: 7, db: 0, resp3: false, is_transaction, requests }
}

fn run(state: &mut KeyspaceState, now_ms: i64, lines: &[&str]) -> String {
    let reply = state.apply(command(now_ms, lines));
    String::from_utf8(reply).expect("text").replace("\r\n", " ")
}

#[test]
fn time_comes_with_the_commands_and_never_goes_back() {
    let (_folder, mut state) = state();
    assert_eq!(run(&mut state, 1000, &["SET k v PX 500"]), "+OK ");
    assert_eq!(run(&mut state, 1499, &["PTTL k"]), ":1 ");
    assert_eq!(state.query(&[b"GET", b"k"], 0, false), b"$1\r\nv\r\n");
    assert_eq!(run(&mut state, 1500, &["XADD stream * f v"]), "$6 1500-0 ");
    assert_eq!(state.query(&[b"GET", b"k"], 0, true), b"_\r\n");
    assert_eq!(run(&mut state, 900, &["EXISTS k"]), ":0 ", "it is 1500 already");
    assert_eq!(run(&mut state, 0, &["XADD stream * f v"]), "$6 1500-1 ");
}

#[test]
fn a_transaction_runs_whole_or_not_at_all() {
    let (_folder, mut state) = state();
    let replies = run(&mut state, 0, &["SET k 1", "INCR k", "LPUSH k x", "SELECT 2", "SET k 9"]);
    assert!(replies.starts_with("*5 +OK :2 -WRONGTYPE "), "{replies}");
    assert!(replies.ends_with("+OK +OK "), "{replies}");
    assert_eq!(state.keys(2), 1);
    for wrong in ["GET", "NOSUCH", "WATCH k", "BRPOP k 0", "XREAD BLOCK 0 STREAMS k $", "EVAL x 0"]
    {
        let replies = run(&mut state, 0, &["INCR k", wrong]);
        assert!(replies.starts_with("-EXECABORT"), "{wrong}: {replies}");
        assert!(run(&mut state, 0, &[wrong]).starts_with("-ERR"), "{wrong}");
    }
    assert_eq!(state.query(&[b"GET", b"k"], 0, false), b"$1\r\n2\r\n");
    assert!(run(&mut state, 0, &[]).starts_with("*0"));
    let several = Command { is_transaction: false, ..command(0, &["GET k", "GET k"]) };
    assert!(state.apply(several).starts_with(b"-ERR several"));
    assert!(state.apply(command(0, &["GET k"]).db(99)).starts_with(b"-ERR DB index"));
    let empty = Command { requests: vec![Vec::new()], ..command(0, &["GET k"]) };
    assert!(state.apply(empty).starts_with(b"-ERR"));
}

#[test]
fn a_query_changes_nothing() {
    let (_folder, mut state) = state();
    run(&mut state, 0, &["SADD set a b c"]);
    let before = state.digest();
    for write in [&b"SPOP"[..], b"DEL"] {
        assert!(state.query(&[write, b"set"], 0, false).starts_with(b"-ERR only"));
    }
    assert_eq!(state.query(&[b"SCARD", b"set"], 0, false), b":3\r\n");
    assert_eq!(state.digest(), before);
}

/// Keys that have expired are absent, whether they have gone or not: of two states one is rid of
/// them after each command, and has its keys elsewhere in memory.
#[test]
fn when_expired_keys_go_shows_nowhere() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let mut random = Random::new("expired keys");
    for _ in 0..stillframe_peers::rounds(20, 2_000) {
        let commands: Vec<Command> = (0..200)
            .map(|_| {
                let mut command = random_command(random.next() % 1_000_000);
                command.now_ms = START_MS + random.below(5_000) as i64;
                command
            })
            .collect();
        let after = |count: usize, tidy: bool| {
            let (_folder, mut state) = state();
            for command in &commands[..count] {
                state.apply(command.clone());
                if tidy {
                    let _ = state.digest();
                }
            }
            state.digest()
        };
        if after(200, true) != after(200, false) {
            let first = (1..=200).find(|&count| after(count, true) != after(count, false));
            let first = first.expect("the last at least");
            let command = &commands[first - 1];
            let text = |request: &Vec<Vec<u8>>| {
                request
                    .iter()
                    .map(|it| String::from_utf8_lossy(it).into_owned() + " ")
                    .collect::<String>()
            };
            let requests: Vec<String> = command.requests.iter().map(text).collect();
            panic!("command {first}: {requests:?}");
        }
    }
}

/// How often a request draws may depend on where keys lie; the next one must not notice.
#[test]
fn each_request_has_randomness_of_its_own() {
    let sets: Vec<String> =
        (0..300).map(|key| format!("SET k{key} v PX {}", 1 + key % 2)).collect();
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    for seed in 0..20 {
        let pops = [false, true].map(|tidy| {
            let (_folder, mut state) = state();
            run(&mut state, 0, &sets);
            run(&mut state, 0, &["SADD set a b c d e f g h"]);
            let command = Command { seed, ..command(1, &["RANDOMKEY", "SPOP set"]) };
            if tidy {
                run(&mut state, 1, &["GET k0"]);
                let _ = state.digest();
            }
            state.apply(command);
            state.query(&[b"SORT", b"set", b"ALPHA"], 0, false)
        });
        assert_eq!(pops[0], pops[1], "seed {seed}");
    }
}
