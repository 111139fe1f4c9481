//! Client-side caching (CLIENT TRACKING): which client has read which key, and gets its
//! invalidation.
//!
//! - In the default mode the server remembers the names of keys that a client has read; a change is
//!   reported once, and the name forgotten. Beyond `tracking-table-max-keys` names the server
//!   invalidates the oldest, which is always safe.
//! - In broadcasting mode the server remembers nothing: it gathers changes of keys with a prefix
//!   and reports them at the end of the turn. Neither a change nor the end of a turn walks all
//!   prefixes.
//! - Names are reported for every database. Place and number name a client, because a place is
//!   reused; a name may outlive the client that read it.
//! - A client's own changes are reported after the reply to its request.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use stillframe_commands::Few;
use stillframe_commands::LISTED_BYTES;

use crate::connections::client::{Tracked, TrackingMode, Who};

/// Names that have changed, each with the client that changed it last.
pub(crate) type Changed = BTreeMap<Box<[u8]>, u64>;

/// Names that clients have read, and prefixes that they listen to.
#[derive(Default)]
pub(crate) struct Tracking {
    readers: HashMap<Arc<[u8]>, Few<Who>>,
    /// Names in the order in which they came; some are not in `readers` any more.
    order: VecDeque<Arc<[u8]>>,
    prefixes: BTreeMap<Box<[u8]>, Prefix>,
    /// Prefixes with changes not reported yet.
    unsaid: Vec<Box<[u8]>>,
    /// Clients that track.
    pub(crate) clients: usize,
    /// Pairs of a name and a client that has read it.
    items: usize,
    /// Names to report to the client whose request is running, after its reply, with the clients
    /// that changed them; `None`: all.
    late: Vec<(Option<Box<[u8]>>, u64)>,
}

/// A tracked prefix.
#[derive(Default)]
struct Prefix {
    listeners: Few<Who>,
    /// Names that have changed, and the client that changed them last.
    changed: Changed,
}

impl Tracking {
    /// Names that are remembered.
    pub(crate) fn keys(&self) -> usize {
        self.readers.len()
    }

    /// Pairs of a name and a client that has read it.
    pub(crate) fn items(&self) -> usize {
        self.items
    }

    /// Tracked prefixes.
    pub(crate) fn prefixes(&self) -> usize {
        self.prefixes.len()
    }

    /// Turns tracking on for a client, or changes its options; its prefixes stay.
    pub(crate) fn enable(&mut self, own: Tracked<'_>, who: Who, mut mode: TrackingMode) {
        mode.prefix_bytes = own.as_ref().map_or(0, |before| before.prefix_bytes);
        for prefix in &mode.prefixes {
            mode.prefix_bytes += prefix.len() + LISTED_BYTES;
            self.prefixes.entry(prefix.clone()).or_default().listeners.insert(who);
        }
        match own {
            Some(before) => {
                let mut prefixes = std::mem::take(&mut before.prefixes);
                prefixes.extend(std::mem::take(&mut mode.prefixes));
                **before = TrackingMode { prefixes, ..mode };
            }
            none => {
                self.clients += 1;
                *none = Some(Box::new(mode));
            }
        }
    }

    /// Turns tracking off for a client.
    pub(crate) fn disable(&mut self, own: Tracked<'_>, who: Who) {
        let Some(mode) = own.take() else { return };
        self.clients -= 1;
        if self.clients == 0 {
            // No client tracks any more: the remembered names would be out of date.
            self.readers.clear();
            self.order.clear();
            self.items = 0;
        }
        for prefix in &mode.prefixes {
            if let Some(found) = self.prefixes.get_mut(prefix) {
                found.listeners.remove(&who);
                if found.listeners.is_empty() {
                    self.prefixes.remove(prefix);
                }
            }
        }
    }

    /// Remembers that a client has read keys.
    pub(crate) fn remember(&mut self, mode: &TrackingMode, who: Who, keys: &[&[u8]]) {
        if mode.broadcast || (mode.opt_in && !mode.caching) || (mode.opt_out && mode.caching) {
            return;
        }
        for &key in keys {
            if let Some(readers) = self.readers.get_mut(key) {
                self.items += usize::from(readers.insert(who));
                continue;
            }
            self.items += 1;
            let name: Arc<[u8]> = key.into();
            self.order.push_back(name.clone());
            self.readers.entry(name).or_default().insert(who);
        }
        if self.order.len() > 2 * self.readers.len() + 1024 {
            let readers = &self.readers;
            self.order.retain(|name| {
                readers.get_key_value(name).is_some_and(|(known, _)| Arc::ptr_eq(known, name))
            });
        }
    }

    /// Notes the change of a key, and takes its readers.
    pub(crate) fn take_readers(&mut self, key: &[u8], by: u64) -> Option<Few<Who>> {
        self.note(key, by);
        let readers = self.readers.remove(key)?;
        self.items -= readers.len();
        Some(readers)
    }

    /// Forgets all names that were read.
    pub(crate) fn forget_names(&mut self) {
        self.readers.clear();
        self.items = 0;
        self.order.clear();
    }

    /// Notes that a name, or all names, have changed, for the client whose request is running,
    /// after its reply.
    pub(crate) fn invalidate_later(&mut self, name: Option<&[u8]>, by: u64) {
        self.late.push((name.map(Into::into), by));
    }

    /// Takes the names to report to that client.
    pub(crate) fn take_late(&mut self) -> Vec<(Option<Box<[u8]>>, u64)> {
        std::mem::take(&mut self.late)
    }

    /// Takes the changes gathered for prefixes: for each, its clients, and the changed names with
    /// the client that changed them last.
    pub(crate) fn take_gathered(&mut self) -> Vec<(Few<Who>, Changed)> {
        let mut gathered = Vec::new();
        self.unsaid.sort_unstable();
        for prefix in std::mem::take(&mut self.unsaid) {
            let Some(found) = self.prefixes.get_mut(&prefix) else { continue };
            gathered.push((found.listeners.clone(), std::mem::take(&mut found.changed)));
        }
        gathered
    }

    /// Takes the oldest name if there are more than `most`.
    pub(crate) fn take_excess(&mut self, most: usize) -> Option<(Arc<[u8]>, Few<Who>)> {
        while self.readers.len() > most {
            let name = self.order.pop_front()?;
            let known = self.readers.get_key_value(&name);
            if known.is_some_and(|(known, _)| Arc::ptr_eq(known, &name)) {
                let (name, readers) = self.readers.remove_entry(&name)?;
                self.items -= readers.len();
                return Some((name, readers));
            }
        }
        None
    }

    /// Notes the change of a key for each of its tracked prefixes.
    ///
    /// The last prefix not above the key is a prefix of it, or all its prefixes come before the
    /// part that both share: each step continues there.
    fn note(&mut self, key: &[u8], by: u64) {
        let mut end = Bound::Included(key);
        while let Some((prefix, found)) =
            self.prefixes.range_mut::<[u8], _>((Bound::Unbounded, end)).next_back()
        {
            let common = prefix.iter().zip(key).take_while(|(a, b)| a == b).count();
            if common < prefix.len() {
                end = Bound::Included(&key[..common]);
                continue;
            }
            if found.changed.is_empty() {
                self.unsaid.push(prefix.clone());
            }
            found.changed.insert(key.into(), by);
            end = Bound::Excluded(&key[..common]);
        }
    }
}
