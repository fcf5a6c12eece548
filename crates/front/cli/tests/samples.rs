//! The samples of README.md and docs/*.md: every command of a `console` block is run, and its output is
//! compared with the page.
//!
//! A page begins in an empty home, and its commands run in order; `cd` applies to the end of the page. The
//! commands in a comment `<!-- setup … -->` run first, and their output is not shown. A line `…` stands
//! for output that the page leaves out. `UPDATE_DOCS=1` writes the output into the pages.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "this is a test")]

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// The home that the pages show. The real one is as long, because sizes of prompts depend on it.
const SHOWN_HOME: &str = "/home/ana";
/// The session ids that the pages show, in the order in which they appear.
const SHOWN_IDS: [&str; 4] = ["05951732", "7c20d9e4", "3f81b6a5", "e94d02c7"];
const SHOWN_DURATION: &str = "1.0";

#[test]
fn every_sample_in_the_docs_is_what_the_command_prints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> =
        docs.filter(|path| path.extension().is_some_and(|e| e == "md")).collect();
    pages.push(root.join("README.md"));
    pages.sort();

    let update = std::env::var_os("UPDATE_DOCS").is_some();
    let mut samples = 0;
    let mut stale = Vec::new();
    for path in pages {
        let text = std::fs::read_to_string(&path).unwrap();
        let mut page = Page::new();
        let updated = page.check(&text).join("\n") + "\n";
        samples += page.samples;
        let name = path.file_name().unwrap().display();
        stale.extend(page.stale.iter().map(|report| format!("{name}: {report}\n")));
        if update && updated != text {
            std::fs::write(&path, updated).unwrap();
        }
    }
    assert!(samples > 0, "the pages have no samples");
    let stale = stale.join("\n");
    assert!(update || stale.is_empty(), "UPDATE_DOCS=1 updates these samples:\n{stale}");
}

/// A newcomer reads the README from top to bottom and then the tutorial, with one home for both.
#[test]
fn a_newcomer_sees_what_the_readme_and_the_tutorial_show() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut page = Page::new();
    for name in ["README.md", "docs/tutorial.md"] {
        let text = std::fs::read_to_string(root.join(name)).unwrap();
        // A page begins where the newcomer begins, and shows its own sessions.
        page.cwd = page.home.path().to_owned();
        page.ids.clear();
        page.check(&text);
    }
    assert!(page.samples > 2, "{} samples", page.samples);
    assert!(page.stale.is_empty(), "{}", page.stale.join("\n"));
}

/// The state of one page while its commands run.
struct Page {
    home: TempDir,
    cwd: PathBuf,
    ids: Vec<String>,
    samples: usize,
    stale: Vec<String>,
}

impl Page {
    fn new() -> Self {
        let mut builder = tempfile::Builder::new();
        let home = builder.prefix("").rand_bytes(4).tempdir_in("/tmp").unwrap();
        assert_eq!(home.path().as_os_str().len(), SHOWN_HOME.len());
        let cwd = home.path().to_owned();
        Self { home, cwd, ids: Vec::new(), samples: 0, stale: Vec::new() }
    }

    /// Runs the commands of a page and returns its lines with their output.
    fn check(&mut self, text: &str) -> Vec<String> {
        let mut lines = text.lines();
        let mut updated = Vec::new();
        while let Some(line) = lines.next() {
            updated.push(line.to_owned());
            if line == "<!-- setup" {
                let script: Vec<&str> = lines.by_ref().take_while(|line| *line != "-->").collect();
                self.run(&script.join("\n"));
                updated.extend(script.into_iter().chain(["-->"]).map(str::to_owned));
            } else if let Some(fence) = line.strip_suffix("console")
                && fence.starts_with("```")
            {
                let block: Vec<&str> = lines.by_ref().take_while(|line| *line != fence).collect();
                updated.extend(self.check_block(&block));
                updated.push(fence.to_owned());
            }
        }
        updated
    }

    fn check_block(&mut self, mut block: &[&str]) -> Vec<String> {
        let mut updated = Vec::new();
        while let Some((line, rest)) = block.split_first() {
            let command = line.strip_prefix("$ ").expect("a console block begins with a command");
            let end = rest.iter().position(|line| line.starts_with("$ ")).unwrap_or(rest.len());
            let (shown, next) = rest.split_at(end);
            let printed = self.run(command);
            let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
            updated.push((*line).to_owned());
            if matches(shown, &printed) {
                updated.extend(shown.iter().map(|&line| line.to_owned()));
            } else {
                self.stale.push(format!("`{command}` prints:\n{}", printed.join("\n")));
                updated.extend(printed.into_iter().map(str::to_owned));
            }
            self.samples += 1;
            block = next;
        }
        updated
    }

    /// Runs a command and returns its output, with fixed values for ids, paths and times.
    fn run(&mut self, command: &str) -> String {
        // `scripts/newcomer` names an installed program.
        let program = std::env::var_os("CONVOKE_PROGRAM")
            .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_convoke")), PathBuf::from);
        let binaries = program.parent().unwrap();
        let output = Command::new("sh")
            .args(["-c", &format!("exec 2>&1\n{command}\nprintf '\\n@@%s' \"$PWD\"")])
            .current_dir(&self.cwd)
            .env_clear()
            .env("HOME", self.home.path())
            .env("PATH", format!("{}:/usr/bin:/bin", binaries.display()))
            .env("LANG", "C.UTF-8")
            .output()
            .unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        let (printed, cwd) = output.rsplit_once("\n@@").expect("the shell runs to its end");
        self.cwd = cwd.into();
        let home = self.home.path().to_str().unwrap();
        self.with_shown_ids(&with_shown_durations(&printed.replace(home, SHOWN_HOME)))
    }

    fn with_shown_ids(&mut self, text: &str) -> String {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let mut shown = text.to_owned();
        for word in text.split(|c| !is_word(c)) {
            // A session is printed by its id, a UUID, or by the first eight digits of its last group.
            // One in three hundred of those has no digit.
            let is_id = |id: &str| {
                id.len() == 8
                    && id.bytes().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase())
            };
            let is_uuid = word.len() == 36 && word.bytes().filter(|b| *b == b'-').count() == 4;
            if is_uuid || is_id(word) {
                let id = if is_uuid { &word[24..32] } else { word };
                let known = self.ids.iter().position(|known| known == id);
                let number = known.unwrap_or_else(|| {
                    self.ids.push(id.to_owned());
                    self.ids.len() - 1
                });
                let fixed = SHOWN_IDS[number];
                let uuid = format!("019a0000-0000-7000-8000-{fixed}0000");
                shown = shown.replace(word, if is_uuid { &uuid } else { fixed });
            }
        }
        shown
    }
}

/// Returns whether lines match those of a page, where `…` stands for any lines.
fn matches(shown: &[&str], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((&"…", rest)) => {
            (0..=printed.len()).any(|skipped| matches(rest, &printed[skipped..]))
        }
        Some((line, rest)) => printed
            .split_first()
            .is_some_and(|(first, others)| first == line && matches(rest, others)),
    }
}

/// Replaces durations such as `(0.9 s)`.
fn with_shown_durations(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(" s)") {
        let kept = before.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        shown.push_str(kept);
        shown.push_str(if kept == before { "" } else { SHOWN_DURATION });
        shown.push_str(" s)");
        rest = after;
    }
    shown + rest
}
