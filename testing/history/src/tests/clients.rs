//! The client against servers that say what they are told to.

use crate::call::{Call, Command, Key, Reply};
use crate::history::Outcome;
use crate::{Client, Recorder};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

/// A server that takes one connection for each answer, reads a request, and gives the answer, or
/// closes where there is none. What it was sent.
fn server(answers: Vec<Option<String>>) -> (SocketAddr, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    let thread = spawn(move || {
        let mut open = Vec::new();
        let answer = |answer: &Option<String>| {
            let (mut stream, _) = listener.accept().expect("a client comes");
            let mut bytes = [0; 1000];
            let length = stream.read(&mut bytes).expect("it asks");
            if let Some(answer) = answer {
                stream.write_all(answer.as_bytes()).expect("it listens");
                // The connection stays.
                open.push(stream);
            }
            String::from_utf8_lossy(&bytes[..length]).into_owned()
        };
        answers.iter().map(answer).collect()
    });
    (address, thread)
}

fn client(servers: &[SocketAddr]) -> Client {
    Client::new(servers.to_vec(), 0, Duration::from_millis(400))
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

const KEY: Key = Key(3);

#[test]
fn lost_replies_are_unknown_and_refusals_are_not() {
    let set = Call::one(Command::Set(KEY, 7));
    let (failed, unknown) = (Err(Outcome::Failed), Err(Outcome::Unknown));
    let cases = [
        (text("+OK\r\n"), Ok(vec![Reply::Done])),
        (None, unknown.clone()),
        (text("+O"), unknown.clone()),
        (text("-READONLY You can't write against a read only replica.\r\n"), failed.clone()),
        (text("-CLUSTERDOWN The cluster is down\r\n"), failed.clone()),
        (text("-ERR the leader changed\r\n"), unknown.clone()),
    ];
    for (answer, expected) in cases {
        let (address, thread) = server(vec![answer.clone()]);
        assert_eq!(client(&[address]).perform(&set), expected, "{answer:?}");
        let sent = thread.join().expect("it ends");
        assert_eq!(sent, ["*3\r\n$3\r\nSET\r\n$6\r\n{h}:k3\r\n$1\r\n7\r\n"]);
    }
    let address = SocketAddr::from(([127, 0, 0, 1], stillframe_measure::own_port()));
    assert_eq!(client(&[address]).perform(&set), failed);
}

#[test]
fn replies_of_all_kinds_are_understood() {
    let text_of = |bytes: usize| format!("7:{}", "0000000000000007".repeat(bytes / 16 + 1));
    let large = &text_of(18)[..18];
    let tail = Command::Tail { key: KEY, after: 2, wait_ms: 10 };
    let other = Key(4);
    let cases = [
        (Command::Large { key: KEY, value: 7, bytes: 18 }, "+OK\r\n".to_owned(), Reply::Done),
        (Command::Get(KEY), format!("$18\r\n{large}\r\n"), Reply::Number(7)),
        (Command::Exchange(KEY, 8), "$1\r\n7\r\n".to_owned(), Reply::Number(7)),
        (Command::Log(KEY, 8), ":3\r\n".to_owned(), Reply::Number(3)),
        (
            tail.clone(),
            "*1\r\n*2\r\n$1\r\nk\r\n*1\r\n*2\r\n$3\r\n3-0\r\n*2\r\n$1\r\ne\r\n$1\r\n8\r\n"
                .to_owned(),
            Reply::List(vec![8]),
        ),
        (tail, "*-1\r\n".to_owned(), Reply::Nothing),
        (
            Command::Pop { key: KEY, wait_ms: 10 },
            "*2\r\n$1\r\nk\r\n$1\r\n8\r\n".to_owned(),
            Reply::Number(8),
        ),
        (Command::Pop { key: KEY, wait_ms: 10 }, "*-1\r\n".to_owned(), Reply::Nothing),
        (
            Command::Move { from: KEY, to: other, wait_ms: 10 },
            "$1\r\n8\r\n".to_owned(),
            Reply::Number(8),
        ),
    ];
    for (command, answer, expected) in cases {
        let (address, thread) = server(vec![Some(answer)]);
        let found = client(&[address]).perform(&Call::one(command.clone()));
        assert_eq!(found, Ok(vec![expected]), "{command}");
        thread.join().expect("it ends");
    }
}

#[test]
fn a_wait_for_nothing_says_what_was_so_at_its_end() {
    let mut recorder = Recorder::for_clients(1).remove(0);
    let wait = |wait_ms| Call::one(Command::Pop { key: KEY, wait_ms });
    recorder.record(wait(40), |_| {
        std::thread::sleep(Duration::from_millis(40));
        Ok(vec![Reply::Nothing])
    });
    recorder.record(wait(4_000), |_| Ok(vec![Reply::Nothing]));
    recorder.record(wait(4_000), |_| Ok(vec![Reply::Number(1)]));
    let operations = recorder.into_operations();
    assert!(operations[0].invoked >= 30_000_000, "{}", operations[0]);
    assert_eq!(Some(operations[1].invoked), operations[1].returned());
    assert!(Some(operations[2].invoked) < operations[2].returned());
}

#[test]
fn moved_is_followed_within_the_call() {
    let (leader, at_leader) = server(vec![text(":4\r\n")]);
    let (other, at_other) = server(vec![text(&format!("-MOVED 3999 {leader}\r\n"))]);
    let mut recorder = Recorder::for_clients(1).remove(0);
    let mut client = client(&[other]);
    let outcome = recorder.record(Call::one(Command::Add(KEY, 1)), |call| client.perform(call));
    let Outcome::Returned { replies, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!(*replies, [Reply::Number(4)]);
    assert_eq!(at_leader.join().expect("it ends"), at_other.join().expect("it ends"));
}

#[test]
fn a_transaction_is_done_or_not() {
    let both = Call::transaction(vec![Command::Add(KEY, 1), Command::Get(Key(4))]);
    let ask = |answer: &str| {
        let (address, thread) = server(vec![text(answer)]);
        let outcome = client(&[address]).perform(&both);
        thread.join().expect("it ends");
        outcome
    };
    let queued = "+OK\r\n+QUEUED\r\n+QUEUED\r\n";
    let done = ask(&format!("{queued}*2\r\n:1\r\n$-1\r\n"));
    assert_eq!(done, Ok(vec![Reply::Number(1), Reply::Nothing]));
    let refused = "+OK\r\n-LOADING wait\r\n-LOADING wait\r\n-EXECABORT Transaction discarded\r\n";
    assert_eq!(ask(refused), Err(Outcome::Failed));
    // The first command may have had its effect.
    let half = ask(&format!("{queued}*2\r\n:1\r\n-WRONGTYPE of value\r\n"));
    assert_eq!(half, Err(Outcome::Unknown));
    assert_eq!(ask(queued), Err(Outcome::Unknown));
}
