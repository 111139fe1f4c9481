//! What a person is told of the group: each change once.

use std::collections::BTreeMap;

use stillframe_server::consensus::{MemberView, View};

/// Logs what has changed from one view to the next.
pub(super) fn differences(last: &View, now: &View) {
    let (is_me, term) = (now.leader == Some(now.id), now.term);
    match now.leader {
        Some(_) if last.leader == now.leader && last.term == term => {}
        Some(_) if is_me => {
            tracing::info!("this member, {}, leads the group in term {term}", now.id)
        }
        Some(leader) => tracing::info!("member {leader} leads the group in term {term}"),
        None => {
            if let Some(lost) = last.leader {
                tracing::warn!("member {lost} is not heard of as leader any more");
            }
        }
    }
    if now.role == "candidate" && last.role != "candidate" {
        tracing::info!("this member, {}, asks for votes in term {term}", now.id);
    }
    match (last.has_quorum, now.has_quorum) {
        (true, false) if is_me && last.leader == now.leader => tracing::warn!(
            "this member leads and does not hear of most others: it serves nobody until it does. \
             They are out of reach, or disks or links are too slow for raft-election-timeout"
        ),
        (false, true) if is_me && last.leader == now.leader => {
            tracing::info!("this leader hears of most others again");
        }
        _ => {}
    }
    let (before, after) = (members(&last.members), members(&now.members));
    if before != after {
        tracing::info!("the members of the group: {}", shown(&after));
    }
}

/// The members by number, and whether they vote.
fn members(members: &[MemberView]) -> BTreeMap<u64, bool> {
    members.iter().map(|member| (member.peer.id, member.votes)).collect()
}

fn shown(members: &BTreeMap<u64, bool>) -> String {
    let show = |(id, votes): (&u64, &bool)| match votes {
        true => id.to_string(),
        false => format!("{id} (without a vote)"),
    };
    let shown: Vec<String> = members.iter().map(show).collect();
    if shown.is_empty() { "none yet".to_owned() } else { shown.join(", ") }
}
