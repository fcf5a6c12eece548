//! A reference implementation of the assemblers: concatenates and measures strings, dropping one context
//! message at a time.

use convoke_core::assembler::{Format, LineStyle, SystemPlace};
use convoke_core::whitespace::{trim, trim_end};
use convoke_core::{AssemblerInput, Escaping, Fencing, PromptContextMessage, Trimming};

/// The texts that are sent.
pub type Texts = (String, Option<String>);

/// The result of assembling a prompt, with what was cut.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The texts, after dropping this many of the oldest messages.
    Fits { texts: Texts, dropped: usize },
    /// The message lost its end.
    MessageCut { texts: Texts },
    /// The message was cut to its first 64 bytes, and the middle of the instruction file was cut.
    FileCut { message: String },
    /// Only the mark of the instruction file is left, and the end of the message was cut.
    BothCut { texts: Texts },
    /// Nothing fits.
    TooSmall,
}

/// Returns the texts with nothing left out.
pub fn whole(format: &Format, input: &AssemblerInput<'_>) -> Texts {
    Parts::of(input).texts(format, input, 0)
}

/// Applies the budget's rules.
pub fn assemble(format: &Format, input: &AssemblerInput<'_>) -> Outcome {
    let parts = Parts::of(input);
    let count = input.context_messages.len();
    for dropped in 0..=count {
        let texts = parts.texts(format, input, dropped);
        if fits(&texts, input) {
            return Outcome::Fits { texts, dropped };
        }
    }

    // Try the longest head first; the first 64 bytes stay.
    let message = parts.message.as_str();
    let floor = message.floor_char_boundary(64);
    for head in heads(message).filter(|&head| head >= floor) {
        let cut = Parts { message: with_end_cut(message, head), ..parts.clone() };
        let texts = cut.texts(format, input, count);
        if fits(&texts, input) {
            return Outcome::MessageCut { texts };
        }
    }

    let short_message = shortest(message, floor);
    let shortest_file = shortest(&parts.file, 0);
    let with_shortest_file = |message: String| {
        let cut = Parts { message, file: shortest_file.clone(), ..parts.clone() };
        cut.texts(format, input, count)
    };
    if !parts.file.is_empty()
        && shortest_file != parts.file
        && fits(&with_shortest_file(short_message.clone()), input)
    {
        return Outcome::FileCut { message: short_message };
    }

    for head in heads(message) {
        let texts = with_shortest_file(with_end_cut(message, head));
        if fits(&texts, input) {
            return Outcome::BothCut { texts };
        }
    }
    Outcome::TooSmall
}

fn fits((prompt, system): &Texts, input: &AssemblerInput<'_>) -> bool {
    let sent = prompt.len() + system.as_ref().map_or(0, String::len);
    sent as u64 <= input.max_bytes
}

/// The possible heads of a text, longest first.
fn heads(text: &str) -> impl Iterator<Item = usize> {
    (0..text.len()).rev().filter(|&head| text.is_char_boundary(head))
}

fn with_end_cut(text: &str, head: usize) -> String {
    let mark = format!("[… {} bytes cut]", text.len() - head);
    match head {
        0 => mark,
        _ => format!("{}\n{mark}", &text[..head]),
    }
}

fn shortest(text: &str, floor: usize) -> String {
    let cut = with_end_cut(text, floor);
    if cut.len() < text.len() { cut } else { text.to_owned() }
}

/// The bodies, trimmed and fenced; empty means absent.
#[derive(Debug, Clone)]
pub struct Parts {
    pub role: String,
    pub configured: String,
    pub briefing: String,
    pub file: String,
    pub task: String,
    /// The message with the files that it attaches.
    pub message: String,
}

impl Parts {
    pub fn of(input: &AssemblerInput<'_>) -> Self {
        let body = |text: Option<&str>| set_off(trim(text.unwrap_or_default()), input);
        Self {
            role: body(input.role_summary.as_deref()),
            configured: body(input.system_instruction.as_deref()),
            briefing: body(input.briefing.as_deref()),
            file: body(input.instruction_file_text.as_deref()),
            task: body(input.team_task.as_deref()),
            message: message_parts(input).concat(),
        }
    }

    /// Returns the texts without the oldest messages.
    pub fn texts(&self, format: &Format, input: &AssemblerInput<'_>, dropped: usize) -> Texts {
        let headers = &format.headers;
        let system = joined([&*self.role, &*self.configured, &*self.briefing, &*self.file]);
        let lines: Vec<String> =
            input.context_messages[dropped..].iter().map(|m| line(format, m, input)).collect();
        let rest = [
            section(headers.task, &self.task),
            section(headers.context, &lines.join("\n")),
            section(headers.message, &self.message),
        ];
        match format.system {
            SystemPlace::Apart => (joined(rest), Some(system).filter(|text| !text.is_empty())),
            SystemPlace::Inline => {
                let [task, context, message] = rest;
                (joined([section(headers.system, &system), task, context, message]), None)
            }
        }
    }
}

/// Returns the text of the message, then for each attached file the lines before it, its text and the lines after it.
pub fn message_parts(input: &AssemblerInput<'_>) -> Vec<String> {
    let mut parts = vec![set_off(message(input), input)];
    for file in &input.attachments {
        let (opening, closing) = file.frame();
        let blank = if parts.concat().is_empty() { "" } else { "\n\n" };
        parts.push(format!("{blank}{}", escaped(input.escaping, &opening)));
        parts.push(match input.fencing {
            Fencing::AsWritten => escaped(input.escaping, &file.text),
            Fencing::Indented => format!("  {}", indented(&escaped(input.escaping, &file.text))),
        });
        parts.push(closing);
    }
    parts
}

/// Escapes a body, and indents it if the input asks for that.
fn set_off(text: &str, input: &AssemblerInput<'_>) -> String {
    let text = escaped(input.escaping, text);
    match input.fencing {
        Fencing::Indented if !text.is_empty() => format!("  {}", indented(&text)),
        _ => text,
    }
}

/// Returns the message to answer without the white space around it.
pub fn message<'a>(input: &'a AssemblerInput<'_>) -> &'a str {
    match input.trimming {
        Trimming::BothEnds => trim(&input.current_message),
        Trimming::End => trim_end(&input.current_message),
    }
}

/// Escapes a text, by replacement.
pub fn escaped(escaping: Escaping, text: &str) -> String {
    match escaping {
        Escaping::AsWritten | Escaping::LeadingSlash => text.to_owned(),
        // The second replacement undoes the first for characters that were already escaped.
        Escaping::AtSigns => text.replace('@', "\\@").replace("\\\\@", "\\@"),
    }
}

/// Returns the line of a context message.
pub fn line(
    format: &Format,
    message: &PromptContextMessage<'_>,
    input: &AssemblerInput<'_>,
) -> String {
    let set_off = |text: &str| match input.fencing {
        Fencing::AsWritten => escaped(input.escaping, text),
        Fencing::Indented => indented(&escaped(input.escaping, text)),
    };
    let (from, content) = (set_off(&message.from), set_off(&message.content));
    let to = set_off(message.to.as_deref().unwrap_or("all"));
    match format.line {
        LineStyle::Arrow => format!("- {from} -> {to}: {content}"),
        LineStyle::Dash => format!("- {from}: {content}"),
        LineStyle::Bare => format!("{from}: {content}"),
    }
}

fn section(header: &str, body: &str) -> String {
    match (header, body) {
        (_, "") => String::new(),
        ("", body) => body.to_owned(),
        (header, body) => format!("{header}\n{body}"),
    }
}

fn joined<S: AsRef<str>>(parts: impl IntoIterator<Item = S>) -> String {
    let present: Vec<S> = parts.into_iter().filter(|part| !part.as_ref().is_empty()).collect();
    present.iter().map(AsRef::as_ref).collect::<Vec<_>>().join("\n\n")
}

/// Indents every line but the first.
fn indented(text: &str) -> String {
    let mut out = String::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        out.push(character);
        let ends_line = match character {
            '\r' => characters.peek() != Some(&'\n'),
            '\n' | '\u{B}' | '\u{C}' | '\u{85}' | '\u{2028}' | '\u{2029}' => true,
            _ => false,
        };
        if ends_line {
            out.push_str("  ");
        }
    }
    out
}
