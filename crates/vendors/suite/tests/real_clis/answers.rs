//! The ends of turns against the ends of the provider's answers: verdict, reply and tokens are compared with what the server
//! sent, with and without a record of the requests.
//!
//! A seed decides an answer and everything in it. `CONVOKE_ANSWERS` sets how many there are for each CLI,
//! `CONVOKE_ANSWER_SEED` the first seed; with `CONVOKE_ANSWERS=1`, a failed one is repeated alone.

use std::sync::Arc;

use convoke_agent::thread::MemoryThreadStore;
use convoke_agent::turn_input::Permissions;
use convoke_agent::{Agent, TurnResult};
use convoke_inspect::record::{ProgramHome, Recording, RecordingAgent};
use convoke_protocol::id::ThreadId;
use convoke_protocol::usage::Usage;
use convoke_protocol::verdict::{FailureReason, Verdict};
use convoke_redact::Redactor;
use convoke_rehearsal::{Answered, Recorded, Rehearsal, Script};
use convoke_wire::{AnswerEnd, EndKind};
use fastrand::Rng;

use crate::provider_answer::{ProviderAnswer, Stop, complete, stops};
use crate::test_host::{Cli, TestHost, codes, reason};

const FIRST_SEED: u64 = 20_261_119;

/// A turn: the provider's answers, and the one for every request after them.
#[derive(Debug)]
struct Case {
    answers: Vec<ProviderAnswer>,
    rest: ProviderAnswer,
    is_recorded: bool,
}

/// Every end of an answer, alone and after a tool call, with and without text.
pub async fn ends_its_turns_as_the_model_ends_its_answers(cli: Cli) {
    let said = |text: &str| ProviderAnswer::say(cli, text);
    let called = ProviderAnswer::call(cli, "I will look.");
    let mut cases = vec![
        (vec![called.clone(), said("")], said("")),
        (vec![ProviderAnswer { thinks: true, ..said("") }], said("")),
        (vec![called, said("line\u{2028}separator")], said("again")),
    ];
    for stop in stops(cli) {
        cases.push((Vec::new(), said("half of").stopping(stop)));
    }
    for (answers, rest) in cases {
        for is_recorded in [true, false] {
            let case = Case { answers: answers.clone(), rest: rest.clone(), is_recorded };
            if !case.run(cli).await {
                return;
            }
        }
    }
}

pub async fn ends_random_turns(cli: Cli) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("CONVOKE_ANSWER_SEED").unwrap_or(FIRST_SEED);
    let count = number("CONVOKE_ANSWERS").unwrap_or(20);
    println!("{cli:?}: seeds {first} to {}", first + count.saturating_sub(1));
    let mut failed = Vec::new();
    for seed in first..first + count {
        let case = Case::random(cli, seed);
        let shown = format!("{case:?}");
        let ran = tokio::spawn(async move { case.run(cli).await }).await;
        match ran {
            Ok(true) => {}
            Ok(false) => return,
            Err(_) => {
                let again = format!("CONVOKE_ANSWER_SEED={seed} CONVOKE_ANSWERS=1");
                println!("{cli:?}: seed {seed} failed: {shown}; again: {again}");
                failed.push(seed);
            }
        }
    }
    assert!(failed.is_empty(), "failed seeds: {failed:?}");
}

impl Case {
    fn random(cli: Cli, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut answers = Vec::new();
        for _ in 0..rng.usize(0..3) {
            let words: &str = if rng.bool() { "I will look." } else { "" };
            let call = ProviderAnswer::call(cli, words);
            answers.push(ProviderAnswer { tokens: tokens(&mut rng), ..call });
        }
        let stops = stops(cli);
        for _ in 0..rng.usize(1..3) {
            answers.push(ProviderAnswer {
                text: (*pick(&mut rng, &["", " \n", "half of", "a [NEXT: b]", "one\u{2028}two"]))
                    .to_owned(),
                thinks: rng.bool(),
                calls_tool: false,
                stop: *pick(&mut rng, &stops),
                tokens: tokens(&mut rng),
            });
        }
        let rest = if rng.bool() {
            ProviderAnswer::say(cli, "fine.")
        } else {
            answers.last().cloned().unwrap_or_else(|| ProviderAnswer::say(cli, "fine."))
        };
        Self { answers, rest, is_recorded: rng.bool() }
    }

    /// Runs the turn and compares its result; returns whether the CLI is installed.
    async fn run(&self, cli: Cli) -> bool {
        let script = Script::new(self.answers.iter().map(|answer| answer.of(cli)));
        let script = script.with_default(self.rest.of(cli));
        let Some(test) = TestHost::new(cli, script).await else { return false };
        let mut turn_input = test.turn_input("hello");
        turn_input.permissions = Permissions::Full;
        let TestHost { home, work: _work, server, agent, .. } = test;
        let agent: Arc<dyn Agent> = agent.into();
        let agent = if self.is_recorded {
            let recording = recording(cli, home.path().to_owned());
            Arc::new(RecordingAgent::new(agent, server.feed(), recording))
        } else {
            agent
        };
        let turn = agent.start(turn_input).result().await;
        let served = self.served(&server);
        println!("{cli:?} {self:?}: {} {:?} {:?}", turn.verdict, turn.reply, codes(&turn));
        self.compare(cli, &served, &turn);
        true
    }

    /// Returns the answers that the server gave in the conversation.
    fn served(&self, server: &Rehearsal) -> Vec<&ProviderAnswer> {
        let requests = server.requests().into_iter().filter(Recorded::is_turn);
        let served = requests.map(|request| match request.answered {
            Answered::Script { answer } => &self.answers[answer],
            _ => &self.rest,
        });
        served.collect()
    }

    fn compare(&self, cli: Cli, served: &[&ProviderAnswer], turn: &TurnResult) {
        let last = served.last().unwrap();
        // Gemini CLI cannot parse a line separator in an answer, and asks again.
        let is_unread = cli == Cli::Gemini && last.text.contains('\u{2028}');
        let expected = match last.stop {
            _ if is_unread => None,
            Stop::Word(word) => match AnswerEnd::from_word(word).kind {
                EndKind::Complete => Some(None),
                EndKind::OutputFull => Some(Some(FailureReason::OutputFull)),
                EndKind::ContextFull => Some(Some(FailureReason::ContextFull)),
                EndKind::Refused => Some(Some(FailureReason::Refused)),
                EndKind::Unfinished => None,
            },
            Stop::RefusalPart | Stop::Blocked => Some(Some(FailureReason::Refused)),
            Stop::Missing => None,
        };
        let story = format!("{cli:?} {self:?}\nserved: {served:?}\n{turn:?}");
        match expected {
            Some(None) if last.text.trim().is_empty() => {
                let is_told =
                    codes(turn).contains(&"agent.reply-empty") || turn.verdict != Verdict::Done;
                assert!(is_told && turn.reply.trim().is_empty(), "{story}");
                assert_ne!(reason(turn), Some(FailureReason::ContextFull), "{story}");
            }
            Some(None) => {
                assert_eq!(turn.verdict, Verdict::Done, "{story}");
                assert_eq!(turn.reply, last.text, "{story}");
            }
            // This version takes an incomplete response for a stream that broke off.
            Some(Some(_))
                if !self.is_recorded && is_old_codex(cli) && last.stop != Stop::RefusalPart =>
            {
                assert_eq!(reason(turn), Some(FailureReason::Network), "{story}");
            }
            Some(Some(expected)) => assert_eq!(reason(turn), Some(expected), "{story}"),
            None => assert_ne!(turn.verdict, Verdict::Done, "{story}"),
        }
        self.compare_usage(cli, served, turn, &story);
    }

    fn compare_usage(&self, cli: Cli, served: &[&ProviderAnswer], turn: &TurnResult, story: &str) {
        let is_complete = |answer: &&ProviderAnswer| matches!(answer.stop, Stop::Word(word) if word == complete(cli) || word == "tool_use");
        let is_counted =
            |answer: &&ProviderAnswer| answer.stop != Stop::Missing || cli == Cli::Gemini;
        let is_known = if self.is_recorded {
            served.iter().all(is_counted)
        } else {
            served.iter().all(is_complete)
        };
        if !is_known {
            return;
        }
        let spent = served.iter().fold(Usage::default(), |sum, answer| {
            let (input, output) = answer.tokens;
            // A blocked prompt has no answer.
            let output = if answer.stop == Stop::Blocked { 0 } else { output };
            sum.and(Usage { input, output, ..Usage::default() })
        });
        assert_eq!(turn.usage, Some(spent), "{story}");
    }
}

fn is_old_codex(cli: Cli) -> bool {
    matches!(cli, Cli::Codex98 | Cli::Codex98Exec)
}

fn pick<'a, T>(rng: &mut Rng, from: &'a [T]) -> &'a T {
    &from[rng.usize(0..from.len())]
}

fn tokens(rng: &mut Rng) -> (u64, u64) {
    (rng.u64(1..1000), rng.u64(1..100))
}

fn recording(cli: Cli, home: std::path::PathBuf) -> Recording {
    Recording {
        vendor: convoke_vendors::cli(cli.kind()).unwrap(),
        version: None,
        store: Arc::new(MemoryThreadStore::default()),
        thread: ThreadId::generate(),
        redactor: Redactor::default(),
        home: ProgramHome::Private(home),
    }
}
