//! `convoke changes blame`: the turn that wrote each line of a file.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use convoke_changes::{Author, BlamedLine, Origin, Record};
use serde_json::{Value, json};

use super::paths::below;
use super::{reported, title_of};
use crate::conversation::change_recorder::changes_of;
use crate::conversation::sessions::{find, open_store};
use crate::host_environment;
use crate::outcome::{Outcome, UsageError};
use crate::terminal::{Paint, stdout, write_json};

#[derive(Debug, Args)]
pub struct Blame {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The session: its id, the beginning of it, or `last`
    #[arg(long, value_name = "ID", default_value = "last")]
    session: String,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

impl Blame {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<Outcome> {
        reported(self.json, self.show())
    }

    fn show(&self) -> anyhow::Result<Outcome> {
        let host_environment = host_environment::of_process()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let session = runtime
            .block_on(async { find(&open_store(&host_environment).await?, &self.session).await })?;
        let changes = changes_of(&host_environment);
        let records = changes.records(&session.to_string())?;
        let path = below(&self.file, &host_environment.cwd, &records)?;
        let touched = |it: &&Record| it.changes.iter().any(|change| change.path == path);
        let Some(last) = records.iter().rev().find(touched) else {
            let named = self.file.display();
            return Err(UsageError(format!("no turn of this session changed {named}")).into());
        };
        let lines = changes.blame(&records, &last.directory, &path)?;
        if self.json {
            let lines: Vec<Value> =
                lines.iter().zip(1..).map(|(line, at)| line_json(&records, line, at)).collect();
            write_json(&json!({"session": session, "path": path.to_lossy(), "lines": lines}))?;
            return Ok(Outcome::Done);
        }
        write_lines(&records, &lines)?;
        Ok(Outcome::Done)
    }
}

fn write_lines(records: &[Record], lines: &[BlamedLine]) -> anyhow::Result<()> {
    let mut out = stdout();
    let paint = Paint::for_stream(&out);
    let names: Vec<String> = lines.iter().map(|line| name(records, line.origin)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let digits = lines.len().to_string().len();
    let mut before = "";
    for ((line, name), number) in lines.iter().zip(&names).zip(1..) {
        // A name stands at the first of its lines, as in a book.
        let shown = if name == before { "" } else { name.as_str() };
        before = name;
        let shown = format!("{shown:<width$}");
        let shown =
            if line.origin == Origin::Before { paint.faint(&shown) } else { paint.strong(&shown) };
        writeln!(out, "{shown}  {number:>digits$}  {}", line.text)?;
    }
    Ok(())
}

fn name(records: &[Record], origin: Origin) -> String {
    match origin {
        Origin::Before => "before".to_owned(),
        Origin::Since => "you, since".to_owned(),
        Origin::Record(record) => title_of(records, &records[record]),
    }
}

fn line_json(records: &[Record], line: &BlamedLine, number: usize) -> Value {
    let (by, turn, member) = match line.origin {
        Origin::Before => ("before", None, None),
        Origin::Since => ("person", None, None),
        Origin::Record(record) => {
            let Record { turn, by, .. } = &records[record];
            let is_agent = *by == Author::Agent;
            let member = is_agent.then_some(&*turn.member);
            (if is_agent { "agent" } else { "person" }, Some(turn.turn), member)
        }
    };
    json!({"line": number, "by": by, "turn": turn, "member": member, "text": line.text})
}
