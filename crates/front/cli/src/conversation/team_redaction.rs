//! Redaction of the team file that a session stores.

use std::ops::Range;

use convoke_redact::is_secret_name;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The replacement of a secret.
const MARK: &str = "\"[redacted]\"";

/// Returns the text of a team file without the values of the variables whose names say that they are
/// secrets. Everything else is unchanged.
pub fn without_secrets(text: &str) -> String {
    let mut kept = text.to_owned();
    let Ok(file) = DeTable::parse(text) else { return kept };
    let mut places = secrets(file.get_ref());
    // From the end, so that earlier positions stay valid.
    places.sort_by_key(|place| std::cmp::Reverse(place.start));
    for place in places {
        kept.replace_range(place, MARK);
    }
    kept
}

fn secrets(file: &DeTable<'_>) -> Vec<Range<usize>> {
    let members = file.get("member").and_then(|members| members.get_ref().as_array());
    let env = |member: &Spanned<DeValue<'_>>| -> Vec<Range<usize>> {
        let env = member.get_ref().get("env").and_then(|env| env.get_ref().as_table());
        let variables = env.into_iter().flatten();
        variables
            .filter(|(name, _)| is_secret_name(name.get_ref()))
            .map(|(_, value)| value.span())
            .collect()
    };
    members.into_iter().flat_map(|members| members.iter()).flat_map(env).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_values_of_secret_variables_are_left_out() {
        let text = "# a team\n[[member]]\nname = \"max\"\nenv = { MY_API_KEY = 'a b', HOME = \"/x\" }\n\
                    [[member]]\nname = \"sam\"\nenv.A_TOKEN = \"\"\"c\n\"d\"\"\"\" # mine\n\
                    [[member]]\nname = \"lee\"\n[member.env]\n\"db_password\" = \"e\\\"f\"\n";
        let kept = "# a team\n[[member]]\nname = \"max\"\nenv = { MY_API_KEY = \"[redacted]\", HOME = \"/x\" }\n\
                    [[member]]\nname = \"sam\"\nenv.A_TOKEN = \"[redacted]\" # mine\n\
                    [[member]]\nname = \"lee\"\n[member.env]\n\"db_password\" = \"[redacted]\"\n";
        assert_eq!(without_secrets(text), kept);
        assert_eq!(without_secrets(kept), kept);
        assert_eq!(without_secrets("no = team = file"), "no = team = file");
    }
}
