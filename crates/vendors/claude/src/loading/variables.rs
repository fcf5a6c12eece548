//! Environment variables, which settings may set too.

use std::collections::BTreeMap;

use serde_json::Value;

use convoke_explain::{Session, switches_on};

/// The variables of a session with those that its settings set.
#[derive(Debug, Default)]
pub(super) struct Variables {
    values: BTreeMap<String, String>,
}

impl Variables {
    pub(super) fn of(session: &Session) -> Self {
        Self { values: session.variables.clone() }
    }

    /// Takes the `env` of settings, which replaces what was set before, also by an empty value.
    pub(super) fn take(&mut self, settings: &Value) {
        let set = settings.get("env").and_then(Value::as_object).into_iter().flatten();
        self.values.extend(set.filter_map(|(name, value)| Some((name.clone(), text(value)?))));
    }

    /// Returns a variable that is set and not empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns whether a variable switches something on.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(switches_on)
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_replace_variables_of_the_session_and_later_ones_earlier_ones() {
        let mut session = Session::new("/r", "/h");
        session.variables = [("A", "1"), ("B", "1"), ("C", "yes")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        let mut variables = Variables::of(&session);
        variables.take(&serde_json::json!({"env": {"A": "0", "B": "", "D": true, "E": 1}}));
        variables.take(&serde_json::json!({"env": {"D": "false", "F": ["1"]}}));
        let on = ["A", "B", "C", "D", "E", "F"].map(|name| variables.is_on(name));
        assert_eq!(on, [false, false, true, false, true, false]);
        assert_eq!((variables.get("A"), variables.get("B")), (Some("0"), None));
    }
}
