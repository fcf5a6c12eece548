//! The front matter of a skill.

use convoke_files::yaml;
use serde::Deserialize;

const MAX_NAME: usize = 64;
const MAX_DESCRIPTION: usize = 1024;

/// A skill's name and description, white space collapsed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct About {
    pub(super) name: String,
    pub(super) description: String,
}

#[derive(Deserialize)]
struct Written {
    name: Option<String>,
    description: Option<String>,
}

/// Reads the part between the first two `---` lines.
pub(super) fn read(text: &str) -> Result<About, String> {
    let yaml = between_rules(text).ok_or("it has no part between --- lines")?;
    yaml::check(&yaml).map_err(|why| format!("the part between --- lines is not read: {why}"))?;
    let written: Written = yaml_serde::from_str(&yaml)
        .map_err(|wrong| format!("the part between --- lines is not valid YAML: {wrong}"))?;
    Ok(About {
        name: field("name", written.name.as_deref(), MAX_NAME)?,
        description: field("description", written.description.as_deref(), MAX_DESCRIPTION)?,
    })
}

fn between_rules(text: &str) -> Option<String> {
    let mut lines = text.lines();
    lines.next().filter(|line| line.trim() == "---")?;
    let mut yaml = Vec::new();
    for line in lines {
        if line.trim() == "---" {
            return (!yaml.is_empty()).then(|| yaml.join("\n"));
        }
        yaml.push(line);
    }
    None
}

fn field(name: &str, written: Option<&str>, max: usize) -> Result<String, String> {
    let words: Vec<_> = written.iter().flat_map(|it| it.split_whitespace()).collect();
    let text = words.join(" ");
    match text.chars().count() {
        0 => Err(format!("it has no `{name}`")),
        length if length > max => {
            Err(format!("its `{name}` has {length} characters and may have {max}"))
        }
        _ => Ok(text),
    }
}
