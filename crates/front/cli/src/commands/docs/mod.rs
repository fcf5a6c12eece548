//! `convoke docs`: the documentation, which is part of the program.

mod page;

use std::io::Write as _;

use clap::Args;
use convoke_core::name::nearest;
use serde_json::json;

use crate::outcome::{Outcome, UsageError};
use crate::terminal::{Paint, page, stdout, width};

/// Show a page of the documentation, or the list of its pages.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The page; without it, the pages are listed
    #[arg(value_name = "TOPIC")]
    topic: Option<String>,
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
    "glossary",
    "install",
    "run",
    "chat",
    "team-file",
    "trust",
    "permissions",
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
    "scale",
    "record",
    "watch",
    "changes",
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
    "diagnostics",
];

/// Runs `convoke docs`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let mut out = stdout();
    let paint = Paint::for_stream(&out);
    let Some(topic) = &arguments.topic else {
        if arguments.json {
            let pages: Vec<_> = PAGES
                .iter()
                .map(|(topic, text)| json!({"topic": topic, "title": title(text)}))
                .collect();
            writeln!(out, "{}", json!({"pages": pages}))?;
            return Ok(Outcome::Done);
        }
        let columns = if out.is_terminal() { width(&out) } else { usize::MAX };
        for (topic, text) in PAGES {
            let lines = page::entry(topic, title(text), columns);
            let (name, rest) = lines.split_at(page::TOPIC);
            write!(out, "{}{rest}", paint.strong(name))?;
        }
        return Ok(Outcome::Done);
    };
    let topic = topic.trim_end_matches(".md");
    let Some((topic, text)) = PAGES.iter().find(|(page, _)| *page == topic) else {
        let topics = || PAGES.iter().map(|(topic, _)| *topic);
        let hint = match nearest(topic, topics()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("pages: {}", topics().collect::<Vec<_>>().join(", ")),
        };
        return Err(UsageError(format!("no page `{topic}`; {hint}")).into());
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
