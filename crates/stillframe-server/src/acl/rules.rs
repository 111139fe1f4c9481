//! A set of commands told in few words, as ACL LIST does: categories first, as long as one has more
//! in common with the set than not, then single commands.

use super::catalog::Catalog;
use super::categories;
use super::selector::Selector;

/// The rules that make a selector's commands from none.
pub(super) fn of_commands(wanted: &Selector, catalog: &Catalog) -> String {
    let adds = !wanted.allows_future();
    let mut told = Selector::nothing(catalog);
    let start: &[u8] = if adds { b"-@all" } else { b"+@all" };
    let mut words = vec![String::from_utf8_lossy(start).into_owned()];
    // Both rules are known.
    let _ = told.apply(start, catalog);
    // What is not yet told: commands that differ from what `told` allows.
    let mut rest = wanted.clone();
    let mut used = 0;
    while let Some(bit) = best_category(&rest, adds, used, catalog) {
        used |= bit;
        told.set_category(bit, adds, catalog);
        rest.set_category(bit, !adds, catalog);
        let sign = if adds { '+' } else { '-' };
        words.extend(categories::names(bit).map(|name| format!("{sign}@{name}")));
    }
    for (index, known) in catalog.iter() {
        if wanted.allows(index) != told.allows(index) {
            let allowed = wanted.allows(index);
            told.set(index, allowed, catalog);
            words.push(format!("{}{}", if allowed { '+' } else { '-' }, known.name));
        }
        for first in wanted.first_arguments(index) {
            words.push(format!("+{}|{}", known.name, String::from_utf8_lossy(first)));
        }
    }
    words.join(" ")
}

fn best_category(rest: &Selector, adds: bool, used: u32, catalog: &Catalog) -> Option<u32> {
    let mut best = None;
    let (mut least, mut most) = (usize::MAX, 0);
    for bit in (0..categories::NAMES.len()).map(|index| 1 << index).filter(|bit| used & bit == 0) {
        let members = catalog.iter().filter(|(_, known)| known.categories & bit != 0);
        let (same, differs): (Vec<_>, Vec<_>) =
            members.partition(|(index, _)| rest.allows(*index) == adds);
        let (same, differs) = (same.len(), differs.len());
        if same > differs && (differs < least || differs == least && same > most) {
            (best, least, most) = (Some(bit), differs, same);
        }
    }
    best
}
