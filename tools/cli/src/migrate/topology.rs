//! The shape of a cluster, as `CLUSTER NODES` of one of its nodes shows it.

use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = parts.ok_or_else(|| format!("'{text}' is no HOST:PORT"))?;
        let host = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
        Ok(Self { host: host.to_owned(), port })
    }
}

impl Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// The slots of a primary, in order; ranges that touch are one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Slots(Vec<RangeInclusive<u16>>);

impl Slots {
    fn from_ranges(mut ranges: Vec<RangeInclusive<u16>>) -> Self {
        ranges.sort_by_key(|range| *range.start());
        let mut merged: Vec<RangeInclusive<u16>> = Vec::new();
        for range in ranges {
            match merged.last_mut() {
                Some(last) if u32::from(*last.end()) + 1 >= u32::from(*range.start()) => {
                    *last = *last.start()..=*last.end().max(range.end());
                }
                _ => merged.push(range),
            }
        }
        Self(merged)
    }

    pub(super) fn contains(&self, slot: u16) -> bool {
        self.0.iter().any(|range| range.contains(&slot))
    }
}

impl Display for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN_MAX: usize = 4;
        for (at, range) in self.0.iter().take(SHOWN_MAX).enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match range.start() == range.end() {
                true => write!(f, "{comma}{}", range.start())?,
                false => write!(f, "{comma}{}-{}", range.start(), range.end())?,
            }
        }
        if self.0.len() > SHOWN_MAX { f.write_str(",...") } else { Ok(()) }
    }
}

/// A primary with slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Primary {
    pub(super) address: Address,
    pub(super) slots: Slots,
}

/// A cluster, as one of its nodes sees it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Topology {
    /// In the order of their addresses.
    pub(super) primaries: Vec<Primary>,
    /// All nodes that can be asked.
    pub(super) nodes: Vec<Address>,
    /// Whether this node is moving a slot. Each node tells only of its own.
    pub(super) is_moving: bool,
}

impl Topology {
    /// Reads `CLUSTER NODES` of the node at `asked`, which may not know its own address.
    pub(super) fn parse(text: &str, asked: &Address) -> Result<Self, String> {
        let (mut primaries, mut nodes, mut is_moving) = (Vec::new(), Vec::new(), false);
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, address, flags, _, _, _, _, _, slots @ ..] = &words[..] else {
                return Err(format!(
                    "CLUSTER NODES of {asked} has a line of a strange form: {line}"
                ));
            };
            let flags: Vec<&str> = flags.split(',').collect();
            if flags.iter().any(|flag| matches!(*flag, "noaddr" | "handshake")) {
                continue;
            }
            let address = address.split(['@', ',']).next().unwrap_or_default();
            let mut address: Address = address.parse()?;
            if address.host.is_empty() || flags.contains(&"myself") {
                address.host.clone_from(&asked.host);
            }
            nodes.push(address.clone());
            is_moving |= slots.iter().any(|slot| slot.starts_with('['));
            let own = slots.iter().filter(|slot| !slot.starts_with('['));
            let own = own.map(|slot| range(slot)).collect::<Option<Vec<_>>>();
            let own =
                own.ok_or_else(|| format!("CLUSTER NODES of {asked} has odd slots: {line}"))?;
            if flags.contains(&"master") && !own.is_empty() {
                primaries.push(Primary { address, slots: Slots::from_ranges(own) });
            }
        }
        primaries.sort_by(|one, other| one.address.cmp(&other.address));
        Ok(Self { primaries, nodes, is_moving })
    }
}

fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "\
        07c3 127.0.0.1:30004@31004,hostname4 slave e7d1 0 1426238317239 4 connected\n\
        67ed 127.0.0.1:30002@31002,,tls-port=0 master - 0 1426238316232 2 connected 5461-10922\n\
        292f 127.0.0.1:30003@31003 master,fail - 0 1426238318243 3 disconnected 10923-16383\n\
        6ec2 ::1:30005@31005 master - 0 0 5 connected\n\
        824f :0@0 master,noaddr - 0 0 5 disconnected 7\n\
        e7d1 :30001@31001 myself,master - 0 0 1 connected 1-5460 0 [93-<-292f] [77->-67ed]\n";

    #[test]
    fn primaries_are_the_nodes_with_slots() {
        let seed: Address = "seed:30001".parse().expect("an address");
        let topology = Topology::parse(NODES, &seed).expect("it is sound");
        let shown: Vec<String> =
            topology.primaries.iter().map(|it| format!("{} {}", it.address, it.slots)).collect();
        let expected =
            ["127.0.0.1:30002 5461-10922", "127.0.0.1:30003 10923-16383", "seed:30001 0-5460"];
        assert_eq!(shown, expected);
        assert_eq!(topology.nodes.len(), 5);
        assert_eq!(topology.nodes[3].to_string(), "[::1]:30005");
        assert!(topology.is_moving);
        let slots = &topology.primaries[0].slots;
        assert_eq!(
            [5460, 5461, 10922, 10923].map(|it| slots.contains(it)),
            [false, true, true, false]
        );
        for wrong in ["", "x y", "a b c d e f g h i", "a 1:2 master - 0 0 0 c 9-x"] {
            let lines = Topology::parse(wrong, &seed);
            assert!(wrong.is_empty() || lines.is_err(), "{wrong}: {lines:?}");
        }
    }

    #[test]
    fn long_lists_of_slots_are_shown_in_short() {
        let slots = Slots::from_ranges((0..9).map(|n| n * 3..=n * 3 + n % 2).collect());
        assert_eq!(slots.to_string(), "0,3-4,6,9-10,...");
    }
}
