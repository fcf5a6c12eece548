//! `@path` in a person's message attaches a file: its text goes with the message, with the file as its source. An image goes
//! with it as an image.

use std::collections::HashSet;
use std::io;
use std::path::{Component, Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use convoke_agent::sandbox::Secrets;
use convoke_chat::Attachments;
use convoke_core::name::NameKey;
use convoke_files::{FileKind, OpenedFile};
use convoke_inspect::HostEnvironment;
use convoke_protocol::attachment::Attachment;
use convoke_protocol::image::Image;
use convoke_session::NewMessage;
use convoke_team::{Team, Trust};

use super::Conversation;
use super::project::how_to_trust;
use crate::figures::number;

/// The maximum number of files of one message.
const MAX_FILES: usize = 20;
/// The maximum number of bytes of one message's texts, and of its images.
const MAX_BYTES: u64 = 1 << 20;
const MAX_IMAGE_BYTES: u64 = 10 << 20;
/// The maximum number of bytes of one image, which is that of the providers.
const MAX_BYTES_PER_IMAGE: u64 = 5 << 20;
/// Punctuation that may follow a path in a sentence.
const PUNCTUATION: [char; 14] =
    ['.', ',', ';', ':', '!', '?', ')', ']', '}', '>', '\'', '"', '，', '。'];

/// Attaches the files of a project.
pub struct ProjectAttachments {
    team: Team,
    /// The real path of the project.
    directory: PathBuf,
    /// The directory that paths are relative to.
    base: PathBuf,
    home: PathBuf,
    /// The user's secrets.
    secrets: Secrets,
    /// Instructions to trust the project, if it is not trusted.
    how_to_trust: Option<String>,
}

impl ProjectAttachments {
    /// Creates the reader of a conversation's project.
    pub fn new(conversation: &Conversation, host_environment: &HostEnvironment) -> Self {
        let project = &conversation.project;
        let directory = project.directory.clone();
        let cwd = host_environment.cwd.canonicalize().ok();
        let is_trusted = project.trust() == Trust::Trusted;
        Self {
            team: conversation.coordinator.team_agents().team().clone(),
            base: cwd
                .filter(|cwd| cwd.starts_with(&directory))
                .unwrap_or_else(|| directory.clone()),
            home: host_environment.home.clone(),
            secrets: project.secrets.clone(),
            how_to_trust: (!is_trusted)
                .then(|| how_to_trust(&directory, project.trust, project.origin)),
            directory,
        }
    }

    /// Returns the file that a mention refers to, with the part of the mention that names it; `None` if it is plain
    /// text.
    fn meant<'t>(&self, mention: &Mention<'t>) -> Result<Option<(&'t str, PathBuf)>, String> {
        let Mention { path, is_quoted } = *mention;
        let shortest = path.trim_end_matches(PUNCTUATION);
        if !is_quoted && self.is_member(shortest) {
            return Ok(None);
        }
        // The name of a file may end with punctuation.
        let mut named = path;
        loop {
            let file = self.resolve(named);
            if !named.is_empty() && file.is_file() {
                return Ok(Some((named, file)));
            }
            match named.char_indices().next_back() {
                Some((at, last)) if !is_quoted && PUNCTUATION.contains(&last) => {
                    named = &named[..at];
                }
                _ => break,
            }
        }
        let named = if is_quoted { path } else { shortest };
        if !is_quoted && !looks_like_path(named) && !self.is_in_a_directory(named) {
            return Ok(None);
        }
        let file = self.resolve(named);
        let directory = self.base.display();
        Err(if file.is_dir() {
            format!("@{named}: is a directory; attach its files one by one")
        } else if file.exists() {
            format!("@{named}: is not a regular file, and cannot be attached")
        } else {
            format!(
                "@{named}: no such file in {directory}; correct the path, or write `@{named}` in \
                 backticks to send it as text"
            )
        })
    }

    /// Returns whether a word is a path in an existing directory.
    fn is_in_a_directory(&self, word: &str) -> bool {
        let file = self.resolve(word);
        word.contains('/') && (file.is_dir() || file.parent().is_some_and(Path::is_dir))
    }

    fn resolve(&self, path: &str) -> PathBuf {
        match path.strip_prefix("~/") {
            Some(rest) => self.home.join(rest),
            None => self.base.join(path),
        }
    }

    /// Rejects an unknown name at the beginning of a message, which would otherwise go to another member.
    fn check_name(&self, mention: &Mention<'_>) -> Result<(), String> {
        let name = mention.path.trim_end_matches(PUNCTUATION);
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
        if mention.is_quoted || !name.chars().all(is_name) || self.is_member(name) {
            return Ok(());
        }
        let hint = self.team.hint(name);
        Err(format!(
            "@{name}: no member or file has that name; {hint}; write `@{name}` in backticks \
             to send it as text"
        ))
    }

    /// Refuses a message that begins with an `@name` that is neither a member's nor a file's.
    pub fn check_first_name(&self, text: &str) -> Result<(), String> {
        let first = text.len() - text.trim_start().len();
        match mentions(text).into_iter().find(|(at, _)| *at == first) {
            Some((_, mention)) if self.meant(&mention)?.is_none() => self.check_name(&mention),
            _ => Ok(()),
        }
    }

    fn is_member(&self, name: &str) -> bool {
        NameKey::new(name).is_all() || self.team.resolve(name).is_some()
    }

    /// Refuses a file that agents must not receive.
    fn check_access(&self, named: &str, real: &Path) -> Result<(), String> {
        if let Some(how) = self.how_to_trust.as_ref().filter(|_| !real.starts_with(&self.directory))
        {
            let directory = self.directory.display();
            return Err(format!(
                "@{named}: the file is outside of {directory}, which is not trusted: {how}"
            ));
        }
        if self.secrets.contain(real, &self.directory) {
            return Err(format!(
                "@{named}: the file is one of your secrets, which agents never receive; `convoke docs permissions` \
                 lists them"
            ));
        }
        Ok(())
    }

    /// Reads an image that was opened, whose real path is given.
    fn read_image(&self, named: &str, file: OpenedFile, real: &Path) -> Result<Image, String> {
        self.check_access(named, real)?;
        let bytes =
            file.read(real, FileKind::Image).map_err(|error| format!("@{named}: {error}"))?;
        if bytes.len() as u64 > MAX_BYTES_PER_IMAGE {
            let (bytes, most) = (number(bytes.len() as u64), number(MAX_BYTES_PER_IMAGE));
            return Err(format!("@{named}: the image has {bytes} bytes; the limit is {most}"));
        }
        let image = Image::new(shown(named), STANDARD.encode(&bytes));
        image.ok_or_else(|| format!("@{named}: the file is no PNG, JPEG, GIF or WebP image"))
    }

    /// Reads a file that was opened, whose real path is given.
    fn read(&self, named: &str, file: OpenedFile, real: &Path) -> Result<Attachment, String> {
        let failed = |error: io::Error| format!("@{named}: {error}");
        self.check_access(named, real)?;
        let bytes = file.read(real, FileKind::Attachment).map_err(failed)?;
        let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
        let text = text.ok_or_else(|| {
            format!(
                "@{named}: the file is not UTF-8 text; write its path without the @ to let the agent read it"
            )
        })?;
        Ok(Attachment { path: shown(named), text })
    }
}

impl Attachments for ProjectAttachments {
    fn attach(&self, message: NewMessage) -> Result<NewMessage, String> {
        self.attach_where(message, |_| true)
    }
}

impl ProjectAttachments {
    /// Attaches the images that a message mentions. Other files stay mentioned, for editors that attach them themselves.
    pub fn attach_images(&self, message: NewMessage) -> Result<NewMessage, String> {
        self.attach_where(message, Image::is_named_by)
    }

    /// Attaches the mentioned files whose names fit.
    fn attach_where(
        &self,
        mut message: NewMessage,
        fits: impl Fn(&str) -> bool,
    ) -> Result<NewMessage, String> {
        let mut text = String::with_capacity(message.content.len());
        let mut files = Files::default();
        let mut rest = 0;
        let mut attached: HashSet<PathBuf> = HashSet::new();
        let first = message.content.len() - message.content.trim_start().len();
        for (at, mention) in mentions(&message.content) {
            let Some((named, file)) = self.meant(&mention)? else {
                if at == first {
                    self.check_name(&mention)?;
                }
                continue;
            };
            if !fits(named) {
                continue;
            }
            // Only the name stays in the message; the `@` would make some programs read the file again.
            text.push_str(&message.content[rest..at]);
            text.push_str(named);
            rest = at + 1 + named.len() + if mention.is_quoted { 2 } else { 0 };
            // Opened before it is checked: an agent that works now may put a link on the path.
            let failed = |error: io::Error| format!("@{named}: {error}");
            let file = OpenedFile::open(&file).map_err(failed)?;
            let real = file.real_path().map_err(failed)?;
            // A file is attached once, however it is named.
            if attached.contains(&real) {
                continue;
            }
            if attached.len() == MAX_FILES {
                return Err(format!("@{named}: too many files; a message can attach {MAX_FILES}"));
            }
            if Image::is_named_by(named) {
                files.add_image(self.read_image(named, file, &real)?)?;
            } else {
                files.add_text(self.read(named, file, &real)?)?;
            }
            attached.insert(real);
        }
        text.push_str(&message.content[rest..]);
        message.content = text;
        Attachment::add(files.texts, &mut message);
        Image::add(files.images, &mut message);
        Ok(message)
    }
}

/// The files of one message, within its limits.
#[derive(Default)]
struct Files {
    texts: Vec<Attachment>,
    text_bytes: u64,
    images: Vec<Image>,
    image_bytes: u64,
}

impl Files {
    fn add_text(&mut self, file: Attachment) -> Result<(), String> {
        self.text_bytes += file.text.len() as u64;
        within(&file.path, "attached files", self.text_bytes, MAX_BYTES)?;
        self.texts.push(file);
        Ok(())
    }

    fn add_image(&mut self, image: Image) -> Result<(), String> {
        self.image_bytes += image.bytes();
        within(&image.path, "attached images", self.image_bytes, MAX_IMAGE_BYTES)?;
        self.images.push(image);
        Ok(())
    }
}

fn within(named: &str, what: &str, bytes: u64, most: u64) -> Result<(), String> {
    let (shown, limit) = (number(bytes), number(most));
    let over = || format!("@{named}: the {what} have {shown} bytes; the limit is {limit}");
    if bytes > most { Err(over()) } else { Ok(()) }
}

/// Returns a path without `.` components.
fn shown(path: &str) -> String {
    let parts = Path::new(path).components().filter(|part| *part != Component::CurDir);
    parts.collect::<PathBuf>().display().to_string()
}

/// The extensions of file names. Packages and decorators contain dots too.
const EXTENSIONS: &[&str] = &[
    "c", "cc", "cpp", "cs", "css", "csv", "diff", "gif", "go", "h", "hpp", "html", "java", "jpeg",
    "jpg", "js", "json", "jsx", "kt", "lock", "log", "md", "patch", "php", "png", "py", "rb", "rs",
    "sh", "sql", "swift", "toml", "ts", "tsx", "txt", "webp", "xml", "yaml", "yml",
];

/// Returns whether a word after an `@` looks like a path, by its beginning or its extension.
fn looks_like_path(word: &str) -> bool {
    let begins = ["./", "../", "/", "~/"].iter().any(|start| word.starts_with(start));
    let ends = word
        .rsplit_once('.')
        .is_some_and(|(stem, extension)| !stem.is_empty() && EXTENSIONS.contains(&extension));
    begins || (ends && !word.contains('('))
}

/// The text after an `@`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mention<'t> {
    path: &'t str,
    is_quoted: bool,
}

/// Returns the mentions in a text outside of code, with the position of their `@`. O(text).
fn mentions(text: &str) -> Vec<(usize, Mention<'_>)> {
    let mut found = Vec::new();
    let mut fence: Option<(char, usize)> = None;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let body = line.trim_start_matches(' ');
        let mark = body.chars().next().filter(|c| matches!(c, '`' | '~'));
        let run = mark.map_or(0, |mark| body.chars().take_while(|c| *c == mark).count());
        match (fence, mark) {
            (Some((open, length)), Some(mark)) if mark == open && run >= length => fence = None,
            (Some(_), _) => {}
            (None, Some(mark)) if run >= 3 => fence = Some((mark, run)),
            (None, _) => in_line(line, start, &mut found),
        }
        start += line.len();
    }
    found
}

fn in_line<'t>(line: &'t str, start: usize, found: &mut Vec<(usize, Mention<'t>)>) {
    let mut at = 0;
    let mut is_start = true;
    while let Some(c) = line[at..].chars().next() {
        let rest = &line[at..];
        match c {
            '`' => {
                let run = rest.bytes().take_while(|byte| *byte == b'`').count();
                at += code_length(rest, run).unwrap_or(run);
                is_start = false;
                continue;
            }
            '@' if is_start => {
                if let Some(mention) = mention(&rest[1..]) {
                    found.push((start + at, mention));
                    at += 1 + mention.path.len();
                    is_start = false;
                    continue;
                }
            }
            _ => {}
        }
        is_start = c.is_whitespace() || matches!(c, '(' | '[' | '{' | '"' | '\'' | ',' | '，');
        at += c.len_utf8();
    }
}

/// Returns the length of inline code that begins with a run of backticks, if the line closes it.
fn code_length(rest: &str, run: usize) -> Option<usize> {
    let mut at = run;
    while let Some(found) = rest[at..].find('`') {
        let closing = rest[at + found..].bytes().take_while(|byte| *byte == b'`').count();
        at += found + closing;
        if closing == run {
            return Some(at);
        }
    }
    None
}

fn mention(after: &str) -> Option<Mention<'_>> {
    if let Some(quoted) = after.strip_prefix('"') {
        let end = quoted.find(['"', '\n']).filter(|end| quoted[*end..].starts_with('"'))?;
        return Some(Mention { path: &quoted[..end], is_quoted: true });
    }
    let end = after.find(char::is_whitespace).unwrap_or(after.len());
    (end > 0).then(|| Mention { path: &after[..end], is_quoted: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mentions_are_found_outside_of_code() {
        let found = |text| {
            let found: Vec<String> =
                mentions(text).into_iter().map(|(_, mention)| mention.path.to_owned()).collect();
            found.join("|")
        };
        for (text, expected) in [
            ("see @a.rs and (@b/c.rs).", "a.rs|b/c.rs)."),
            ("@\"a b.txt\" and @\"open", "a b.txt"),
            ("mail me@example.com", ""),
            ("`@a.rs` and ``x ` @b.rs`` @c.rs", "c.rs"),
            ("an open ` and @a.rs", "a.rs"),
            ("```\n@a.rs\n```\n@b.rs\n~~~\n```\n@c.rs", "b.rs"),
            ("@ alone", ""),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    /// Between two lookups of a path, an agent may put a link on it.
    #[test]
    fn a_file_that_was_opened_and_checked_is_the_one_that_is_attached() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let (home, directory) = (root.join("home"), root.join("project"));
        for (directory, text) in [(home.join(".ssh"), "KEY"), (directory.join("docs"), "text")] {
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join("notes.md"), text).unwrap();
        }
        let programs = convoke_vendors::programs();
        let attachments = ProjectAttachments {
            team: Team::parse("[[member]]\nname = \"max\"\nagent = \"claude\"\n").unwrap(),
            secrets: Secrets::of_user(Some(&home), &directory, |_| None, &[], programs),
            base: directory.clone(),
            directory: directory.clone(),
            home,
            how_to_trust: None,
        };
        let named = "docs/notes.md";
        let opened = OpenedFile::open(&directory.join(named)).unwrap();
        std::fs::rename(directory.join("docs"), directory.join("moved")).unwrap();
        std::os::unix::fs::symlink(root.join("home/.ssh"), directory.join("docs")).unwrap();
        let real = opened.real_path().unwrap();
        assert_eq!(attachments.read(named, opened, &real).unwrap().text, "text");
        let refused = attachments.attach(NewMessage::from_person("you", "see @docs/notes.md"));
        assert!(refused.unwrap_err().contains("one of your secrets"));
    }

    #[test]
    fn words_of_programs_are_no_paths() {
        for (word, expected) in [
            ("src/main.rs", true),
            ("README.md", true),
            ("./max", true),
            ("angular/core", false),
            ("john.doe", false),
            ("pytest.mark.slow", false),
            ("app.route(\"/x\")", false),
            ("param", false),
            ("v1.2", false),
            ("Override", false),
            (".5", false),
        ] {
            assert_eq!(looks_like_path(word), expected, "{word}");
        }
    }
}
