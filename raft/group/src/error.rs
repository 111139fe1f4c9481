//! Why a member cannot start, or cannot go on.

use std::collections::BTreeSet;
use std::path::PathBuf;

use stillframe_raft_net::{ForwardError, Id};

/// Why a member cannot start, or cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file of the directory.
    #[error(transparent)]
    Files(#[from] stillframe_durability::Error),
    /// The log.
    #[error(transparent)]
    Log(#[from] stillframe_openraft::Error),
    /// The network.
    #[error(transparent)]
    Network(#[from] stillframe_raft_net::Error),
    /// The id of a group or a directory.
    #[error(transparent)]
    Id(#[from] stillframe_raft_net::IdError),
    /// Certificates.
    #[error(transparent)]
    Tls(#[from] stillframe_raft_net::TlsError),
    /// The directory has the dump of a server that was not this member.
    #[error(
        "{} holds a dump of a server that was not this member: start the member in an empty directory",
        directory.display()
    )]
    NotOfAMember {
        /// The directory.
        directory: PathBuf,
    },
    /// The dump has gone, or is an older one, and the log was cut for a newer one.
    #[error(
        "{} is missing or older than the log beside it, which begins behind entry {purged}: remove \
         the member from the group and add it again with an empty directory",
        path.display()
    )]
    DumpBehindLog {
        /// The dump.
        path: PathBuf,
        /// The last entry that the log let go of.
        purged: u64,
    },
    /// The file that says whose the directory is has gone, and the log is there.
    #[error(
        "{} is missing beside the log of a member: remove the member from the group and add it \
         again with an empty directory",
        path.display()
    )]
    IdentityMissing {
        /// The file.
        path: PathBuf,
    },
    /// The file that says whose the directory is.
    #[error("{}: {what}", path.display())]
    Identity {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The directory belongs to another member.
    #[error("{} is the directory of {found}, and not of {wanted}", directory.display())]
    OfAnother {
        /// The directory.
        directory: PathBuf,
        /// Whose it is.
        found: String,
        /// Who was started.
        wanted: String,
    },
    /// The directory has a log, or is a member's, before it is made one.
    #[error("{} has a member's data already: name another directory", directory.display())]
    Begun {
        /// The directory.
        directory: PathBuf,
    },
    /// The directory is no member's.
    #[error("{} is not the directory of a member of a group: it has no raft-member", directory.display())]
    NoMember {
        /// The directory.
        directory: PathBuf,
    },
    /// The file that says whose the directory is was not written.
    #[error("whose the directory is cannot be written down: {0}")]
    Unwritten(stillframe_raft_net::KeepError),
    /// The log has not what it should have.
    #[error("the log of the member cannot be read: {what}")]
    Entries {
        /// What is wrong with it.
        what: String,
    },
    /// The dump has no label, or one that makes no sense.
    #[error("the dump file is no image of a member of a group: {what}")]
    Label {
        /// What is wrong with it.
        what: String,
    },
    /// A dump that came from elsewhere.
    #[error("{}: {what}", path.display())]
    Dump {
        /// The dump.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// Data of another group.
    #[error(
        "this is the data of another group of the same name: the id of its group is {found}, and \
         {own} here"
    )]
    OfAnotherGroup {
        /// The group of the data.
        found: Id,
        /// The group of this member.
        own: Id,
    },
    /// Another member says that there is a group with this one in it, and the directory is empty.
    #[error(
        "member {other} knows member {id} in its group, whose directory is empty here, so it does \
         not know its votes: STILLFRAME RAFT REMOVE {id} at the leader, start it with raft-join \
         yes in place of raft-peers, and ADD it again"
    )]
    Forgotten {
        /// Who says so.
        other: u64,
        /// This member.
        id: u64,
    },
    /// A member that is to begin a group with this one is in one already.
    #[error(
        "member {other} belongs to a group already, of {}: start member {id} with raft-join yes in \
         place of raft-peers, and STILLFRAME RAFT ADD it at the leader",
        listed(members)
    )]
    GroupExists {
        /// The other one.
        other: u64,
        /// This member.
        id: u64,
        /// Who is in that group, as far as the other one knows.
        members: BTreeSet<u64>,
    },
    /// Another member begins a group, which this one cannot begin with it.
    #[error("member {id} cannot begin a group: {is}")]
    CannotBegin {
        /// This member.
        id: u64,
        /// What it is in place of a member that begins.
        is: String,
    },
    /// Who asks does not know the id of the group.
    #[error("member {id} does not show that it belongs to this group")]
    Stranger {
        /// Who it says it is.
        id: u64,
    },
    /// A certificate does not name a member that is bound to its name.
    #[error("the certificate does not name the member as raft-member-{id}, as the one before does")]
    Nameless {
        /// The member.
        id: u64,
    },
    /// Who asks for an election does not lead.
    #[error("member {id} does not lead in term {term}")]
    DoesNotLead {
        /// Who asked.
        id: u64,
        /// The term, as far as this member knows.
        term: u64,
    },
    /// Another member has given no answer.
    #[error("member {id} at {address} does not answer: {why}")]
    Unanswered {
        /// The other one.
        id: u64,
        /// Its address.
        address: String,
        /// Why there is none.
        why: ForwardError,
    },
    /// Members do not understand each other.
    #[error("a message between members: {0}")]
    Message(#[from] postcard::Error),
    /// The server refuses what the group asks of it.
    #[error("{0}")]
    Server(String),
    /// The server that the member belongs to has ended.
    #[error("the server has ended")]
    ServerEnded,
    /// A thread that was to write or read files has failed.
    #[error(transparent)]
    Task(#[from] tokio::task::JoinError),
    /// Openraft refuses, or has ended.
    #[error("{0}")]
    Raft(String),
    /// A setting makes no sense.
    #[error("{0}")]
    Setting(String),
    /// Threads could not be started.
    #[error("cannot start the threads of the group: {0}")]
    Threads(std::io::Error),
}

fn listed(members: &BTreeSet<u64>) -> String {
    match members.len() {
        0 => "members that it has not heard of yet".into(),
        _ => members.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
    }
}

impl Error {
    /// Openraft refuses, or has ended.
    pub(crate) fn raft(why: impl std::fmt::Display) -> Self {
        Self::Raft(why.to_string())
    }

    /// The log cannot be read.
    pub(crate) fn entries(what: impl std::fmt::Display) -> Self {
        Self::Entries { what: what.to_string() }
    }

    /// A label makes no sense.
    pub(crate) fn label(what: impl Into<String>) -> Self {
        Self::Label { what: what.into() }
    }
}
