//! `convoke docs`: the documentation, which is part of the program.

mod page;
mod search;

use std::fmt::Write as _;
use std::io::Write as _;

use clap::Args;
use convoke_core::name::nearest;
use serde_json::json;

use crate::outcome::{Outcome, UsageError};
use crate::terminal::{Paint, Screen, page, stdout, width};

/// Show a page of the documentation, find words in it, or list its pages.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  convoke docs
  convoke docs explain
  convoke docs cache miss")]
pub struct Arguments {
    /// The page, or words that are looked for in all pages; without any, the pages are listed
    #[arg(value_name = "TOPIC | WORD")]
    words: Vec<String>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

macro_rules! pages {
    ($($topic:literal),+ $(,)?) => {
        [$(($topic, include_str!(concat!("../../../../../../docs/", $topic, ".md")))),+]
    };
}

/// The pages, in the order in which they are listed.
const PAGES: &[(&str, &str)] = &pages![
    "tutorial",
    "inspect",
    "team",
    "glossary",
    "install",
    "run",
    "chat",
    "team-file",
    "trust",
    "permissions",
    "sandbox",
    "agents",
    "acp",
    "editors",
    "zed",
    "jetbrains",
    "neovim",
    "emacs",
    "mcp",
    "models",
    "open",
    "sessions",
    "store",
    "postgres",
    "machines",
    "nodes",
    "scale",
    "record",
    "watch",
    "changes",
    "recording",
    "serve",
    "explain",
    "ci",
    "review",
    "request",
    "capture",
    "doctor",
    "budget",
    "markers",
    "pipe",
    "packs",
    "limits",
    "capture-reference",
    "explain-reference",
    "models-reference",
    "request-reference",
    "serve-reference",
    "trust-reference",
    "diagnostics",
];

/// The pages to look things up in, besides those that are named so.
const REFERENCE: [&str; 12] = [
    "glossary",
    "team-file",
    "permissions",
    "agents",
    "acp",
    "scale",
    "budget",
    "markers",
    "pipe",
    "packs",
    "limits",
    "diagnostics",
];

/// Runs `convoke docs`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let mut out = stdout();
    let paint = Paint::for_stream(&out);
    if arguments.words.is_empty() {
        return list(arguments, &mut out, paint);
    }
    let topic = match &*arguments.words {
        [topic] => topic.trim_end_matches(".md"),
        _ => "",
    };
    let Some((topic, text)) = PAGES.iter().find(|(page, _)| *page == topic) else {
        return find(arguments, &mut out, paint);
    };
    if arguments.json {
        writeln!(out, "{}", json!({"topic": topic, "title": title(text), "text": text}))?;
        return Ok(Outcome::Done);
    }
    if out.is_terminal() {
        page(&page::render(text, width(&out), paint))?;
    } else {
        out.write_all(text.as_bytes())?;
    }
    Ok(Outcome::Done)
}

fn list(arguments: &Arguments, out: &mut Screen, paint: Paint) -> anyhow::Result<Outcome> {
    if arguments.json {
        let pages: Vec<_> = PAGES
            .iter()
            .map(|(topic, text)| json!({"topic": topic, "title": title(text)}))
            .collect();
        writeln!(out, "{}", json!({"pages": pages}))?;
        return Ok(Outcome::Done);
    }
    let columns = if out.is_terminal() { width(out) } else { usize::MAX };
    let (reference, tasks): (Vec<_>, Vec<_>) =
        PAGES.iter().partition(|(topic, _)| is_reference(topic));
    for (heading, pages) in [("Tasks", tasks), ("Reference", reference)] {
        writeln!(out, "{}", paint.faint(heading))?;
        for (topic, text) in pages {
            let lines = page::entry(topic, title(text), columns);
            let (name, rest) = lines.split_at(page::TOPIC);
            write!(out, "{}{rest}", paint.strong(name))?;
        }
    }
    writeln!(out, "{}", paint.faint("`convoke docs WORD` finds a word in all of them."))?;
    Ok(Outcome::Done)
}

/// Returns whether a page is one to look things up in, which no task needs as a whole.
fn is_reference(topic: &str) -> bool {
    topic.ends_with("-reference") || REFERENCE.contains(&topic)
}

/// Writes where the words stand that a person looks for.
fn find(arguments: &Arguments, out: &mut Screen, paint: Paint) -> anyhow::Result<Outcome> {
    let words = &arguments.words;
    let found = search::find(PAGES, words);
    if found.is_empty() {
        let written = words.join(" ");
        let near = nearest(&written, PAGES.iter().map(|(topic, _)| *topic));
        let hint = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`convoke docs` lists the pages".to_owned(),
        };
        return Err(UsageError(format!("no page has `{written}`; {hint}")).into());
    }
    if arguments.json {
        writeln!(out, "{}", json!({"words": words, "found": found}))?;
        return Ok(Outcome::Done);
    }
    let mut text = String::new();
    for section in &found {
        let search::Found { topic, heading, excerpt, .. } = section;
        let heading = if heading.is_empty() { String::new() } else { format!("  {heading}") };
        let _ = writeln!(text, "{}{heading}", paint.strong(&format!("convoke docs {topic}")));
        let _ = writeln!(text, "  {}", paint.faint(excerpt));
    }
    page(&text)?;
    Ok(Outcome::Done)
}

/// Returns the title of a page.
fn title(text: &str) -> &str {
    text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_page_is_part_of_the_program() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs");
        let files: BTreeSet<String> = std::fs::read_dir(directory)
            .unwrap()
            .filter_map(|entry| {
                let name = entry.unwrap().file_name().into_string().unwrap();
                name.strip_suffix(".md").filter(|name| *name != "README").map(str::to_owned)
            })
            .collect();
        let pages: BTreeSet<String> = PAGES.iter().map(|(topic, _)| (*topic).to_owned()).collect();
        assert_eq!(pages, files);
        assert!(PAGES.iter().all(|(_, text)| !title(text).is_empty()), "every page has a title");
    }
}
