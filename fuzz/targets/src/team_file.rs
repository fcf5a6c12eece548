use convoke_team::{FileLocation, Team, TeamFileErrors};

/// Parses any text as a team file: its members have names of their own and can be found by them, trust
/// granted for a content covers that content, and every error names a line of the text and a fix.
pub fn team_file(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        check_errors(&TeamFileErrors::not_utf8(bytes), bytes);
        return false;
    };
    let team = match Team::parse(text) {
        Ok(team) => team,
        Err(errors) => {
            check_errors(&errors, bytes);
            return false;
        }
    };
    for member in &team.members {
        let found = team.member(member.name.as_str()).expect("a member is found by its name");
        assert_eq!(found.name, member.name, "names are unique");
        assert!(team.context_options(member).max_bytes > 0);
    }
    for asked in team.choices(|_| FileLocation::default(), |_| None) {
        assert!(asked.grant.covers(&asked.grant), "a grant covers what was shown");
        assert!(!asked.choices.is_empty());
    }
    true
}

fn check_errors(errors: &TeamFileErrors, bytes: &[u8]) {
    let lines = bytes.split(|&byte| byte == b'\n').count();
    assert!(!errors.errors.is_empty(), "a refusal has a reason");
    for error in &errors.errors {
        assert!((1..=lines).contains(&error.line), "line {} of {lines}", error.line);
        assert!(error.column > 0 && !error.message.is_empty() && !error.fix.is_empty());
    }
    let report = errors.report("convoke.toml");
    assert!(report.matches(" = fix: ").count() >= errors.errors.len(), "{report}");
}
