//! The code of a module without its tests: its text, its tokens, and the paths that it names.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::joins::{self, Dropped};
use crate::workspace;

/// Items that end with their block.
const WITH_BLOCK: [&str; 8] =
    ["fn", "mod", "impl", "struct", "enum", "trait", "union", "macro_rules"];
/// Items that end with a semicolon.
const WITH_SEMICOLON: [&str; 5] = ["use", "static", "const", "type", "let"];

/// A module without what is compiled for tests only.
#[derive(Debug)]
pub struct Code {
    /// Its path from the workspace.
    pub path: String,
    /// Its text, without lines that are comments.
    pub text: String,
    pub starts_with_documentation: bool,
    /// Every path that it names. A name that was imported stands for the path of its import too.
    pub paths: Vec<NamedPath>,
    /// Where it drops the failure of a task or a thread.
    pub dropped: Vec<Dropped>,
    /// Its files and directories that are compiled for tests only.
    test_files: Vec<PathBuf>,
}

/// A path in a module, with the names that it was imported by resolved.
#[derive(Debug, PartialEq, Eq)]
pub struct NamedPath {
    pub path: String,
    pub line: usize,
}

impl Code {
    pub fn parse(path: &str, text: &str) -> Self {
        let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut tests = Tests::default();
        let tokens = tests.remove(&tokens);
        let starts_with_documentation = text.starts_with("//!");
        let mut kept = String::new();
        let mut from = 0;
        for range in tests.ranges {
            kept += &text[from..range.start];
            from = range.end;
        }
        kept += &text[from..];
        let is_comment = |line: &&str| line.trim_start().starts_with("//");
        let text = kept.lines().filter(|line| !is_comment(line)).collect::<Vec<_>>().join("\n");
        let folder = module_folder(Path::new(path));
        let test_files = tests.modules.iter().flat_map(|(name, file)| {
            let file = file.as_ref().map(|file| Path::new(path).with_file_name(file));
            [file.unwrap_or_else(|| folder.join(format!("{name}.rs"))), folder.join(name)]
        });
        Self {
            path: path.to_owned(),
            text,
            starts_with_documentation,
            paths: resolved_paths(&tokens),
            dropped: joins::dropped(&tokens),
            test_files: test_files.collect(),
        }
    }

    /// Returns whether its path is below one of these directories.
    pub fn is_below(&self, directories: &[&str]) -> bool {
        let path = Path::new(&self.path);
        directories.iter().any(|directory| path.starts_with(directory))
    }
}

/// Returns the directory of the modules of a module.
fn module_folder(path: &Path) -> PathBuf {
    let is_root = ["mod.rs", "lib.rs", "main.rs"].iter().any(|name| path.ends_with(name));
    if is_root { path.with_file_name("") } else { path.with_extension("") }
}

fn resolved_paths(tokens: &[TokenTree]) -> Vec<NamedPath> {
    let mut imports = Vec::new();
    imported(tokens, &mut imports);
    let mut written = Vec::new();
    paths(tokens, &mut written);
    let mut found = Vec::new();
    for NamedPath { path, line } in written {
        let (first, rest) = path.split_once("::").map_or((&*path, None), |(a, b)| (a, Some(b)));
        for (name, full) in &imports {
            if name == first {
                let path = rest.map_or_else(|| full.clone(), |rest| format!("{full}::{rest}"));
                found.push(NamedPath { path, line });
            } else if name == "*" {
                found.push(NamedPath { path: format!("{full}::{path}"), line });
            }
        }
        found.push(NamedPath { path, line });
    }
    found
}

/// Returns the modules of all crates without their tests.
pub fn sources() -> &'static [Code] {
    static SOURCES: LazyLock<Vec<Code>> = LazyLock::new(|| read_sources(&workspace()));
    &SOURCES
}

fn read_sources(root: &Path) -> Vec<Code> {
    let mut files = Vec::new();
    let mut open: Vec<PathBuf> =
        crate::crates(root).into_iter().map(|it| root.join(it).join("src")).collect();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                files.push(path);
            }
        }
    }
    let read = |file: &PathBuf| {
        let path = file.strip_prefix(root).unwrap().to_str().unwrap();
        Code::parse(path, &std::fs::read_to_string(file).unwrap())
    };
    let sources: Vec<Code> = files.iter().map(read).collect();
    let tests: BTreeSet<PathBuf> =
        sources.iter().flat_map(|code| code.test_files.iter().cloned()).collect();
    let is_test = |code: &Code| Path::new(&code.path).ancestors().any(|it| tests.contains(it));
    let sources: Vec<Code> = sources.into_iter().filter(|code| !is_test(code)).collect();
    assert!(sources.len() > 400, "{} modules", sources.len());
    sources
}

/// The items that are compiled for tests only.
#[derive(Default)]
struct Tests {
    /// Where it is, in order.
    ranges: Vec<Range<usize>>,
    /// The modules in files of their own, with the file where it is named.
    modules: Vec<(String, Option<String>)>,
}

impl Tests {
    /// Removes the items behind `#[cfg(test)]`, at any depth.
    fn remove(&mut self, tokens: &[TokenTree]) -> Vec<TokenTree> {
        let mut kept = Vec::new();
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at..] {
                [hash, bang, TokenTree::Group(inner), ..]
                    if is(hash, '#') && is(bang, '!') && is_of_tests(inner.stream()) =>
                {
                    self.cut(tokens);
                    return Vec::new();
                }
                [hash, TokenTree::Group(attribute), ..]
                    if is(hash, '#') && is_of_tests(attribute.stream()) =>
                {
                    let end = at + 2 + item_end(&tokens[at + 2..]);
                    self.cut(&tokens[at..end]);
                    self.modules.extend(module_file(&tokens[at..end]));
                    at = end;
                    continue;
                }
                [TokenTree::Group(group), ..] => {
                    let inner = self.remove(&group.stream().into_iter().collect::<Vec<_>>());
                    let mut without =
                        proc_macro2::Group::new(group.delimiter(), inner.into_iter().collect());
                    without.set_span(group.span());
                    kept.push(without.into());
                }
                [token, ..] => kept.push(token.clone()),
                [] => {}
            }
            at += 1;
        }
        kept
    }

    fn cut(&mut self, tokens: &[TokenTree]) {
        let [first, .., last] = tokens else { return };
        self.ranges.push(first.span().byte_range().start..last.span().byte_range().end);
    }
}

/// Returns the module that an item declares, with the file that `#[path]` names.
fn module_file(item: &[TokenTree]) -> Option<(String, Option<String>)> {
    let at = item.iter().position(|token| token.to_string() == "mod")?;
    let [name, end] = &item[at + 1..] else { return None };
    let attributes = item[..at].iter().filter_map(|token| match token {
        TokenTree::Group(group) => Some(group.stream().to_string()),
        _ => None,
    });
    let mut file = attributes
        .filter_map(|it| Some(it.strip_prefix("path = \"")?.strip_suffix('"')?.to_owned()));
    is(end, ';').then(|| (name.to_string(), file.next_back()))
}

/// Returns the number of tokens of the item, field, arm or statement at the start of these.
fn item_end(tokens: &[TokenTree]) -> usize {
    let mut word = None;
    for (index, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(name) if word.is_none() => {
                let name = name.to_string();
                // `const fn` is a function.
                let is_function = tokens[index..].iter().take(3).any(|it| it.to_string() == "fn");
                if WITH_BLOCK.contains(&&*name) || is_function {
                    word = Some(true);
                } else if WITH_SEMICOLON.contains(&&*name) {
                    word = Some(false);
                }
            }
            TokenTree::Punct(mark) if mark.as_char() == ';' => return index + 1,
            TokenTree::Punct(mark) if mark.as_char() == ',' && word.is_none() => return index + 1,
            TokenTree::Group(group)
                if group.delimiter() == Delimiter::Brace && word != Some(false) =>
            {
                return index + 1;
            }
            _ => {}
        }
    }
    tokens.len()
}

/// Returns whether an attribute is `cfg(test)` or `cfg(all(test, …))`.
fn is_of_tests(attribute: TokenStream) -> bool {
    let text: String = attribute.into_iter().map(|token| token.to_string()).collect();
    let text: String = text.split_whitespace().collect();
    text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

pub fn is(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == mark)
}

/// Collects the names that `use` brings in, each with its path; the name of a glob is `*`.
fn imported(tokens: &[TokenTree], imports: &mut Vec<(String, String)>) {
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Ident(word) if word == "use" => {
                let tree = &tokens[at + 1..];
                let end = tree.iter().position(|it| is(it, ';')).unwrap_or(tree.len());
                import_tree(&tree[..end], "", imports);
                at += end + 1;
            }
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                imported(&inner, imports);
            }
            _ => {}
        }
        at += 1;
    }
}

fn import_tree(tree: &[TokenTree], above: &str, imports: &mut Vec<(String, String)>) {
    let mut path = above.to_owned();
    let mut name = String::new();
    let mut tokens = tree.iter();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(word) if word == "as" => {
                name = tokens.next().map(ToString::to_string).unwrap_or_default();
            }
            TokenTree::Ident(word) if word == "self" && !path.is_empty() => {}
            TokenTree::Ident(word) => {
                name = word.to_string();
                if !path.is_empty() {
                    path += "::";
                }
                path += &name;
            }
            TokenTree::Punct(mark) if mark.as_char() == '*' => "*".clone_into(&mut name),
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                for tree in inner.split(|token| is(token, ',')) {
                    import_tree(tree, &path, imports);
                }
                return;
            }
            _ => {}
        }
    }
    if name.is_empty() {
        // `self` in a list is the module itself.
        above.rsplit("::").next().unwrap_or_default().clone_into(&mut name);
    }
    if !path.is_empty() {
        imports.push((name, path));
    }
}

/// Collects the paths as they are written.
fn paths(tokens: &[TokenTree], found: &mut Vec<NamedPath>) {
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Ident(first) => {
                let line = first.span().start().line;
                let mut path = first.to_string();
                while let [one, other, TokenTree::Ident(next), ..] = &tokens[at + 1..]
                    && is(one, ':')
                    && is(other, ':')
                {
                    path = format!("{path}::{next}");
                    at += 3;
                }
                found.push(NamedPath { path, line });
            }
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                paths(&inner, found);
            }
            _ => {}
        }
        at += 1;
    }
}

#[test]
fn only_the_items_behind_the_attribute_are_tests() {
    let text = r#"
        mod first;
        #[cfg(test)]
        mod fixture;
        #[cfg(test)]
        #[path = "elsewhere.rs"]
        mod tests;
        #[cfg(test)]
        use std::{fs, env};
        #[cfg(all(test, unix))]
        pub(crate) const fn helper<A, B>() -> [u8; 2] { hidden() }
        struct Kept { #[cfg(test)] hidden: u8, kept: u8 }
        impl Kept { #[cfg(test)] fn hidden() {} fn kept() { #[cfg(test)] hidden(); kept() } }
        #[cfg(not(test))]
        fn shipped() {}
        // hidden
        fn last() {}
    "#;
    let code = Code::parse("crates/a/src/lib.rs", text);
    for name in ["first", "Kept", "shipped", "last"] {
        assert!(code.text.contains(name), "{name}: {}", code.text);
    }
    for gone in ["hidden", "helper", "fs", "fixture"] {
        assert!(!code.text.contains(gone), "{gone}: {}", code.text);
        assert!(code.paths.iter().all(|it| it.path != gone), "{gone}: {:?}", code.paths);
    }
    let own = ["fixture.rs", "fixture", "elsewhere.rs", "tests"];
    let own = own.map(|name| Path::new("crates/a/src").join(name));
    assert_eq!(code.test_files, own);
    let all = Code::parse("crates/a/src/fixture.rs", "#![cfg(test)]\nfn hidden() {}");
    assert!(all.paths.is_empty() && !all.text.contains("hidden"));
}

#[test]
fn a_path_is_known_by_whatever_name() {
    let text = "use std::{fs, sync::mpsc::{self as queue, channel as pair}}; use std::net::*;
        fn f() { fs::read(x); queue::channel(); pair(); TcpStream::connect(y) }";
    let code = Code::parse("crates/a/src/lib.rs", text);
    let paths: Vec<String> = code.paths.into_iter().map(|it| it.path).collect();
    for path in ["std::fs::read", "std::sync::mpsc::channel", "std::net::TcpStream::connect"] {
        assert!(paths.iter().any(|it| it == path), "{path}: {paths:?}");
    }
    let pairs = paths.iter().filter(|it| *it == "std::sync::mpsc::channel").count();
    assert_eq!(pairs, 3, "imported, by its module, by its other name: {paths:?}");
}
