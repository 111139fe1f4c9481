//! Whether the increments of a directory have what they build on.

use std::collections::BTreeMap;

use super::{Facts, Finding, Flaw, Health};

/// Adds problems of chains to the findings of each file, oldest first.
pub(super) fn check(findings: &mut [Finding]) {
    let mut seen = BTreeMap::new();
    for finding in findings {
        let Some(Facts::Checkpoint(facts)) = &finding.facts else { continue };
        let (number, identity) = (facts.number, facts.identity);
        if let Some(base) = facts.base {
            let problem = match seen.get(&base.number) {
                None => Some("is missing"),
                Some(&(identity, _)) if identity != base.identity => {
                    Some("is not the one in this directory")
                }
                Some((_, false)) => Some("cannot be used"),
                Some((_, true)) => None,
            };
            if let Some(problem) = problem {
                let problem = format!("what it builds on, checkpoint {}, {problem}", base.number);
                finding.flaws.push(Flaw { bytes: 104..120, problem });
                finding.health = Health::Damaged;
            }
        }
        seen.insert(number, (identity, finding.health == Health::Sound));
    }
}
