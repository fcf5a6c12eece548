//! The arguments that an agent's configuration gives to a known program. Each is passed on, refused by its name, or taken out
//! by the adapter, which says the same in its own way.

use convoke_protocol::verdict::{Failure, FailureReason};

/// An option of a program that its adapter does not pass on.
#[derive(Debug, Clone, Copy)]
pub struct KnownOption {
    /// Its spellings, for example `-s` and `--size`.
    pub names: &'static [&'static str],
    /// Whether a value belongs to it.
    pub takes_value: bool,
}

impl KnownOption {
    /// An option with a value.
    pub const fn with_value(names: &'static [&'static str]) -> Self {
        Self { names, takes_value: true }
    }

    /// An option without a value.
    pub const fn flag(names: &'static [&'static str]) -> Self {
        Self { names, takes_value: false }
    }

    /// Returns the name by which an argument gives the option, with a value that is part of the same argument.
    fn given<'a>(&self, argument: &'a str) -> Option<(&'static str, Option<&'a str>)> {
        self.names.iter().find_map(|name| {
            let rest = argument.strip_prefix(name)?;
            let attached = match (rest, rest.strip_prefix('=')) {
                ("", _) => None,
                (_, Some(value)) => Some(value),
                // `-svalue`
                _ if self.takes_value && !name.starts_with("--") => Some(rest),
                _ => return None,
            };
            Some((*name, attached))
        })
    }
}

/// Arguments of an agent's configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arguments(Vec<String>);

impl Arguments {
    /// Creates the arguments of a configuration.
    pub fn new(arguments: &[String]) -> Self {
        Self(arguments.to_vec())
    }

    /// Takes an option out, and returns its last value, empty for a flag; `None` if it is not given.
    pub fn take(&mut self, option: &KnownOption) -> Option<String> {
        let mut taken = None;
        let mut kept = Vec::new();
        let mut rest = std::mem::take(&mut self.0).into_iter();
        while let Some(argument) = rest.next() {
            match option.given(&argument) {
                None => kept.push(argument),
                Some((_, Some(value))) => taken = Some(value.to_owned()),
                Some((_, None)) if option.takes_value => {
                    taken = Some(rest.next().unwrap_or_default());
                }
                Some((_, None)) => taken = Some(String::new()),
            }
        }
        self.0 = kept;
        taken
    }

    /// Fails if one of these options is given.
    pub fn refuse(&self, options: &[KnownOption], why: &str) -> Result<(), Failure> {
        for argument in &self.0 {
            if let Some((name, _)) = options.iter().find_map(|option| option.given(argument)) {
                return Err(refusal(name, why));
            }
        }
        Ok(())
    }

    /// Returns the arguments that are passed on.
    pub fn into_rest(self) -> Vec<String> {
        self.0
    }
}

/// Returns the failure of a turn whose agent has an argument that cannot be passed on.
pub fn refusal(argument: &str, why: &str) -> Failure {
    let message = format!("the argument `{argument}` of the agent is refused: {why}");
    Failure::new(FailureReason::Usage, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: KnownOption = KnownOption::with_value(&["-s", "--size"]);
    const VERBOSE: KnownOption = KnownOption::flag(&["-v", "--verbose"]);

    fn arguments(text: &str) -> Arguments {
        Arguments(text.split(' ').map(str::to_owned).collect())
    }

    #[test]
    fn an_option_is_taken_in_every_spelling() {
        for (given, size, rest) in [
            ("a --size x b", Some("x"), "a b"),
            ("--size=x b", Some("x"), "b"),
            ("-s x -s y b", Some("y"), "b"),
            ("-sx b", Some("x"), "b"),
            ("-s=x b", Some("x"), "b"),
            ("b --size", Some(""), "b"),
            ("--sizes x", None, "--sizes x"),
        ] {
            let mut given = arguments(given);
            assert_eq!(given.take(&SIZE).as_deref(), size, "{given:?}");
            assert_eq!(given, arguments(rest));
        }
        let mut given = arguments("-v x --verbose -vx");
        assert_eq!(given.take(&VERBOSE).as_deref(), Some(""));
        assert_eq!(given, arguments("x -vx"));
    }

    #[test]
    fn an_option_is_refused_by_its_name_with_the_reason() {
        let refused = arguments("a --size=x").refuse(&[VERBOSE, SIZE], "it is set").unwrap_err();
        assert_eq!(refused.reason, FailureReason::Usage);
        assert_eq!(refused.message, "the argument `--size` of the agent is refused: it is set");
        assert_eq!(arguments("a --sizes").refuse(&[VERBOSE, SIZE], "no"), Ok(()));
    }
}
