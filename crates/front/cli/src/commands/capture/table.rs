//! The table of a capture: each part of the request, its size and its owner.

use std::borrow::Cow;
use std::path::Path;

use convoke_core::ledger::{Entry, Ledger, Source, Style, Table};
use convoke_inspect::capture::{Account, Capture, Share};

use crate::figures::{number, percent};
use crate::terminal::Paint;

/// Returns the ledger of the request as a table, with the shares of the user and the program below it.
pub fn show(capture: &Capture, account: &Account, paint: Paint, style: Style<'_>) -> String {
    let ledger = with_short_paths(&account.ledger, &capture.cwd);
    let table = Table { ledger: &ledger, style };
    let mut text = heading(capture, account, paint);
    text += &table.to_string();
    text.push('\n');
    text += &shares(capture, account, paint);
    text.push('\n');
    text += &other_calls(capture, account, paint);
    text += &outside(capture, paint);
    text
}

fn heading(capture: &Capture, account: &Account, paint: Paint) -> String {
    let version = capture.program.version.as_deref().unwrap_or("(unknown version)");
    let program = paint.strong(&format!("{} {version}", capture.program.agent));
    let how = if account.streamed { ", streamed" } else { "" };
    format!("{program} sends to {} ({}{how})\n", account.model, account.wire)
}

/// Makes paths below the working directory relative to it.
fn with_short_paths(ledger: &Ledger<'static>, cwd: &Path) -> Ledger<'static> {
    let mut short = Ledger::new(None);
    for entry in ledger.entries() {
        let source = short_path(&entry.source, cwd);
        short.push(Entry { source, ..entry });
    }
    short
}

fn short_path(source: &Source<'static>, cwd: &Path) -> Source<'static> {
    match source {
        Source::File { path, lines } => {
            let path = Path::new(&**path);
            let path = path.strip_prefix(cwd).unwrap_or(path).display().to_string();
            Source::File { path: Cow::Owned(path), lines: *lines }
        }
        other => other.clone(),
    }
}

fn shares(capture: &Capture, account: &Account, paint: Paint) -> String {
    let whole = account.body_bytes();
    let from = |share: &Share| {
        let name = match short_path(&share.source, &capture.cwd) {
            Source::File { path, .. } => path,
            Source::Setting { name } => name,
            _ => Cow::Borrowed("other"),
        };
        format!("{name} {}", number(share.bytes))
    };
    let from: Vec<String> = account.yours().iter().map(from).collect();
    let share = |bytes: u64| format!("{:>11} bytes{:>9}", number(bytes), percent(bytes, whole));
    let (yours, own) = (account.your_bytes(), account.program_bytes());
    format!(
        "{}  {}\n{}  the program's own\n",
        share(yours),
        (paint.good("yours") + &paint.faint(&format!("  {}", from.join(", ")))).trim_end(),
        share(own),
    )
}

/// Returns lines for the other model requests of the turn.
fn other_calls(capture: &Capture, account: &Account, paint: Paint) -> String {
    let requests = capture.requests.iter();
    let others = requests.filter(|request| request.number != account.request);
    let calls = others.filter_map(|request| Some((request, request.model_call()?)));
    let lines = calls.map(|(request, call)| {
        let (bytes, model) = (number(request.body.len() as u64), &call.model);
        let what = if call.aside { "side request" } else { "further request" };
        let name = paint.warning(what);
        format!("  Request {}: {name} to {model}, {bytes} bytes\n", request.number)
    });
    lines.collect()
}

/// Returns the hosts that the program tried to reach besides its model.
fn outside(capture: &Capture, paint: Paint) -> String {
    if capture.is_live() {
        let sent = "  Its requests were sent to the model's own endpoint; other connections were not watched.\n";
        return paint.faint(sent);
    }
    let elsewhere = capture.elsewhere();
    if elsewhere.is_empty() {
        return paint.faint("  It connected to its model only, and nothing left this machine.\n");
    }
    let hosts = elsewhere.iter().map(|(host, tries)| match tries {
        1 => (*host).to_owned(),
        tries => format!("{host} ({tries} times)"),
    });
    let hosts = hosts.collect::<Vec<_>>().join(", ");
    format!(
        "  {} {hosts}\n  Nothing left this machine.\n",
        paint.warning("It also tried to reach:")
    )
}
