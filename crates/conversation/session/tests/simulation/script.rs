//! The texts of a simulated conversation, generated from the seed.

use std::fmt::Write as _;

use convoke_core::marker::Intent;

pub const PEOPLE: [&str; 2] = ["kailai", "lee"];
pub const AGENTS: [&str; 4] = ["max", "sarah", "tom", "uwe"];

/// A random generator with the same output everywhere (splitmix64).
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[usize::try_from(self.below(list.len() as u64)).unwrap()]
    }
}

/// A message, and its effects.
#[derive(Clone, Debug)]
pub struct ScriptedMessage {
    pub text: String,
    /// The text without markers.
    pub clean: String,
    /// Names as written, with intents; some are unknown.
    pub calls: Vec<(&'static str, Intent)>,
    pub drops: Vec<&'static str>,
    pub task: Option<String>,
}

/// Generates a message.
pub fn line(random: &mut Random) -> ScriptedMessage {
    // Only a few different texts, so that some are repeated.
    let clean = match random.below(3) {
        0 => "ok".to_owned(),
        _ => format!("text {}", random.below(1000)),
    };
    let mut text = clean.clone();
    let mut line =
        ScriptedMessage { text: String::new(), clean, calls: vec![], drops: vec![], task: None };
    for _ in 0..random.of(&[0, 1, 1, 1, 2, 3]) {
        let name = match random.below(14) {
            0 => "all",
            1 => "nobody",
            2 => random.of(&PEOPLE),
            _ => random.of(&AGENTS),
        };
        let intent = random.of(&[Intent::P1, Intent::P2, Intent::P2, Intent::P3]);
        let mark = match intent {
            Intent::P2 => String::new(),
            other => format!("!{other:?}"),
        };
        let _ = write!(text, " [NEXT: {name}{mark}]");
        line.calls.push((name, intent));
    }
    if random.one_in(8) {
        let name = random.of(&["max", "sarah", "ALL", "lee"]);
        let _ = write!(text, " [DROP: {name}]");
        line.drops.push(name);
    }
    if random.one_in(8) {
        let task = format!("task {}", random.below(100));
        let _ = write!(text, " [TEAM_TASK: {task}]");
        line.task = Some(task);
    }
    if random.one_in(6) {
        // Quoted markers have no effect.
        let quoted = "\n`[NEXT: max]` [NEXT: kailai\n```\n[DROP: ALL]\n```";
        text += quoted;
        line.clean += quoted;
    }
    line.text = text;
    line
}

/// The steps of an agent in one turn.
#[derive(Clone, Debug)]
pub struct AgentScript {
    pub line: ScriptedMessage,
    /// Whether the agent fails after its message.
    pub fails: bool,
}

/// Returns the script of the n-th turn.
pub fn agent_script(seed: u64, nth: u64) -> AgentScript {
    let mut random = Random(seed.wrapping_mul(1_000_003).wrapping_add(nth));
    AgentScript { line: line(&mut random), fails: random.one_in(12) }
}

/// The actions of the people, in order.
#[derive(Clone, Debug)]
pub enum PersonAction {
    /// A person sends a message, and the conversation continues.
    Say { person: &'static str, line: ScriptedMessage, to: Vec<&'static str> },
    /// The conversation continues.
    GoOn,
    /// The last turn that ended without a reply is retried.
    Retry,
    /// The session is closed and opened again.
    Reopen,
}

pub fn actions(seed: u64) -> Vec<PersonAction> {
    let mut random = Random(seed ^ 0xDEED);
    let count = 2 + random.below(4);
    let action = |index| match random.below(if index == 0 { 6 } else { 10 }) {
        0..=5 => {
            let to = if random.one_in(2) { vec![random.of(&AGENTS)] } else { vec![] };
            PersonAction::Say { person: random.of(&PEOPLE), line: line(&mut random), to }
        }
        6 | 7 => PersonAction::GoOn,
        8 => PersonAction::Retry,
        _ => PersonAction::Reopen,
    };
    (0..count).map(action).collect()
}
