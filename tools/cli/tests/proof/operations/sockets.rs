//! Unix sockets, as redis-server has them: the same steps on both servers.

use crate::support::{Client, Kind, Server, Setup, redis_is_here, stillframe};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

fn start(kind: Kind, path: &Path) -> Server {
    let path = path.display().to_string();
    Setup::new(kind).flags(&["--unixsocket", &path, "--unixsocketperm", "700"]).start()
}

#[test]
fn a_unix_socket_serves_as_it_does_in_redis() {
    let mut kinds = vec![Kind::subject("imprint")];
    kinds.extend(redis_is_here("a_unix_socket_serves_as_it_does_in_redis").then_some(Kind::Redis));
    for kind in kinds {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a socket");
        let mut server = start(kind, &path);
        let mode = std::fs::metadata(&path).expect("the socket").permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{kind:?}");
        let mut client = Client::unix(&path);
        let value = vec![b'x'; 10 << 20];
        assert_eq!(client.call(&[b"SET", b"k", &value]).text(), "OK");
        assert_eq!(client.call(&[b"GET", b"k"]).bytes(), Some(&value[..]));
        let line = client.ask("CLIENT INFO").text();
        let address = format!("{}:0", path.display());
        let shown = format!(" addr={address} laddr={address} ");
        assert!(line.contains(&shown) && line.contains(" flags=U "), "{kind:?}: {line}");
        assert_eq!(client.info("connected_clients"), "1");
        // Sees what the other asks.
        let mut monitor = server.client();
        monitor.ok("MONITOR");
        client.ok("GET seen");
        let seen = monitor.reply().text();
        assert!(
            seen.contains(&format!(" [0 unix:{}] \"GET\"", path.display())),
            "{kind:?}: {seen}"
        );
        let kill: [&[u8]; 4] = [b"CLIENT", b"KILL", b"ADDR", address.as_bytes()];
        assert_eq!(server.client().call(&kill).int(), 1, "{kind:?}");
        // A socket that a killed server left is taken over; at a good end it goes.
        server.kill();
        assert!(std::fs::metadata(&path).expect("it is left").file_type().is_socket());
        let mut server = start(kind, &path);
        Client::unix(&path).ok("SET k v");
        server.client().send(&[b"SHUTDOWN", b"NOSAVE"]);
        server.wait();
        assert!(!path.exists(), "{kind:?}");
    }
}

#[test]
fn only_a_socket_is_taken_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("precious");
    std::fs::write(&path, "data").expect("a file");
    let data = folder.path().join("data").display().to_string();
    let name = path.display().to_string();
    let output = stillframe(&["serve", "--port", "0", "--dir", &data, "--unixsocket", &name]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains(&format!("cannot listen on the unix socket {name}")), "{text}");
    assert_eq!(std::fs::read_to_string(&path).expect("the file"), "data");
}

#[test]
fn a_server_may_listen_on_a_unix_socket_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let name = path.display().to_string();
    let mut command = Setup::new(Kind::Ours("imprint")).command(folder.path(), 0);
    let mut child = command.args(["--unixsocket", &name]).spawn().expect("the server starts");
    let mut client = Client::unix(&path);
    crate::support::wait_until("it is ready", || client.ready());
    assert_eq!(client.info("tcp_port"), "0");
    client.send(&[b"SHUTDOWN", b"NOSAVE"]);
    assert!(child.wait().expect("it ends").success());
}

/// In Redis this is the default; strangers are turned away by the protected mode.
#[test]
fn any_address_of_both_kinds_can_have_one_port() {
    let mut kinds = vec![Kind::subject("imprint")];
    kinds.extend(redis_is_here("any_address_of_both_kinds").then_some(Kind::Redis));
    for kind in kinds {
        let server = Server::start(kind);
        let mut client = server.client();
        let reply = client.call(&[b"CONFIG", b"SET", b"bind", b"* -::*"]);
        assert_eq!(reply.text(), "OK", "{kind:?}");
        assert_eq!(client.ask("PING").text(), "PONG");
        assert_eq!(server.client().ask("PING").text(), "PONG", "{kind:?}: by IPv4");
        // A machine may have no IPv6.
        if std::net::TcpListener::bind("[::1]:0").is_ok() {
            let connected = std::net::TcpStream::connect(("::1", server.port));
            assert!(connected.is_ok(), "{kind:?}: by IPv6: {connected:?}");
        }
    }
}
