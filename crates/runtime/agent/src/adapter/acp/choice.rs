//! Chooses modes and models of a session by name.
//!
//! Agents offer them as configuration options, as modes, or as models in an older form of the protocol. A name
//! is the id or the displayed name of an offered value, compared without regard to case.

use serde_json::{Value, json};

/// The kind of a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    Mode,
    Model,
}

/// The result of looking up a name among the offered values.
#[derive(Debug, PartialEq)]
pub(super) enum ChoiceLookup {
    /// The value is already chosen.
    Current,
    /// The method and parameters (without the session) that choose the value.
    Request(&'static str, Value),
    /// The value is not among these offered ones.
    Missing(Vec<String>),
    /// The session offers no choice.
    NoChoice,
}

impl Choice {
    /// Returns the protocol's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::Model => "model",
        }
    }

    /// Looks up a name in the response to `session/new`, `load` or `resume`.
    pub fn find(self, name: &str, offered: &Value) -> ChoiceLookup {
        self.find_option(name, &offered["configOptions"])
            .or_else(|| self.find_listed(name, offered))
            .unwrap_or(ChoiceLookup::NoChoice)
    }

    fn find_option(self, name: &str, options: &Value) -> Option<ChoiceLookup> {
        let word = self.as_str();
        let mut options = options.as_array()?.iter();
        let option = options.find(|option| option["category"] == word || option["id"] == word)?;
        let id = option["id"].as_str()?;
        let values = values(&option["options"]);
        Some(choose(name, &values, option["currentValue"].as_str(), |value| {
            ("session/set_config_option", json!({ "configId": id, "value": value }))
        }))
    }

    fn find_listed(self, name: &str, offered: &Value) -> Option<ChoiceLookup> {
        let (state, list, id, current, method) = match self {
            Self::Mode => {
                (&offered["modes"], "availableModes", "id", "currentModeId", "session/set_mode")
            }
            Self::Model => (
                &offered["models"],
                "availableModels",
                "modelId",
                "currentModelId",
                "session/set_model",
            ),
        };
        let field = if self == Self::Mode { "modeId" } else { "modelId" };
        let values: Vec<(&str, &str)> = state[list]
            .as_array()?
            .iter()
            .filter_map(|one| Some((one[id].as_str()?, one["name"].as_str().unwrap_or_default())))
            .collect();
        Some(choose(name, &values, state[current].as_str(), |value| {
            (method, json!({ field: value }))
        }))
    }
}

/// Returns the values of an option with their names; values may be grouped.
fn values(options: &Value) -> Vec<(&str, &str)> {
    let options = options.as_array().map_or(&[][..], Vec::as_slice);
    let flat = options.iter().flat_map(|option| match option["options"].as_array() {
        Some(group) => group.as_slice(),
        None => std::slice::from_ref(option),
    });
    flat.filter_map(|one| Some((one["value"].as_str()?, one["name"].as_str().unwrap_or_default())))
        .collect()
}

fn choose(
    name: &str,
    values: &[(&str, &str)],
    current: Option<&str>,
    request: impl FnOnce(&str) -> (&'static str, Value),
) -> ChoiceLookup {
    let exact = values.iter().find(|(value, _)| *value == name);
    // An id may be a URL that ends in the name.
    let tail = |value: &str| value.rsplit_once('#').is_some_and(|(_, tail)| tail == name);
    let close = || {
        values.iter().find(|(value, shown)| {
            value.eq_ignore_ascii_case(name) || shown.eq_ignore_ascii_case(name) || tail(value)
        })
    };
    match exact.or_else(close) {
        Some((value, _)) if current == Some(value) => ChoiceLookup::Current,
        Some((value, _)) => {
            let (method, params) = request(value);
            ChoiceLookup::Request(method, params)
        }
        None => {
            ChoiceLookup::Missing(values.iter().map(|(value, _)| (*value).to_owned()).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_in_every_form_of_an_offer() {
        let offered = json!({
            "modes": {"currentModeId": "default", "availableModes": [
                {"id": "default", "name": "Default"}, {"id": "autoEdit", "name": "Auto Edit"}]},
            "models": {"currentModelId": "auto", "availableModels": [{"modelId": "flash"}]},
        });
        let mode = |name| Choice::Mode.find(name, &offered);
        assert_eq!(mode("default"), ChoiceLookup::Current);
        let auto = || ChoiceLookup::Request("session/set_mode", json!({"modeId": "autoEdit"}));
        assert_eq!(mode("autoEdit"), auto());
        assert_eq!(mode("auto edit"), auto());
        assert_eq!(
            mode("x"),
            ChoiceLookup::Missing(vec!["default".to_owned(), "autoEdit".to_owned()])
        );
        let flash = ChoiceLookup::Request("session/set_model", json!({"modelId": "flash"}));
        assert_eq!(Choice::Model.find("flash", &offered), flash);
        assert_eq!(Choice::Model.find("x", &json!({})), ChoiceLookup::NoChoice);
    }

    #[test]
    fn an_option_goes_before_a_mode() {
        let plan = "https://example.com/modes#plan";
        let offered = json!({
            "modes": {"currentModeId": "a", "availableModes": [{"id": "plan", "name": "Plan"}]},
            "configOptions": [
                {"id": "effort", "category": "thought_level", "options": []},
                {"id": "how", "category": "mode", "currentValue": "a", "options": [
                    {"group": "all", "options": [{"value": plan, "name": "Planning"}]}]},
            ],
        });
        for name in ["plan", "planning", plan] {
            assert_eq!(
                Choice::Mode.find(name, &offered),
                ChoiceLookup::Request(
                    "session/set_config_option",
                    json!({"configId": "how", "value": plan})
                )
            );
        }
    }
}
