//! The file format of scripts, and its conversion to a [`Script`](super::Script).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::{Condition, Content, End, HttpError, Reply, ReplyStep, ScriptError, Usage};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    #[serde(default)]
    answer: Vec<Answer>,
    default: Option<Answer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    #[serde(default)]
    when: Condition,
    delay: Option<String>,
    say: Option<String>,
    steps: Option<Vec<FileStep>>,
    end: Option<End>,
    usage: Option<Usage>,
    status: Option<u16>,
    message: Option<String>,
    headers: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FileStep {
    Say(String),
    Think(String),
    Wait(String),
    Call(Call),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    name: String,
    #[serde(default = "no_input")]
    input: Value,
}

fn no_input() -> Value {
    Value::Object(serde_json::Map::new())
}

impl TryFrom<Script> for super::Script {
    type Error = ScriptError;

    fn try_from(file: Script) -> Result<Self, ScriptError> {
        let mut script = Self::default();
        for (index, answer) in file.answer.into_iter().enumerate() {
            let answer = answer.check();
            script.answers.push(answer.map_err(|reason| {
                ScriptError::invalid(&format!("answer {}: {reason}", index + 1))
            })?);
        }
        if let Some(answer) = file.default {
            let answer = answer.check();
            script.default =
                answer.map_err(|reason| ScriptError::invalid(&format!("default: {reason}")))?;
        }
        Ok(script)
    }
}

impl Answer {
    fn check(self) -> Result<super::Answer, String> {
        let delay = self.delay.as_deref().map_or(Ok(Duration::ZERO), duration)?;
        let content = match self.status {
            Some(status) => Content::Error(HttpError {
                status: error_status(status)?,
                message: self.message.unwrap_or_else(|| format!("rehearsed error {status}")),
                headers: headers(self.headers)?,
            }),
            None if self.message.is_some() || self.headers.is_some() => {
                return Err(
                    "`message` and `headers` belong to an error, which has a `status`".into()
                );
            }
            None => Content::Reply(Reply {
                steps: steps(self.say, self.steps)?,
                end: self.end.unwrap_or_default(),
                usage: self.usage,
            }),
        };
        Ok(super::Answer { when: self.when, delay, content })
    }
}

fn steps(say: Option<String>, steps: Option<Vec<FileStep>>) -> Result<Vec<ReplyStep>, String> {
    match (say, steps) {
        (Some(_), Some(_)) => Err("`say` and `steps` exclude each other".into()),
        (Some(text), None) => Ok(vec![ReplyStep::Say(text)]),
        (None, steps) => steps
            .unwrap_or_default()
            .into_iter()
            .map(|step| {
                Ok(match step {
                    FileStep::Say(text) => ReplyStep::Say(text),
                    FileStep::Think(text) => ReplyStep::Think(text),
                    FileStep::Wait(time) => ReplyStep::Wait(duration(&time)?),
                    FileStep::Call(Call { name, input }) => ReplyStep::Call { name, input },
                })
            })
            .collect(),
    }
}

fn error_status(status: u16) -> Result<u16, String> {
    if (400..600).contains(&status) {
        Ok(status)
    } else {
        Err(format!("`status` is {status}, and an error's is 400 to 599"))
    }
}

fn headers(given: Option<BTreeMap<String, String>>) -> Result<Vec<(String, String)>, String> {
    let given = given.unwrap_or_default();
    for (name, value) in &given {
        hyper::header::HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| format!("`{name}` cannot be the name of a header"))?;
        hyper::header::HeaderValue::from_str(value)
            .map_err(|_| format!("the header `{name}` cannot have the value {value:?}"))?;
    }
    Ok(given.into_iter().collect())
}

/// Reads `250ms` or `1.5s`; no answer waits longer than an hour.
fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 0.001),
        None => (text.strip_suffix('s').unwrap_or_default(), 1.0),
    };
    let seconds = number.trim().parse::<f64>().map(|number| number * unit);
    match seconds {
        Ok(seconds) if (0.0..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!(
            "{text:?} is not a duration; write for example \"250ms\" or \"2s\", at most \"3600s\""
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Script;

    #[test]
    fn what_is_wrong_with_a_script_is_reported_with_its_place() {
        let refused = [
            "[[answer]]\nsay = \"a\"\nsteps = []",
            "[[answer]]\nsay = \"a\"\n[[answer]]\nstatus = 200",
            "[[answer]]\nsay = \"a\"\nmessage = \"b\"",
            "[[answer]]\nsay = \"a\"\nend = \"finished\"",
            "[[answer]]\nsay = \"a\"\ndelay = \"soon\"",
            "[[answer]]\nsteps = [{ wait = \"2h\" }]",
            "[[answer]]\nsteps = [{ shout = \"a\" }]",
            "[[answer]]\nstatus = 429\nheaders = { \"retry after\" = \"1\" }",
            "[[answers]]\nsay = \"a\"",
            "[default]\nwhen = { wire = \"telex\" }",
            "answer = 1",
        ]
        .map(|text| Script::from_toml(text).unwrap_err().to_string())
        .join("\n\n");
        insta::assert_snapshot!(refused);
    }

    #[test]
    fn json_and_toml_say_the_same() {
        let toml = r#"
            [[answer]]
            delay = "1.5s"
            steps = [{ think = "hm" }, { say = "a" }, { wait = "20ms" }, { call = { name = "Bash" } }]
            usage = { input = 3 }
            end = "max-tokens"
            when = { wire = "gemini", contains = "x" }

            [[answer]]
            status = 503
            headers = { retry-after = "2" }

            [default]
            say = "b"
        "#;
        let json = r#"{
            "answer": [
                {"delay": "1500ms",
                 "steps": [{"think": "hm"}, {"say": "a"}, {"wait": "0.02s"}, {"call": {"name": "Bash", "input": {}}}],
                 "usage": {"input": 3, "output": 0, "cached": 0},
                 "end": "max-tokens",
                 "when": {"wire": "gemini", "contains": "x"}},
                {"status": 503, "message": "rehearsed error 503", "headers": {"retry-after": "2"}}
            ],
            "default": {"say": "b"}
        }"#;
        let script = Script::from_toml(toml).unwrap();
        assert_eq!(script, Script::from_json(json).unwrap());
        assert_eq!(script.answers.len(), 2);
    }

    #[test]
    fn the_script_of_the_documentation_is_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/script.toml");
        assert_eq!(Script::load(path.as_ref()).unwrap().answers.len(), 5);
    }

    #[test]
    fn an_empty_script_has_the_usual_default() {
        assert_eq!(Script::from_toml("").unwrap(), Script::default());
    }
}
