//! `rename-command`: beside redis-server, and with logs and replicas, which know real names alone.

use crate::replication::wait_for_link;
use crate::support::{Client, Kind, Reply, Setup, redis_is_here, wait_until};

const FILE: &str = "\
rename-command FLUSHALL \"\"
rename-command SET put
rename-command config admin-config
rename-command EVAL \"\"
rename-command get \"\"
rename-command INCR GET
rename-command MULTI begin
";

const LINES: [&str; 39] = [
    "SET k v",
    "put k 1",
    "PUT k",
    "get k",
    "GET k x",
    "FLUSHALL",
    "flushall async",
    "CONFIG GET hz",
    "Admin-Config GET hz",
    "admin-config nosuch",
    "incr k",
    "MULTI",
    "begin",
    "put k 5",
    "GET k",
    "set k 6",
    "EXEC",
    "begin",
    "put k 5",
    "GET k",
    "EXEC",
    "STRLEN k",
    "CLIENT PAUSE 50 WRITE",
    "put k 8",
    "GET k",
    "COMMAND INFO set put get flushall config|get admin-config|get",
    "COMMAND COUNT",
    "COMMAND GETKEYS put a b",
    "COMMAND GETKEYS set a b",
    "ACL SETUSER u on nopass ~* +set +flushall +config|get",
    "ACL SETUSER w on nopass ~* +put",
    "ACL DRYRUN u put a b",
    "ACL DRYRUN u set a b",
    "ACL DRYRUN u GET a",
    "AUTH u x",
    "put k 7",
    "GET k",
    "ADMIN-CONFIG GET hz",
    "ADMIN-CONFIG SET hz 5",
];

#[test]
fn renamed_commands_answer_as_in_redis() {
    if !redis_is_here("renamed_commands_answer_as_in_redis") {
        return;
    }
    let answers = [Kind::Ours("imprint"), Kind::Redis].map(|kind| {
        let folder = tempfile::tempdir().expect("a folder");
        let server = Setup::new(kind).folder(folder.path()).config(FILE).start();
        let mut client = server.client();
        LINES.map(|line| {
            let reply = format!("{line}: {:?}", client.ask(line));
            // How many commands there are differs by what is not offered here.
            if line.starts_with("COMMAND COUNT") { String::new() } else { reply }
        })
    });
    let [ours, theirs] = &answers;
    for (ours, theirs) in ours.iter().zip(theirs) {
        // The texts of COMMAND INFO are compared elsewhere; here, which commands there are.
        let short = |text: &String| match text.starts_with("COMMAND INFO") {
            true => text.matches("Null").count().to_string(),
            false => text.clone(),
        };
        assert_eq!(short(ours), short(theirs));
    }
}

#[test]
fn logs_and_replicas_know_real_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = "appendonly yes\nappendfsync always\nrepl-diskless-sync-delay 0\n";
    let setup = |text: &str| {
        Setup::new(Kind::Ours("imprint")).folder(folder.path()).config(&format!("{own}{text}"))
    };
    let mut server = setup(FILE).start();
    let replica = Setup::new(Kind::Ours("imprint"));
    let replica = replica.flags(&["--rename-command", "SET", "", "--rename-command", "incr", "x"]);
    let replica = replica.start();
    replica.client().ok(&format!("REPLICAOF 127.0.0.1 {}", server.port));
    wait_for_link(&replica);
    let mut client = server.client();
    let write = |client: &mut Client| {
        client.ok("put k 1");
        client.ok("GET k");
        client.ok("begin");
        client.ok("put other x");
        client.ok("GET k");
        client.ok("EXEC");
    };
    write(&mut client);
    wait_until("the replica has it", || {
        replica.client().ask("GET k") == Reply::Text(b"3".to_vec())
    });
    assert_eq!(replica.client().ask("GET other").text(), "x");
    server.kill();
    // With the names, and without.
    for text in [FILE, ""] {
        let mut server = setup(text).start();
        let mut client = server.client();
        assert_eq!(client.ask("STRLEN other").int(), 1);
        assert_eq!(client.ask("DUMP k"), replica.client().ask("DUMP k"));
        server.kill();
    }
}
