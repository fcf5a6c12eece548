//! The questions of agents in the output of a run: one at a time, each until it is answered.

use std::io::{self, Write};

use convoke_protocol::id::MemberName;
use convoke_protocol::permission::{AnsweredBy, PermissionAnswer, PermissionQuestion};

use super::View;
use crate::terminal::spelled_out;

/// The maximum number of bytes of a question that are repeated beside its answers.
const IN_SHORT: usize = 60;

/// A question of a member's agent.
#[derive(Clone)]
pub(super) struct AskedQuestion {
    member: MemberName,
    pub(super) question: PermissionQuestion,
    answers: Vec<PermissionAnswer>,
}

impl AskedQuestion {
    pub(super) fn new(
        member: &MemberName,
        question: &PermissionQuestion,
        answers: &[PermissionAnswer],
    ) -> Self {
        let (member, question) = (member.clone(), question.clone());
        Self { member, question, answers: answers.to_vec() }
    }

    /// Returns the tool and the beginning of its summary.
    fn in_short(&self) -> String {
        let PermissionQuestion { tool, summary, .. } = &self.question;
        let first = summary.split('\n').next().unwrap_or_default();
        let end = first.floor_char_boundary(IN_SHORT.min(first.len()));
        let cut = if end < summary.len() { " …" } else { "" };
        let first = format!("{}{cut}", spelled_out(&first[..end]));
        if first.starts_with(&**tool) { first } else { format!("{tool}: {first}") }
    }
}

impl<W: Write> View<W> {
    /// Shows a permission question, unless another one is open: an answer is for the one shown last.
    pub(super) fn ask(&mut self, asked: AskedQuestion) -> io::Result<()> {
        if asked.answers.is_empty() {
            // A rule, an earlier answer or the sandbox has answered it.
            return self.show_question(&asked);
        }
        self.questions.push_back(asked);
        if self.questions.len() == 1 { self.show_next_question() } else { Ok(()) }
    }

    fn show_next_question(&mut self) -> io::Result<()> {
        let Some(asked) = self.questions.front().cloned() else { return Ok(()) };
        self.show_question(&asked)?;
        self.prompt_again()
    }

    fn show_question(&mut self, asked: &AskedQuestion) -> io::Result<()> {
        let paint = self.layout.paint;
        let AskedQuestion { member, question, .. } = asked;
        let PermissionQuestion { tool, summary, diff, directory, .. } = question;
        let place = directory.as_ref().map(|it| format!(" in {}", it.display()));
        let asks = format!("? {member} asks to use {tool}{}:", place.unwrap_or_default());
        self.line(&format!("  {}", paint.warning(&spelled_out(&asks))))?;
        for line in summary.split('\n').chain(diff.iter().flat_map(|diff| diff.split('\n'))) {
            self.line(&format!("    {}", spelled_out(line)))?;
        }
        Ok(())
    }

    /// Shows which question the next line answers, after something else was shown.
    pub(super) fn prompt_again(&mut self) -> io::Result<()> {
        let Some(asked) = self.questions.front() else { return Ok(()) };
        let count = asked.question.diff.as_ref().map_or(0, |diff| diff.lines().count());
        let lines = if count > 0 { format!(", {count} lines") } else { String::new() };
        let what = asked.in_short();
        let answers = if asked.answers.contains(&PermissionAnswer::Session) {
            "once, session or never? (o/s/n)"
        } else {
            "once or never? (o/n)"
        };
        self.line(&format!("    {what}{lines}: {answers}"))?;
        self.has_line_after_prompt = false;
        Ok(())
    }

    /// Shows the answer to a question, and the next one.
    pub(super) fn answer(
        &mut self,
        member: &MemberName,
        id: &str,
        answer: PermissionAnswer,
        by: AnsweredBy,
    ) -> io::Result<()> {
        let found = self.questions.iter().position(|asked| asked.question.id == id);
        let asked = found.and_then(|at| self.questions.remove(at));
        let what = asked.map_or_else(String::new, |asked| format!(": {}", asked.in_short()));
        let may = if answer.allows() { "was allowed" } else { "was refused" };
        let (answer, by) = (answer.as_str(), by.as_str());
        let line = self.layout.paint.faint(&format!("  {member} {may} ({answer}, {by}){what}"));
        self.line(&line)?;
        if found == Some(0) { self.show_next_question() } else { Ok(()) }
    }
}
