//! The mistakes that a simulation must find: those of the server, the group, its network and its
//! log.

/// Runs with the mistake that `STILLFRAME_MUTANT` names. That of the server reads it itself.
pub(crate) fn in_this_process<R>(body: impl FnOnce() -> R) -> R {
    let Ok(name) = std::env::var("STILLFRAME_MUTANT") else { return body() };
    if let Some(&it) = stillframe_group::Mutant::ALL.iter().find(|it| format!("{it:?}") == name) {
        return stillframe_group::with_mutant(it, body);
    }
    if let Some(&it) = stillframe_raft_net::Mutant::ALL.iter().find(|it| format!("{it:?}") == name)
    {
        return stillframe_raft_net::with_mutant(it, body);
    }
    if let Some(&it) = stillframe_openraft::Mutant::ALL.iter().find(|it| format!("{it:?}") == name)
    {
        return stillframe_openraft::with_mutant(it, body);
    }
    let is_known = stillframe_server::Mutant::ALL.iter().any(|it| format!("{it:?}") == name);
    assert!(is_known, "{name} is no mistake of a group");
    body()
}
