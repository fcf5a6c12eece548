//! A reply as a sequence of moments: the steps of the script, grouped into blocks as on the wire. Adjacent pieces of
//! text are chunks of one block.

use std::time::Duration;

use serde_json::Value;

use crate::script::{End, Reply, ReplyStep};

/// The kind of a block of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channel {
    Text,
    Thinking,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Moment<'a> {
    Begins(Channel),
    Chunk(Channel, &'a str),
    /// The end of a block, with all its text.
    Ends(Channel, String),
    Call {
        name: &'a str,
        input: &'a Value,
    },
    Wait(Duration),
}

/// Returns the moments of a reply; in a stream that ends early the last block has no end.
pub(crate) fn moments(reply: &Reply) -> Vec<Moment<'_>> {
    let mut moments = Vec::new();
    let mut open: Option<(Channel, String)> = None;
    for step in &reply.steps {
        let (channel, text) = match step {
            ReplyStep::Wait(time) => {
                moments.push(Moment::Wait(*time));
                continue;
            }
            ReplyStep::Call { name, input } => {
                close(&mut open, &mut moments);
                moments.push(Moment::Call { name, input });
                continue;
            }
            ReplyStep::Say(text) => (Channel::Text, text),
            ReplyStep::Think(text) => (Channel::Thinking, text),
        };
        if open.as_ref().is_none_or(|(current, _)| *current != channel) {
            close(&mut open, &mut moments);
            moments.push(Moment::Begins(channel));
        }
        open.get_or_insert_with(|| (channel, String::new())).1.push_str(text);
        moments.push(Moment::Chunk(channel, text));
    }
    if matches!(reply.end, End::Done | End::MaxTokens | End::Refused) {
        close(&mut open, &mut moments);
    }
    moments
}

fn close(open: &mut Option<(Channel, String)>, moments: &mut Vec<Moment<'_>>) {
    if let Some((channel, text)) = open.take() {
        moments.push(Moment::Ends(channel, text));
    }
}

/// Returns all the text of one channel.
pub(crate) fn text(reply: &Reply, wanted: Channel) -> String {
    let pieces = reply.steps.iter().filter_map(|step| match step {
        ReplyStep::Say(text) if wanted == Channel::Text => Some(text.as_str()),
        ReplyStep::Think(text) if wanted == Channel::Thinking => Some(text.as_str()),
        _ => None,
    });
    pieces.collect()
}

/// Returns the tool calls, in order.
pub(crate) fn calls(reply: &Reply) -> impl Iterator<Item = (&str, &Value)> {
    reply.steps.iter().filter_map(|step| match step {
        ReplyStep::Call { name, input } => Some((name.as_str(), input)),
        _ => None,
    })
}

/// The input of a call on a wire whose tools take objects only.
pub(crate) fn object_input(input: &Value) -> Value {
    if input.is_object() { input.clone() } else { serde_json::json!({ "input": input }) }
}
