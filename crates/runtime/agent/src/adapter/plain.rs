//! Any command: the prompt on standard input, the reply on standard output.

use super::one_shot::OneShot;
use super::{Context, ProgramCall, unseen_images};
use crate::stream::plain::Plain;

/// Prepares a call. The system text comes before the prompt.
pub(super) fn call(context: &Context<'_>) -> ProgramCall {
    let turn_input = context.turn_input;
    let prompt = match &turn_input.system {
        Some(system) => format!("{system}\n\n{}", turn_input.prompt),
        None => turn_input.prompt.clone(),
    };
    let reader = Plain::new(turn_input.limits.reply_bytes);
    let mut call = ProgramCall::new(context.users_args(), OneShot::new(reader, prompt));
    call.diagnostics.extend(unseen_images(&turn_input.images, "the program reads only text"));
    call
}
