//! The model: the rules of a conversation, written as simply as possible. It shares no code with the
//! coordinator.

use std::collections::HashMap;

use convoke_core::marker::Intent;

use super::script::{AGENTS, AgentScript, PEOPLE, ScriptedMessage};

pub struct Model {
    pub agents: usize,
    pub turn_limit: u64,
    pub queue_limit: usize,
    pub messages: Vec<MessageRow>,
    all: Vec<Turn>,
    pub task: Option<String>,
    last_finished: Option<u64>,
    in_a_row: u32,
    asker: Option<String>,
    /// The number of turns that agents have started.
    pub taken: u64,
    /// The number of turns since a person last decided to continue.
    since: u64,
    said: HashMap<(String, String), u32>,
    stop: Option<String>,
}

/// The compared part of a message.
#[derive(Debug, PartialEq)]
pub struct MessageRow {
    pub number: u64,
    pub from: String,
    pub content: String,
    pub answers: Option<u64>,
    pub to: Vec<String>,
}

/// The compared part of a turn.
#[derive(Debug, PartialEq)]
pub struct TurnRow {
    pub number: u64,
    pub member: String,
    pub answers: u64,
    pub intent: Intent,
    pub state: &'static str,
    pub reply: Option<u64>,
}

#[derive(Clone)]
struct Turn {
    member: String,
    answers: u64,
    intent: Intent,
    asker: String,
    state: &'static str,
    reply: Option<u64>,
    attempts: u32,
}

impl Model {
    pub fn new(agents: usize, turn_limit: u64, queue_limit: usize) -> Self {
        Self {
            agents,
            turn_limit,
            queue_limit,
            messages: vec![],
            all: vec![],
            task: None,
            last_finished: None,
            in_a_row: 0,
            asker: None,
            taken: 0,
            since: 0,
            said: HashMap::new(),
            stop: None,
        }
    }

    /// Returns every turn.
    pub fn turns(&self) -> Vec<TurnRow> {
        let row = |(number, turn): (u64, &Turn)| TurnRow {
            number,
            member: turn.member.clone(),
            answers: turn.answers,
            intent: turn.intent,
            state: turn.state,
            reply: turn.reply,
        };
        (1..).zip(&self.all).map(row).collect()
    }

    fn agents(&self) -> &'static [&'static str] {
        &AGENTS[..self.agents]
    }

    fn is_member(&self, name: &str) -> bool {
        PEOPLE.contains(&name) || self.agents().contains(&name)
    }

    fn waiting(&self) -> Vec<usize> {
        (0..self.all.len()).filter(|&at| self.all[at].state == "queued").collect()
    }

    /// Finds the next turn: the smallest in the order of preference.
    fn next(&self) -> Option<usize> {
        let local = self.in_a_row < 5;
        self.waiting().into_iter().min_by_key(|&at| {
            let turn = &self.all[at];
            let is_local = local && Some(turn.answers) == self.last_finished;
            let rank = match turn {
                turn if turn.attempts > 0 => (0, 0),
                turn if turn.intent == Intent::P1 => (1, 0),
                turn if is_local => (2, turn.intent as u32),
                turn => (3, turn.intent as u32),
            };
            (rank, at)
        })
    }

    pub fn say(&mut self, person: &str, line: &ScriptedMessage, to: &[&str]) {
        let answered = self.next().filter(|&at| self.all[at].member == person);
        let number = self.messages.len() as u64 + 1;
        let answers = answered.map(|at| self.all[at].answers);
        if let Some(at) = answered {
            self.all[at].state = "done";
            self.all[at].reply = Some(number);
        }
        let mut line = line.clone();
        // A message that names only unknown members must be corrected.
        if line.calls.is_empty() {
            let named = to.iter().filter_map(|name| AGENTS.into_iter().find(|a| a == name));
            line.calls.extend(named.map(|name| (name, Intent::P2)));
        }
        self.add(person, person, &line, answers);
        self.since = 0;
        self.said.clear();
    }

    fn called(&self, speaker: &str, line: &ScriptedMessage) -> Vec<(String, Intent)> {
        let mut called: Vec<(String, Intent)> = vec![];
        for (name, intent) in &line.calls {
            let names: Vec<&str> = match *name {
                "all" => self.agents().iter().chain(&PEOPLE).copied().collect(),
                name if self.is_member(name) => vec![name],
                _ => vec![],
            };
            for member in names {
                if *name == "all" && member == speaker {
                    continue;
                }
                match called.iter_mut().find(|(known, _)| known == member) {
                    Some((_, known)) => *known = (*known).min(*intent),
                    None => called.push((member.to_owned(), *intent)),
                }
            }
        }
        called
    }

    fn add(&mut self, speaker: &str, asker: &str, line: &ScriptedMessage, answers: Option<u64>) {
        let number = self.messages.len() as u64 + 1;
        for at in self.waiting() {
            let member = &self.all[at].member;
            if line.drops.iter().any(|name| *name == "ALL" || name == member) {
                self.all[at].state = "cancelled";
            }
        }
        let called = self.called(speaker, line);
        let mut left_out = 0;
        for (member, intent) in &called {
            if self.waiting().len() >= self.queue_limit {
                left_out += 1;
                continue;
            }
            self.all.push(Turn {
                member: member.clone(),
                answers: number,
                intent: *intent,
                asker: asker.to_owned(),
                state: "queued",
                reply: None,
                attempts: 0,
            });
        }
        let to = called.into_iter().map(|(member, _)| member).collect();
        let (from, content) = (speaker.to_owned(), line.text.clone());
        self.messages.push(MessageRow { number, from, content, answers, to });
        self.last_finished = Some(number);
        self.asker = Some(asker.to_owned());
        if line.task.is_some() {
            self.task.clone_from(&line.task);
        }
        if left_out > 0 {
            self.stop = Some(format!("queue-full {left_out}"));
        }
    }

    /// Requeues the last turn that ended without a reply, if there is one.
    pub fn retry(&mut self) -> Option<u64> {
        let ended = |&at: &usize| matches!(self.all[at].state, "failed" | "cancelled");
        let at = (0..self.all.len()).rfind(ended)?;
        self.all[at].state = "queued";
        Some(at as u64 + 1)
    }

    /// Resets the state that only a running process has.
    pub fn reopen(&mut self) {
        self.stop = None;
    }

    /// Runs turns until the conversation stops.
    pub fn run(&mut self, perform: impl Fn(u64) -> AgentScript) -> String {
        self.since = 0;
        self.said.clear();
        loop {
            let asker = self.asker.clone().unwrap_or_else(|| PEOPLE[0].to_owned());
            if let Some(stop) = self.stop.take() {
                return stop;
            }
            let Some(at) = self.next() else { return format!("idle {asker}") };
            if PEOPLE.contains(&&*self.all[at].member) {
                return format!("addressed {} {}", self.all[at].member, at + 1);
            }
            if self.since >= self.turn_limit {
                return "turn-limit".to_owned();
            }
            self.since += 1;
            let turn = self.all[at].clone();
            let is_local = self.in_a_row < 5 && Some(turn.answers) == self.last_finished;
            if turn.attempts == 0 {
                let goes_first = turn.intent != Intent::P1 && is_local;
                self.in_a_row = if goes_first { self.in_a_row + 1 } else { 0 };
            }
            let has_seat = AGENTS[..self.agents].contains(&&*turn.member);
            assert!(has_seat);
            self.all[at].attempts += 1;
            self.all[at].state = "running";
            self.taken += 1;
            let script = perform(self.taken);
            if script.fails {
                self.all[at].state = "failed";
                return format!("failed {}", at + 1);
            }
            let line = &script.line;
            self.all[at].reply = Some(self.messages.len() as u64 + 1);
            self.all[at].state = "done";
            self.add(&turn.member, &turn.asker, line, Some(turn.answers));
            // Equal answers to different questions of people are no loop.
            let answered = usize::try_from(turn.answers).unwrap() - 1;
            if PEOPLE.contains(&&*self.messages[answered].from) {
                continue;
            }
            let times = self.said.entry((turn.member.clone(), line.clean.clone())).or_insert(0);
            *times += 1;
            if *times >= 3 {
                return format!("repetition {} {times}", turn.member);
            }
        }
    }
}
