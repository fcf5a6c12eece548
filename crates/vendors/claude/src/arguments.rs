//! The arguments of an agent's configuration: those that Convoke sets itself are refused or take the place of its own.

use convoke_agent::adapter::Context;
use convoke_agent::arguments::{Arguments, KnownOption, refusal};
use convoke_agent::turn_input::{Permissions, Trust};
use convoke_protocol::verdict::Failure;

const MODE: KnownOption = KnownOption::with_value(&["--permission-mode"]);
const SOURCES: KnownOption = KnownOption::with_value(&["--setting-sources"]);
const MODEL: KnownOption = KnownOption::with_value(&["--model"]);

/// Options that skip every question, as the widest mode does.
const UNASKED: [KnownOption; 1] = [KnownOption::flag(&[
    "--dangerously-skip-permissions",
    "--allow-dangerously-skip-permissions",
])];
/// Options for the form of input and output.
const FORMS: [KnownOption; 3] = [
    KnownOption::with_value(&["--input-format", "--output-format"]),
    KnownOption::with_value(&["--permission-prompt-tool"]),
    KnownOption::flag(&["-h", "--help", "-v", "--version", "--bg", "--background"]),
];
const SYSTEM_TEXTS: [KnownOption; 1] =
    [KnownOption::with_value(&["--append-system-prompt", "--append-system-prompt-file"])];
const SESSIONS: [KnownOption; 2] = [
    KnownOption::with_value(&["-r", "--resume", "--session-id"]),
    KnownOption::flag(&["-c", "--continue"]),
];

const BY_SANDBOX: &str = "the `sandbox` of the member decides what it may do";

/// The arguments of an agent's configuration.
#[derive(Debug)]
pub(super) struct GivenArguments {
    /// Those that are passed on.
    pub rest: Vec<String>,
    /// The permission mode in place of Convoke's.
    pub mode: Option<String>,
    /// The sources of settings in place of Convoke's.
    pub sources: Option<String>,
    /// The model, where neither member nor session has one.
    pub model: Option<String>,
}

impl GivenArguments {
    /// Reads arguments without those of settings.
    pub fn read(context: &Context<'_>, arguments: &[String]) -> Result<Self, Failure> {
        let turn_input = context.turn_input;
        let mut given = Arguments::new(arguments);
        given.refuse(&FORMS, "Convoke exchanges messages with the program")?;
        if turn_input.system.is_some() {
            given.refuse(&SYSTEM_TEXTS, "add the text to the `instructions` of the member")?;
        }
        if context.resume().is_some() {
            given.refuse(&SESSIONS, "the member goes on with its own session")?;
        }
        if !allows(context, "bypassPermissions") {
            given.refuse(&UNASKED, BY_SANDBOX)?;
        }
        let mode = given.take(&MODE);
        if mode.as_ref().is_some_and(|mode| !allows(context, mode)) {
            return Err(refusal(MODE.names[0], BY_SANDBOX));
        }
        let sources = given.take(&SOURCES);
        let is_own = sources.as_ref().is_none_or(|it| matches!(&**it, "" | "user"));
        if turn_input.trust == Trust::Untrusted && !is_own {
            return Err(refusal(SOURCES.names[0], "the directory is not trusted"));
        }
        let model = given.take(&MODEL);
        if model.is_some() && context.model().is_some() {
            return Err(refusal(MODEL.names[0], "the `model` of the member is set"));
        }
        Ok(Self { rest: given.into_rest(), mode, sources, model })
    }
}

/// Returns whether a permission mode allows no more than the turn. Where the kernel enforces the permissions, no mode does.
fn allows(context: &Context<'_>, mode: &str) -> bool {
    let permissions = context.permissions();
    match mode {
        "default" | "plan" => true,
        _ if permissions == Permissions::Ask => false,
        _ if context.enforcer.is_kernel() => true,
        "dontAsk" => true,
        "acceptEdits" => permissions >= Permissions::Edit,
        _ => permissions == Permissions::Full,
    }
}
