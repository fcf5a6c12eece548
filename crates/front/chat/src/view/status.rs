//! Draws the header, the running members, the queue and the key hints.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use convoke_core::figures::dollars;

use super::sides;
use crate::figures::clock;
use crate::model::{Activity, Chat};
use crate::text::{clip, printable_line};

/// Draws the title, the task and whose turn it is.
pub(super) fn header(chat: &Chat, area: Rect, frame: &mut Frame<'_>) {
    let name = printable_line(&chat.setup.name);
    let about = match &chat.task {
        Some(task) => format!(" {name} · {}", printable_line(task)),
        None => format!(" {name}"),
    };
    let turn = match chat.activity {
        Activity::Waiting => "your turn ",
        Activity::Working => "running ",
        Activity::Cancelling => "cancelling … ",
        Activity::Leaving => "saving … ",
    };
    let turn = match chat.setup.label {
        Some(label) => format!("{label} · {turn}"),
        None => turn.to_owned(),
    };
    frame.render_widget(Line::raw(sides(&about, &turn, area.width)).reversed(), area);
}

/// Draws the running members: elapsed time, activity, events and tokens.
pub(super) fn running(chat: &Chat, area: Rect, frame: &mut Frame<'_>) {
    let lines = chat.running.iter().map(|turn| {
        let name = printable_line(turn.member.as_str());
        let elapsed = clock(chat.now.saturating_sub(turn.began));
        let events = if turn.events == 1 { "event" } else { "events" };
        let counted = format!("{} {events} · {} tokens ", turn.events, turn.tokens());
        let doing = format!(" ● {name} {elapsed}  {}", turn.activity);
        Line::raw(sides(&doing, &counted, area.width)).fg(Color::Green)
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), area);
}

/// Draws the queue, and the cost of this chat.
pub(super) fn queue(chat: &Chat, area: Rect, frame: &mut Frame<'_>) {
    let waiting = chat
        .queue
        .iter()
        .map(|waiting| format!("{} {:?}", printable_line(waiting.member.as_str()), waiting.intent));
    let waiting = waiting.collect::<Vec<_>>().join(", ");
    let text = match chat.queue.len() {
        0 => " queue: empty".to_owned(),
        1 => format!(" queue: {waiting}"),
        count => format!(" queue ({count}): {waiting}"),
    };
    let cost = chat.cost_usd.map_or_else(String::new, |cost| format!("{} ", dollars(cost)));
    frame.render_widget(Line::raw(sides(&text, &cost, area.width)).dim(), area);
}

/// Draws the line above the input with speaker and recipients.
pub(super) fn rule(chat: &Chat, area: Rect, frame: &mut Frame<'_>) {
    let from = printable_line(chat.speaker.as_str());
    let to =
        if chat.to.is_empty() { "all".to_owned() } else { printable_line(&chat.to.join(", ")) };
    let who = clip(&format!(" {from} → {to} "), usize::from(area.width.saturating_sub(4)));
    let used = Line::raw(who.as_str()).width() + 2;
    let rest = "─".repeat(usize::from(area.width).saturating_sub(used));
    let line = vec![Span::raw("──").dim(), Span::raw(who).bold(), Span::raw(rest).dim()];
    frame.render_widget(Line::from(line), area);
}

/// Draws the key hints, or a notice.
pub(super) fn hints(chat: &Chat, area: Rect, frame: &mut Frame<'_>) {
    if let Some(notice) = &chat.notice {
        let notice = clip(&format!(" {notice}"), usize::from(area.width));
        frame.render_widget(Line::raw(notice).fg(Color::Yellow), area);
        return;
    }
    if let Some(overlay) = &chat.overlay {
        let keys = clip(&format!(" {}", overlay.keys()), usize::from(area.width));
        frame.render_widget(Line::raw(keys).dim(), area);
        return;
    }
    let keys = match chat.activity {
        _ if !chat.questions.is_empty() => {
            " An agent waits for an answer: F3 shows its question · F1 help"
        }
        Activity::Waiting => {
            " Enter sends · Tab completes · F2 ledger · F1 help · Ctrl-C Ctrl-C quits"
        }
        Activity::Working => {
            " Enter sends after this turn · F1 help · Ctrl-C cancels the turn, twice quits"
        }
        Activity::Cancelling => " Enter sends after this turn · F1 help · Ctrl-C quits",
        Activity::Leaving => " saving the session; it can be continued",
    };
    frame.render_widget(Line::raw(clip(keys, usize::from(area.width))).dim(), area);
}
