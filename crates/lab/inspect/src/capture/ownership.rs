//! Finds the user's texts in a request: arguments, standard input, instruction files, and files that the request
//! names. The rest is the program's own.

use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};

use convoke_core::ledger::Source;
use convoke_explain::{AgentReport, DirectoryReport, Session, explain};
use convoke_files::{Disk, EntryKind, FileKind, Files};
use convoke_rehearsal::Recorded;
use convoke_wire::{Part, PartKind, RequestParts};
use memchr::memmem;
use serde::{Deserialize, Serialize};

use super::UserHome;
use convoke_vendor::MeasuredCli;

/// A text of the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserText {
    pub origin: Origin,
    /// The text, as far as the program loads it.
    pub text: String,
    /// The bytes that the program leaves out at its end.
    #[serde(default)]
    pub cut_bytes: u64,
}

impl UserText {
    fn new(origin: Origin, text: impl Into<String>) -> Self {
        Self { origin, text: text.into(), cut_bytes: 0 }
    }

    fn file(path: &Path, text: impl Into<String>) -> Self {
        Self::new(Origin::File { path: path.to_owned() }, text)
    }
}

/// The origin of a user's text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Origin {
    /// An argument of the command.
    Argument,
    /// The standard input.
    Stdin,
    /// The prompt, where Convoke passes it to the program.
    Prompt,
    /// A setting of the program.
    Setting { name: String },
    /// A file.
    File {
        /// The file.
        path: PathBuf,
    },
    /// The description of a skill in the program's list.
    Description {
        /// The file of the skill.
        path: PathBuf,
        /// The name in the list.
        name: String,
    },
}

impl Origin {
    /// Returns the source that a ledger names.
    pub(super) fn source(&self) -> Source<'static> {
        match self {
            Self::Argument => Source::setting("your argument"),
            Self::Stdin => Source::setting("your standard input"),
            Self::Prompt => Source::setting("your prompt"),
            Self::Setting { name } => Source::Setting { name: Cow::Owned(name.clone()) },
            Self::File { path } | Self::Description { path, .. } => {
                Source::file(path.display().to_string())
            }
        }
    }
}

/// The inputs of a run.
pub(crate) struct Given<'a> {
    pub arguments: &'a [String],
    pub stdin: &'a str,
    pub cwd: &'a Path,
    /// The configuration that was copied.
    pub configuration_from: Option<&'a UserHome>,
}

/// Returns the texts that may be the user's. `report` lists what the program loads.
pub(crate) fn candidates(
    given: &Given<'_>,
    vendor: Option<&'static dyn MeasuredCli>,
    requests: &[Recorded],
    private_home: &Path,
    report: Option<&AgentReport>,
) -> Vec<UserText> {
    let mut yours = Vec::new();
    if !given.stdin.is_empty() {
        yours.push(UserText::new(Origin::Stdin, given.stdin));
    }
    let mut files = Vec::new();
    for argument in given.arguments {
        if !argument.starts_with('-') {
            yours.push(UserText::new(Origin::Argument, argument));
        }
        files.push(given.cwd.join(argument));
    }
    if let Some(vendor) = vendor {
        let users = given.configuration_from.map(|from| from.directory.as_path());
        let found = vendor.setting_texts(given.arguments, users, given.cwd);
        let texts = found.texts.into_iter();
        yours.extend(texts.map(|(name, text)| UserText::new(Origin::Setting { name }, &text)));
        files.extend(found.files);
    }
    // A loaded file is searched for in the forms that the program gives it: verbatim, trimmed or cut.
    let loaded = report.into_iter().flat_map(|report| &report.loaded);
    let loaded: Vec<_> = loaded.filter(|file| !file.is_pasted && !file.text.is_empty()).collect();
    yours.extend(loaded.iter().map(|file| UserText {
        cut_bytes: if file.whole { 0 } else { file.bytes.saturating_sub(file.bytes_loaded) },
        ..UserText::file(&file.path, file.text.clone())
    }));
    let home = given.configuration_from.map_or(private_home, |from| &from.home);
    let around = explain(&Disk, &Session::new(given.cwd, home), convoke_vendors::editions());
    let command = vendor.map(|vendor| vendor.facts().command);
    let of_program = around.agents.iter().filter(|it| Some(it.agent) == command);
    let listed: Vec<&AgentReport> = report.map_or_else(|| of_program.collect(), |it| vec![it]);
    yours.extend(listed.into_iter().flat_map(descriptions));
    files.extend(instruction_files(&around));
    files.extend(vendor.iter().flat_map(|vendor| skills(given, *vendor)));
    if let (Some(from), Some(vendor)) = (given.configuration_from, vendor) {
        let names = vendor.facts().configuration.iter();
        files.extend(names.map(|name| from.directory.join(name)));
    }
    // Files in the private home are the program's own, or copies.
    let named = requests.iter().flat_map(named_files);
    files.extend(named.filter_map(|path| {
        if !path.starts_with(private_home) {
            return Some(path);
        }
        let mut places = given.configuration_from?.places(vendor?, private_home).into_iter();
        places.find_map(|(private, users)| Some(users.join(path.strip_prefix(private).ok()?)))
    }));
    files.sort();
    files.dedup();
    files.retain(|path| !loaded.iter().any(|file| file.path == *path));
    for path in files {
        if let Some(text) = read_text(&path) {
            // Codex sends skills with their front matter and the last newline.
            let body = body_of(&text).map(|body| UserText::file(&path, body));
            let trimmed = UserText::file(&path, text.trim());
            yours.push(UserText::file(&path, text));
            yours.extend(body);
            yours.push(trimmed);
        }
    }
    yours
}

/// Returns the text behind the front matter, which some programs leave out.
fn body_of(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("---")?;
    let (_, body) = rest.split_once("\n---")?;
    let body = body.trim_start_matches('-').trim();
    (!body.is_empty()).then_some(body)
}

/// The maximum number of skills, and their maximum depth below a directory of skills.
const MAX_SKILLS: usize = 1000;
const SKILL_DEPTH: usize = 6;

/// Returns the skills and commands of the user and of the project.
fn skills(given: &Given<'_>, vendor: &'static dyn MeasuredCli) -> Vec<PathBuf> {
    let facts = vendor.facts();
    let own = [format!("{}/skills", facts.directory), format!("{}/commands", facts.directory)];
    let names = own.iter().map(String::as_str).chain(facts.shared_configuration.iter().copied());
    let names: Vec<&str> = names.collect();
    let mut directories: Vec<PathBuf> =
        given.cwd.ancestors().flat_map(|above| names.iter().map(|name| above.join(name))).collect();
    if let Some(from) = given.configuration_from {
        directories.extend(["skills", "commands"].map(|name| from.directory.join(name)));
        directories.extend(facts.shared_configuration.iter().map(|name| from.home.join(name)));
    }
    let mut found = Vec::new();
    for directory in directories {
        find_skills(&directory, SKILL_DEPTH, &mut found);
    }
    found
}

fn find_skills(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = Disk.entries(directory) else { return };
    for (name, kind) in entries {
        let path = directory.join(&name);
        if found.len() >= MAX_SKILLS {
            return;
        }
        match kind {
            // Codex installs skills of its own there.
            EntryKind::Directory if name == ".system" => {}
            EntryKind::Directory if depth > 0 => find_skills(&path, depth - 1, found),
            EntryKind::File | EntryKind::Symlink
                if path.extension().is_some_and(|it| it == "md") =>
            {
                found.push(path);
            }
            _ => {}
        }
    }
}

/// Returns every instruction file around a directory, of any agent.
fn instruction_files(report: &DirectoryReport) -> impl Iterator<Item = PathBuf> {
    report.agents.iter().flat_map(|agent| {
        let loaded = agent.loaded.iter().map(|file| file.path.clone());
        loaded.chain(agent.ignored.iter().map(|file| file.path.clone()))
    })
}

/// The directory of the skills that Codex installs itself.
const SYSTEM_SKILLS: &str = ".system";

/// Returns the descriptions of the user's skills, as the program lists them.
fn descriptions(report: &AgentReport) -> impl Iterator<Item = UserText> {
    report.skills.iter().filter_map(|skill| {
        let (path, name) = (skill.path.clone()?, skill.name.clone());
        if path.iter().any(|part| part == SYSTEM_SKILLS) {
            return None;
        }
        let text = skill.text.as_ref().filter(|text| !text.is_empty())?;
        let cut_bytes = skill.description_bytes.saturating_sub(skill.description_bytes_loaded);
        Some(UserText { cut_bytes, ..UserText::new(Origin::Description { path, name }, text) })
    })
}

/// Returns the files whose absolute paths appear in a request.
fn named_files(request: &Recorded) -> Vec<PathBuf> {
    let Some(call) = request.model_call() else {
        return Vec::new();
    };
    let Ok(request_parts) = RequestParts::parse(call.wire, &request.body) else {
        return Vec::new();
    };
    let texts = request_parts.parts.iter().filter(|part| part.kind != PartKind::Tool);
    let is_around = |c: char| c.is_whitespace() || "<>()`\"'".contains(c);
    let words = texts.flat_map(|part| part.text.split(is_around));
    let words = words.map(|word| word.trim_end_matches([':', ',', '.']));
    let paths = words.filter(|word| word.starts_with('/')).map(PathBuf::from);
    let texts = paths.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    texts.collect()
}

fn read_text(path: &Path) -> Option<String> {
    let bytes = Disk.read(path, FileKind::Instructions).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (!text.trim().is_empty()).then_some(text)
}

/// A range of a part that is the user's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub range: Range<usize>,
    /// The index of the user's text.
    pub yours: usize,
}

/// Returns the user's ranges of each part, in order and without overlap.
///
/// Complete files are found first: lines that they share with others count as theirs.
pub(super) fn attribute(parts: &[Part], yours: &[UserText]) -> Vec<Vec<Span>> {
    let mut found: Vec<Vec<Span>> = vec![Vec::new(); parts.len()];
    let mut in_pieces = Vec::new();
    for (index, given) in yours.iter().enumerate() {
        match given.origin {
            Origin::Argument | Origin::Stdin | Origin::Prompt | Origin::Setting { .. } => {
                find_input(given, index, parts, &mut found);
                if let Some(arguments) = arguments_of_command(&given.text) {
                    find_arguments(arguments, index, parts, &mut found);
                }
            }
            Origin::Description { ref name, .. } => {
                find_description(&given.text, name, index, parts, &mut found);
            }
            Origin::File { ref path }
                if find_whole_file(&given.text, path, index, parts, &mut found) => {}
            Origin::File { .. } => in_pieces.push((index, given)),
        }
    }
    for (index, given) in in_pieces {
        find_pieces(&given.text, index, parts, &mut found);
    }
    found
}

/// The minimum length of a text that does not occur by accident.
const NO_ACCIDENT: usize = 24;

/// Finds an argument, a setting or the standard input as a whole: as a message, as whole lines of a message, or, if it is
/// long, in any part. A setting may also be a part of the instructions.
fn find_input(given: &UserText, index: usize, parts: &[Part], found: &mut [Vec<Span>]) {
    let text = given.text.as_str();
    let is_setting = matches!(given.origin, Origin::Setting { .. });
    let may_be = |part: &Part| match part.kind {
        PartKind::Message => true,
        PartKind::System => is_setting,
        PartKind::Tool => false,
    };
    let whole = parts.iter().rposition(|part| may_be(part) && part.text == text);
    let place = whole.map(|part| (part, 0)).or_else(|| {
        let mut places = parts.iter().enumerate().rev();
        places.find_map(|(number, part)| {
            let start = memmem::rfind(part.text.as_bytes(), text.as_bytes())?;
            let is_lines = may_be(part) && is_whole_lines(&part.text, start, text.len());
            (text.len() >= NO_ACCIDENT || is_lines).then_some((number, start))
        })
    });
    if let Some((part, start)) = place {
        add(&mut found[part], start..start + text.len(), index);
    }
}

/// Returns what follows the name of a command, `/name arguments`.
fn arguments_of_command(text: &str) -> Option<&str> {
    let (name, arguments) = text.strip_prefix('/')?.split_once(char::is_whitespace)?;
    let arguments = arguments.trim();
    (!name.is_empty() && !name.contains('/') && !arguments.is_empty()).then_some(arguments)
}

/// Finds the arguments of a command, each time that they arrive: alone, and with the text of the command.
fn find_arguments(text: &str, index: usize, parts: &[Part], found: &mut [Vec<Span>]) {
    let messages = parts.iter().zip(found).filter(|(part, _)| part.kind == PartKind::Message);
    for (part, found) in messages {
        for start in memmem::find_iter(part.text.as_bytes(), text) {
            let (before, after) = (&part.text[..start], &part.text[start + text.len()..]);
            let is_tagged = before.ends_with("<command-args>") && after.starts_with("</");
            let is_line = before.ends_with("ARGUMENTS: ")
                && (after.is_empty() || after.starts_with(['\n', '\r']));
            if text.len() >= NO_ACCIDENT || is_tagged || is_line {
                add(found, start..start + text.len(), index);
            }
        }
    }
}

/// Finds the description of a skill behind its name in a list.
fn find_description(text: &str, name: &str, index: usize, parts: &[Part], found: &mut [Vec<Span>]) {
    let before =
        [format!("- {name}: {text}"), format!("<name>{name}</name>\n    <description>{text}")];
    for (part, found) in parts.iter().zip(found).filter(|(part, _)| part.kind != PartKind::Tool) {
        let places = before.iter().filter_map(|listed| {
            let start = memmem::find(part.text.as_bytes(), listed.as_bytes())?;
            Some(start + listed.len() - text.len())
        });
        for start in places {
            add(found, start..start + text.len(), index);
        }
    }
}

fn is_whole_lines(part: &str, start: usize, length: usize) -> bool {
    let (before, after) = (&part[..start], &part[start + length..]);
    let begins = before.is_empty() || before.ends_with('\n');
    begins && length > 0 && (after.is_empty() || after.starts_with('\n'))
}

/// Finds a complete file. A short one counts once in each part, as whole lines after its name. Returns whether it was found.
fn find_whole_file(
    text: &str,
    path: &Path,
    index: usize,
    parts: &[Part],
    found: &mut [Vec<Span>],
) -> bool {
    let mut is_found = false;
    for (part, found) in parts.iter().zip(found).filter(|(part, _)| part.kind != PartKind::Tool) {
        let places = memmem::find_iter(part.text.as_bytes(), text);
        let places: Vec<usize> = if text.len() >= NO_ACCIDENT {
            places.collect()
        } else {
            let Some(mention) = mention(&part.text, path) else { continue };
            let mut places = places.filter(|start| *start >= mention);
            let is_lines =
                |start: &usize| is_whole_lines(&part.text, *start, text.trim_end().len());
            places.find(is_lines).into_iter().collect()
        };
        for start in places {
            add(found, start..start + text.len(), index);
            is_found = true;
        }
    }
    is_found
}

/// Returns the end of the first mention of a file in a text, of the name under which Codex sends every file, or of a line
/// that ends with the directory of a skill.
fn mention(text: &str, path: &Path) -> Option<usize> {
    let name = path.file_name()?.to_str()?;
    let end = |name: &str| Some(memmem::find(text.as_bytes(), name.as_bytes())? + name.len());
    let directory = || {
        let directory = path.parent()?.file_name()?.to_str().filter(|_| name == "SKILL.md")?;
        end(&format!("/{directory}\n"))
    };
    end(name).or_else(|| end("AGENTS.md instructions")).or_else(directory)
}

/// Finds pieces of a file that arrived cut or without some lines, in order. Searches a part for at most
/// [`MAX_MISSES`] lines.
fn find_pieces(text: &str, index: usize, parts: &[Part], found: &mut [Vec<Span>]) {
    let text = text.trim();
    for (part, found) in parts.iter().zip(found) {
        let (mut from, mut after, mut misses) = (0, 0, 0);
        while part.kind != PartKind::Tool && misses < MAX_MISSES {
            let (start, length) = stretch(&text[from..], &part.text, after).unwrap_or_default();
            if length >= MIN_PIECE_BYTES {
                add(found, start..start + length, index);
                (from, after, misses) = (from + length, start + length, 0);
            } else {
                misses += 1;
            }
            let Some(line) = text[from..].find('\n') else {
                break;
            };
            from += line + 1;
        }
    }
}

/// The minimum length of a piece.
const MIN_PIECE_BYTES: usize = 24;
const MAX_MISSES: usize = 200;

/// Returns the position of the first line of `text` in `part`, and the length of the common text from there.
fn stretch(text: &str, part: &str, after: usize) -> Option<(usize, usize)> {
    let line = text.lines().next()?.trim_end();
    if line.len() < 4 {
        return None;
    }
    let start = after + memmem::find(&part.as_bytes()[after..], line.as_bytes())?;
    let agreeing = text.bytes().zip(part[start..].bytes());
    let mut length = agreeing.take_while(|(a, b)| a == b).count();
    while !text.is_char_boundary(length) || !part.is_char_boundary(start + length) {
        length -= 1;
    }
    Some((start, length))
}

/// Adds a range, unless it overlaps another.
fn add(found: &mut Vec<Span>, range: Range<usize>, yours: usize) {
    let at = found.partition_point(|span| span.range.end <= range.start);
    if found.get(at).is_none_or(|next| range.end <= next.range.start) && !range.is_empty() {
        found.insert(at, Span { range, yours });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(kind: PartKind, text: &str) -> Part {
        Part {
            kind,
            place: String::new(),
            role: None,
            title: String::new(),
            text: text.to_owned(),
            range: 0..text.len(),
        }
    }

    fn found(parts: &[Part], origin: Origin, text: &str) -> Vec<Vec<String>> {
        let yours = [UserText::new(origin, text)];
        let spans = attribute(parts, &yours).into_iter().zip(parts);
        spans
            .map(|(spans, part)| {
                let texts = spans.into_iter().map(|span| part.text[span.range].to_owned());
                texts.collect()
            })
            .collect()
    }

    fn file() -> Origin {
        Origin::File { path: PathBuf::from("/p/CLAUDE.md") }
    }

    #[test]
    fn a_prompt_is_the_part_that_equals_it_not_a_word_of_the_system_text() {
        let parts = [
            part(PartKind::System, "Say hello to the user."),
            part(PartKind::Message, "hello"),
            part(PartKind::Message, "<reminder>hello</reminder>"),
        ];
        assert_eq!(
            found(&parts, Origin::Argument, "hello"),
            [vec![], vec!["hello".to_owned()], vec![]]
        );
        assert_eq!(found(&parts, Origin::Argument, "Say"), [[""; 0]; 3]);
    }

    #[test]
    fn a_short_argument_counts_only_as_whole_lines() {
        let parts = [
            part(PartKind::Message, "the exec tool"),
            part(PartKind::Message, "sum up\nlong input"),
        ];
        assert_eq!(found(&parts, Origin::Argument, "exec"), [[""; 0]; 2]);
        assert_eq!(found(&parts, Origin::Argument, "sum up")[1], ["sum up"]);
    }

    #[test]
    fn a_long_argument_is_found_in_the_system_text() {
        let given = "You are Max, who reviews code.";
        let parts =
            [part(PartKind::System, &format!("Base.\n\n{given}")), part(PartKind::Message, "hi")];
        assert_eq!(found(&parts, Origin::Argument, given)[0], [given]);
    }

    #[test]
    fn a_file_is_found_trimmed_cut_and_with_lines_left_out() {
        let text = "\n# Rules for everybody here\n<!-- a comment of some length -->\nAlways answer in English.\nNever delete 世界 files.\n";
        for (sent, expected) in [
            (
                "Contents:\n# Rules for everybody here\n<!-- a comment of some length -->\nAlways answer in English.\nNever delete 世界 files.\nEnd",
                vec![text.trim()],
            ),
            (
                "# Rules for everybody here\nAlways answer in English.\nNever delete 世界 files.",
                vec![
                    "# Rules for everybody here\n",
                    "Always answer in English.\nNever delete 世界 files.",
                ],
            ),
            (
                "# Rules for everybody here\n<!-- a comment of some length -->\nAlways answer in Eng\u{fffd}",
                vec![
                    "# Rules for everybody here\n<!-- a comment of some length -->\nAlways answer in Eng",
                ],
            ),
            ("Nothing of it", vec![]),
        ] {
            assert_eq!(
                found(&[part(PartKind::Message, sent)], file(), text.trim())[0],
                expected,
                "{sent}"
            );
        }
    }

    #[test]
    fn a_short_file_counts_only_as_whole_lines_after_its_name() {
        let parts = [
            part(PartKind::System, "Say ok.\nok\n"),
            part(PartKind::Message, "ok\nContents of /p/CLAUDE.md:\n\nok\n\nok\nis ok"),
            part(PartKind::Message, "# AGENTS.md instructions for /p\n\nok\n</INSTRUCTIONS>"),
        ];
        let spans = attribute(&parts, &[UserText::new(file(), "ok\n")]);
        assert_eq!(spans[0], []);
        assert!(spans[1].iter().map(|it| it.range.clone()).eq(std::iter::once(30..33)));
        assert_eq!(spans[2].len(), 1);
        assert_eq!(found(&parts, file(), "be kind\nand brief"), [[""; 0]; 3]);
    }

    #[test]
    fn the_arguments_of_a_command_count_each_time_that_they_arrive() {
        let parts = [
            part(
                PartKind::Message,
                "<command-name>/norm</command-name>\n<command-args>a b</command-args>",
            ),
            part(
                PartKind::Message,
                "Base directory for this skill: /p/norm\n\nDo a b.\n\nARGUMENTS: a b",
            ),
        ];
        assert_eq!(found(&parts, Origin::Argument, "/norm a b"), [["a b"], ["a b"]]);
        assert_eq!(found(&parts, Origin::Argument, "/norm"), [[""; 0]; 2]);
        assert_eq!(found(&parts, Origin::Argument, "/usr/bin a b"), [[""; 0]; 2]);
    }

    #[test]
    fn the_description_of_a_skill_is_found_behind_its_name() {
        let origin = || Origin::Description { path: "/p/x/SKILL.md".into(), name: "x".to_owned() };
        let listed = [
            part(PartKind::Message, "Skills:\n- y: Tidy\n- x: Tidy\n"),
            part(PartKind::System, "<name>x</name>\n    <description>Tidy</description>"),
        ];
        let spans = attribute(&listed, &[UserText::new(origin(), "Tidy")]);
        let starts: Vec<Vec<usize>> =
            spans.iter().map(|spans| spans.iter().map(|it| it.range.start).collect()).collect();
        assert_eq!(starts, [[23], [32]]);
        let other = [part(PartKind::Message, "Tidy, - y: Tidy")];
        assert_eq!(found(&other, origin(), "Tidy"), [[""; 0]]);
    }

    #[test]
    fn a_tiny_skill_is_found_behind_the_line_of_its_directory() {
        let parts =
            [part(PartKind::Message, "abc\nBase directory for this skill: /h/s/tiny\n\nabc")];
        let origin = |path: &str| Origin::File { path: path.into() };
        let spans = attribute(&parts, &[UserText::new(origin("/h/s/tiny/SKILL.md"), "abc")]);
        assert!(spans[0].iter().map(|it| it.range.start).eq([parts[0].text.len() - 3]));
        assert_eq!(found(&parts, origin("/h/s/tiny/other.md"), "abc"), [[""; 0]]);
    }

    #[test]
    fn a_setting_can_be_a_part_of_the_instructions() {
        let parts = [part(PartKind::System, "Be brief."), part(PartKind::Message, "Be brief.")];
        let setting = Origin::Setting { name: "developer_instructions".to_owned() };
        assert_eq!(found(&parts[..1], setting, "Be brief.")[0], ["Be brief."]);
        assert_eq!(found(&parts[..1], Origin::Argument, "Be brief.")[0], [""; 0]);
    }

    #[test]
    fn the_body_of_a_skill_is_what_follows_its_front_matter() {
        assert_eq!(body_of("---\nname: a\n---\n\nDo it.\n"), Some("Do it."));
        assert_eq!(body_of("Do it.\n---\nNow."), None);
        assert_eq!(body_of("---\nname: a\n---\n"), None);
    }

    #[test]
    fn lines_that_two_files_share_belong_to_the_one_that_arrived_whole() {
        let shared = "Always answer in whole sentences.";
        let parts = [part(PartKind::Message, &format!("<x>\n# B\n{shared}\n</x>"))];
        let given = |name: &str| UserText::file(Path::new(name), format!("# {name}\n{shared}\n"));
        let spans = &attribute(&parts, &[given("A"), given("B")])[0];
        assert_eq!(spans.iter().map(|span| span.yours).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn no_text_is_counted_twice() {
        let parts = [part(PartKind::Message, "the same text of a certain length")];
        let text = || "the same text of a certain length".to_owned();
        let yours = [UserText::new(file(), text()), UserText::new(Origin::Stdin, text())];
        assert_eq!(attribute(&parts, &yours)[0].len(), 1);
    }
}
