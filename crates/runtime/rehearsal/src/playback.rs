//! Chooses the answer to a call: the first unused one that matches, else the default.

use bytes::Bytes;
use convoke_wire::ModelCall;

use crate::record::Answered;
use crate::script::{Answer, Condition, Script};

pub(crate) struct Playback {
    script: Script,
    used: Vec<bool>,
}

impl Playback {
    pub fn new(script: Script) -> Self {
        let used = vec![false; script.answers.len()];
        Self { script, used }
    }

    /// Returns the answer to a call, and marks it as used.
    pub fn next(&mut self, call: &ModelCall, body: &Bytes) -> (Answered, Answer) {
        let answers = self.script.answers.iter().zip(&mut self.used).enumerate();
        for (index, (answer, used)) in answers {
            if !*used && fits(&answer.when, call, body) {
                *used = true;
                return (Answered::Script { answer: index }, answer.clone());
            }
        }
        (Answered::Default, self.script.default.clone())
    }
}

fn fits(when: &Condition, call: &ModelCall, body: &[u8]) -> bool {
    let Condition { wire, model, contains } = when;
    // A side request gets an answer of the script only by its condition.
    let is_meant = !call.aside || *when != Condition::default();
    is_meant
        && wire.is_none_or(|wire| wire == call.wire)
        && model.as_ref().is_none_or(|model| *model == call.model)
        && contains.as_ref().is_none_or(|text| is_in(text.as_bytes(), body))
}

fn is_in(text: &[u8], body: &[u8]) -> bool {
    text.is_empty() || body.windows(text.len()).any(|window| window == text)
}
