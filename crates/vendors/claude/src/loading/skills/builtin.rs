//! The skills and commands inside Claude Code, as figures: their texts are the program's own.

use crate::loading::Release;
use convoke_explain::skills::BuiltinSkill;

/// The bundled skill that stays when the others are switched off.
pub(super) const ALWAYS: &str = "plugin-authoring";

/// The kind of an entry of the program's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BuiltinKind {
    /// A bundled skill, which keeps its description in a full list.
    Skill,
    /// A command.
    Command,
}

use BuiltinSkill as B;

const SKILLS_325: [BuiltinSkill; 11] = [
    B {
        name: "dataviz",
        bytes: 1448,
        three_bytes: &[127, 232, 675, 799, 851, 1124],
        line_breaks: &[],
    },
    B::ascii("update-config", 690),
    B::ascii("keybindings-help", 228),
    B::ascii("code-review", 825),
    B { name: "simplify", bytes: 178, three_bytes: &[121], line_breaks: &[] },
    B::ascii("fewer-permission-prompts", 163),
    B::ascii("loop", 336),
    B {
        name: "claude-api",
        bytes: 1167,
        three_bytes: &[45, 159, 300, 540, 1100],
        line_breaks: &[150, 802],
    },
    B::ascii("workflow-authoring", 230),
    B::ascii("run", 361),
    B::ascii(ALWAYS, 255),
];

const COMMANDS_325: [BuiltinSkill; 2] = [B::ascii("init", 59), B::ascii("security-review", 71)];

const SKILLS_197: [BuiltinSkill; 10] = [
    B { name: "deep-research", bytes: 474, three_bytes: &[22, 283], line_breaks: &[] },
    B::ascii("update-config", 690),
    B::ascii("keybindings-help", 228),
    B::ascii("verify", 250),
    B { name: "code-review", bytes: 348, three_bytes: &[166], line_breaks: &[] },
    B { name: "simplify", bytes: 178, three_bytes: &[121], line_breaks: &[] },
    B::ascii("fewer-permission-prompts", 163),
    B::ascii("loop", 306),
    B {
        name: "claude-api",
        bytes: 1078,
        three_bytes: &[45, 159, 245, 485, 1045],
        line_breaks: &[150, 747],
    },
    B::ascii("run", 361),
];

const COMMANDS_197: [BuiltinSkill; 3] =
    [B::ascii("init", 59), B::ascii("review", 68), B::ascii("security-review", 71)];

/// Returns the entries of an edition, in the order of the list.
pub(super) fn skills(edition: Release) -> impl Iterator<Item = (BuiltinSkill, BuiltinKind)> {
    let (skills, commands): (&[_], &[_]) = match edition {
        Release::V197 => (&SKILLS_197, &COMMANDS_197),
        Release::V325 => (&SKILLS_325, &COMMANDS_325),
    };
    let skills = skills.iter().map(|skill| (*skill, BuiltinKind::Skill));
    skills.chain(commands.iter().map(|command| (*command, BuiltinKind::Command)))
}
