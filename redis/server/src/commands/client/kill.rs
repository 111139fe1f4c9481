//! CLIENT KILL.

use stillframe_resp::parse_integer;

use super::super::Context;
use super::super::client_list::Class;
use crate::connections::client::Session;
use crate::node::acl::Users;
use stillframe_commands::Refusal;
use stillframe_commands::errors::SYNTAX;
use stillframe_commands::text::c_string;

/// The filter of clients to kill.
#[derive(Default)]
struct Filter {
    id: Option<u64>,
    peer: Option<String>,
    local: Option<String>,
    class: Option<Class>,
    user: Option<usize>,
    spare_self: bool,
}

impl Filter {
    fn matches(&self, session: &Session) -> bool {
        self.class.is_none_or(|class| class == Class::of(session))
            && self.user.is_none_or(|user| user == session.user && !session.caller.internal)
            && self.id.is_none_or(|id| id == session.caller.id)
            && self.peer.as_ref().is_none_or(|peer| *peer == session.caller.peer.to_string())
            && self.local.as_ref().is_none_or(|local| *local == session.local.to_string())
    }
}

/// `CLIENT KILL address`, or `CLIENT KILL [ID id] [ADDR a] [LADDR a] [TYPE t] [USER u] [SKIPME b]`
pub(super) fn kill(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let single = args.len() == 3;
    let filter = if single {
        Ok(Filter { peer: Some(text(args[2])), ..Filter::default() })
    } else {
        kill_filter(&ctx.server.users, args.get(2..).unwrap_or_default())
    };
    let filter = filter?;
    let others = ctx.server.clients.cut_all(|client| filter.matches(&client.session));
    if let Some(meanwhile) = &mut ctx.meanwhile {
        meanwhile.hang_up(ctx.server);
    }
    let following = ctx.server.replication.following_mut();
    let primary = following.filter(|it| it.client().is_some_and(|it| filter.matches(it)));
    let primary = primary.map(|following| following.cut()).is_some();
    let own = !filter.spare_self && filter.matches(ctx.session);
    ctx.session.closing |= own;
    let killed = others + usize::from(own) + usize::from(primary);
    match (single, killed) {
        (true, 0) => return Err("ERR No such client".into()),
        (true, _) => ctx.out.ok(),
        (false, killed) => ctx.out.integer(killed as i64),
    }
    Ok(())
}

fn kill_filter(users: &Users, options: &[&[u8]]) -> Result<Filter, Refusal> {
    let mut filter = Filter { spare_self: true, ..Filter::default() };
    let (pairs, rest) = options.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(SYNTAX);
    }
    for [option, value] in pairs {
        match option.to_ascii_lowercase().as_slice() {
            b"id" => {
                let id = parse_integer(value).and_then(|id| u64::try_from(id).ok());
                filter.id = id.filter(|&id| id > 0);
                if filter.id.is_none() {
                    return Err("ERR client-id should be greater than 0".into());
                }
            }
            b"addr" => filter.peer = Some(text(value)),
            b"laddr" => filter.local = Some(text(value)),
            b"type" => match Class::parse(value) {
                Some(class) => filter.class = Some(class),
                None => {
                    return Err([b"ERR Unknown client type '", c_string(value), b"'"]
                        .concat()
                        .into());
                }
            },
            b"user" => {
                filter.user = users.find(value);
                if filter.user.is_none() {
                    return Err([b"ERR No such user '", c_string(value), b"'"].concat().into());
                }
            }
            b"skipme" => match value.to_ascii_lowercase().as_slice() {
                b"yes" => filter.spare_self = true,
                b"no" => filter.spare_self = false,
                _ => return Err(SYNTAX),
            },
            _ => return Err(SYNTAX),
        }
    }
    Ok(filter)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
