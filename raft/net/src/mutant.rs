//! The mistakes that the tests of this crate must find.

stillframe::mutants! { pub when any(test, feature = "mutants");
    /// Replies are taken in the order of requests.
    MatchesByOrder,
    /// The sum of a message is not compared.
    TrustsBytes,
    /// A listener does not compare the node that is wanted with itself.
    TakesAnyTarget,
    /// A listener does not compare groups.
    TakesAnyGroup,
    /// Memory is taken for what the head of a message promises.
    ReservesPromises,
    /// An append that takes longer than its time is sent anew.
    GivesUpAppends,
    /// No heartbeats go beside a snapshot.
    SilentBesideSnapshots,
    /// The ids of groups are not compared.
    MixesGroups,
    /// A node without data takes that of a group which counts on its vote.
    TakesWhileCountedOn,
    /// The directories of other nodes are not compared with those met before.
    ForgetsWhomItMet,
    /// A node that does not know the id of the group is taken for one of it.
    BelievesStrangers,
    /// A node may vote, and send entries and snapshots, in the name of another.
    BelievesVotes,
    /// A node whose certificates name it may come with one that names none.
    ForgetsNames,
    /// The key of a node's certificate is not compared with the one to which it is bound.
    TakesAnyKey,
    /// What comes by a connection is not compared with what its sender was bound to since it began.
    BindsNewConnections,
    /// A node that was removed is held to the directory with which it called last.
    RemembersRemoved,
    /// An append that was cut is reported as whole.
    HidesCut,
    /// A connection on which nothing is heard is kept.
    KeepsSilent,
    /// Snapshots share the connection of heartbeats.
    SharesLane,
    /// Large requests share the connection of small ones.
    SharesBulk,
}
