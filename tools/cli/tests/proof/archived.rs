//! `--archive URL` beside real servers of S3 and of Azure's blobs, which are killed, stopped and
//! damaged: saving and writing go on, what was missed is caught up, and a moment of the past comes
//! back from the URL alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use stillframe_peers::{azurite, python, versitygw};

use crate::support::{
    Client, Kind, Peer, Random, Server, Setup, are_here, output_of, own_port, rounds, send_signal,
    wait_until,
};

const KEY: &str = "AKIDOFATEST";
const SECRET: &str = "a-secret-that-no-log-may-show";
/// That of every Azurite.
const AZURITE_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Which server of objects it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Store {
    /// VersityGW, whose objects are files.
    S3,
    /// Azurite.
    Azure,
}

/// Makes a bucket of Azurite: its port and the key that all Azurites have follow.
const MAKE_CONTAINER: &str = r#"
import base64, email.utils, hashlib, hmac, sys, urllib.request
port, key = sys.argv[1:]
account, date, version = "devstoreaccount1", email.utils.formatdate(usegmt=True), "2021-08-06"
signed = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{version}\n"
signed += f"/{account}/{account}/bucket\nrestype:container"
digest = hmac.new(base64.b64decode(key), signed.encode(), hashlib.sha256).digest()
headers = {"x-ms-date": date, "x-ms-version": version, "Content-Length": "0",
           "Authorization": f"SharedKey {account}:{base64.b64encode(digest).decode()}"}
url = f"http://127.0.0.1:{port}/{account}/bucket?restype=container"
urllib.request.urlopen(urllib.request.Request(url, method="PUT", headers=headers))
"#;

impl Store {
    fn peer(self) -> Peer {
        match self {
            Self::S3 => Peer::Versitygw,
            Self::Azure => Peer::Azurite,
        }
    }

    fn url(self) -> &'static str {
        match self {
            Self::S3 => "s3://bucket/some/prefix",
            Self::Azure => "az://bucket/some/prefix",
        }
    }

    fn secret(self) -> &'static str {
        match self {
            Self::S3 => SECRET,
            Self::Azure => AZURITE_KEY,
        }
    }
}

/// A server of objects with one bucket.
struct Bucket {
    store: Store,
    folder: tempfile::TempDir,
    port: u16,
    server: Option<Child>,
}

impl Bucket {
    fn new(store: Store) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("root/bucket")).expect("a folder");
        let mut bucket = Self { store, folder, port: own_port(), server: None };
        bucket.start();
        if store == Store::Azure {
            let mut command = Command::new(python());
            let port = bucket.port.to_string();
            command.args(["-c", MAKE_CONTAINER, &port, AZURITE_KEY]);
            let output = output_of(command);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        bucket
    }

    fn start(&mut self) {
        let log = self.folder.path().join("log");
        let log = fs::File::options().create(true).append(true).open(log).expect("a log");
        let root = self.folder.path().join("root");
        let mut command = match self.store {
            Store::S3 => {
                let mut command = Command::new(versitygw());
                command.args(["--port", &format!("127.0.0.1:{}", self.port), "--access", KEY]);
                command.args(["--secret", SECRET, "posix"]).arg(root);
                command
            }
            Store::Azure => {
                let mut command = Command::new(azurite());
                command.args(["--disableTelemetry", "--skipApiVersionCheck", "--silent"]);
                let port = self.port.to_string();
                command.args(["--blobHost", "127.0.0.1", "--blobPort", &port, "--location"]);
                command.arg(root);
                command
            }
        };
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a handle")).stderr(log);
        self.server = Some(command.spawn().expect("the server of objects starts"));
        let address = ("127.0.0.1", self.port);
        wait_until("it answers", || std::net::TcpStream::connect(address).is_ok());
    }

    fn signal(&self, signal: Signal) {
        send_signal(self.server.as_ref().expect("it runs").id(), signal);
    }

    /// Ends it at once; Azurite, which would lose what it has acknowledged, by its leave.
    fn kill(&mut self) {
        let how = if self.store == Store::Azure { Signal::TERM } else { Signal::KILL };
        self.signal(how);
        self.server.take().expect("it runs").wait().expect("a child ends");
    }

    /// Files of the archive, below the prefix.
    fn files(&self, folder: &str) -> Vec<PathBuf> {
        let folder = self.folder.path().join("root/bucket/some/prefix").join(folder);
        let files = fs::read_dir(folder).expect("it is there");
        let mut files: Vec<PathBuf> =
            files.map(|entry| entry.expect("it can be read").path()).collect();
        files.sort();
        files
    }

    /// What puts a command's credentials into its environment.
    fn environment(&self) -> Vec<String> {
        let server = format!("http://127.0.0.1:{}", self.port);
        let variables = match self.store {
            Store::S3 => vec![
                ("AWS_ACCESS_KEY_ID", KEY),
                ("AWS_SECRET_ACCESS_KEY", SECRET),
                ("AWS_ENDPOINT", &server),
                ("AWS_ALLOW_HTTP", "true"),
                ("AWS_REGION", "us-east-1"),
            ],
            Store::Azure => {
                vec![("AZURE_STORAGE_USE_EMULATOR", "true"), ("AZURITE_BLOB_STORAGE_URL", &server)]
            }
        };
        let variables = variables.iter().map(|(name, value)| format!("{name}={value}"));
        std::iter::once("env".to_owned()).chain(variables).collect()
    }

    /// A server that archives into it.
    fn archiving(&self, folder: &Path) -> Setup {
        let wrapper = self.environment();
        let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
        let archive = [
            "--archive",
            self.store.url(),
            "--archive-interval",
            "1",
            "--archive-image-period",
            "1",
        ];
        let log = ["--appendonly", "yes", "--appendfsync", "always"];
        let debug = ["--enable-debug-command", "yes"];
        let flags = [&archive[..], &log, &debug].concat();
        Setup::new(Kind::Ours("imprint")).folder(folder).wrapper(&wrapper).flags(&flags)
    }

    /// Whether one of our tools succeeds, and what it says.
    fn tool(&self, arguments: &[&str]) -> (bool, String) {
        let environment = self.environment();
        let mut command = Command::new(&environment[0]);
        command.args(&environment[1..]).arg(env!("CARGO_BIN_EXE_stillframe")).args(arguments);
        command.stdin(Stdio::null());
        let output = output_of(command);
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(!text.contains(self.store.secret()), "{text}");
        (output.status.success(), text)
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        if self.server.is_some() {
            self.kill();
        }
    }
}

/// A moment, and what the data was then.
struct Moment {
    until: String,
    digest: String,
}

fn digest(client: &mut Client) -> String {
    client.ask("DEBUG DIGEST").text()
}

/// This moment, in which nothing is written.
fn moment(client: &mut Client) -> Moment {
    let digest = digest(client);
    Moment { until: crate::past::now(), digest }
}

/// Some writes, now and then a value that takes an upload in parts.
fn write(client: &mut Client, random: &mut Random) {
    for _ in 0..20 + random.below(200) {
        let (key, length) = (format!("k{}", random.below(500)), random.below(300));
        let value = random.bytes(length);
        let (key, field) = (key.as_bytes(), random.below(50).to_string());
        let reply = match random.below(5) {
            0 => client.call(&[b"HSET", &[b"h", key].concat(), field.as_bytes(), &value]),
            1 => client.call(&[b"RPUSH", &[b"l", key].concat(), &value]),
            2 => client.call(&[b"ZADD", &[b"z", key].concat(), field.as_bytes(), &value]),
            3 => client.call(&[b"DEL", &[b"h", key].concat(), &[b"l", key].concat(), key]),
            _ => client.call(&[b"SET", key, &value]),
        };
        assert!(!matches!(reply, crate::support::Reply::Error(_)), "{reply:?}");
    }
    if random.below(3) == 0 {
        let value = random.bytes(9 << 20);
        client.call(&[b"SET", b"large", &value]);
    }
}

/// Waits until the archive holds all records that the server has.
fn caught_up(client: &mut Client) {
    wait_until("the archive has all", || {
        let last = client.info_int("log_durable_record");
        client.info("archive_state") == "current" && client.info_int("archive_last_record") >= last
    });
}

#[test]
fn what_a_lost_server_has_archived_comes_back_as_of_any_moment() {
    comes_back(Store::S3);
}

#[test]
fn what_a_lost_server_has_archived_with_azure_comes_back_as_of_any_moment() {
    comes_back(Store::Azure);
}

fn comes_back(store: Store) {
    if !are_here("archived", &[store.peer()]) {
        return;
    }
    let mut random = Random::new("archived");
    let (mut bucket, folder) = (Bucket::new(store), tempfile::tempdir().expect("a folder"));
    let data = folder.path().join("data");
    fs::create_dir(&data).expect("a folder");
    let mut server = bucket.archiving(&data).start();
    let mut moments = Vec::new();
    for _ in 0..rounds(6, 100) {
        let mut client = server.client();
        write(&mut client, &mut random);
        moments.push(moment(&mut client));
        match random.below(4) {
            // In the middle of whatever is uploaded.
            0 => {
                bucket.kill();
                write(&mut client, &mut random);
                moments.push(moment(&mut client));
                bucket.start();
            }
            1 => {
                bucket.signal(Signal::STOP);
                write(&mut client, &mut random);
                client.ask("BGSAVE");
                client.wait_for_save();
                moments.push(moment(&mut client));
                bucket.signal(Signal::CONT);
            }
            2 => {
                client.ask("BGREWRITEAOF");
                client.wait_for_save();
            }
            _ => {
                server.kill();
                server = bucket.archiving(&data).start();
            }
        }
    }
    let mut client = server.client();
    write(&mut client, &mut random);
    caught_up(&mut client);
    let newest = digest(&mut client);
    server.kill();
    assert!(!server.log().contains(store.secret()), "{}", server.log());
    fs::remove_dir_all(&data).expect("the machine is lost");

    let (sound, text) = bucket.tool(&["check", store.url()]);
    assert!(sound, "{text}");
    let (readable, text) = bucket.tool(&["inspect", store.url()]);
    assert!(readable && text.contains("an archive"), "{text}");
    moments.push(Moment { until: String::new(), digest: newest });
    for (number, Moment { until, digest: then }) in moments.iter().enumerate() {
        let place = folder.path().join(format!("restored{number}"));
        let name = place.display().to_string();
        let mut arguments = vec!["recover", "--from", store.url(), &name];
        if !until.is_empty() {
            arguments.extend(["--until", until]);
        }
        let (done, text) = bucket.tool(&arguments);
        assert!(done, "{until}: {text}");
        assert_eq!(&digest(&mut restored(&place).client()), then, "{until}: {text}");
    }
}

fn restored(place: &Path) -> Server {
    let setup = Setup::new(Kind::Ours("imprint")).folder(place);
    setup.flags(&["--enable-debug-command", "yes"]).start()
}

#[test]
fn a_foreign_or_torn_manifest_and_a_second_server_are_refused_by_name() {
    if !are_here("archived", &[Peer::Versitygw]) {
        return;
    }
    let url = Store::S3.url();
    let (bucket, folder) = (Bucket::new(Store::S3), tempfile::tempdir().expect("a folder"));
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    for place in [&first, &second] {
        fs::create_dir(place).expect("a folder");
    }
    let mut server = bucket.archiving(&first).start();
    let mut client = server.client();
    client.ok("SET k v");
    caught_up(&mut client);

    let command = bucket.archiving(&second).command(&second, own_port());
    let output = output_of(command);
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(!output.status.success() && said.contains(url) && !said.contains(SECRET), "{said}");
    client.ok("SET k w");
    caught_up(&mut client);
    server.kill();

    let manifests = bucket.files("manifests");
    let newest = manifests.last().expect("there is one");
    let name = newest.file_name().expect("a name").to_string_lossy().into_owned();
    let whole = fs::read(newest).expect("it can be read");
    let place = folder.path().join("restored").display().to_string();
    for damaged in [&whole[..whole.len() / 2], b"", b"something else\n"] {
        fs::write(newest, damaged).expect("it can be written");
        for arguments in
            [&["recover", "--from", url, &place][..], &["inspect", url], &["check", url]]
        {
            let (done, said) = bucket.tool(arguments);
            assert!(!done && said.contains(&name), "{arguments:?}: {said}");
        }
        assert!(!Path::new(&place).join("dump.rdb").exists());
    }
    fs::write(newest, whole).expect("it can be written");
    let (done, said) = bucket.tool(&["recover", "--from", url, &place]);
    assert!(done, "{said}");
    assert_eq!(restored(Path::new(&place)).client().ask("GET k").text(), "w");
}
