//! Import cycles: which modules of a crate cannot be read one after the other.
//!
//! - A node is a file. A file imports another if its code names something that the other defines:
//!   through `use`, or through a path. Test code does not count.
//! - A name is followed through re-exports to the file that defines it, so going through the door
//!   of a room (`pub use`) is no import of the room's own file. A re-export by itself is no import.
//! - A file may name what its own parents define (`super::`): they are one room, and privacy in
//!   Rust works that way.
//! - Paths inside macro calls are read as tokens.
//!
//! A method is no name that a file imports, so a cycle through methods would not be seen. Hence a
//! second rule: the methods of a type lie in its room, that is, below its file or in its folder.
//! Private methods, which nobody else calls, and methods of traits, which a caller imports, may lie
//! anywhere. Within a folder, a cycle through methods alone stays unseen.
//!
//! A third rule looks at folders: [`rooms`].

mod rooms;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree, Visibility};

use crate::report::Report;

/// A path in the code, `crate::a::B`, as its words.
type Words = Vec<String>;
/// The path of a module below the root of its crate.
type Name = Vec<String>;

/// Methods outside of their type's room, each with its reason: crate, file and type.
const STRAYS: [[&str; 3]; 2] = [
    // Helpers for handlers, by the types of values; the context itself knows no type.
    ["redis/commands/src", "command/blocking.rs", "Context"],
    ["redis/commands/src", "command/collection.rs", "Context"],
];

/// The folders of crates.
pub(crate) const GROUPS: [&str; 6] = ["library", "redis", "raft", "tools", "research", "testing"];
/// Steps after which a name is not followed further: a cycle of re-exports.
const STEPS_MAX: usize = 16;

/// Reports the cycles of each crate below `root`.
///
/// # Errors
/// A file that cannot be read, or is no Rust.
pub(crate) fn check(root: &Path, report: &mut Report) -> io::Result<()> {
    for folder in sources(root)? {
        let name = folder.strip_prefix(root).unwrap_or(&folder).display().to_string();
        let read = Crate::read(&folder)?;
        for (file, owner, home) in read.strays() {
            if !STRAYS.contains(&[&name, file, owner]) {
                let found = format!("{name}/{file}: methods of {owner}, which {home} defines");
                report.faults.push(found);
            }
        }
        for cycle in read.cycles() {
            let files = cycle.join(", ");
            report.faults.push(format!("{name}: {} files import each other: {files}", cycle.len()));
        }
        let back: usize = read.knots().iter().map(|knot| knot.back.len()).sum();
        if back > 0 {
            report.faults.push(format!(
                "{name}: {back} arrows between rooms run back up: see cargo xtask rooms {name}"
            ));
        }
    }
    Ok(())
}

/// Prints the rooms that import each other, of the crates below `part` of the workspace.
///
/// # Errors
/// A file that cannot be read, or is no Rust.
pub(crate) fn print_rooms(root: &Path, part: &str) -> io::Result<()> {
    for folder in sources(root)?.iter().filter(|folder| folder.starts_with(root.join(part))) {
        let read = Crate::read(folder)?;
        let knots = read.knots();
        let name = folder.strip_prefix(root).unwrap_or(folder).display();
        let rooms: usize = knots.iter().map(|knot| knot.rooms.len()).sum();
        let back: usize = knots.iter().map(|knot| knot.back.len()).sum();
        println!("{name}: {} components of {rooms} rooms, {back} arrows back up", knots.len());
        for knot in knots {
            println!("  /{}: {} rooms: {}", knot.parent, knot.rooms.len(), knot.rooms.join(", "));
            for ([from, to], files) in knot.back {
                println!("    {from} -> {to}: {}", files.join(", "));
            }
        }
    }
    Ok(())
}

/// The `src` of every crate, sorted.
fn sources(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut folders = vec![root.join("xtask/src")];
    for group in GROUPS {
        for entry in fs::read_dir(root.join(group))? {
            folders.push(entry?.path().join("src"));
        }
    }
    folders.retain(|folder| folder.is_dir());
    folders.sort();
    Ok(folders)
}

/// The modules of a crate.
#[derive(Debug, Default)]
struct Crate {
    modules: BTreeMap<Name, Module>,
}

#[derive(Debug, Default)]
struct Module {
    /// The file, below `src`.
    file: String,
    /// Names defined here.
    items: BTreeSet<String>,
    /// Names that `use` imports, and whether each is only a re-export.
    aliases: BTreeMap<String, (Words, bool)>,
    /// Modules imported whole (`*`).
    globs: Vec<(Words, bool)>,
    /// Paths that the code names.
    paths: BTreeSet<Words>,
    /// The types that get methods here which others may call.
    extended: BTreeSet<Words>,
}

impl Crate {
    fn read(folder: &Path) -> io::Result<Self> {
        let mut read = Self::default();
        for root in ["lib.rs", "main.rs"] {
            let path = folder.join(root);
            if path.is_file() {
                read.read_file(folder, &path, Vec::new(), folder)?;
            }
        }
        Ok(read)
    }

    /// Reads the file of module `name`, whose children lie in `beside`.
    fn read_file(&mut self, src: &Path, path: &Path, name: Name, beside: &Path) -> io::Result<()> {
        let text = fs::read_to_string(path)?;
        let parsed = syn::parse_file(&text)
            .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
        let file = path.strip_prefix(src).unwrap_or(path).display().to_string();
        self.read_items(src, &parsed.items, name, beside, file)
    }

    fn read_items(
        &mut self,
        src: &Path,
        items: &[Item],
        name: Name,
        beside: &Path,
        file: String,
    ) -> io::Result<()> {
        let mut module = Module { file, ..self.modules.remove(&name).unwrap_or_default() };
        for item in items {
            match item {
                Item::Mod(inner) if !is_test(&inner.attrs) => {
                    let word = inner.ident.to_string();
                    let below = beside.join(word.trim_start_matches("r#"));
                    let name = [&name[..], &[word]].concat();
                    if let Some((_, items)) = &inner.content {
                        self.read_items(src, items, name, &below, module.file.clone())?;
                    } else if let Some(path) = place_of(&below, &inner.attrs, beside) {
                        self.read_file(src, &path, name, &below)?;
                    }
                }
                Item::Mod(_) => {}
                item => module.take(item),
            }
        }
        self.modules.insert(name, module);
        Ok(())
    }

    /// The files that lie on cycles, cycle by cycle.
    fn cycles(&self) -> Vec<Vec<String>> {
        let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (name, module) in &self.modules {
            let imports = edges.entry(&module.file).or_default();
            let files = self.imports(name, module).map(|name| self.modules[name].file.as_str());
            imports.extend(files.filter(|file| !is_room_of(file, &module.file)));
        }
        components(&edges)
    }

    /// Files with methods of a type that another room defines, the type, and the file that does.
    fn strays(&self) -> Vec<(&str, &str, &str)> {
        let mut found = Vec::new();
        for (name, module) in &self.modules {
            for path in &module.extended {
                let Some((home, [owner, ..])) = self.find(name, path, STEPS_MAX) else { continue };
                let home = self.modules[home].file.as_str();
                let folder = home.rsplit_once('/').map(|(folder, _)| folder);
                let beside = folder.is_some_and(|folder| is_room_of(folder, &module.file));
                if !beside && !is_room_of(home, &module.file) {
                    found.push((module.file.as_str(), owner.as_str(), home));
                }
            }
        }
        found
    }

    /// The modules whose names a module uses.
    fn imports<'c>(&'c self, name: &'c Name, module: &'c Module) -> impl Iterator<Item = &'c Name> {
        let uses =
            module.aliases.iter().filter(|(_, (_, shown))| !shown).map(|(_, (path, _))| path);
        let globs = module.globs.iter().filter(|(_, shown)| !shown).map(|(path, _)| path);
        let named = uses.chain(globs).chain(&module.paths);
        named.filter_map(|path| Some(self.find(name, path, STEPS_MAX)?.0))
    }

    /// The module that `path` in module `at` names, or that defines its target; with the remaining
    /// words, none for the module itself.
    fn find<'p>(
        &self,
        at: &Name,
        path: &'p [String],
        steps: usize,
    ) -> Option<(&Name, &'p [String])> {
        let (first, rest) = path.split_first()?;
        let steps = steps.checked_sub(1)?;
        let (at, _) = self.modules.get_key_value(at)?;
        match first.as_str() {
            "crate" => self.below(&[], rest, steps),
            "self" => self.below(at, rest, steps),
            "super" => {
                let (_, above) = at.split_last()?;
                if rest.first().is_some_and(|word| word == "super") {
                    return self.find(&above.to_vec(), rest, steps);
                }
                self.below(above, rest, steps)
            }
            // Names of other crates are not found.
            _ => self.below_if_known(at, path, steps),
        }
    }

    /// As [`find`](Self::find), with a path below module `at`; what nobody knows is the module's.
    fn below<'p>(
        &self,
        at: &[String],
        path: &'p [String],
        steps: usize,
    ) -> Option<(&Name, &'p [String])> {
        let (name, _) = self.modules.get_key_value(at)?;
        if path.is_empty() {
            return Some((name, path));
        }
        self.below_if_known(name, path, steps).or(Some((name, path)))
    }

    fn below_if_known<'p>(
        &self,
        at: &Name,
        path: &'p [String],
        steps: usize,
    ) -> Option<(&Name, &'p [String])> {
        let (word, rest) = path.split_first()?;
        let steps = steps.checked_sub(1)?;
        let (at, module) = self.modules.get_key_value(at)?;
        let child = [&at[..], std::slice::from_ref(word)].concat();
        if self.modules.contains_key(&child) {
            return self.below(&child, rest, steps);
        }
        if module.items.contains(word) {
            return Some((at, path));
        }
        if let Some((target, _)) = module.aliases.get(word) {
            let (found, left) = self.find(at, target, steps)?;
            // A module by another name goes on with the rest of the path.
            return if left.is_empty() {
                self.below(found, rest, steps)
            } else {
                Some((found, path))
            };
        }
        module.globs.iter().find_map(|(target, _)| {
            let (found, left) = self.find(at, target, steps)?;
            if !left.is_empty() || found == at {
                return None;
            }
            self.below_if_known(found, path, steps)
        })
    }
}

/// Whether `room` is the file itself, or one of its parents.
fn is_room_of(room: &str, file: &str) -> bool {
    let folder = room.strip_suffix("/mod.rs").or(room.strip_suffix(".rs")).unwrap_or(room);
    let below = file.strip_prefix(folder);
    file == room || below.is_some_and(|rest| rest.starts_with('/'))
}

/// Where the file of a module is.
fn place_of(below: &Path, attrs: &[Attribute], beside: &Path) -> Option<PathBuf> {
    let named = attrs.iter().find_map(|attr| {
        let syn::Meta::NameValue(pair) = &attr.meta else { return None };
        let syn::Expr::Lit(value) = &pair.value else { return None };
        let syn::Lit::Str(value) = &value.lit else { return None };
        pair.path.is_ident("path").then(|| beside.join(value.value()))
    });
    let flat = below.with_extension("rs");
    let deep = below.join("mod.rs");
    [named, Some(flat), Some(deep)].into_iter().flatten().find(|path| path.is_file())
}

/// Whether an item exists only in tests.
fn is_test(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| {
        let syn::Meta::List(list) = &attr.meta else { return attr.path().is_ident("test") };
        // `any(test, feature = ...)` counts as a test, too; `not(test)` as product.
        let mut words = Vec::new();
        identifiers(list.tokens.clone(), &mut words);
        attr.path().is_ident("cfg")
            && words.iter().any(|word| word == "test")
            && !words.iter().any(|word| word == "not")
    })
}

fn identifiers(tokens: TokenStream, words: &mut Vec<String>) {
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => words.push(ident.to_string()),
            TokenTree::Group(group) => identifiers(group.stream(), words),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

impl Module {
    /// Records the names that an item defines and uses.
    fn take(&mut self, item: &Item) {
        let (attrs, ident) = match item {
            Item::Const(it) => (&it.attrs, Some(&it.ident)),
            Item::Enum(it) => (&it.attrs, Some(&it.ident)),
            Item::Fn(it) => (&it.attrs, Some(&it.sig.ident)),
            Item::Macro(it) => (&it.attrs, it.ident.as_ref()),
            Item::Static(it) => (&it.attrs, Some(&it.ident)),
            Item::Struct(it) => (&it.attrs, Some(&it.ident)),
            Item::Trait(it) => (&it.attrs, Some(&it.ident)),
            Item::Type(it) => (&it.attrs, Some(&it.ident)),
            Item::Union(it) => (&it.attrs, Some(&it.ident)),
            Item::Impl(it) => (&it.attrs, None),
            Item::Use(it) => (&it.attrs, None),
            _ => return,
        };
        if is_test(attrs) {
            return;
        }
        self.items.extend(ident.map(ToString::to_string));
        if let Item::Impl(block) = item
            && block.trait_.is_none()
            && block.items.iter().any(is_shown)
            && let syn::Type::Path(owner) = &*block.self_ty
        {
            self.extended.insert(words_of(&owner.path));
        }
        self.visit_item(item);
    }

    fn take_use(&mut self, tree: &UseTree, before: &[String], shown: bool) {
        let with = |word: String| [before, &[word]].concat();
        match tree {
            UseTree::Path(path) => self.take_use(&path.tree, &with(path.ident.to_string()), shown),
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.take_use(tree, before, shown));
            }
            UseTree::Glob(_) => self.globs.push((before.to_vec(), shown)),
            UseTree::Name(name) if name.ident == "self" => {
                let word = before.last().cloned().unwrap_or_default();
                self.aliases.insert(word, (before.to_vec(), shown));
            }
            UseTree::Name(name) => {
                let word = name.ident.to_string();
                self.aliases.insert(word.clone(), (with(word), shown));
            }
            UseTree::Rename(rename) => {
                let target = match rename.ident.to_string() {
                    word if word == "self" => before.to_vec(),
                    word => with(word),
                };
                self.aliases.insert(rename.rename.to_string(), (target, shown));
            }
        }
    }

    /// Paths among the tokens of a macro call: words with `::` between.
    fn take_tokens(&mut self, tokens: TokenStream) {
        let mut path = Words::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) if path.is_empty() || colons == 2 => {
                    path.push(ident.to_string());
                }
                TokenTree::Ident(ident) => {
                    self.paths.insert(std::mem::replace(&mut path, vec![ident.to_string()]));
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Group(group) => {
                    self.paths.insert(std::mem::take(&mut path));
                    self.take_tokens(group.stream());
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {
                    self.paths.insert(std::mem::take(&mut path));
                }
            }
            colons = 0;
        }
        self.paths.insert(path);
        self.paths.remove(&Words::new());
    }
}

/// Whether an item of an `impl` block can be used from outside of its file.
fn is_shown(item: &syn::ImplItem) -> bool {
    match item {
        syn::ImplItem::Fn(it) => !is_test(&it.attrs) && !matches!(it.vis, Visibility::Inherited),
        syn::ImplItem::Const(it) => !matches!(it.vis, Visibility::Inherited),
        _ => false,
    }
}

fn words_of(path: &syn::Path) -> Words {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

impl Visit<'_> for Module {
    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        let shown = !matches!(item.vis, Visibility::Inherited);
        self.take_use(&item.tree, &[], shown);
    }

    fn visit_visibility(&mut self, _: &Visibility) {} // `pub(crate)` names no module

    fn visit_path(&mut self, path: &syn::Path) {
        if path.leading_colon.is_none() {
            self.paths.insert(words_of(path));
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &syn::Macro) {
        self.visit_path(&call.path);
        self.take_tokens(call.tokens.clone());
    }

    fn visit_item_mod(&mut self, _: &syn::ItemMod) {}

    fn visit_impl_item_fn(&mut self, function: &syn::ImplItemFn) {
        if !is_test(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }
}

/// The strongly connected components of more than one node, each sorted (Tarjan 1972).
fn components(edges: &BTreeMap<&str, BTreeSet<&str>>) -> Vec<Vec<String>> {
    let mut search = Search { edges, seen: BTreeMap::new(), stack: Vec::new(), found: Vec::new() };
    for node in edges.keys() {
        if !search.seen.contains_key(node) {
            search.visit(node);
        }
    }
    search.found.sort();
    search.found
}

struct Search<'e> {
    edges: &'e BTreeMap<&'e str, BTreeSet<&'e str>>,
    /// The lowest number that a node reaches, while it is on the stack; else none.
    seen: BTreeMap<&'e str, Option<usize>>,
    stack: Vec<&'e str>,
    found: Vec<Vec<String>>,
}

impl<'e> Search<'e> {
    fn visit(&mut self, node: &'e str) -> usize {
        let own = self.seen.len();
        let mut lowest = own;
        self.seen.insert(node, Some(own));
        let height = self.stack.len();
        self.stack.push(node);
        for &next in self.edges.get(node).into_iter().flatten() {
            let reached = match self.seen.get(next) {
                None => Some(self.visit(next)),
                Some(number) => *number,
            };
            lowest = reached.map_or(lowest, |number| lowest.min(number));
        }
        self.seen.insert(node, Some(lowest));
        if lowest == own {
            let circle = self.stack.split_off(height);
            for node in &circle {
                self.seen.insert(node, None);
            }
            if circle.len() > 1 {
                let mut files: Vec<String> = circle.iter().map(ToString::to_string).collect();
                files.sort();
                self.found.push(files);
            }
        }
        lowest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate with these files.
    fn written(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
            fs::write(path, text).expect("writable");
        }
        folder
    }

    /// The cycles of a crate with these files.
    fn cycles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        Crate::read(written(files).path()).expect("it is Rust").cycles()
    }

    /// Two modules of which `a` imports `b`, and `b` says `text`.
    fn imported(text: &str) -> bool {
        let a = ("a.rs", "use crate::b::B; pub struct A(B); pub fn f() {}");
        !cycles(&[("lib.rs", "mod a; mod b; pub use a::A;"), a, ("b.rs", text)]).is_empty()
    }

    #[test]
    fn whatever_names_a_module_imports_it() {
        for text in [
            "use crate::a::A; pub struct B;",
            "use super::a::{self}; pub struct B;",
            "use crate::{a as it}; pub struct B;",
            "use crate::A; pub struct B;",
            "use crate::a::*; pub struct B;",
            "pub struct B; fn f(a: crate::a::A) {}",
            "pub struct B; fn f() { super::a::f() }",
            "pub struct B; impl B { fn f() { crate::a::f() } }",
            "pub struct B; fn f() { println!(\"{:?}\", crate::a::f()) }",
            "pub use crate::a::A; pub struct B(A);",
            "pub struct B; #[cfg(not(test))] fn f() { crate::a::f() }",
            "pub struct B; mod inner { use crate::a::A; }",
        ] {
            assert!(imported(text), "{text}");
        }
    }

    #[test]
    fn what_only_shows_or_tests_a_module_does_not_import_it() {
        for text in [
            "pub struct B;",
            "pub use crate::a::A; pub struct B;",
            "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }",
            "pub struct B; #[cfg(all(test, unix))] fn f() { crate::a::f() }",
            "pub struct B; #[test] fn f() { crate::a::f() }",
            "pub struct B; pub(crate) fn f() {}",
            "pub struct B; fn f() { let a = 1; b::a::f() } // crate::a::f()",
        ] {
            assert!(!imported(text), "{text}");
        }
    }

    #[test]
    fn methods_lie_in_the_room_of_their_type() {
        let strays = |file: &str, text: &str| {
            let a = ("a.rs", "pub struct A; mod below;");
            let room = ("room/mod.rs", "mod owner; mod beside; pub use owner::B;");
            let mut files = vec![
                ("lib.rs", "mod a; mod b; mod room; pub use a::A;"),
                a,
                ("a/below.rs", ""),
                ("b.rs", ""),
                room,
                ("room/owner.rs", "pub struct B;"),
                ("room/beside.rs", ""),
            ];
            files.retain(|(name, _)| *name != file);
            files.push((file, text));
            let folder = written(&files);
            Crate::read(folder.path()).expect("it is Rust").strays().len()
        };
        for text in [
            "use crate::a::A; impl A { pub fn f() {} }",
            "impl crate::A { pub(crate) fn f() {} }",
            "use crate::room::B; impl B { fn f() {} pub(super) fn g() {} }",
            "use crate::room; impl room::B { pub const C: u8 = 1; }",
        ] {
            assert_eq!(strays("b.rs", text), 1, "{text}");
        }
        for (file, text) in [
            ("b.rs", "use crate::a::A; impl A { fn f() {} }"),
            ("b.rs", "use crate::a::A; impl Clone for A { fn clone(&self) -> A { A } }"),
            ("b.rs", "use crate::a::A; #[cfg(test)] impl A { pub fn f() {} }"),
            ("b.rs", "struct Own; impl Own { pub fn f() {} }"),
            ("a.rs", "pub struct A; impl A { pub fn f() {} }"),
            ("a/below.rs", "impl super::A { pub fn f() {} }"),
            ("room/beside.rs", "use super::owner::B; impl B { pub fn f() {} }"),
        ] {
            assert_eq!(strays(file, text), 0, "{file}: {text}");
        }
    }

    #[test]
    fn a_module_and_its_parents_are_one_room() {
        let room = ("room/mod.rs", "mod child; pub struct Own; pub fn f() { child::g() }");
        let child = ("room/child.rs", "use super::Own; pub fn g() { super::f() }");
        assert!(cycles(&[("lib.rs", "mod room;"), room, child]).is_empty());
        // A path back through another room is a cycle.
        let other = ("other.rs", "pub fn h() { crate::room::f() }");
        let child = ("room/child.rs", "pub fn g() { crate::other::h() }");
        let found = cycles(&[("lib.rs", "mod room; mod other;"), room, child, other]);
        assert_eq!(found, [["other.rs", "room/child.rs", "room/mod.rs"]]);
    }

    #[test]
    fn folders_form_knots_where_files_do_not() {
        let root = ("lib.rs", "mod a; mod b; pub use a::upper::Upper;");
        let a =
            [("a/mod.rs", "pub mod upper; pub mod lower;"), ("a/lower.rs", "pub struct Lower;")];
        let b = [
            ("b/mod.rs", "mod c; pub use c::C;"),
            ("b/c.rs", "use crate::a::lower::Lower; pub struct C(Lower);"),
        ];
        let upper = ("a/upper.rs", "use crate::b::C; pub struct Upper(C);");
        let files = [root, a[0], a[1], b[0], b[1], upper];
        assert!(cycles(&files).is_empty());
        let read = Crate::read(written(&files).path()).expect("it is Rust");
        let knots = read.knots();
        assert_eq!(knots.len(), 1);
        assert_eq!(
            (knots[0].parent.as_str(), &knots[0].rooms[..]),
            ("", &["a", "b"].map(String::from)[..])
        );
        assert_eq!(knots[0].back, [(["b", "a"], vec!["b/c.rs"])]);
    }

    #[test]
    fn rooms_in_one_direction_are_no_knot() {
        let root = ("lib.rs", "mod a; mod b; mod inner { pub use crate::a::A; pub struct I; }");
        let a = ("a.rs", "use crate::b::B; use crate::inner::I; pub struct A(B);");
        let found = Crate::read(written(&[root, a, ("b.rs", "pub struct B;")]).path());
        assert!(found.expect("it is Rust").knots().is_empty());
    }
}
