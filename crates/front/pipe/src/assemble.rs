//! `convoke assemble`: answers each JSON line with one JSON line.
//!
//! Input: `{"name"?, "agent", "input"}`, where `input` is an [`AssemblerInput`]. Output, in the same order:
//! `{"name"?, "prompt", "systemFlag", "ledger", "diagnostics"}`, or `{"name"?, "error"}`.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};

use convoke_core::json::InvalidField;
use convoke_core::{
    AssemblerInput, Assemblers, BudgetTooSmall, Code, input_schema, unknown_field,
    without_known_field,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::lines::{Line, TooLarge, lines};
use crate::prompt_json::PromptJson;

/// What is done with fields that are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownFields {
    /// They are ignored, so that newer callers can use older programs.
    #[default]
    Ignored,
    /// Their line is answered with an error.
    Refused,
}

/// The JSON schema of a line.
pub fn line_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "description": "Repeated in the answer." },
            "agent": {
                "type": "string",
                "description": "The type of agent, such as claude or codex.",
            },
            "input": input_schema(),
        },
        "required": ["agent", "input"],
        "additionalProperties": false,
    })
}

/// Answers each line as soon as it is read, and returns the reported diagnostic codes. A line of more than
/// `max_line_bytes` is answered with an error.
pub fn assemble_lines(
    input: impl BufRead,
    mut output: impl Write,
    max_line_bytes: u64,
    unknown_fields: UnknownFields,
) -> io::Result<BTreeSet<Code>> {
    let reader = LineReader { schema: line_schema(), unknown_fields };
    let assemblers = Assemblers::default();
    let mut reported = BTreeSet::new();
    for line in lines(input, max_line_bytes) {
        answer(&assemblers, &reader, &line?, &mut output, &mut reported)?;
        output.write_all(b"\n")?;
        output.flush()?;
    }
    Ok(reported)
}

#[derive(Serialize)]
struct ErrorLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a Value>,
    error: Error,
}

#[derive(Serialize)]
struct Error {
    code: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    needed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    smallest: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    available: Option<u64>,
}

impl Error {
    fn invalid(line: u64, message: String) -> Self {
        let code = "input.invalid";
        Self { code, message, line: Some(line), needed: None, smallest: None, available: None }
    }
}

impl From<BudgetTooSmall> for Error {
    fn from(error: BudgetTooSmall) -> Self {
        Self {
            code: BudgetTooSmall::CODE,
            message: error.to_string(),
            line: None,
            needed: Some(error.needed),
            smallest: Some(error.smallest),
            available: Some(error.available),
        }
    }
}

fn answer(
    assemblers: &Assemblers,
    reader: &LineReader,
    line: &Line,
    output: &mut impl Write,
    reported: &mut BTreeSet<Code>,
) -> io::Result<()> {
    let refuse = |output, name, error| write_json(output, &ErrorLine { name, error });
    let object = line.bytes.as_deref().map_err(TooLarge::to_string).and_then(read_object);
    let mut object = match object {
        Ok(object) => object,
        Err(why) => return refuse(output, None, Error::invalid(line.number, why)),
    };
    let name = object.shift_remove("name");
    let name = name.as_ref();
    let (agent, input) = match reader.read_request(object) {
        Ok(request) => request,
        Err(error) => {
            return refuse(output, name, Error::invalid(line.number, error.to_string()));
        }
    };
    match assemblers.assemble(&agent, &input) {
        Ok(assembled) => {
            reported.extend(assembled.diagnostics.iter().map(|diagnostic| diagnostic.code.clone()));
            write_json(output, &PromptJson::new(name, &assembled))
        }
        Err(error) => refuse(output, name, error.into()),
    }
}

fn read_object(line: &[u8]) -> Result<Map<String, Value>, String> {
    match serde_json::from_slice(line) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("a line must be a JSON object with `agent` and `input`".to_owned()),
        Err(error) => Err(format!("not JSON: {}", within_line(&error))),
    }
}

/// Returns a syntax error with its position in the line. The parser gets one line, and would call each the first.
fn within_line(error: &serde_json::Error) -> String {
    let (text, column) = (error.to_string(), error.column());
    match text.strip_suffix(&format!(" at line {} column {column}", error.line())) {
        Some(what) => format!("{what} at column {column}"),
        None => text,
    }
}

struct LineReader {
    schema: Value,
    unknown_fields: UnknownFields,
}

impl LineReader {
    fn read_request(
        &self,
        mut object: Map<String, Value>,
    ) -> Result<(String, AssemblerInput<'static>), InvalidField> {
        if self.unknown_fields == UnknownFields::Refused {
            // The caller's name has been taken out: its value may be anything.
            unknown_field(&object, &self.schema).map_or(Ok(()), Err)?;
        }
        let Some(Value::String(agent)) = object.shift_remove("agent") else {
            return Err(InvalidField::must_be("agent", "a string"));
        };
        let input = object.shift_remove("input").unwrap_or(Value::Null);
        input.as_object().and_then(without_known_field).map_or(Ok(()), Err)?;
        let input = AssemblerInput::from_json(input)?;
        Ok((agent, input))
    }
}

fn write_json(output: impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(output, value).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(input: &str) -> Vec<Value> {
        let mut output = Vec::new();
        assemble_lines(input.as_bytes(), &mut output, 1000, UnknownFields::Ignored).unwrap();
        let lines = std::str::from_utf8(&output).unwrap().lines();
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_line_over_the_limit_is_answered_with_an_error_and_the_next_is_read() {
        let long = format!("{{\"agent\":\"{}\"}}", "x".repeat(2000));
        let good = r#"{"name":"b","agent":"codex","input":{"currentMessage":"Hi"}}"#;
        let answers = answers(&format!("{long}\n{good}\n"));
        assert_eq!(answers[0]["error"]["code"], "input.invalid");
        assert_eq!(answers[0]["error"]["line"], 1);
        let message = answers[0]["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("the line has 2012 bytes; the limit is 1000"), "{message}");
        assert_eq!(answers[1]["prompt"], "[MESSAGE]\nHi");
    }

    #[test]
    fn every_line_is_answered_in_order() {
        let answers = answers(
            "{\"name\":\"a\",\"agent\":\"codex\",\"input\":{\"currentMessage\":\"Hi\"}}\n\n\
             nonsense\n\
             {\"name\":\"b\",\"agent\":\"codex\",\"input\":{\"maxBytes\":-1}}\n\
             {\"agent\":\"codex\",\"input\":{\"teamTask\":\"long\",\"maxBytes\":3}}",
        );
        assert_eq!(answers[0]["name"], "a");
        assert_eq!(answers[0]["prompt"], "[MESSAGE]\nHi");
        assert_eq!(answers[0]["systemFlag"], Value::Null);
        assert_eq!(answers[1]["error"]["line"], 3);
        assert_eq!(answers[2]["name"], "b");
        assert_eq!(answers[2]["error"]["code"], "input.invalid");
        assert_eq!(answers[3]["error"]["needed"], "[TEAM_TASK]\nlong".len());
    }
}
