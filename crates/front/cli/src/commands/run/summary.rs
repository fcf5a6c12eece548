//! The lines before and after a run.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Duration;

use convoke_core::ledger::estimate_tokens;
use convoke_protocol::event::StopReason;
use convoke_protocol::view::{CountedTokens, MemberFigures, RequestFigures};

use super::reached::Arrivals;
use super::totals::Totals;
use super::view::View;
use crate::conversation::project::Origin;
use crate::conversation::{AgentBackend, Conversation};
use crate::figures::{count, dollars, number, percent, seconds};
use crate::program;
use crate::requests::sent;
use crate::terminal::printable;

/// Writes the lines before a run: team, session, rehearsal, task and queue.
pub(super) fn opening<W: Write>(view: &mut View<W>, conversation: &Conversation) -> io::Result<()> {
    let paint = view.paint();
    let team = conversation.coordinator.team_agents().team();
    let session = conversation.coordinator.session().short();
    let name = team.name.as_deref().unwrap_or("a conversation");
    let continues = if conversation.is_new { "session" } else { "resumed session" };
    view.line(&format!(
        "{}  {}",
        paint.strong(name),
        paint.faint(&format!("{continues} {session}"))
    ))?;
    let backend = match conversation.backend {
        AgentBackend::Agents => None,
        AgentBackend::StandIns if conversation.project.origin == Origin::Sample => {
            Some("A rehearsal of the built-in sample: a script replies. No account, no network.")
        }
        AgentBackend::StandIns => {
            Some("A rehearsal: the built-in stand-in replies. No account, no network.")
        }
        AgentBackend::Clis => Some(
            "A rehearsal: the installed programs run in private homes, and a model server on this machine replies.",
        ),
    };
    if let Some(note) = backend {
        view.line(&paint.faint(note))?;
    }
    if conversation.stays_rehearsal {
        let how =
            "The session began as a rehearsal and stays one; --rehearse=no runs the real agents.";
        view.line(&paint.faint(how))?;
    }
    if let Some(task) = conversation.coordinator.task() {
        view.line(&format!("{} {}", paint.faint("task:"), printable(task)))?;
    }
    if conversation.has_own_team() {
        let how = "The session uses its own copy of the team file, which differs from convoke.toml; \
        --team FILE replaces it.";
        view.line(&paint.faint(how))?;
    }
    let waiting = conversation.coordinator.waiting();
    if !waiting.is_empty() {
        let waiting: Vec<&str> = waiting.iter().map(|turn| turn.member.as_str()).collect();
        view.line(&paint.faint(&format!("queued: {}", waiting.join(", "))))?;
    }
    Ok(())
}

/// The end of a run.
pub(super) struct End<'a> {
    pub(super) stop: &'a StopReason,
    pub(super) arrivals: Arrivals,
    pub(super) elapsed: Duration,
    /// Whether there is a turn to retry: this run was stopped, or it ran none after one that failed.
    pub(super) is_unfinished: bool,
}

/// Writes the end of a run: the reason why it stopped, the totals by member, and suggested commands.
pub(super) fn closing<W: Write>(
    view: &mut View<W>,
    totals: &Totals,
    conversation: &Conversation,
    end: &End<'_>,
) -> io::Result<()> {
    let paint = view.paint();
    let End { stop, arrivals, elapsed, is_unfinished } = *end;
    let (ended, is_good) = match stop {
        StopReason::Idle { person } if totals.turns() == 0 && totals.has_reached_no_member() => {
            (format!("No member was addressed; waiting for {person}."), false)
        }
        StopReason::Idle { person } if totals.has_reached_no_member() => {
            (format!("A marker named no member; waiting for {person}."), false)
        }
        stop => ending(stop),
    };
    let ended = if is_good { paint.good(&ended) } else { paint.warning(&ended) };
    view.line(&format!("\n{ended} {}", paint.faint(&format!("({})", seconds(elapsed)))))?;
    let table = table(&totals.view.members);
    if !table.is_empty() {
        view.line("")?;
        for line in table {
            view.line(&line)?;
        }
        if let Some(uncounted) = uncounted(&totals.view.members) {
            view.line(&paint.faint(&uncounted))?;
        }
        let requests = totals.view.members.iter();
        for (member, requests) in requests.filter_map(|it| Some((&it.member, it.requests?))) {
            view.line(&paint.faint(&format!("{member}: {}", sent(requests))))?;
        }
    }
    if arrivals.calls > 0 {
        let Arrivals { arrived, calls } = arrivals;
        view.line(&format!("\n{arrived} of {calls} prompts reached the model byte for byte"))?;
    }
    if !totals.view.diagnostics.is_empty() {
        view.line("")?;
    }
    for (code, given) in &totals.view.diagnostics {
        let times = if given.count > 1 { format!(" ×{}", given.count) } else { String::new() };
        view.line(&format!("{}{times}: {}", paint.warning(code.name()), printable(&given.first)))?;
        view.line(&format!("  {}", paint.faint(code.fix())))?;
    }
    let (program, store) = (program::name(), program::store_option());
    let id = conversation.coordinator.session().short();
    let again = match stop {
        StopReason::TurnFailed { .. } => " --retry".to_owned(),
        _ if is_unfinished => " --retry".to_owned(),
        StopReason::Addressed { .. } => " \"…\"".to_owned(),
        _ => String::new(),
    };
    let go_on = match stop {
        StopReason::Addressed { person, .. } => format!("answer as {person}"),
        StopReason::Cancelled { .. } | StopReason::Left => "continue this session".to_owned(),
        _ if is_unfinished => "retry the last turn".to_owned(),
        _ => "continue this session".to_owned(),
    };
    let option = conversation.option;
    view.line("")?;
    let mut advice = |what: &str, command: String| {
        view.line(&format!("{} {}", paint.faint(&format!("{what:<28}")), paint.strong(&command)))
    };
    let (models, programs): (Vec<_>, Vec<_>) =
        totals.view.members.iter().partition(|member| member.requests.is_some());
    if !models.is_empty() {
        advice("show every request", format!("{program} sessions show {id} --request{store}"))?;
    }
    if programs.iter().any(|member| member.turns > 0) {
        advice("show every prompt", format!("{program} sessions show {id} --prompt{store}"))?;
    }
    advice(&go_on, format!("{program} run{option} --session {id}{store}{again}"))
}

/// Returns the reason why a conversation stopped, and whether that counts as success.
fn ending(stop: &StopReason) -> (String, bool) {
    match stop {
        StopReason::Idle { person } => (format!("No turns queued; waiting for {person}."), true),
        StopReason::Addressed { person, answers, .. } => {
            (format!("It is {person}'s turn to answer message {answers}."), true)
        }
        StopReason::TurnFailed { person, turns } => {
            let members: Vec<&str> = turns.iter().map(|turn| turn.member.as_str()).collect();
            (format!("{} did not reply; waiting for {person}.", members.join(", ")), false)
        }
        StopReason::Cancelled { person } => (format!("Cancelled; waiting for {person}."), false),
        StopReason::Left => ("Stopped; the session is saved.".to_owned(), false),
        StopReason::TurnLimit { person, limit } => {
            (format!("Stopped after {limit} turns without a person; waiting for {person}."), false)
        }
        StopReason::Repetition { person, member, times } => (
            format!(
                "Stopped: {member} repeated the same message {times} times. Waiting for {person}."
            ),
            false,
        ),
        StopReason::QueueFull { person, limit, left_out } => (
            format!(
                "Stopped: the queue is full ({limit} turns), and {} added. Waiting for {person}.",
                if *left_out == 1 {
                    "1 turn was not".to_owned()
                } else {
                    format!("{left_out} turns were not")
                }
            ),
            false,
        ),
    }
}

/// Returns the table of members with bytes and tokens, as counted by the agent or estimated.
fn table(members: &[MemberFigures]) -> Vec<String> {
    // After a start that failed there are no figures.
    if members.iter().all(|member| member.bytes() == 0 && member.counted_tokens.is_none()) {
        return Vec::new();
    }
    let is_counted = members.iter().any(|member| member.counted_tokens.is_some());
    let is_recorded = members.iter().any(|member| member.requests.is_some());
    let costs = || members.iter().filter_map(|member| member.cost_usd);
    let has_cost = costs().next().is_some();
    let mut heads = vec!["member", "turns", "bytes sent"];
    heads.extend(is_recorded.then_some("unchanged"));
    heads.extend(if is_counted {
        &["tokens in", "from cache", "tokens out"][..]
    } else {
        &["tokens, about"]
    });
    heads.extend(has_cost.then_some("cost"));
    let mut rows = vec![heads.into_iter().map(str::to_owned).collect()];
    let row = |name: &str,
               (turns, bytes): (u64, u64),
               requests: Option<RequestFigures>,
               tokens: Tokens,
               cost: Option<f64>| {
        let mut row = vec![name.to_owned(), number(turns), number(bytes)];
        if is_recorded {
            let share = requests.map(|it| percent(it.unchanged_bytes, it.bytes));
            row.push(share.unwrap_or_default());
        }
        row.extend(if is_counted { tokens.counted() } else { vec![number(tokens.input)] });
        row.extend(has_cost.then(|| cost.map_or_else(String::new, dollars)));
        row
    };
    for member in members {
        let MemberFigures { member: name, turns, cost_usd, .. } = member;
        let (size, tokens) = ((*turns, member.bytes()), Tokens::new(member));
        rows.push(row(name.as_str(), size, member.requests, tokens, *cost_usd));
    }
    if members.len() > 1 {
        let sum = |of: fn(&MemberFigures) -> u64| members.iter().map(of).sum::<u64>();
        let tokens = members.iter().map(Tokens::new).reduce(Tokens::plus).unwrap_or_default();
        let requests =
            members.iter().filter_map(|member| member.requests).reduce(RequestFigures::plus);
        let cost = has_cost.then(|| costs().sum());
        let size = (sum(|it| it.turns), sum(MemberFigures::bytes));
        rows.push(row("all", size, requests, tokens, cost));
    }
    aligned(&rows)
}

/// Returns a note about turns without counted tokens.
fn uncounted(members: &[MemberFigures]) -> Option<String> {
    let counted = members.iter().filter_map(|it| Some(it.turns - it.counted_tokens?.turns));
    match counted.sum() {
        0 => None,
        turns => Some(format!("~: the tokens of {} are unknown", count(turns, "turn"))),
    }
}

/// Tokens, counted or estimated.
#[derive(Debug, Clone, Copy, Default)]
struct Tokens {
    input: u64,
    cached: u64,
    output: u64,
    /// Whether some are estimated or unknown.
    is_about: bool,
}

impl Tokens {
    fn new(member: &MemberFigures) -> Self {
        if let Some(CountedTokens { turns, input, cached, output }) = member.counted_tokens {
            return Self { input, cached, output, is_about: turns < member.turns };
        }
        let requests = member.requests.map(|requests| estimate_tokens(requests.bytes));
        let input = requests.unwrap_or(member.sent_tokens_estimate);
        Self { input, is_about: true, ..Self::default() }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            input: self.input + other.input,
            cached: self.cached + other.cached,
            output: self.output + other.output,
            is_about: self.is_about || other.is_about,
        }
    }

    fn counted(self) -> Vec<String> {
        let about = if self.is_about { "~" } else { "" };
        let known = |tokens: u64| match tokens {
            0 if self.is_about => String::new(),
            tokens => format!("{about}{}", number(tokens)),
        };
        vec![format!("{about}{}", number(self.input)), known(self.cached), known(self.output)]
    }
}

/// Aligns columns: names to the left, figures to the right.
fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    use unicode_width::UnicodeWidthStr;
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].width()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let padding = widths[0] - row[0].width();
        let mut line = format!("{}{:padding$}", row[0], "");
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            let _ = write!(line, "  {cell:>width$}");
        }
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use convoke_protocol::id::MemberName;

    use super::*;

    #[test]
    fn figures_are_aligned_in_columns() {
        let member = |name: &str, turns, bytes| MemberFigures {
            member: MemberName::from(name),
            turns,
            done: turns,
            sent_bytes: bytes,
            sent_tokens_estimate: bytes / 4,
            counted_tokens: None,
            requests: None,
            cost_usd: None,
            elapsed: Duration::ZERO,
        };
        assert_eq!(
            table(&[member("ada", 3, 12_004), member("小林", 1, 400)]).join("\n"),
            "\
member  turns  bytes sent  tokens, about
ada         3      12,004          3,001
小林        1         400            100
all         4      12,404          3,101"
        );
    }

    #[test]
    fn costs_have_a_column_where_an_agent_reported_one() {
        let member = |name: &str, cost_usd| MemberFigures {
            member: MemberName::from(name),
            turns: 1,
            done: 1,
            sent_bytes: 400,
            sent_tokens_estimate: 100,
            counted_tokens: None,
            requests: None,
            cost_usd,
            elapsed: Duration::ZERO,
        };
        assert_eq!(
            table(&[member("ada", Some(0.0123)), member("lin", None), member("sam", Some(1.5))])
                .join("\n"),
            "\
member  turns  bytes sent  tokens, about     cost
ada         1         400            100  $0.0123
lin         1         400            100
sam         1         400            100    $1.50
all         3       1,200            300    $1.51"
        );
    }

    #[test]
    fn counted_tokens_are_distinguished_from_estimates() {
        let member = |name: &str, turns, counted_tokens| MemberFigures {
            member: MemberName::from(name),
            turns,
            done: turns,
            sent_bytes: 4_000,
            sent_tokens_estimate: 1_000,
            counted_tokens,
            requests: None,
            cost_usd: None,
            elapsed: Duration::ZERO,
        };
        let counted = CountedTokens { turns: 2, input: 5_000, cached: 4_200, output: 70 };
        assert_eq!(
            table(&[
                member("ada", 2, Some(counted)),
                member("bo", 3, Some(counted)),
                member("cy", 1, None)
            ])
            .join("\n"),
            "\
member  turns  bytes sent  tokens in  from cache  tokens out
ada         2       4,000      5,000       4,200          70
bo          3       4,000     ~5,000      ~4,200         ~70
cy          1       4,000     ~1,000
all         6      12,000    ~11,000      ~8,400        ~140"
        );
    }

    #[test]
    fn the_bytes_of_a_model_are_those_of_its_requests() {
        let member = |name: &str, requests| MemberFigures {
            member: MemberName::from(name),
            turns: 2,
            done: 2,
            sent_bytes: 800,
            sent_tokens_estimate: 200,
            counted_tokens: None,
            requests,
            cost_usd: None,
            elapsed: Duration::ZERO,
        };
        let mut requests = RequestFigures::default();
        requests.add(8_000, 0);
        requests.add(12_000, 7_000);
        assert_eq!(
            table(&[member("mo", Some(requests)), member("ada", None)]).join("\n"),
            "\
member  turns  bytes sent  unchanged  tokens, about
mo          2      20,000     35.0 %          5,000
ada         2         800                       200
all         4      20,800     35.0 %          5,200"
        );
    }
}
