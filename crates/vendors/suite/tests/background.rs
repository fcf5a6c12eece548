//! Turns of Claude Code that leave sub-agents or shells running in the background.

#![allow(clippy::unwrap_used)]

use convoke_agent::TurnResult;
use convoke_agent::ending::{Ending, Exit, TerminationCause};
use convoke_agent::stream::{EventReader, TurnPhase};
use convoke_protocol::usage::Usage;
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use convoke_vendor_claude::stream::Claude;
use serde_json::{Value, json};

fn init() -> Value {
    json!({"type": "system", "subtype": "init", "session_id": "s"})
}

fn tasks(types: &[&str]) -> Value {
    let tasks: Vec<Value> = types.iter().map(|kind| json!({"task_type": kind})).collect();
    json!({"type": "system", "subtype": "background_tasks_changed", "tasks": tasks})
}

fn result(text: &str) -> Value {
    json!({"type": "result", "subtype": "success", "is_error": false, "result": text,
        "num_turns": 1, "terminal_reason": "completed", "usage": {"input_tokens": 1, "output_tokens": 1},
        "model_usage_since_last_result": {
            "main": {"inputTokens": 10, "outputTokens": 2, "cacheReadInputTokens": 3, "costUSD": 0.5},
            "sub": {"inputTokens": 100, "outputTokens": 20, "cacheCreationInputTokens": 4}}})
}

fn placeholder() -> Value {
    json!({"type": "result", "subtype": "success", "is_error": false, "result": "", "num_turns": 0,
        "origin": {"kind": "task-notification", "runId": "r"}})
}

fn interrupted() -> Value {
    json!({"type": "control_response", "response": {"subtype": "success", "request_id": "interrupt",
        "response": {"still_queued": []}}})
}

/// Reads events and returns the phase after each, and the result.
fn read(events: &[Value], stop: Option<TerminationCause>) -> (Vec<TurnPhase>, TurnResult) {
    let mut reader = Claude::new(1000);
    let mut phases = Vec::new();
    for event in events {
        reader.line(event.to_string().as_bytes(), &mut |_| {});
        phases.push(reader.phase());
    }
    let ending = Ending { exit: Exit::Code(0), stop, stderr: "" };
    (phases, reader.finish(&ending, &mut |_| {}))
}

fn reason(result: &TurnResult) -> Option<FailureReason> {
    match &result.verdict {
        Verdict::Failed(Failure { reason, .. }) => Some(*reason),
        _ => None,
    }
}

#[test]
fn a_turn_goes_on_while_a_sub_agent_runs_and_its_reply_is_the_last_one() {
    use TurnPhase::{Answered, Running};
    let (phases, turn) = read(
        &[
            init(),
            tasks(&["local_agent"]),
            result("I will report."),
            tasks(&[]),
            init(),
            result("42 [NEXT: kai]"),
        ],
        None,
    );
    assert_eq!(phases, [Running, Running, Running, Running, Running, Answered]);
    assert_eq!((turn.verdict, turn.reply.as_str()), (Verdict::Done, "42 [NEXT: kai]"));
}

#[test]
fn usage_and_money_are_those_of_all_results_and_sub_agents() {
    let twice = [init(), tasks(&["local_agent"]), result("a"), tasks(&[]), init(), result("b")];
    let (_, turn) = read(&twice, None);
    let usage = Usage { input: 234, cached: 6, cache_write: 8, output: 44, reasoning: 0 };
    assert_eq!((turn.usage, turn.cost_usd), (Some(usage), Some(1.0)));
}

#[test]
fn a_result_without_a_count_of_its_own_leaves_the_sum() {
    let mut bare = placeholder();
    bare["usage"] = json!({"input_tokens": 0, "output_tokens": 0});
    let (_, all) = read(&[init(), result("one"), result("two")], None);
    let (_, with_bare) = read(&[init(), result("one"), bare, result("two")], None);
    assert_eq!((with_bare.usage, with_bare.cost_usd), (all.usage, all.cost_usd));
}

#[test]
fn a_placeholder_is_no_result() {
    let (phases, turn) = read(&[init(), placeholder()], None);
    assert_eq!(phases[1], TurnPhase::Running);
    assert_eq!(reason(&turn), Some(FailureReason::Incomplete));
    let (phases, turn) = read(&[init(), placeholder(), init(), result("yes")], None);
    assert_eq!(phases[3], TurnPhase::Over);
    assert_eq!((turn.verdict, turn.reply.as_str()), (Verdict::Done, "yes"));
}

#[test]
fn an_answer_with_nothing_but_shells_running_may_be_the_last() {
    let shell = [init(), tasks(&["local_bash"]), result("started")];
    let (phases, turn) = read(&shell, Some(TerminationCause::TimedOut));
    assert_eq!(phases[2], TurnPhase::Answered);
    assert_eq!((turn.verdict, turn.reply.as_str()), (Verdict::Done, "started"));
    let (_, turn) = read(&shell, Some(TerminationCause::Cancelled));
    assert_eq!(turn.verdict, Verdict::Cancelled);
}

#[test]
fn a_process_that_is_gone_with_tasks_running_was_cut_off() {
    for task in ["local_bash", "local_agent", "a_new_kind"] {
        let (_, turn) = read(&[init(), tasks(&[task]), result("started")], None);
        assert_eq!(reason(&turn), Some(FailureReason::Incomplete), "{task}");
        assert_eq!(turn.reply, "started");
    }
    let killed = [init(), tasks(&["local_agent"]), result("started"), tasks(&[])];
    assert_eq!(reason(&read(&killed, None).1), Some(FailureReason::Incomplete));
    let working = [init(), tasks(&["local_bash"]), result("started"), tasks(&[]), init()];
    assert_eq!(reason(&read(&working, None).1), Some(FailureReason::Incomplete));
}

#[test]
fn a_task_counts_although_the_set_that_names_it_is_unreadable() {
    let started = json!({"type": "system", "subtype": "task_started", "task_type": "local_agent",
        "is_backgrounded": true});
    let (_, turn) = read(&[init(), started, result("started")], None);
    assert_eq!(reason(&turn), Some(FailureReason::Incomplete));
}

#[test]
fn an_interrupt_that_ends_sub_agents_ends_the_turn() {
    let cancelled = [init(), tasks(&["local_agent"]), result("started"), tasks(&[]), interrupted()];
    let (phases, turn) = read(&cancelled, None);
    assert_eq!(phases[3..], [TurnPhase::Running, TurnPhase::Answered]);
    assert_eq!(turn.verdict, Verdict::Cancelled);
    let (_, turn) = read(&[init(), result("done"), interrupted()], None);
    assert_eq!(turn.verdict, Verdict::Done);
}

#[test]
fn a_follow_up_that_says_nothing_leaves_the_reply() {
    let (_, turn) =
        read(&[init(), tasks(&["local_bash"]), result("a"), tasks(&[]), init(), result("")], None);
    assert_eq!((turn.verdict, turn.reply.as_str()), (Verdict::Done, "a"));
}

#[test]
fn the_last_result_decides() {
    let mut failed = result("no");
    failed["is_error"] = json!(true);
    let (_, turn) =
        read(&[init(), tasks(&["local_agent"]), result("a"), tasks(&[]), init(), failed], None);
    assert_eq!(turn.verdict.as_str(), "failed");
}
