//! One scenario: a tree, how the agents were started, and what arrived.

use std::collections::BTreeMap;
use std::path::Path;

use convoke_explain::Edition;
use serde_json::Value;

/// A scenario as its file tells it.
pub struct Scenario {
    pub files: Vec<Entry>,
    pub repositories: Vec<Repository>,
    pub home: String,
    pub cwd: String,
    pub reads: Vec<String>,
    /// The files that the prompt names by `@path`, which Claude Code reads before all others.
    pub mentioned: Vec<String>,
    /// Arguments and variables by agent.
    pub settings: BTreeMap<String, Start>,
    /// Whether the order within a rules directory is the file system's.
    pub order_is_free: bool,
    pub results: Vec<(String, Expected)>,
}

/// The entry at a path.
pub struct Entry {
    pub path: String,
    pub is_settings: bool,
    pub is_locked: bool,
    pub content: Content,
}

pub enum Content {
    File(Vec<u8>),
    Link(String),
    Directory,
}

pub struct Repository {
    pub path: String,
    pub kind: String,
    pub main: Option<String>,
}

#[derive(Default, Clone)]
pub struct Start {
    pub arguments: Vec<String>,
    /// `None` removes a variable.
    pub variables: BTreeMap<String, Option<String>>,
}

#[derive(Clone)]
pub struct Expected {
    pub loaded: Vec<ExpectedFile>,
    pub ignored: Vec<String>,
}

#[derive(Clone)]
pub struct ExpectedFile {
    pub path: String,
    pub bytes: u64,
    pub bytes_seen: u64,
    pub is_whole: bool,
    pub is_trimmed: bool,
    pub arrived: Option<String>,
    pub heading: String,
}

impl Entry {
    /// Returns the bytes of a UTF-16 file.
    pub fn utf16(&self) -> Option<&[u8]> {
        match &self.content {
            Content::File(bytes) => {
                let is_utf16 = bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff");
                is_utf16.then_some(bytes)
            }
            Content::Link(_) | Content::Directory => None,
        }
    }
}

impl Scenario {
    /// Reads a scenario; an error names what is wrong with it.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        Self::parse(&text)
    }

    /// Parses a scenario; an error names what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let files = list(&value, "files").iter().map(entry).collect::<Result<_, _>>()?;
        let repositories = list(&value, "gitRepos").iter().map(|repository| Repository {
            path: text_of(repository, "path"),
            kind: text_of(repository, "kind"),
            main: repository.get("main").and_then(Value::as_str).map(str::to_owned),
        });
        let settings = value.get("settings").and_then(Value::as_object);
        let settings =
            settings.into_iter().flatten().map(|(agent, start)| (agent.clone(), started(start)));
        let results = value.get("results").and_then(Value::as_object).ok_or("it has no results")?;
        let reads = match value.get("readsFile") {
            Some(Value::String(path)) => vec![path.clone()],
            Some(Value::Array(_)) => strings(&value, "readsFile"),
            _ => Vec::new(),
        };
        let prompt = text_of(&value, "prompt");
        let mentioned = prompt.split_whitespace().filter_map(|word| word.strip_prefix('@'));
        Ok(Self {
            mentioned: mentioned.map(|path| path.trim_matches('"').to_owned()).collect(),
            files,
            repositories: repositories.collect(),
            home: text_of(&value, "home"),
            cwd: text_of(&value, "cwd"),
            reads,
            settings: settings.collect(),
            order_is_free: value.get("orderNotes").is_some(),
            results: results
                .iter()
                .map(|(agent, result)| (agent.clone(), expected(result)))
                .collect(),
        })
    }
}

impl Scenario {
    /// Returns the bytes of the UTF-16 file at a path that a result does not list.
    ///
    /// The recorder recognises a file by its sentence, which UTF-16 hides: it lists such a file as ignored
    /// whether or not its garbage arrived.
    pub fn hidden_utf16(&self, expected: &Expected, path: &str) -> Option<&[u8]> {
        let is_listed = expected.loaded.iter().any(|file| file.path == path);
        let entry = self.files.iter().find(|entry| entry.path == path && !is_listed)?;
        entry.utf16()
    }

    /// Returns the files that a program reads, in order.
    pub fn reads_of(&self, edition: Edition) -> impl Iterator<Item = &String> {
        let mentioned = self.mentioned.iter().filter(move |_| edition.agent() == "claude");
        mentioned.chain(&self.reads)
    }
}

fn entry(value: &Value) -> Result<Entry, String> {
    let path = text_of(value, "path");
    let kind = text_of(value, "kind");
    let content = match kind.as_str() {
        "symlink" => Content::Link(text_of(value, "target")),
        "dir" => Content::Directory,
        "file" | "settings" => {
            Content::File(bytes(value).ok_or(format!("the content of {path} has an unknown form"))?)
        }
        other => return Err(format!("{path} is of an unknown kind `{other}`")),
    };
    let mode = value.get("mode").map(ToString::to_string);
    Ok(Entry {
        path,
        is_settings: kind == "settings",
        is_locked: mode.is_some_and(|mode| mode.trim_matches('"').ends_with("000")),
        content,
    })
}

/// The bytes of a file: a text, a text that repeats, or an encoding of any bytes.
fn bytes(value: &Value) -> Option<Vec<u8>> {
    for key in ["base64", "contentBase64", "content_base64", "b64"] {
        if let Some(text) = value.get(key).and_then(Value::as_str) {
            return from_base64(text);
        }
    }
    for key in ["hex", "contentHex", "content_hex"] {
        if let Some(text) = value.get(key).and_then(Value::as_str) {
            return from_hex(text);
        }
    }
    let content = value.get("content")?;
    let encoding = value.get("encoding").and_then(Value::as_str);
    match (content, encoding) {
        (Value::String(text), Some("base64")) => from_base64(text),
        (Value::String(text), Some("hex")) => from_hex(text),
        (Value::String(text), Some("latin1" | "binary" | "iso-8859-1")) => {
            text.chars().map(|character| u8::try_from(u32::from(character)).ok()).collect()
        }
        (Value::String(text), _) => Some(text.clone().into_bytes()),
        (Value::Array(bytes), _) => bytes
            .iter()
            .map(|byte| byte.as_u64().and_then(|byte| u8::try_from(byte).ok()))
            .collect(),
        (Value::Object(_), _) if content.get("repeat").is_some() => repeated(content),
        (Value::Object(_), _) => bytes(content).or_else(|| {
            let text = content.get("text").or_else(|| content.get("utf8"))?;
            Some(text.as_str()?.as_bytes().to_vec())
        }),
        _ => None,
    }
}

fn repeated(content: &Value) -> Option<Vec<u8>> {
    let size = usize::try_from(content.get("bytes")?.as_u64()?).ok()?;
    let text = |key| content.get(key).and_then(Value::as_str).unwrap_or_default().as_bytes();
    let (head, tail, filler) = (text("head"), text("tail"), text("repeat"));
    let mut bytes = head.to_vec();
    let length = size.checked_sub(head.len() + tail.len())?;
    bytes.extend(filler.iter().cycle().take(length));
    bytes.extend(tail);
    Some(bytes)
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=') {
        let value = ALPHABET.iter().position(|letter| *letter == byte)?;
        bits = bits << 6 | u32::try_from(value).ok()?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).ok()?);
        }
    }
    Some(bytes)
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<_> = text.chars().filter(|digit| !digit.is_whitespace()).collect();
    let pairs = digits.chunks(2).map(|pair| pair.iter().collect::<String>());
    pairs.map(|pair| u8::from_str_radix(&pair, 16).ok()).collect()
}

fn started(value: &Value) -> Start {
    let variables = value.get("env").and_then(Value::as_object);
    let variables = variables.into_iter().flatten();
    Start {
        arguments: strings(value, "argv"),
        variables: variables
            .map(|(name, value)| (name.clone(), value.as_str().map(str::to_owned)))
            .collect(),
    }
}

fn expected(value: &Value) -> Expected {
    let number = |file: &Value, key| file.get(key).and_then(Value::as_u64).unwrap_or_default();
    let truth = |file: &Value, key| file.get(key).and_then(Value::as_bool).unwrap_or_default();
    let loaded = list(value, "loaded").iter().map(|file| ExpectedFile {
        path: text_of(file, "path"),
        bytes: number(file, "bytes_file"),
        bytes_seen: number(file, "bytes_seen"),
        is_whole: truth(file, "whole"),
        is_trimmed: truth(file, "trimmed"),
        arrived: file.get("arrived").and_then(Value::as_str).map(str::to_owned),
        heading: text_of(file, "heading"),
    });
    Expected { loaded: loaded.collect(), ignored: strings(value, "ignored") }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn strings(value: &Value, key: &str) -> Vec<String> {
    list(value, key).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn text_of(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}
