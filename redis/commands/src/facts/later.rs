//! Commands of later versions and of modules, which this server does not have: their errors say so,
//! and ACL rules may name them, as a server that has them writes them into its ACL file.

use super::categories;

const VECTORS: &str =
    "vadd vcard vdim vemb vgetattr vinfo vismember vlinks vrandmember vrange vrem vsetattr vsim";
const OTHERS: &str = "backup commandlog trimslots";
/// Their commands have the module's name before a dot.
const MODULES: &str = "bf cf cms ft graph json search tdigest topk ts";
/// Sub-commands of commands that are here.
const PARTS: &str = "client|capa cluster|cancelslotmigrations cluster|flushslot \
    cluster|getslotmigrations cluster|migrateslots script|show";
/// Categories without a command here.
const CATEGORIES: &str = "bloom cms cuckoo json search tdigest timeseries topk vectorset";

fn lists(list: &str, name: &[u8]) -> bool {
    list.split(' ').any(|each| each.as_bytes().eq_ignore_ascii_case(name))
}

/// Why there is no such command, if later versions or modules have it.
pub fn why_absent(name: &[u8]) -> Option<&'static str> {
    let dot = name.iter().position(|&byte| byte == b'.');
    let module = dot.map_or(&b""[..], |dot| &name[..dot]);
    Some(match name {
        _ if lists(MODULES, module) => "modules are not supported",
        name if lists(VECTORS, name) => "vector sets are not supported",
        name if lists(OTHERS, name) => "not supported by this server",
        _ => return None,
    })
}

/// Whether an ACL rule names something by this that only later versions or modules have:
/// `@category`, a command, or `container|name` of a sub-command or first argument.
pub fn is_named(rule: &[u8]) -> bool {
    if let [b'@', category @ ..] = rule {
        return categories::bit(category).is_none() && lists(CATEGORIES, category);
    }
    let bar = rule.iter().position(|&byte| byte == b'|').unwrap_or(rule.len());
    why_absent(&rule[..bar]).is_some() && rule.len() != bar + 1 || lists(PARTS, rule)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::find;

    #[test]
    fn rules_may_name_what_only_later_versions_have() {
        for rule in ["@vectorset", "@Search", "VaDd", "backup", "BACKUP|x", "vadd|x", "ft.search"]
            .into_iter()
            .chain(["client|CAPA", "json.get", "commandlog|get"])
        {
            assert!(is_named(rule.as_bytes()), "{rule}");
        }
        for rule in ["", "@", "@read", "@arrays", "get", "arsets", "vadd|", "|", "x.y", ".", "a b"]
            .into_iter()
            .chain(["client|list", "client|capas", "get|arset", "@vadd"])
        {
            assert!(!is_named(rule.as_bytes()), "{rule}");
        }
    }

    #[test]
    fn what_is_here_is_not_said_to_be_absent() {
        let lists = [VECTORS, OTHERS, PARTS];
        for name in lists.iter().flat_map(|list| list.split(' ')) {
            assert!(find(name).is_none(), "{name}");
            assert!(is_named(name.as_bytes()), "{name}");
        }
    }
}
