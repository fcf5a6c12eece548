//! The account of a capture as a table: what was sent, how much of it, and whose it is.

use std::path::Path;

use convoke_core::ledger::estimate_tokens;
use convoke_inspect::capture::{Account, AccountPart, Capture, Origin, Share};
use convoke_rehearsal::PartKind;

use crate::figures::{bar, number, percent};
use crate::terminal::Paint;

const BAR: u64 = 20;

/// Returns the table.
pub fn show(capture: &Capture, account: &Account, paint: Paint) -> String {
    let table = Table { cwd: &capture.cwd, whole: account.body_bytes, paint };
    let mut text = heading(capture, account, paint);
    for (kind, name) in [
        (PartKind::System, "instructions"),
        (PartKind::Message, "conversation"),
        (PartKind::Tool, "tools"),
    ] {
        let parts: Vec<&AccountPart> =
            account.parts.iter().filter(|part| part.kind == kind).collect();
        if parts.is_empty() {
            continue;
        }
        let bytes = parts.iter().map(|part| part.bytes).sum();
        let name = paint.strong(&format!("{name} ({})", parts.len()));
        text += &table.row(bytes, &bar(bytes, table.whole, BAR), &name);
        for part in parts {
            text += &table.part(part);
        }
    }
    let envelope = account.envelope_bytes;
    let name = paint.strong("envelope") + &paint.faint("  settings, and the JSON around it all");
    text += &table.row(envelope, &bar(envelope, table.whole, BAR), &name);
    text += "\n";
    text += &table.shares(account);
    text += "\n";
    text += &other_calls(capture, account, paint);
    text += &outside(capture, paint);
    text
}

fn heading(capture: &Capture, account: &Account, paint: Paint) -> String {
    let version = capture.program.version.as_deref().unwrap_or("of an unknown version");
    let program = paint.strong(&format!("{} {version}", capture.program.agent));
    let how = if account.streamed { ", streamed" } else { "" };
    let (bytes, tokens) = (number(account.body_bytes), number(estimate_tokens(account.body_bytes)));
    format!(
        "{program} sends to {} ({}{how})\n{bytes} bytes, about {tokens} tokens\n\n{}",
        account.model,
        account.wire,
        paint.faint(&format!("{:>11}{:>9}{:>9}\n", "bytes", "tokens", "share")),
    )
}

/// The other calls of a model that the turn took, which cost too.
fn other_calls(capture: &Capture, account: &Account, paint: Paint) -> String {
    let requests = capture.requests.iter();
    let others = requests.filter(|request| request.number != account.request);
    let calls = others.filter_map(|request| Some((request, request.model_call()?)));
    let lines = calls.map(|(request, call)| {
        let (bytes, model) = (number(request.body.len() as u64), &call.model);
        let what = if call.aside { "a question of its own" } else { "another call" };
        let name = paint.warning(what);
        format!("  Request {}: {name} to {model}, {bytes} bytes\n", request.number)
    });
    lines.collect()
}

/// What else the program wanted, and did not get.
fn outside(capture: &Capture, paint: Paint) -> String {
    let elsewhere = capture.elsewhere();
    if elsewhere.is_empty() {
        return paint.faint("  It wanted nothing but its model, and nothing left this machine.\n");
    }
    let hosts = elsewhere.iter().map(|(host, tries)| match tries {
        1 => (*host).to_owned(),
        tries => format!("{host} ({tries} times)"),
    });
    let hosts = hosts.collect::<Vec<_>>().join(", ");
    format!("  {} {hosts}\n  Nothing left this machine.\n", paint.warning("It also wanted:"))
}

struct Table<'a> {
    cwd: &'a Path,
    whole: u64,
    paint: Paint,
}

impl Table<'_> {
    fn row(&self, bytes: u64, bar: &str, what: &str) -> String {
        let (tokens, share) = (number(estimate_tokens(bytes)), percent(bytes, self.whole));
        let bar = format!("{bar:<20}");
        format!("{:>11}{tokens:>9}{share:>9}  {bar}  {what}\n", number(bytes))
    }

    fn part(&self, part: &AccountPart) -> String {
        let role = part.role.as_ref().map(|role| format!("{role}, ")).unwrap_or_default();
        let place = match part.kind {
            PartKind::Tool => String::new(),
            PartKind::System | PartKind::Message => {
                self.paint.faint(&format!("  {role}{}", part.place))
            }
        };
        let title = match &part.yours[..] {
            [share] if share.bytes == part.bytes => self.paint.good(&self.origin(&share.origin)),
            _ => part.title.clone(),
        };
        let mut text = self.row(part.bytes, "", &format!("  {title}{place}"));
        for share in part.yours.iter().filter(|share| share.bytes < part.bytes) {
            let origin = self.paint.good(&self.origin(&share.origin));
            text += &self.row(share.bytes, "", &format!("    of which {origin}"));
        }
        text
    }

    fn shares(&self, account: &Account) -> String {
        let (yours, own) = (account.your_bytes(), account.program_bytes());
        let from =
            |share: &Share| format!("{} {}", self.origin(&share.origin), number(share.bytes));
        let from: Vec<String> = account.yours().iter().map(from).collect();
        let name = self.paint.good("yours") + &self.paint.faint(&format!("  {}", from.join(", ")));
        let bar_of = |bytes| bar(bytes, self.whole, BAR);
        self.row(yours, &bar_of(yours), name.trim_end())
            + &self.row(own, &bar_of(own), "the program's own")
    }

    fn origin(&self, origin: &Origin) -> String {
        match origin {
            Origin::File { path } => {
                let path = path.strip_prefix(self.cwd).unwrap_or(path);
                path.display().to_string()
            }
            Origin::Argument | Origin::Stdin => origin.to_string(),
        }
    }
}
