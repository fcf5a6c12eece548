//! The arguments and variables that determine which files of the directory a CLI loads.

/// The arguments and variables that determine which files a program loads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoadingArguments {
    /// The arguments.
    pub args: Vec<&'static str>,
    pub variables: Vec<(&'static str, &'static str)>,
}
