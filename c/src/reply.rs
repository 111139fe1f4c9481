//! Replies as trees of C: all nodes of one in an array, all bytes in another, freed by one call.

use std::ffi::c_char;
use std::ptr::null;

use stillframe_resp::Reply;

use crate::door::door;
use crate::error::{Failure, sf_code, sf_error};
use crate::memory;
use crate::table::Table;

/// What a node of a reply is.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum sf_kind {
    /// There is no reply.
    SF_NO_REPLY = 0,
    /// A status, such as OK: `bytes`.
    SF_STATUS = 1,
    /// The server refused the request: `bytes` say why.
    SF_REFUSAL = 2,
    /// `integer`.
    SF_INTEGER = 3,
    /// A string: `bytes`.
    SF_BYTES = 4,
    /// No value.
    SF_NIL = 5,
    /// `children`.
    SF_ARRAY = 6,
    /// `children`: each key, then its value. RESP3 alone, as all below.
    SF_MAP = 7,
    /// `children`, in no order.
    SF_SET = 8,
    /// `children` of a message that nobody asked for.
    SF_PUSH = 9,
    /// `number`.
    SF_DOUBLE = 10,
    /// `integer`, 0 or 1.
    SF_BOOLEAN = 11,
    /// An integer of any size: its digits in `bytes`.
    SF_BIG_NUMBER = 12,
    /// A text for people: `bytes`.
    SF_VERBATIM = 13,
}

/// A reply, or a part of one. The caller owns the root, the library what it leads to, until
/// `sf_reply_free`. Copies of the struct lead to the same.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sf_reply {
    /// Says which of the fields count; the others are zero.
    pub kind: sf_kind,
    /// Zero.
    pub reserved: u32,
    /// See `sf_kind`.
    pub integer: i64,
    /// See `sf_kind`.
    pub number: f64,
    /// See `sf_kind`: any bytes, and a zero behind them that does not count.
    pub bytes: *const c_char,
    /// Bytes in `bytes`.
    pub length: usize,
    /// See `sf_kind`: an array.
    pub children: *const sf_reply,
    /// Nodes in `children`.
    pub count: usize,
    /// Of the root: what `sf_reply_free` frees.
    pub tree: u64,
}

impl sf_reply {
    pub(crate) const NONE: Self = Self {
        kind: sf_kind::SF_NO_REPLY,
        reserved: 0,
        integer: 0,
        number: 0.0,
        bytes: null(),
        length: 0,
        children: null(),
        count: 0,
        tree: 0,
    };
}

static TREES: Table<(), Tree> = Table::new(7, "reply");

/// What a root leads to. The root itself is the first node.
struct Tree {
    nodes: Vec<sf_reply>,
    bytes: Vec<u8>,
}

// SAFETY: the pointers of the nodes lead into this very tree, which nobody changes any more.
unsafe impl Send for Tree {}

/// The nodes below `reply`, itself included, and the bytes of all, each with its zero.
struct Size {
    nodes: usize,
    bytes: usize,
}

impl Size {
    fn from_reply(reply: &Reply<'_>) -> Self {
        let mut size = Self { nodes: 1, bytes: text_of(reply).map_or(0, |text| text.len() + 1) };
        for_children(reply, |child| {
            let below = Self::from_reply(child);
            size.nodes += below.nodes;
            size.bytes += below.bytes;
        });
        size
    }
}

fn for_children<'r, 'b>(reply: &'r Reply<'b>, mut each: impl FnMut(&'r Reply<'b>)) {
    match reply {
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => items.iter().for_each(each),
        Reply::Map(pairs) => pairs.iter().for_each(|(key, value)| {
            each(key);
            each(value);
        }),
        _ => {}
    }
}

fn text_of<'b>(reply: &Reply<'b>) -> Option<&'b [u8]> {
    match reply {
        Reply::Simple(text)
        | Reply::Error(text)
        | Reply::Bulk(text)
        | Reply::BigNumber(text)
        | Reply::Verbatim(_, text) => Some(text),
        _ => None,
    }
}

impl Tree {
    fn from_reply(reply: &Reply<'_>) -> Self {
        let size = Size::from_reply(reply);
        // Neither grows from here on, so pointers into them stay.
        let nodes = vec![sf_reply::NONE; size.nodes];
        let mut tree = Self { nodes, bytes: Vec::with_capacity(size.bytes) };
        let mut free = 1;
        tree.fill(0, reply, &mut free);
        debug_assert_eq!((free, tree.bytes.len()), (size.nodes, size.bytes));
        tree
    }

    /// Makes node `at` of `reply`; nodes from `free` on are free for its children.
    fn fill(&mut self, at: usize, reply: &Reply<'_>, free: &mut usize) {
        let (kind, integer, number) = match reply {
            Reply::Simple(_) => (sf_kind::SF_STATUS, 0, 0.0),
            Reply::Error(_) => (sf_kind::SF_REFUSAL, 0, 0.0),
            Reply::Integer(value) => (sf_kind::SF_INTEGER, *value, 0.0),
            Reply::Bulk(_) => (sf_kind::SF_BYTES, 0, 0.0),
            Reply::Array(_) => (sf_kind::SF_ARRAY, 0, 0.0),
            Reply::Map(_) => (sf_kind::SF_MAP, 0, 0.0),
            Reply::Set(_) => (sf_kind::SF_SET, 0, 0.0),
            Reply::Push(_) => (sf_kind::SF_PUSH, 0, 0.0),
            Reply::Double(value) => (sf_kind::SF_DOUBLE, 0, *value),
            Reply::Boolean(value) => (sf_kind::SF_BOOLEAN, i64::from(*value), 0.0),
            Reply::BigNumber(_) => (sf_kind::SF_BIG_NUMBER, 0, 0.0),
            Reply::Verbatim(..) => (sf_kind::SF_VERBATIM, 0, 0.0),
            _ => (sf_kind::SF_NIL, 0, 0.0),
        };
        let mut node = sf_reply { kind, integer, number, ..sf_reply::NONE };
        if let Some(text) = text_of(reply) {
            node.bytes = self.bytes.as_ptr().wrapping_add(self.bytes.len()).cast();
            node.length = text.len();
            self.bytes.extend_from_slice(text);
            self.bytes.push(0);
        }
        let first = *free;
        for_children(reply, |_| *free += 1);
        node.count = *free - first;
        if node.count > 0 {
            node.children = self.nodes.as_ptr().wrapping_add(first);
        }
        self.nodes[at] = node;
        let mut next = first;
        for_children(reply, |child| {
            self.fill(next, child, free);
            next += 1;
        });
    }
}

/// The root of a tree that is freed by its number; a reply without bytes and children is all in
/// the root.
pub(crate) fn root_of(reply: &Reply<'_>) -> Result<sf_reply, Failure> {
    let tree = Tree::from_reply(reply);
    let mut root = tree.nodes[0];
    if !root.bytes.is_null() || root.count > 0 {
        root.tree = TREES.insert((), tree)?;
    }
    Ok(root)
}

/// Frees a reply with all that it leads to, and makes it an `SF_NO_REPLY`; so it may be called
/// again. Of a root alone: a child has nothing to free.
#[unsafe(no_mangle)]
pub extern "C" fn sf_reply_free(reply: *mut sf_reply, error: *mut sf_error) -> sf_code {
    door(error, || {
        memory::is_place(reply, "reply")?;
        // SAFETY: not null, aligned, and the header asks for a reply of the caller's.
        let tree_at = unsafe { &raw const (*reply).tree };
        // SAFETY: as above; a number, whatever the bytes.
        let tree = unsafe { tree_at.read() };
        memory::put(reply, "reply", sf_reply::NONE)?;
        if tree != 0 {
            drop(TREES.remove(tree)?);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;

    use stillframe_resp::decode_reply;

    use super::*;

    fn tree(text: &[u8]) -> sf_reply {
        let (reply, _) = decode_reply(text).expect("a reply").expect("whole");
        root_of(&reply).expect("memory")
    }

    fn shown(reply: &sf_reply) -> String {
        let bytes = if reply.bytes.is_null() {
            String::new()
        } else {
            // SAFETY: a node that was made of a reply, which is not freed yet.
            let bytes = unsafe { std::slice::from_raw_parts(reply.bytes.cast(), reply.length + 1) };
            assert_eq!(bytes[reply.length], 0);
            String::from_utf8_lossy(&bytes[..reply.length]).into_owned()
        };
        let children: &[sf_reply] = match reply.count {
            0 => &[],
            // SAFETY: as above.
            count => unsafe { std::slice::from_raw_parts(reply.children, count) },
        };
        let children: Vec<String> = children.iter().map(shown).collect();
        let children = children.join(",");
        match reply.kind {
            sf_kind::SF_INTEGER | sf_kind::SF_BOOLEAN => format!("{}", reply.integer),
            sf_kind::SF_DOUBLE => format!("{}", reply.number),
            kind => format!("{}{bytes}[{children}]", kind as u32),
        }
    }

    #[test]
    fn each_kind_of_reply_is_a_tree() {
        let cases: [(&[u8], &str); 9] = [
            (b"+OK\r\n", "1OK[]"),
            (b"-ERR no\r\n", "2ERR no[]"),
            (b"$4\r\na\0bc\r\n", "4a\0bc[]"),
            (b"*-1\r\n", "5[]"),
            (b"*0\r\n", "6[]"),
            (b"%2\r\n+a\r\n:1\r\n+b\r\n*2\r\n$0\r\n\r\n_\r\n", "7[1a[],1,1b[],6[4[],5[]]]"),
            (b"~2\r\n#t\r\n,1.5\r\n", "8[1,1.5]"),
            (b">1\r\n(12\r\n", "9[1212[]]"),
            (b"=6\r\ntxt:hi\r\n", "13hi[]"),
        ];
        for (text, expected) in cases {
            let mut reply = tree(text);
            assert_eq!(shown(&reply), expected);
            assert_eq!(sf_reply_free(&raw mut reply, null_mut()), sf_code::SF_OK);
        }
    }

    #[test]
    fn a_reply_is_freed_once() {
        let mut reply = tree(b"*1\r\n$1\r\na\r\n");
        let mut copy = reply;
        assert_eq!(sf_reply_free(&raw mut reply, null_mut()), sf_code::SF_OK);
        assert_eq!((reply.kind, reply.tree), (sf_kind::SF_NO_REPLY, 0));
        assert_eq!(sf_reply_free(&raw mut reply, null_mut()), sf_code::SF_OK);
        assert_eq!(sf_reply_free(&raw mut copy, null_mut()), sf_code::SF_HANDLE);
        assert_eq!(tree(b":7\r\n").tree, 0, "an integer has nothing to free");
        assert_eq!(sf_reply_free(null_mut(), null_mut()), sf_code::SF_NULL);
    }
}
