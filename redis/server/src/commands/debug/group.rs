//! DEBUG GROUP-VIEW: sets what this server knows of a group, so that tests and clients meet the
//! face of a group without one.

use std::str::FromStr;

use stillframe_commands::Refusal;

use super::super::Context;
use crate::consensus::{MemberView, Peer, View};
use crate::node::config::Reads;

const INVALID: Refusal = Refusal::new(
    "ERR GROUP-VIEW takes <me> <leader | none> <term> <linearizable | local> and members as \
     <id>=<host>:<port>[@<raft-port>][,learner][,gone][,applied=<entry>], or NONE",
);

/// `DEBUG GROUP-VIEW NONE`, or `me leader term reads member...`
pub(super) fn view(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let words: Option<Vec<&str>> = args.iter().map(|word| std::str::from_utf8(word).ok()).collect();
    let words = words.ok_or(INVALID)?;
    let view = match *words {
        [none] if none.eq_ignore_ascii_case("none") => None,
        [me, leader, term, reads, ref members @ ..] => {
            let reads = match &*reads.to_ascii_lowercase() {
                "linearizable" => Reads::Linearizable,
                "local" => Reads::Local,
                _ => return Err(INVALID),
            };
            let view = parse(me, leader, term, members).ok_or(INVALID)?;
            ctx.server.group.serve_reads(reads);
            ctx.server.group.set_name("debug");
            Some(view)
        }
        _ => return Err(INVALID),
    };
    ctx.server.see_group(ctx.keyspace, view);
    ctx.out.ok();
    Ok(())
}

fn parse(me: &str, leader: &str, term: &str, members: &[&str]) -> Option<View> {
    let leader = match leader.eq_ignore_ascii_case("none") {
        true => None,
        false => Some(leader.parse().ok()?),
    };
    let members: Option<Vec<MemberView>> = members.iter().map(|text| member(text)).collect();
    let view = View {
        id: me.parse().ok()?,
        leader,
        term: term.parse().ok()?,
        members: members?,
        ..View::default()
    };
    view.member(view.id)?;
    Some(view)
}

/// `id=host:port[@raft-port][,learner][,gone][,applied=entry]`
fn member(text: &str) -> Option<MemberView> {
    let mut parts = text.split(',');
    let (id, address) = parts.next()?.split_once('=')?;
    let (host, ports) = address.rsplit_once(':')?;
    let (port, raft_port) = ports.split_once('@').unwrap_or((ports, "0"));
    let (port, raft_port) = (u16::from_str(port).ok()?, u16::from_str(raft_port).ok()?);
    let mut member = MemberView {
        peer: Peer {
            id: id.parse().ok()?,
            raft: format!("{host}:{raft_port}"),
            client: format!("{host}:{port}"),
        },
        reachable: true,
        votes: true,
        matched: None,
    };
    for part in parts {
        match part.split_once('=').unwrap_or((part, "")) {
            ("learner", "") => member.votes = false,
            ("gone", "") => member.reachable = false,
            ("applied", entry) => member.matched = Some(entry.parse().ok()?),
            _ => return None,
        }
    }
    Some(member)
}
