//! Front matter that is read without a YAML parser is what the parser reads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use convoke_files::yaml::plain_fields;
use proptest::prelude::*;
use yaml_serde::Value;

/// Compares the two readers. Returns whether the front matter needed no parser.
fn compare(front: &str) -> Result<bool, String> {
    let Some(fields) = plain_fields(front) else { return Ok(false) };
    // As Claude Code and Gemini CLI read it: any value, in order.
    let parsed: Value = yaml_serde::from_str(front).map_err(|error| error.to_string())?;
    let text = |text: &str| Value::String(text.to_owned());
    let pairs: Vec<_> = fields.iter().map(|(key, value)| (text(key), text(value))).collect();
    let mapping = parsed.as_mapping().ok_or("the parser finds no fields")?;
    let read: Vec<_> = mapping.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    if read != pairs {
        return Err(format!("the parser reads {read:?}, not {pairs:?}"));
    }
    // As Codex reads it: texts.
    let parsed: BTreeMap<String, String> =
        yaml_serde::from_str(front).map_err(|error| error.to_string())?;
    let fields = fields.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
    let fields: BTreeMap<_, _> = fields.collect();
    if parsed != fields {
        return Err(format!("the parser reads {parsed:?}, not {fields:?}"));
    }
    Ok(true)
}

/// Lines of front matter, most of them nearly plain.
fn front_matter() -> impl Strategy<Value = String> {
    let key = prop_oneof![
        8 => "[a-zA-Z][a-zA-Z0-9_-]{0,12}",
        1 => prop::sample::select(vec!["name", "description", "true", "Null", "y", "no", "<<", "inf", "nan", "a b", "é"])
            .prop_map(str::to_owned),
        1 => "\\PC{0,6}",
    ];
    let piece = prop_oneof![
        6 => "[a-zA-Z ,.;()]{1,20}",
        4 => prop::sample::select(vec![
            ":", ": ", " #", "#", "'", "\"", "\\", "''", "\\n", "-", "- ", "? ", "[", "]", "{", "}", "*", "&", "!", "|", ">",
            "%", "@", "`", "~", "\t", "true", "NULL", "null", "False", "yes", "1", "0x1f", "1e3", ".inf", "inf", "NaN", "…", "—",
            "技能", "\u{85}", "\u{a0}", "\u{2028}", "\u{feff}", "\u{ffff}", "😀", "\u{7f}", "\u{1}", "...", "---", "<<",
        ])
        .prop_map(str::to_owned),
        1 => "\\PC{0,8}",
    ];
    let value = prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat());
    let quoted = prop_oneof![
        3 => value.clone(),
        1 => value.clone().prop_map(|text| format!("\"{text}\"")),
        1 => value.prop_map(|text| format!("'{text}'")),
    ];
    let colon = prop::sample::select(vec![": ", ": ", ": ", ":  ", ":", " : ", ":\t"]);
    let end = prop::sample::select(vec!["\n", "\n", "\n", " \n", "\r\n", "\r", "\n\n", "\n  ", ""]);
    let line = (key, colon, quoted, end)
        .prop_map(|(key, colon, value, end)| format!("{key}{colon}{value}{end}"));
    prop::collection::vec(line, 1..5).prop_map(|lines| lines.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn any_front_matter_is_read_alike_with_and_without_a_parser(front in front_matter()) {
        prop_assert_eq!(compare(&front).err(), None, "{:?}", front);
    }
}

/// Collects the front matter of the `SKILL.md` files in a value of a scenario.
fn collect(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::String(text) => {
            let rest = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n"));
            let end = rest.and_then(|rest| Some((rest, rest.find("\n---")?)));
            found.extend(end.map(|(rest, end)| rest[..end].to_owned()));
        }
        serde_json::Value::Array(items) => items.iter().for_each(|it| collect(it, found)),
        serde_json::Value::Object(fields) => fields.values().for_each(|it| collect(it, found)),
        _ => {}
    }
}

#[test]
fn the_front_matter_of_every_scenario_is_read_alike_with_and_without_a_parser() {
    let folders = convoke_conformance::own("CONVOKE_SKILLS", &["skills"]);
    let files: Vec<PathBuf> = convoke_conformance::files(&folders, "json").into_iter().collect();
    assert!(!files.is_empty());
    let (mut plain, mut all) = (0, 0);
    for path in &files {
        let read = |path: &Path| std::fs::read(path).unwrap();
        let scenario: serde_json::Value = serde_json::from_slice(&read(path)).unwrap();
        let mut found = Vec::new();
        collect(&scenario, &mut found);
        for front in found {
            all += 1;
            let is_plain = compare(&front).map_err(|wrong| format!("{}: {wrong}", path.display()));
            plain += usize::from(is_plain.unwrap());
        }
    }
    // Most front matter needs no parser, or the reader without one is of no use.
    assert!(plain * 2 > all && plain > 0, "{plain} of {all}");
}
