//! A scenario on disk, with its long texts inserted.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;

pub(crate) struct Scenario {
    value: Value,
    /// The captured requests, numbered from 1.
    requests: Vec<Value>,
    /// The lines of the session files.
    rollouts: Vec<Vec<Value>>,
}

impl Scenario {
    /// Creates a scenario without session files.
    pub(crate) fn new(value: Value, requests: Vec<Value>) -> Self {
        Self { value, requests, rollouts: Vec::new() }
    }

    pub(crate) fn read(folder: &Path) -> Result<Self, String> {
        let mut texts = Texts { folder: folder.parent().unwrap_or(folder), cache: HashMap::new() };
        let value = texts.resolved(read_json(&folder.join("scenario.json"))?)?;
        let files = |key: &str| {
            let names = value[key].as_array().cloned().unwrap_or_default();
            names.into_iter().filter_map(|it| Some(folder.join(it.as_str()?)))
        };
        let requests = files("requests").map(|path| texts.resolved(read_json(&path)?));
        let requests = requests.collect::<Result<_, String>>()?;
        let mut rollouts = Vec::new();
        for path in files("rollouts") {
            let text =
                std::fs::read_to_string(&path).map_err(|it| format!("{}: {it}", path.display()))?;
            let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
            let lines: Result<_, String> = lines.map(|line| texts.resolved(line)).collect();
            rollouts.push(lines?);
        }
        Ok(Self { value, requests, rollouts })
    }

    pub(crate) fn get(&self, key: &str) -> &Value {
        &self.value[key]
    }

    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.value[key].as_str()
    }

    pub(crate) fn list(&self, key: &str) -> &[Value] {
        list(&self.value[key])
    }

    /// Returns the captured request with a number, from 1.
    pub(crate) fn request(&self, number: usize) -> Option<&Value> {
        self.requests.get(number.checked_sub(1)?)
    }

    pub(crate) fn requests(&self) -> &[Value] {
        &self.requests
    }

    pub(crate) fn rollouts(&self) -> &[Vec<Value>] {
        &self.rollouts
    }
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns the texts of a list.
pub(crate) fn texts(value: &Value) -> Vec<String> {
    let texts = list(value).iter().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

fn read_json(path: &Path) -> Result<Value, String> {
    let text = std::fs::read_to_string(path).map_err(|it| format!("{}: {it}", path.display()))?;
    serde_json::from_str(&text).map_err(|it| format!("{}: {it}", path.display()))
}

/// The long texts that scenarios share.
struct Texts<'a> {
    folder: &'a Path,
    cache: HashMap<String, Value>,
}

impl Texts<'_> {
    /// Replaces every `{"$text": path}` by the text.
    fn resolved(&mut self, value: Value) -> Result<Value, String> {
        Ok(match value {
            Value::Object(mut fields) => {
                if let Some(path) = fields.get("$text").and_then(Value::as_str) {
                    return self.text(path);
                }
                for field in fields.values_mut() {
                    *field = self.resolved(field.take())?;
                }
                Value::Object(fields)
            }
            Value::Array(items) => {
                let items = items.into_iter().map(|item| self.resolved(item));
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            other => other,
        })
    }

    fn text(&mut self, path: &str) -> Result<Value, String> {
        if let Some(known) = self.cache.get(path) {
            return Ok(known.clone());
        }
        let mut file = self.folder.join(path);
        // Directories of scenarios may share the texts of one of them.
        if let (false, Some(shared)) = (file.exists(), std::env::var_os("CONVOKE_SHARED")) {
            file = Path::new(&shared).join("scenarios").join(path);
        }
        let value = match file.extension().and_then(|it| it.to_str()) {
            Some("json") => read_json(&file)?,
            _ => std::fs::read_to_string(&file)
                .map(Value::String)
                .map_err(|it| format!("{}: {it}", file.display()))?,
        };
        self.cache.insert(path.to_owned(), value.clone());
        Ok(value)
    }
}
