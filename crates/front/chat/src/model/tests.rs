//! Tests of the model: keys and events in, effects and screens out.

use std::borrow::Cow;
use std::time::Duration;

use convoke_conformance_store::shown;
use convoke_core::Diagnostic;
use convoke_core::marker::TextPolicy;
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind, TextPart};
use convoke_protocol::attachment::Attachment;
use convoke_protocol::event::{EventKind, FailedTurn, StopReason};
use convoke_protocol::id::{MessageNumber, Millis, TurnId};
use convoke_protocol::message::Message;
use convoke_protocol::turn::{AttemptResult, TurnState};
use convoke_protocol::usage::Usage;
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use convoke_protocol::view::QueuedTurn;
use convoke_session::NewMessage;
use convoke_session::diagnostics;
use crossterm::event::KeyCode;
use insta::assert_snapshot;
use ratatui::layout::Size;

use super::testing::{chat, chat_after, message, queued, started, stored};
use super::{Chat, Effect, INBOX_LIMIT, Input};
use crate::history::StoredState;
use crate::sent_prompt::SentPrompt;
use crate::user_action::PromptView;

fn does(turn: u64, member: &str, kind: AgentEventKind<'static>) -> EventKind {
    EventKind::Agent { turn: TurnId(turn), member: member.into(), event: AgentEvent::own(kind) }
}

fn writes(turn: u64, member: &str, text: &'static str) -> EventKind {
    does(turn, member, AgentEventKind::Text { text: Cow::Borrowed(text), part: TextPart::Delta })
}

fn ended(turn: u64, member: &str, outcome: Verdict, reply: Option<&str>) -> EventKind {
    let state = match outcome {
        Verdict::Done => TurnState::Done,
        Verdict::Cancelled => TurnState::Cancelled,
        _ => TurnState::Failed,
    };
    let usage = Some(Usage { input: 12_345, output: 67, ..Usage::default() });
    EventKind::TurnEnded {
        turn: TurnId(turn),
        member: member.into(),
        attempt: 1,
        state,
        reply: reply.map(Into::into),
        result: Box::new(AttemptResult { usage, ..AttemptResult::new(Millis(0), outcome) }),
        elapsed: Duration::from_millis(4_250),
    }
}

fn idle() -> EventKind {
    EventKind::Stopped(StopReason::Idle { person: "you".into() })
}

/// A chat in which ada is replying.
fn at_work() -> Chat {
    let mut chat = chat();
    chat.enter_line("Can we ship login.py tonight?");
    chat.happen(message(1, "you", &["ada"], "Can we ship login.py tonight?"));
    chat.happen(queued(1, "ada"));
    chat.happen(started(1, "ada"));
    chat
}

#[test]
fn a_message_goes_to_the_addressed_member() {
    let mut chat = chat();
    let says = |chat: &mut Chat, line: &str| {
        let effect = match chat.enter_line(line) {
            Some(Effect::Attach(message)) => chat.update(Input::Attached(Ok(Box::new(message)))),
            effect => effect,
        };
        if let Some(Effect::Say(said)) = &effect {
            let text = said.text(TextPolicy::Preserve);
            chat.happen(message(1, "you", &[], &text));
        }
        chat.happen(idle());
        effect
    };
    for (line, text, to) in [
        ("hello", "hello", &["ada"][..]),
        ("@lin: hello", "hello", &["lin"]),
        ("@Lin @sam, hello @ada", "hello @ada", &["lin", "sam"]),
        ("@all hello", "hello", &["ada", "lin", "sam"]),
        ("@param is odd", "@param is odd", &["ada"]),
        ("@linda hello", "@linda hello", &["ada"]),
        (" /etc is odd", " /etc is odd", &["ada"]),
        ("/task Ship [it]", "[TEAM_TASK] Ship [it]", &[]),
        ("/drop lin sam", "[DROP: lin, sam]", &[]),
        ("/drop all", "[DROP: all]", &[]),
    ] {
        let saying = NewMessage::from_person("you", text).to(to.iter().copied());
        assert_eq!(says(&mut chat, line), Some(Effect::Say(saying)), "{line}");
    }
    assert_eq!(says(&mut chat, "/to sam, lin"), None);
    let saying = NewMessage::from_person("you", "hello").to(["sam", "lin"]);
    assert_eq!(says(&mut chat, "hello"), Some(Effect::Say(saying)));
}

#[test]
fn an_invalid_line_is_reported_and_can_be_corrected() {
    let mut chat = chat();
    for (line, notice) in [
        ("/quitt", "unknown command /quitt; did you mean /quit?"),
        (
            "/to lim",
            "no member has the name `lim`; did you mean `lin`? members: you, ada, lin, sam",
        ),
        ("/as ada", "no person has the name `ada`; people: you"),
        ("/task", "write /task TEXT"),
    ] {
        assert_eq!(chat.enter_line(line), None);
        assert_eq!(chat.notice.as_deref(), Some(notice));
        assert_eq!(chat.editor.text(), line);
        chat.ctrl('u');
    }
    for (line, notice) in [
        ("/cancel", "no turn is running"),
        ("/retry", "no turn to retry"),
        ("/ledger", "no prompt was sent yet"),
        ("/prompt lin", "no prompt was sent to lin yet"),
    ] {
        assert_eq!(chat.enter_line(line), None);
        assert_eq!(chat.notice.as_deref(), Some(notice));
    }
}

#[test]
fn ctrl_c_cancels_the_turn_and_then_quits() {
    let mut chat = at_work();
    assert_eq!(chat.ctrl('c'), Some(Effect::CancelTurn));
    assert!(chat.screen().contains("cancelling … "));
    assert_eq!(chat.ctrl('c'), Some(Effect::Leave));
    assert!(chat.screen().contains("saving … "));
    assert_eq!(chat.happen(EventKind::Stopped(StopReason::Left)), Some(Effect::Close));
}

#[test]
fn a_message_that_could_not_be_put_into_the_inbox_goes_back_to_the_line() {
    let mut chat = at_work();
    chat.enter_line("Look at the tests, too.");
    let saying = NewMessage::from_person("you", "Look at the tests, too.").to(["ada"]);
    chat.update(not_interjected(saying, "Look at the tests, too."));
    assert_eq!(chat.editor.text(), "Look at the tests, too.");
    assert!(chat.pending.is_empty() && chat.screen().contains("the disk is full"));
}

fn not_interjected(message: NewMessage, line: &str) -> Input {
    let why = "the disk is full".to_owned();
    Input::NotInterjected { message: Box::new(message), line: line.to_owned(), why }
}

#[test]
fn a_message_that_could_not_be_put_into_the_inbox_is_kept_whatever_was_typed_since() {
    let mut chat = at_work();
    let line = "@ada Look at @src/lib.rs, too.";
    let Some(Effect::Attach(mut message)) = chat.enter_line(line) else { panic!("it attaches") };
    message.content = "Look at src/lib.rs, too.".to_owned();
    let Some(Effect::Interject(message, entered)) =
        chat.update(Input::Attached(Ok(Box::new(message))))
    else {
        panic!("a turn is running")
    };
    assert_eq!(entered, line, "it names the recipient and the file");
    chat.enter_line("/to ada");
    chat.type_in("Another thought");
    chat.update(not_interjected(message, &entered));
    assert!(chat.pending.is_empty());
    assert_eq!(chat.editor.text(), "Another thought");
    let screen = chat.screen();
    assert!(screen.contains(&format!("not sent: {line}")), "{screen}");
    assert!(screen.contains("the disk is full"), "{screen}");
    chat.editor.up();
    assert_eq!(chat.editor.text(), line);
    chat.editor.down();
    assert_eq!(chat.editor.text(), "Another thought");
}

#[test]
fn a_message_from_the_page_that_missed_the_last_turn_continues_the_conversation() {
    let mut chat = at_work();
    let saying = NewMessage::from_person("you", "Look at the tests, too.").to(["ada"]);
    chat.happen(ended(1, "ada", Verdict::Done, None));
    assert_eq!(chat.happen(idle()), None);
    assert_eq!(chat.update(Input::Interjected(Box::new(saying))), Some(Effect::Continue));
    assert!(chat.screen().contains("… Look at the tests, too."));
}

#[test]
fn ctrl_c_between_turns_clears_the_line_and_then_quits() {
    let mut chat = chat();
    chat.type_in("half a thought");
    assert_eq!((chat.ctrl('c'), chat.editor.text()), (None, ""));
    chat.type_in("x");
    assert_eq!(chat.ctrl('c'), None, "a key in between means that one stays");
    assert_eq!(chat.ctrl('c'), Some(Effect::Close));
}

#[test]
fn ctrl_d_quits_only_with_an_empty_line() {
    let mut chat = chat();
    chat.type_in("x");
    assert_eq!(chat.ctrl('d'), None);
    chat.ctrl('u');
    assert_eq!(chat.ctrl('d'), Some(Effect::Close));
}

#[test]
fn a_message_sent_during_a_turn_is_shown_as_pending_and_stored() {
    let mut chat = at_work();
    let said = chat.enter_line("Look at the tests, too.");
    let saying = NewMessage::from_person("you", "Look at the tests, too.").to(["ada"]);
    assert_eq!(said, Some(Effect::Interject(saying, "Look at the tests, too.".to_owned())));
    assert!(chat.screen().contains("… Look at the tests, too."));
    // It came after the inbox was last read, so the conversation has to continue.
    chat.happen(ended(1, "ada", Verdict::Done, None));
    assert_eq!(chat.happen(idle()), Some(Effect::Continue));
    chat.happen(message(2, "you", &["ada"], "Look at the tests, too."));
    assert_eq!(chat.happen(idle()), None);
    assert!(!chat.screen().contains("… Look at the tests, too."));
}

#[test]
fn a_turn_that_failed_can_be_retried() {
    let mut chat = at_work();
    let failure = Verdict::Failed(Failure::new(FailureReason::Auth, "run `claude login`"));
    chat.happen(writes(1, "ada", "I have read"));
    chat.happen(ended(1, "ada", failure.clone(), None));
    let failed =
        FailedTurn { turn: TurnId(1), member: "ada".into(), asker: "you".into(), outcome: failure };
    chat.happen(EventKind::Stopped(StopReason::TurnFailed {
        person: "you".into(),
        turns: vec![failed],
    }));
    assert_snapshot!("a_failed_turn", chat.screen());
    assert_eq!(chat.enter_line("/retry"), Some(Effect::Retry(TurnId(1))));
    chat.update(Input::Refused("turn 1 cannot be retried: it is done".to_owned()));
    assert_eq!(chat.enter_line("/go"), Some(Effect::Continue));
}

#[test]
fn an_addressed_person_becomes_the_speaker() {
    let mut chat = chat();
    let (person, turn) = ("kim".into(), TurnId(3));
    let answers = MessageNumber(2);
    chat.happen(EventKind::Stopped(StopReason::Addressed { person, turn, answers }));
    assert_eq!(chat.speaker.as_str(), "kim");
    assert!(chat.screen().contains("kim was addressed; you now speak as kim"));
}

#[test]
fn the_ledger_is_one_key_away() {
    let mut chat = at_work();
    chat.happen(started(2, "lin"));
    let read = |turn, what| Some(Effect::Read(TurnId(turn), what));
    assert_eq!(chat.press(KeyCode::F(2)), read(2, PromptView::Ledger));
    assert_eq!(chat.ctrl('l'), read(2, PromptView::Ledger));
    assert_eq!(chat.enter_line("/prompt ada"), read(1, PromptView::Prompt));
}

#[test]
fn the_first_screen_shows_what_to_do() {
    assert_snapshot!(chat().screen());
}

#[test]
fn the_running_member_is_shown_while_it_writes() {
    let mut chat = at_work();
    chat.happen(queued(2, "lin"));
    chat.happen(queued(3, "sam"));
    let (id, name) = (Cow::Borrowed("1"), Cow::Borrowed("Read"));
    chat.happen(does(
        1,
        "ada",
        AgentEventKind::ToolStarted { id, name, input: Cow::Borrowed("{\"path\":\"login.py\"}") },
    ));
    chat.wait(65);
    assert_snapshot!("a_tool_is_used", chat.screen());
    chat.happen(writes(1, "ada", "I have read login.py: two functions, "));
    chat.happen(writes(1, "ada", "one file of tests.\n\n漢字 and 👩‍👩‍👧 are\u{1b}[2J aligned."));
    assert_snapshot!("a_reply_streams", chat.screen());
}

#[test]
fn a_reply_is_shown_with_its_time_and_tokens() {
    let mut chat = at_work();
    chat.happen(message(2, "ada", &["lin", "sam"], "Two views, please."));
    chat.happen(queued(2, "lin"));
    chat.happen(ended(1, "ada", Verdict::Done, Some("msg-2")));
    let diagnostic =
        Diagnostic::new(diagnostics::MARKER_UNRESOLVED, "no member has the name `lim`");
    chat.happen(EventKind::Diagnostic { turn: None, diagnostic });
    chat.happen(EventKind::Task { task: "Ship it".to_owned(), by: "ada".into() });
    chat.happen(EventKind::TurnDropped {
        turn: TurnId(2),
        member: "lin".into(),
        problem: "dropped".to_owned(),
    });
    chat.happen(idle());
    assert_snapshot!(chat.screen());
}

#[test]
fn names_are_offered_and_completed() {
    let mut chat = chat();
    chat.type_in("What about [NEXT: ");
    assert_snapshot!("names_are_offered", chat.screen());
    chat.press(KeyCode::Down);
    chat.press(KeyCode::Down);
    chat.press(KeyCode::Tab);
    assert_eq!(chat.editor.text(), "What about [NEXT: lin");
    chat.ctrl('u');
    chat.type_in("/");
    assert_snapshot!("commands_are_offered", chat.screen());
    chat.type_in("to");
    chat.press(KeyCode::Esc);
    chat.type_in(" s");
    chat.press(KeyCode::Tab);
    assert_eq!(chat.editor.text(), "/to sam");
}

#[test]
fn a_scrolled_conversation_does_not_move() {
    let mut chat = chat();
    for number in 1..40 {
        chat.happen(message(number, "ada", &[], &format!("Remark number {number}.")));
    }
    assert!(chat.screen().contains("Remark number 39."));
    chat.press(KeyCode::PageUp);
    let before = chat.screen();
    assert!(!before.contains("Remark number 39."));
    chat.happen(message(40, "ada", &[], "Something new."));
    let lines = |screen: &str| screen.lines().skip(1).take(10).collect::<Vec<_>>().join("\n");
    assert_eq!(lines(&chat.screen()), lines(&before));
    for _ in 0..40 {
        chat.press(KeyCode::PageUp);
    }
    assert!(chat.screen().contains("Remark number 1."));
    chat.press(KeyCode::Esc);
    assert!(chat.screen().contains("Something new."));
}

#[test]
fn a_page_is_opened_switched_and_closed() {
    let mut chat = chat();
    let sheet = SentPrompt {
        member: "ada".into(),
        turn: TurnId(1),
        attempt: 2,
        table: "1,234 of 786,432 bytes (0%)\n".to_owned(),
        system: Some("Be brief.".to_owned()),
        prompt: "[MESSAGE]\nCan we ship?\u{1b}c".to_owned(),
    };
    chat.update(Input::SentPrompt(Some(sheet), PromptView::Ledger));
    assert_snapshot!("the_ledger_of_a_prompt", chat.screen());
    chat.press(KeyCode::Tab);
    assert_snapshot!("the_prompt_itself", chat.screen());
    chat.press(KeyCode::Esc);
    assert!(chat.screen().contains("your turn"));
}

#[test]
fn help_fits_a_small_terminal() {
    let mut chat = chat();
    chat.press(KeyCode::F(1));
    assert_snapshot!(chat.screen());
}

#[test]
fn a_resumed_session_shows_its_last_messages() {
    let said = |number, from, text| stored(number, from, &[], text);
    let waiting = QueuedTurn {
        turn: TurnId(9),
        member: "lin".into(),
        answers: MessageNumber(202),
        intent: convoke_core::marker::Intent::P1,
    };
    let mut chat = chat_after(StoredState {
        messages: vec![said(201, "you", "And the tests?"), said(202, "ada", "They pass.")],
        left_out: 200,
        sent: vec![("ada".into(), TurnId(8))],
        unfinished: Some(TurnId(7)),
        queue: vec![waiting],
        task: None,
    });
    assert_snapshot!(chat.screen());
    assert_eq!(chat.enter_line("/retry"), Some(Effect::Retry(TurnId(7))));
}

#[test]
fn an_interrupted_turn_is_reported_with_its_partial_output() {
    let mut chat = chat();
    let interrupted = vec![TurnId(9)];
    chat.happen(EventKind::Opened { messages: 2, waiting: 1, interrupted });
    let screen = chat.screen();
    assert!(screen.contains("turn 9 was interrupted; /go retries it"), "{screen}");
}

#[test]
fn a_retried_turn_is_shown_once() {
    let mut chat = chat();
    chat.happen(started(9, "ada"));
    chat.happen(started(9, "ada"));
    assert_eq!(chat.running.len(), 1);
    let failure = Failure::new(FailureReason::Incomplete, "Convoke was interrupted");
    chat.happen(EventKind::TurnInterrupted {
        turn: TurnId(9),
        member: "ada".into(),
        attempt: 1,
        result: Box::new(AttemptResult::new(Millis(0), Verdict::Failed(failure))),
    });
    assert!(chat.running.is_empty());
}

#[test]
fn a_very_small_terminal_shows_the_newest_line() {
    let mut chat = chat();
    chat.happen(message(1, "ada", &["you"], "They pass."));
    chat.update(Input::Resize(Size::new(20, 5)));
    assert!(chat.screen().contains("They pass."), "{}", chat.screen());
}

#[test]
fn every_size_can_be_drawn() {
    let mut chat = at_work();
    chat.happen(writes(1, "ada", "漢字 and some more words to wrap"));
    chat.update(Input::Paste("a line\nand another\nand a third that is rather long".to_owned()));
    chat.type_in(" [NEXT: ");
    for width in 1..40 {
        for height in 1..16 {
            chat.update(Input::Resize(Size::new(width, height)));
            chat.screen();
        }
    }
    chat.press(KeyCode::F(1));
    chat.update(Input::Resize(Size::new(1, 1)));
    chat.screen();
    chat.press(KeyCode::Esc);
    chat.update(Input::Resize(Size::new(40, 12)));
    assert_snapshot!(chat.screen());
}

#[test]
fn nothing_of_a_hostile_text_reaches_the_terminal() {
    let evil = "\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}\r\u{8}\u{0}";
    let mut chat = chat();
    let text = format!("before {evil} after");
    chat.happen(message(1, &format!("ada{evil}"), &["you"], &text));
    chat.happen(started(1, "lin"));
    chat.happen(writes(1, "lin", "\u{1b}[2J\u{1b}[H\u{9d}0;x\u{9c}"));
    let diagnostic = Diagnostic::new(diagnostics::MARKER_UNRESOLVED, text.as_str());
    chat.happen(EventKind::Diagnostic { turn: None, diagnostic });
    chat.happen(EventKind::Task { task: text.clone(), by: "ada".into() });
    chat.update(Input::Refused(text.clone()));
    chat.update(Input::Paste(text));
    let screen = chat.screen();
    let bad = screen.chars().find(|&c| c != '\n' && (c.is_control() || c == '\u{202e}'));
    assert_eq!(bad, None, "{screen}");
}

#[test]
fn ctrl_c_twice_quits_even_if_the_turn_has_ended_in_between() {
    let mut chat = at_work();
    assert!(chat.screen().contains("Ctrl-C cancels the turn, twice quits"));
    assert_eq!(chat.ctrl('c'), Some(Effect::CancelTurn));
    chat.happen(ended(1, "ada", Verdict::Cancelled, None));
    chat.happen(EventKind::Stopped(StopReason::Cancelled { person: "you".into() }));
    assert!(chat.screen().contains("Ctrl-C again saves and quits"), "the hint is still true");
    assert_eq!(chat.ctrl('c'), Some(Effect::Close));
}

#[test]
fn outdated_hints_are_removed() {
    let mut chat = at_work();
    chat.enter_line("/retry");
    assert!(chat.screen().contains("agents are running; /cancel cancels the turn"));
    chat.ctrl('c');
    chat.happen(ended(1, "ada", Verdict::Cancelled, None));
    chat.happen(EventKind::Stopped(StopReason::Cancelled { person: "you".into() }));
    assert!(chat.screen().contains("/retry retries the turn"));
    assert_eq!(chat.enter_line("/retry"), Some(Effect::Retry(TurnId(1))));
    let screen = chat.screen();
    assert!(!screen.contains("/retry retries") && !screen.contains("/cancel cancels"), "{screen}");
    assert!(screen.contains("ada's turn was cancelled"), "what happened stays: {screen}");
    chat.happen(started(1, "ada"));
    chat.enter_line("/go");
    assert!(chat.screen().contains("agents are already running"));
    chat.happen(idle());
    assert!(!chat.screen().contains("agents are already running"));
    chat.enter_line("/quit");
    assert!(!chat.screen().contains("Enter sends"), "{}", chat.screen());
}

#[test]
fn diagnostics_of_an_agent_are_shown_with_their_fix_and_counted() {
    let mut chat = at_work();
    let diagnostic = || {
        Diagnostic::new(convoke_agent::diagnostics::AGENT_REPLY_TRUNCATED, "9 bytes were left out")
    };
    chat.happen(does(1, "ada", AgentEventKind::Warning(diagnostic())));
    chat.happen(does(1, "ada", AgentEventKind::Warning(diagnostic())));
    let screen = chat.screen();
    assert_eq!(screen.matches("9 bytes were left out").count(), 2, "{screen}");
    assert_eq!(screen.matches("9 bytes were left out (").count(), 1, "the fix, once: {screen}");
    assert_eq!(chat.codes.len(), 2);
    let partial =
        || Diagnostic::new(convoke_agent::diagnostics::SANDBOX_PARTIAL, "the network is open");
    chat.happen(does(1, "ada", AgentEventKind::Warning(partial())));
    chat.happen(does(1, "ada", AgentEventKind::Warning(partial())));
    assert_eq!(chat.screen().matches("the network is open").count(), 1, "once for all turns");
}

#[test]
fn the_bell_rings_when_a_turn_needs_the_person() {
    let mut chat = at_work();
    assert!(!chat.takes_bell());
    chat.happen(ended(1, "ada", Verdict::Done, None));
    assert!(!chat.takes_bell(), "another turn may follow");
    chat.happen(idle());
    assert!(chat.takes_bell());
    assert!(!chat.takes_bell(), "once");
    let mut chat = at_work();
    chat.ctrl('c');
    chat.happen(EventKind::Stopped(StopReason::Cancelled { person: "you".into() }));
    assert!(!chat.takes_bell(), "who cancels is there");
    let mut chat = at_work();
    chat.setup.rings = false;
    chat.happen(idle());
    assert!(!chat.takes_bell());
}

#[test]
fn replies_are_rendered_as_markdown_and_messages_of_people_as_text() {
    let mut chat = chat();
    let text = "## Result\n\n- `login.py` is **fine**\n\n```python\nreturn True  # ok\n```";
    chat.happen(message(1, "you", &["ada"], "*really* `so`?"));
    chat.happen(message(2, "ada", &["you"], text));
    assert_snapshot!(chat.screen());
}

#[test]
fn earlier_messages_are_read_on_scrolling_to_them() {
    let said = |number| stored(number, "ada", &[], &format!("Remark number {number}."));
    let past = StoredState {
        messages: (251..=260).map(said).collect(),
        left_out: 250,
        ..StoredState::default()
    };
    let mut chat = chat_after(past);
    let mut pages = Vec::new();
    for _ in 0..200 {
        if let Some(Effect::ReadEarlier(page)) = chat.press(KeyCode::PageUp) {
            let before = chat.screen();
            let read = (page.after + 1..=page.after + page.count).map(said).collect();
            chat.update(Input::Earlier(read));
            let shown = |screen: &str| screen.contains("Remark number 260.");
            assert_eq!(shown(&chat.screen()), shown(&before), "the view stays where it is");
            pages.push((page.after, page.count));
        }
    }
    assert_eq!(pages, [(150, 100), (50, 100), (0, 50)]);
    let screen = chat.screen();
    assert!(screen.contains("Remark number 1."), "{screen}");
    assert!(!screen.contains("earlier message"), "{screen}");
    chat.press(KeyCode::Esc);
    assert!(chat.screen().contains("Remark number 260."));
}

#[test]
fn a_message_is_written_in_an_editor_and_sent_by_enter() {
    let mut chat = chat();
    chat.type_in("first words");
    assert_eq!(chat.ctrl('g'), Some(Effect::Edit("first words".to_owned())));
    assert_eq!(chat.update(Input::Edited(Ok("many\nlines".to_owned()))), None);
    assert_eq!(chat.editor.text(), "many\nlines");
    chat.update(Input::Edited(Err("vi: not found; the message is unchanged".to_owned())));
    assert_eq!(chat.editor.text(), "many\nlines");
    assert!(chat.screen().contains("vi: not found"));
    let saying = NewMessage::from_person("you", "many\nlines").to(["ada"]);
    assert_eq!(chat.press(KeyCode::Enter), Some(Effect::Say(saying)));
    chat.happen(idle());
    assert_eq!(chat.enter_line("/edit Dear all"), Some(Effect::Edit("Dear all".to_owned())));
    chat.update(Input::Edited(Err("vi: not found".to_owned())));
    assert_eq!(chat.editor.text(), "Dear all", "a failing editor loses no text");
}

#[test]
fn a_line_over_the_inbox_limit_stays_with_its_recipients() {
    let mut chat = at_work();
    while chat.pending.len() < INBOX_LIMIT {
        chat.enter_line("more");
    }
    assert_eq!(chat.enter_line("@lin and this"), None);
    assert_eq!(chat.editor.text(), "@lin and this");
    assert!(chat.screen().contains("messages wait to be stored"), "{}", chat.screen());
    let attached = NewMessage::from_person("you", "look at a.rs").to(["lin"]);
    assert_eq!(chat.update(Input::Attached(Ok(Box::new(attached)))), None);
    assert_eq!(chat.pending.len(), INBOX_LIMIT);
}

#[test]
fn attached_files_are_shown_below_the_message() {
    let mut said = NewMessage::from_person("you", "Is it safe?").to(["ada"]);
    let file = Attachment { path: "src/main.rs".to_owned(), text: "x".repeat(1_234) };
    Attachment::add(vec![file], &mut said);
    let said =
        Message::new(MessageNumber(1), None, said.with_id("msg-1".into()), TextPolicy::default());
    let mut chat = chat();
    chat.happen(EventKind::Message(Box::new(said)));
    let screen = chat.screen();
    assert!(
        screen.contains("Is it safe?") && screen.contains("+ src/main.rs, 1,234 bytes"),
        "{screen}"
    );
}

#[test]
fn ctrl_z_suspends_in_every_view() {
    let mut chat = at_work();
    assert_eq!(chat.ctrl('z'), Some(Effect::Suspend));
    chat.press(KeyCode::F(1));
    assert_eq!(chat.ctrl('z'), Some(Effect::Suspend));
}

#[test]
fn a_file_that_cannot_be_attached_leaves_the_line_for_correction() {
    let mut chat = chat();
    let line = "@lin look at @gone.rs";
    let message = NewMessage::from_person("you", "look at @gone.rs").to(["lin"]);
    assert_eq!(chat.enter_line(line), Some(Effect::Attach(message)));
    chat.update(Input::Attached(Err("@gone.rs: there is no such file".to_owned())));
    assert_eq!(chat.editor.text(), line);
    assert!(chat.screen().contains("@gone.rs: there is no such file"));
    assert!(chat.screen().contains("your turn"), "nothing was sent");
}

#[test]
fn costs_are_shown_for_the_turn_and_the_chat() {
    let mut chat = at_work();
    chat.happen(message(2, "ada", &["you"], "Yes."));
    let mut end = ended(1, "ada", Verdict::Done, Some("msg-2"));
    if let EventKind::TurnEnded { result, .. } = &mut end {
        result.cost_usd = Some(0.0123);
    }
    chat.happen(end.clone());
    chat.happen(end);
    let screen = chat.screen();
    assert!(screen.contains("12,345 in, 67 out · $0.0123"), "{screen}");
    assert!(screen.contains("$0.0246"), "{screen}");
}

#[test]
fn the_facts_of_recorded_logs_are_on_the_screen() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let logs = runtime.block_on(async {
        let store = shown::recorded_store(directory.path()).await.unwrap();
        shown::logs(&store).await.unwrap()
    });
    for (session, events) in logs {
        let mut chat = chat();
        chat.update(Input::Resize(Size::new(200, 400)));
        let mut screens = String::new();
        for event in &events {
            chat.happen(event.kind.clone());
            chat.wait(1);
            screens.push_str(&chat.screen());
        }
        shown::check("chat", session, &events, &screens);
    }
}
