//! Annotations of a workflow: lines that GitHub shows beside the changed files.

use super::{Finding, Level, Rule};

/// Returns one workflow command for each finding. The title is the id of its rule; the fix of the rule follows the message.
pub fn commands(rules: &[Rule], findings: &[Finding]) -> String {
    findings.iter().map(|finding| command(rules, finding)).collect()
}

fn command(rules: &[Rule], finding: &Finding) -> String {
    let name = match finding.level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Note => "notice",
    };
    let mut properties = Vec::new();
    if let Some(place) = &finding.place {
        properties.push(format!("file={}", property(&place.file)));
        properties.extend(place.line.map(|line| format!("line={line}")));
    }
    properties.push(format!("title={}", property(&finding.rule)));
    let help = rules.iter().find(|rule| rule.id == finding.rule).map_or("", |rule| &*rule.help);
    let message = match help {
        "" => finding.message.clone(),
        help => format!("{}\n{help}", finding.message),
    };
    format!("::{name} {}::{}\n", properties.join(","), data(&message))
}

/// Escapes a message: a line break would end the command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes the value of a property, which a colon or a comma would end.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Place;

    #[test]
    fn nothing_in_a_finding_ends_its_command_or_begins_another() {
        let rule = Rule {
            id: "gate.growth".to_owned(),
            summary: "It grew.".to_owned(),
            help: "Shorten it.".to_owned(),
        };
        let finding = |level, file: &str, line, message: &str| Finding {
            rule: rule.id.clone(),
            level,
            message: message.to_owned(),
            place: Some(Place { file: file.to_owned(), line }),
            key: String::new(),
        };
        let found = [
            finding(Level::Error, "a,b:c.md", Some(7), "100% more\n::stop-commands::x\r"),
            finding(Level::Note, "d.md", None, "all is well"),
        ];
        let expected = "::error file=a%2Cb%3Ac.md,line=7,title=gate.growth::100%25 more%0A::stop-commands::x%0D%0AShorten it.\n\
                        ::notice file=d.md,title=gate.growth::all is well%0AShorten it.\n";
        assert_eq!(commands(&[rule], &found), expected);
    }
}
