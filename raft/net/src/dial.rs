//! A connection to another node, up to the end of the handshake.

use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::carrier::Stream;
use crate::error::Error;
use crate::hello::{Hello, Lane, OLDER, VERSION, Verdict};
use crate::identity::{End, Peer};
use crate::member::host_and_port;
use crate::settings::Settings;
use crate::tls::{Bound, Certified};

/// A connection to another node.
pub(crate) struct Dialed {
    pub(crate) stream: Stream,
    /// To what of the node's certificate it can be bound; `None` without TLS.
    pub(crate) shown: Option<Bound>,
    /// It has said the id of this node's group.
    pub(crate) is_of_group: bool,
}

/// Connects to node `target` at `address`, and makes sure that it is that node.
pub(crate) async fn dial(
    settings: &Settings,
    target: u64,
    address: &str,
    lane: Lane,
) -> Result<Dialed, Error> {
    let hello = Hello::call(settings.node, target, lane, &settings.group);
    let stating = hello.clone().stating(settings.identity.statement(target));
    match dial_as(settings, target, address, lane, stating).await {
        // Of the version before, which this one speaks too.
        Err(Error::OtherVersion { theirs: OLDER, .. }) => {
            dial_as(settings, target, address, lane, hello.older()).await
        }
        dialed => dialed,
    }
}

async fn dial_as(
    settings: &Settings,
    target: u64,
    address: &str,
    lane: Lane,
    hello: Hello,
) -> Result<Dialed, Error> {
    let peer = || format!("node {target} at {address}");
    let shaken = timeout(settings.limits.handshake, async {
        let mut shown = None;
        let socket = connect(settings, address).await?;
        let mut stream = match &settings.tls {
            None => socket,
            Some(tls) => {
                let host = host_and_port(address).map_or("", |(host, _)| host).to_owned();
                // Names are not compared; one that no certificate could have is replaced.
                let name = host.try_into().or_else(|_| "stillframe".try_into());
                let name = name.map_err(|_| Error::Address { address: address.to_owned() })?;
                let stream = TlsConnector::from(tls.client()).connect(name, socket).await;
                let stream = stream.map_err(|source| Error::Tls { peer: peer(), source })?;
                let certified = Certified::by(stream.get_ref().1.peer_certificates());
                certified.check(target)?;
                shown = Some(certified.bound(target));
                Box::new(stream) as Stream
            }
        };
        hello.write(&mut stream).await?;
        let answer = Hello::read(&mut stream).await;
        // With TLS 1.3 a refused certificate shows in what is read first.
        let answer = answer.map_err(|error| match error {
            Error::Broken(source) if settings.tls.is_some() => Error::Tls { peer: peer(), source },
            error => error,
        })?;
        check(settings, target, &answer)?;
        let said = answer.statement.as_ref();
        let peer = Peer { node: target, end: End::Caller, lane, said, shown };
        settings.identity.meet(peer, settings.mutation).await?;
        let group = settings.identity.read(|standing| standing.group).flatten();
        let is_of_group = group.is_some() && settings.identity.is_of_group(said);
        Ok(Dialed { stream, shown, is_of_group })
    });
    shaken.await.unwrap_or_else(|_| Err(Error::HandshakeTimeout { peer: peer() }))
}

async fn connect(settings: &Settings, address: &str) -> Result<Stream, Error> {
    let wrong = || Error::Address { address: address.to_owned() };
    let (host, port) = host_and_port(address).ok_or_else(wrong)?;
    let failed = |source| Error::Connect { address: address.to_owned(), source };
    let mut last = None;
    for address in settings.carrier.look_up(host, port).await.map_err(failed)? {
        if settings.tls.is_none() && !settings.unprotected && !address.ip().is_loopback() {
            return Err(Error::UnprotectedPeer { address });
        }
        match settings.carrier.connect(address).await {
            Ok(socket) => return Ok(socket),
            Err(error) => last = Some(error),
        }
    }
    Err(failed(last.unwrap_or_else(|| std::io::ErrorKind::NotFound.into())))
}

/// Whether the right node has said that this one is welcome.
fn check(settings: &Settings, target: u64, answer: &Hello) -> Result<(), Error> {
    let verdict = answer.verdict()?;
    if verdict == Verdict::OtherVersion {
        return Err(Error::OtherVersion { theirs: OLDER, ours: VERSION });
    }
    let theirs = answer.group.clone();
    if verdict == Verdict::OtherGroup || theirs != settings.group {
        return Err(Error::OtherGroup { theirs, ours: settings.group.clone() });
    }
    if verdict == Verdict::OtherNode || answer.own != target {
        return Err(Error::OtherNode { wanted: target, found: answer.own });
    }
    let (node, own) = (target, settings.node);
    match verdict {
        Verdict::Welcome if answer.other == settings.node => Ok(()),
        Verdict::Full => Err(Error::Full),
        Verdict::OtherIdentity => {
            let ours = settings.identity.read(|standing| standing.group).flatten();
            Err(ours.map_or(Error::Stranger { node: own }, |ours| Error::OtherIdentity { ours }))
        }
        Verdict::Blank => Err(Error::Blank { node: Some(node) }),
        Verdict::CallerBlank => Err(Error::Blank { node: None }),
        Verdict::OtherDirectory => Err(Error::OtherDirectory { node: own }),
        Verdict::WentBack => {
            let error = Error::WentBack { node: own };
            settings.identity.tell_went_back(&error);
            Err(error)
        }
        Verdict::NotReady => Err(Error::NotReady),
        Verdict::OtherCertificate => Err(Error::RefusedCertificate { node: own }),
        _ => Err(Error::Nonsense { what: "the answer to a handshake" }),
    }
}
