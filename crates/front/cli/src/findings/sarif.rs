//! SARIF 2.1.0, the format of code scanning services.

use std::fmt::Write as _;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Finding, Place, Rule};

/// The name by which the services know that a path starts in the checkout.
const ROOT: &str = "%SRCROOT%";
/// The bytes of a fingerprint.
const FINGERPRINT: usize = 16;

/// Returns a log of one run with all rules and findings. A finding whose rule is not among the rules refers to it by its id
/// alone.
pub fn log(rules: &[Rule], findings: &[Finding]) -> Value {
    let described: Vec<Value> = rules.iter().map(rule).collect();
    let results: Vec<Value> = findings.iter().map(|finding| result(rules, finding)).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {
                "driver": {
                    "name": "convoke",
                    "semanticVersion": env!("CARGO_PKG_VERSION"),
                    "rules": described,
                },
            },
            "columnKind": "utf16CodeUnits",
            "results": results,
        }],
    })
}

fn rule(rule: &Rule) -> Value {
    let mut described = json!({
        "id": rule.id,
        "shortDescription": { "text": rule.summary },
    });
    if !rule.help.is_empty() {
        described["help"] = json!({ "text": rule.help });
    }
    described
}

fn result(rules: &[Rule], finding: &Finding) -> Value {
    let mut result = json!({
        "ruleId": finding.rule,
        "level": finding.level.name(),
        "message": { "text": finding.message },
    });
    if let Some(index) = rules.iter().position(|rule| rule.id == finding.rule) {
        result["ruleIndex"] = index.into();
    }
    if let Some(place) = &finding.place {
        result["locations"] = json!([location(place)]);
    }
    result["partialFingerprints"] = json!({ "finding/v1": fingerprint(finding) });
    result
}

fn location(place: &Place) -> Value {
    let mut artifact = json!({ "uri": uri(&place.file) });
    if !place.file.starts_with('/') {
        artifact["uriBaseId"] = ROOT.into();
    }
    let mut physical = json!({ "artifactLocation": artifact });
    if let Some(line) = place.line {
        physical["region"] = json!({ "startLine": line.max(1) });
    }
    json!({ "physicalLocation": physical })
}

/// Returns a path as the reference of a URI: bytes that may not stand in one are escaped.
fn uri(path: &str) -> String {
    let mut uri = String::from(if path.starts_with('/') { "file://" } else { "" });
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

fn fingerprint(finding: &Finding) -> String {
    let file = finding.place.as_ref().map_or("", |place| &*place.file);
    let hash = Sha256::digest([&*finding.rule, file, &*finding.key].join("\0"));
    let mut fingerprint = String::new();
    for byte in hash.iter().take(FINGERPRINT) {
        let _ = write!(fingerprint, "{byte:02x}");
    }
    fingerprint
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Level;

    fn findings() -> (Vec<Rule>, Vec<Finding>) {
        let rules = ["gate.growth", "gate.lost"].map(|id| Rule {
            id: id.to_owned(),
            summary: format!("{id} is found."),
            help: if id == "gate.lost" { String::new() } else { "Shorten it.".to_owned() },
        });
        let finding = |rule: &str, level, place| Finding {
            rule: rule.to_owned(),
            level,
            message: "AGENTS.md has \"12\" more\n\u{1b}[1m tokens ✂".to_owned(),
            place,
            key: "claude .".to_owned(),
        };
        let found = [
            finding(
                "gate.growth",
                Level::Error,
                Some(Place { file: "AGENTS.md".to_owned(), line: Some(3) }),
            ),
            finding(
                "gate.lost",
                Level::Warning,
                Some(Place { file: "a b/ü%#?:.md".to_owned(), line: None }),
            ),
            finding(
                "gate.lost",
                Level::Note,
                Some(Place { file: "/etc/x.md".to_owned(), line: Some(0) }),
            ),
            finding("other", Level::Note, None),
        ];
        (rules.to_vec(), found.to_vec())
    }

    /// The types are made from the schema of the standard. What it does not define would be lost on the way.
    #[test]
    fn a_log_is_read_and_written_by_types_of_the_schema_without_a_loss() {
        let (rules, found) = findings();
        for (rules, found) in [(&rules[..], &found[..]), (&[], &[])] {
            let log = log(rules, found);
            let parsed: serde_sarif::sarif::Sarif = serde_json::from_value(log.clone()).unwrap();
            assert_eq!(serde_json::to_value(&parsed).unwrap(), log);
        }
    }

    #[test]
    fn a_finding_refers_to_its_rule_and_its_place() {
        let (rules, found) = findings();
        let log = log(&rules, &found);
        let results = &log["runs"][0]["results"];
        assert_eq!(results[0]["ruleIndex"], 0);
        let place = &results[0]["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"], json!({ "uri": "AGENTS.md", "uriBaseId": ROOT }));
        assert_eq!(place["region"]["startLine"], 3);
        let uris = [1, 2]
            .map(|at| &results[at]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]);
        assert_eq!(uris, ["a%20b/%C3%BC%25%23%3F%3A.md", "file:///etc/x.md"]);
        assert!(results[3].get("locations").is_none() && results[3].get("ruleIndex").is_none());
    }

    #[test]
    fn the_fingerprint_of_a_finding_does_not_depend_on_its_line_or_its_wording() {
        let (_, found) = findings();
        let mut moved = found[0].clone();
        moved.message = "other words".to_owned();
        moved.place = Some(Place { file: "AGENTS.md".to_owned(), line: Some(40) });
        assert_eq!(fingerprint(&moved), fingerprint(&found[0]));
        moved.key = "codex .".to_owned();
        assert_ne!(fingerprint(&moved), fingerprint(&found[0]));
    }
}
