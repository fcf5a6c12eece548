//! The types of Claude Code's settings. A file with a value of the wrong type is rejected whole.

use serde_json::Value;

/// The type that a setting must have.
#[derive(Debug, Clone, Copy)]
enum Type {
    Truth,
    Text,
    Object,
    Texts,
    List,
    /// A whole number above zero.
    Count,
    /// A number that is not negative.
    Amount,
    /// A number above zero, and at most one.
    Share,
    /// An object whose values are all one of these texts.
    Choices(&'static [&'static str]),
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// An object whose values are booleans, lists or objects.
    Switches,
}

const OVERRIDES: &[&str] = &["on", "off", "name-only", "user-invocable-only"];
const MODES: &[&str] = &[
    "acceptEdits",
    "auto",
    "bypassPermissions",
    "default",
    "delegate",
    "dontAsk",
    "manual",
    "plan",
];

/// The settings whose types are checked, by JSON pointer.
const TYPES: [(&str, Type); 24] = [
    ("/claudeMdExcludes", Type::Texts),
    ("/skillOverrides", Type::Choices(OVERRIDES)),
    ("/skillListingMaxDescChars", Type::Count),
    ("/skillListingBudgetFraction", Type::Share),
    ("/disableBundledSkills", Type::Truth),
    ("/autoMemoryEnabled", Type::Truth),
    ("/model", Type::Text),
    ("/env", Type::Object),
    ("/enabledPlugins", Type::Switches),
    ("/pluginConfigs", Type::Object),
    ("/permissions", Type::Object),
    ("/permissions/allow", Type::List),
    ("/permissions/deny", Type::List),
    ("/permissions/ask", Type::List),
    ("/permissions/additionalDirectories", Type::Texts),
    ("/permissions/defaultMode", Type::Choice(MODES)),
    ("/permissions/blockReadsOutsideWorkingDirectories", Type::Truth),
    ("/cleanupPeriodDays", Type::Amount),
    ("/includeCoAuthoredBy", Type::Truth),
    ("/disableAllHooks", Type::Truth),
    ("/enableAllProjectMcpServers", Type::Truth),
    ("/statusLine", Type::Object),
    ("/apiKeyHelper", Type::Text),
    ("/outputStyle", Type::Text),
];

/// Returns the first setting of the wrong type, in words.
pub(super) fn wrong(settings: &Value) -> Option<String> {
    TYPES.iter().find_map(|(pointer, expected)| {
        let value = settings.pointer(pointer)?;
        if expected.has(value) {
            return None;
        }
        let key = pointer.trim_start_matches('/').replace('/', ".");
        Some(format!("`{key}` is {value}: use {}", expected.words()))
    })
}

impl Type {
    fn has(self, value: &Value) -> bool {
        let values = || value.as_object().into_iter().flat_map(|object| object.values());
        match self {
            Self::Truth => value.is_boolean(),
            Self::Text => value.is_string(),
            Self::Object => value.is_object(),
            Self::List => value.is_array(),
            Self::Texts => value.as_array().is_some_and(|it| it.iter().all(Value::is_string)),
            Self::Count => value.as_u64().is_some_and(|it| it > 0),
            Self::Amount => value.as_f64().is_some_and(|it| it >= 0.0),
            Self::Share => value.as_f64().is_some_and(|it| it > 0.0 && it <= 1.0),
            Self::Choice(choices) => value.as_str().is_some_and(|it| choices.contains(&it)),
            Self::Choices(choices) => {
                value.is_object() && values().all(|it| Self::Choice(choices).has(it))
            }
            Self::Switches => {
                let is_switch = |it: &Value| it.is_boolean() || it.is_array() || it.is_object();
                value.is_object() && values().all(is_switch)
            }
        }
    }

    fn words(self) -> String {
        match self {
            Self::Truth => "true or false".to_owned(),
            Self::Text => "a text".to_owned(),
            Self::Object => "an object".to_owned(),
            Self::List => "a list".to_owned(),
            Self::Texts => "a list of texts".to_owned(),
            Self::Count => "a whole number above 0".to_owned(),
            Self::Amount => "a number".to_owned(),
            Self::Share => "a number above 0, at most 1".to_owned(),
            Self::Choice(choices) => format!("one of {}", choices.join(", ")),
            Self::Choices(choices) => format!("an object with values of {}", choices.join(", ")),
            Self::Switches => "an object with true or false".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_of_the_wrong_type_is_found_and_others_are_left() {
        let wrong_ones = [
            json!({"skillOverrides": {"x": "nonsense"}}),
            json!({"skillOverrides": []}),
            json!({"model": 5}),
            json!({"permissions": {"deny": "x"}}),
            json!({"permissions": {"defaultMode": "zz"}}),
            json!({"permissions": []}),
            json!({"env": []}),
            json!({"disableBundledSkills": "yes"}),
            json!({"skillListingMaxDescChars": "100"}),
            json!({"skillListingMaxDescChars": -5}),
            json!({"skillListingMaxDescChars": 0}),
            json!({"skillListingMaxDescChars": 50.5}),
            json!({"skillListingBudgetFraction": 2}),
            json!({"skillListingBudgetFraction": 0}),
            json!({"enabledPlugins": {"x": 5}}),
            json!({"cleanupPeriodDays": "x"}),
            json!({"claudeMdExcludes": "x"}),
        ];
        for settings in wrong_ones {
            assert!(wrong(&settings).is_some(), "{settings}");
        }
        let right_ones = [
            json!({"permissions": {"deny": [5]}}),
            json!({"permissions": {"deny": ["Read(", "Foo"]}}),
            json!({"env": {"A": 5}}),
            json!({"unknownKey": {"x": 1}}),
            json!({"hooks": []}),
            json!({"skillListingBudgetFraction": 1, "skillListingMaxDescChars": 1}),
        ];
        for settings in right_ones {
            assert_eq!(wrong(&settings), None, "{settings}");
        }
    }
}
