//! Any command: the prompt on standard input, the reply on standard output.

use super::one_shot::OneShot;
use super::{Call, Context};
use crate::stream::plain::Plain;

/// Prepares a call. A system text has no place of its own here and stands before the prompt.
pub(super) fn call(context: &Context<'_>) -> Call {
    let delivery = context.delivery;
    let prompt = match &delivery.system {
        Some(system) => format!("{system}\n\n{}", delivery.prompt),
        None => delivery.prompt.clone(),
    };
    Call {
        args: context.users_args(),
        env: Vec::new(),
        dialogue: Box::new(OneShot::new(Plain::new(delivery.limits.reply_bytes), prompt)),
        diagnostics: Vec::new(),
        counts_sessions: false,
    }
}
