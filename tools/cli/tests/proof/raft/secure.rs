//! Members that speak TLS to each other, by settings; strangers are kept out.

use stillframe_raft_net::{Id, Member, Network, Settings, Tls, TlsFiles};

use super::directories::as_of;
use super::load::Counter;
use super::membership::change;
use super::{Group, leader, put, wait_until_equal};
use crate::operations::certificates::Certificates;
use crate::support::{Reply, Server, Setup, own_port, wait_until};

/// Flags of a member with the certificate of `who`.
pub(super) fn flags(made: &Certificates, who: &str, authority: &str) -> Vec<String> {
    let files = [
        ("cert", format!("{who}.crt")),
        ("key", format!("{who}.key")),
        ("ca-cert", authority.into()),
    ];
    files
        .into_iter()
        .flat_map(|(flag, file)| [format!("--raft-tls-{flag}-file"), made.path(&file)])
        .collect()
}

pub(super) fn with(setup: Setup, flags: &[String]) -> Setup {
    setup.flags(&flags.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn members_of_one_authority_are_a_group_and_strangers_are_not() {
    let test = "members_of_one_authority_are_a_group_and_strangers_are_not";
    let Some(made) = Certificates::new(test, &[]) else { return };
    let group = Group::with_members(5, 3, &["--raft-election-timeout", "1000"]);
    let names = ["server", "second", "client"];
    let start =
        |member: usize| with(group.setup(member), &flags(&made, names[member], "ca.crt")).start();
    let mut servers: Vec<Server> = (0..3).map(start).collect();
    let mut counter = Counter::new("n");
    for _ in 0..3 {
        let leads = leader(&servers);
        let mut client = servers[leads].client();
        for _ in 0..20 {
            counter.count(&mut client);
        }
        servers[leads].kill();
        let rest = servers.iter().enumerate().filter(|(at, _)| *at != leads).map(|(_, it)| it);
        leader(rest.collect::<Vec<_>>());
        servers[leads] = start(leads);
    }
    let leads = leader(&servers);
    counter.check(&mut servers[leads].client());
    wait_until_equal(&servers);
    // A stranger's server, and one without TLS, are not taken in.
    let stranger = flags(&made, "stranger", "stranger-ca.crt");
    for (member, own) in [(3, stranger.clone()), (4, Vec::new())] {
        let server = with(group.setup(member), &own).start();
        let add = format!("STILLFRAME RAFT ADD {} {}", member + 1, group.addresses(member));
        let reply = servers[leads].client().ask(&add);
        let refused = matches!(&reply, Reply::Error(text) if text.contains("no TLS connection"));
        assert!(refused, "{reply:?}");
        drop(server);
    }
    // One that takes the place of a member gets no vote, and learns nothing.
    let place = (leads + 1) % 3;
    servers[place].kill();
    let term = servers[leads].client().info("raft_term");
    let folder = tempfile::tempdir().expect("a folder");
    let taker = with(group.setup(place).folder(folder.path()), &stranger).start();
    wait_until("it is told why", || taker.log().contains("no TLS connection with"));
    wait_until("it begins nothing", || taker.log().contains("a new group begins when all"));
    let mut client = servers[leads].client();
    client.ok("SET k v");
    assert_eq!(client.info("raft_term"), term, "its votes count for nothing");
    assert_eq!(taker.client().ask("DBSIZE").text(), "CLUSTERDOWN The cluster is down");
    assert_eq!(taker.client().info("raft_applied_index"), "0");
    wait_until("the others say who knocks", || {
        servers[leads].log().contains("no TLS connection with")
    });
    let told = servers[leads].log().lines().filter(|line| line.contains("no TLS")).count();
    assert!(told < 8, "it is told now and then: {}", servers[leads].log());
    drop(taker);
    servers[place] = start(place);
    wait_until_equal(&servers);
}

/// From one authority to another without a restart, file by file.
#[test]
fn certificates_are_replaced_while_members_run() {
    let Some(made) = Certificates::new("certificates_are_replaced_while_members_run", &[]) else {
        return;
    };
    let group = Group::with_members(3, 3, &["--raft-election-timeout", "1000"]);
    let place = |member: usize, file: &str| group.folder.path().join(format!("{member}.{file}"));
    let text = |name: &str| std::fs::read(made.path(name)).expect("openssl made it");
    let put = |member, file, bytes: &[u8]| {
        std::fs::write(place(member, file), bytes).expect("a file");
    };
    let start = |member: usize| {
        let flags = ["cert", "key", "ca-cert"].map(|flag| {
            let path = place(member, flag).display().to_string();
            [format!("--raft-tls-{flag}-file"), path]
        });
        with(group.setup(member), flags.as_flattened()).start()
    };
    let told = |server: &Server, words: &str| server.log().matches(words).count();
    let again = "the certificates of this node were read again";
    for member in 0..3 {
        put(member, "cert", &text("server.crt"));
        put(member, "key", &text("server.key"));
        put(member, "ca-cert", &text("ca.crt"));
    }
    let mut servers: Vec<Server> = (0..3).map(start).collect();
    let mut counter = Counter::new("n");
    counter.count(&mut servers[leader(&servers)].client());
    // All trust both authorities before the first is certified by the other.
    let both = [text("ca.crt"), text("stranger-ca.crt")].concat();
    for (member, server) in servers.iter().enumerate() {
        put(member, "ca-cert", &both);
        wait_until("it trusts both", || told(server, again) == 1);
    }
    for (member, server) in servers.iter().enumerate() {
        // A certificate without its key changes nothing.
        put(member, "cert", &text("stranger.crt"));
        wait_until("it waits", || told(server, "the certificates before stay in use") == 1);
        put(member, "key", &text("stranger.key"));
        wait_until("it is certified by the other", || told(server, again) == 2);
    }
    for (member, server) in servers.iter().enumerate() {
        put(member, "ca-cert", &text("stranger-ca.crt"));
        wait_until("it trusts the other alone", || told(server, again) == 3);
    }
    // New connections both ways, one member after the other.
    for member in 0..3 {
        servers[member].kill();
        servers[member] = start(member);
        counter.count(&mut servers[leader(&servers)].client());
        wait_until_equal(&servers);
    }
    counter.check(&mut servers[leader(&servers)].client());
}

#[test]
fn with_tls_a_member_listens_and_passes_clients_on_beyond_this_machine() {
    let test = "with_tls_a_member_listens_and_passes_clients_on_beyond_this_machine";
    let Some(made) = Certificates::new(test, &[]) else { return };
    let group =
        Group::with_members(3, 3, &["--raft-election-timeout", "5000", "--raft-forward", "yes"]);
    let names = ["server", "second", "client"];
    let start = |member: usize| {
        let [raft, client] = group.ports[member];
        // What the others are told is the TLS port; the plain one is for this test.
        let listen = format!("0.0.0.0:{raft}");
        let setup = group.setup(member).port(own_port());
        let setup = with(setup, &made.flags(client));
        let setup = with(setup, &flags(&made, names[member], "ca.crt"));
        setup.flags(&["--tls-replication", "yes", "--raft-listen", &listen]).start()
    };
    let servers: Vec<Server> = (0..3).map(start).collect();
    let leads = leader(&servers);
    let mut client = servers[(leads + 1) % 3].client();
    wait_until("it passes requests on", || {
        client = servers[(leads + 1) % 3].client();
        !matches!(client.ask("SET begun 1"), Reply::Error(_))
    });
    let large = vec![b'x'; 1 << 20];
    client.call(&[b"SET", b"large", &large]);
    assert_eq!(client.ask("GET large").bytes(), Some(&large[..]));
    assert_eq!(client.info("raft_role"), "leader");
    wait_until_equal(&servers);
}

/// Members whose files of certificates can be replaced.
pub(super) struct Bound {
    pub(super) group: Group,
    made: Certificates,
    pub(super) servers: Vec<Server>,
}

impl Bound {
    fn new(test: &str) -> Option<Self> {
        let flags = ["--raft-log-keep-entries", "0", "--raft-election-timeout", "1000"];
        Self::in_group(test, Group::with_members(4, 3, &flags))
    }

    /// In a group that has not begun.
    pub(super) fn in_group(test: &str, group: Group) -> Option<Self> {
        let made = Certificates::new(test, &[])?;
        let mut own = Self { group, made, servers: Vec::new() };
        for (member, who) in ["server", "second", "client"].into_iter().enumerate() {
            own.certify(member, who);
            own.servers.push(own.start(member));
        }
        wait_until("all are bound", || {
            (0..3).all(|at| (1..=3).all(|id| own.bound(at, id).is_some()))
        });
        Some(own)
    }

    fn place(&self, member: usize, file: &str) -> String {
        self.group.folder.path().join(format!("{member}.{file}")).display().to_string()
    }

    /// Gives a member the certificate of `who`.
    pub(super) fn certify(&self, member: usize, who: &str) {
        for (file, from) in [("cert", "crt"), ("key", "key")] {
            let from = self.made.path(&format!("{who}.{from}"));
            std::fs::copy(from, self.place(member, file)).expect("openssl made it");
        }
    }

    fn start(&self, member: usize) -> Server {
        let ca = self.made.path("ca.crt");
        let flags = [
            ("cert", self.place(member, "cert")),
            ("key", self.place(member, "key")),
            ("ca-cert", ca),
        ];
        let flags = flags.map(|(flag, path)| [format!("--raft-tls-{flag}-file"), path]);
        with(self.group.setup(member), flags.as_flattened()).start()
    }

    /// The rest of the line of the directory of a member that begins so.
    fn line(&self, member: usize, begin: &str) -> Option<String> {
        let folder = self.group.folder.path().join((member + 1).to_string());
        let text = std::fs::read_to_string(folder.join("raft-member")).ok()?;
        text.lines().find_map(|line| line.strip_prefix(begin).map(str::to_owned))
    }

    /// To what member `id` is bound, as a member keeps it.
    pub(super) fn bound(&self, member: usize, id: u64) -> Option<String> {
        self.line(member, &format!("bound {id} "))
    }

    /// Member `id` by the certificate of `who`, which knows the group and none of its directories:
    /// what a member says to it when it is told that it was let go, which only members may say.
    fn says(&self, member: usize, id: u64, who: &str) -> Result<(), String> {
        let group: Option<Id> = self.line(0, "group-id ").and_then(|id| id.parse().ok());
        assert!(group.is_some());
        let file = |end: &str| self.made.path(&format!("{who}.{end}")).into();
        let (cert, key, ca) = (file("crt"), file("key"), self.made.path("ca.crt").into());
        let tls = Tls::load(TlsFiles { cert, key, ca }).expect("openssl made them");
        let settings = Settings::new(id, "stillframe").identity(as_of(group)).tls(tls);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let addresses: Member = self.group.addresses(member).parse().expect("its addresses");
        let said = runtime.expect("a runtime").block_on(async {
            let network = Network::new(settings).expect("sound");
            let time = std::time::Duration::from_secs(30);
            network.forward(member as u64 + 1, &addresses, &[2, 0], time).await
        });
        said.map(drop).map_err(|error| error.to_string())
    }

    fn refuses(&self, member: usize, id: u64, who: &str) {
        let wanted = format!("the certificate of node {id} is not its own");
        // A connection that came before the member knew of the binding breaks without a word.
        wait_until(&wanted, || {
            let said = self.says(member, id, who).expect_err("it is another's");
            println!("{said}");
            said.contains(&wanted)
        });
    }
}

#[test]
fn a_member_is_bound_to_its_certificate_for_those_who_never_met_it() {
    let test = "a_member_is_bound_to_its_certificate_for_those_who_never_met_it";
    let Some(mut own) = Bound::new(test) else { return };
    let leads = put(&own.servers, "k");
    // Another member's certificate, and one that is nobody's so far.
    for who in ["client", "third"] {
        (0..3).filter(|&it| it != 1).for_each(|it| own.refuses(it, 2, who));
    }
    // Member 2 is away while member 4 joins, by an image.
    own.servers[1].kill();
    let rest = |own: &Bound| leader([&own.servers[0], &own.servers[2]]) * 2;
    println!("member {} led, now {}", leads + 1, rest(&own) + 1);
    own.certify(3, "third");
    let new = own.start(3);
    let mut client = own.servers[rest(&own)].client();
    client.ok("SET k v");
    client.ok("BGSAVE");
    wait_until("the log is cut", || client.info_int("raft_purged_index") > 4);
    let add = format!("STILLFRAME RAFT ADD 4 {}", own.group.addresses(3));
    change([&own.servers[0], &own.servers[2]], &add);
    assert!(new.log().contains("loaded the dump of another member"), "{}", new.log());
    assert_eq!((own.bound(3, 2), own.line(3, "met 2 ")), (own.bound(0, 2), None));
    own.refuses(3, 2, "client");
    own.refuses(3, 2, "renewed");
    own.says(3, 2, "second").expect("nobody has met its directory: it is the certificate alone");
    wait_until("the new one is bound, too", || own.bound(0, 4).is_some());
    own.refuses(0, 4, "renewed");
    // What they say of the true one did not change.
    own.servers[1] = own.start(1);
    wait_until_equal([&own.servers[0], &own.servers[1], &own.servers[2], &new]);
}

/// The leader has another key while a member is away. The third one tells of it: what the leader
/// sends is refused.
#[test]
fn a_member_that_was_away_learns_of_another_key() {
    let Some(mut own) = Bound::new("a_member_that_was_away_learns_of_another_key") else { return };
    let leads = put(&own.servers, "before");
    let (away, id) = ((leads + 1) % 3, leads as u64 + 1);
    own.servers[away].kill();
    let before = own.bound(leads, id);
    own.certify(leads, "renewed");
    wait_until("it is used", || {
        own.servers[leads].log().contains("the certificates of this node were read again")
    });
    assert_ne!(own.bound(leads, id), before);
    own.servers[away] = own.start(away);
    put(&own.servers, "after");
    wait_until_equal(&own.servers);
    assert_eq!(own.bound(away, id), own.bound(leads, id));
}

#[test]
fn a_member_may_have_another_certificate() {
    let Some(mut own) = Bound::new("a_member_may_have_another_certificate") else { return };
    // While it runs: the group hears of the new key first. The leader, and one that follows.
    let leads = put(&own.servers, "before");
    for (member, who) in [(leads, "renewed"), ((leads + 1) % 3, "third")] {
        let (id, before) = (member as u64 + 1, own.bound(member, member as u64 + 1));
        own.certify(member, who);
        wait_until("it is used", || {
            own.servers[member].log().contains("the certificates of this node were read again")
        });
        wait_until("all know of it", || {
            (0..3).all(|at| own.bound(at, id).is_some_and(|it| Some(it) != before))
        });
        (0..3).filter(|&it| it != member).for_each(|it| {
            own.refuses(it, id, ["server", "second", "client"][member]);
        });
        own.servers[member].kill();
        own.servers[member] = own.start(member);
        put(&own.servers, who);
        wait_until_equal(&own.servers);
    }
    // While it is away, with a key that nobody has heard of: it is told what helps.
    own.servers[1].kill();
    own.certify(1, if leads == 1 { "third" } else { "renewed" });
    own.servers[1] = own.start(1);
    wait_until("it is told why", || {
        own.servers[1].log().contains("the certificate of node 2 is not its own")
    });
    // A name in it is the authority's word, and from then on it needs one.
    own.servers[1].kill();
    own.certify(1, "raft-member-2");
    own.servers[1] = own.start(1);
    put(&own.servers, "named");
    wait_until_equal(&own.servers);
    wait_until("it is bound to its name", || {
        [0, 1, 2].iter().all(|&at| own.bound(at, 2).as_deref() == Some("name"))
    });
    own.refuses(0, 2, "second");
    own.certify(1, "second");
    wait_until("it keeps the one before", || {
        own.servers[1].log().contains("does not name the member as raft-member-2")
    });
    // Let go, and taken in again with an empty directory, it is bound anew.
    own.servers[1].kill();
    change([&own.servers[0], &own.servers[2]], "STILLFRAME RAFT REMOVE 2");
    crate::support::directories::empty(&own.group.folder.path().join("2"));
    own.group.founders = 1;
    own.servers[1] = own.start(1);
    let add = format!("STILLFRAME RAFT ADD 2 {}", own.group.addresses(1));
    change([&own.servers[0], &own.servers[2]], &add);
    wait_until_equal(&own.servers);
    wait_until("it is bound to its new key", || {
        own.bound(0, 2).is_some_and(|bound| bound != "name")
    });
}
