//! Team files with values of the wrong type or out of range.

use super::BadFile;

pub(super) const BAD: &[BadFile] = &[
    ("one bracket", "[member]\nname = \"max\"\n", &[(1, "wrong-type", "write `[[member]]`")]),
    ("members by name", "member = [\"max\"]\n", &[(1, "wrong-type", "write `[[member]]`")]),
    (
        "a blank name",
        "[[member]]\nname = \" \"\nhuman = true\n",
        &[(2, "invalid-value", "is blank")],
    ),
    (
        "everyone",
        "[[member]]\nname = \"All\"\nhuman = true\n",
        &[(2, "invalid-value", "means everyone")],
    ),
    (
        "a list as a name",
        "[[member]]\nname = \"a, b\"\nhuman = true\n",
        &[(2, "invalid-value", "letters and digits")],
    ),
    (
        "a number as a name",
        "[[member]]\nname = 5\nhuman = true\n",
        &[(2, "wrong-type", "must be a string, not a whole number")],
    ),
    ("a value for a table", "context = 5\nMAX", &[(1, "wrong-type", "write `[context]`")]),
    (
        "a window of letters",
        "[context]\nwindow = \"5\"\nMAX",
        &[(2, "wrong-type", "write `window = 5`")],
    ),
    ("a negative window", "[context]\nwindow = -1\nMAX", &[(2, "invalid-value", "0 or more")]),
    (
        "a fraction",
        "[context]\nwindow = 1.5\nMAX",
        &[(2, "wrong-type", "not a number with a fraction")],
    ),
    ("no size", "[context]\nmax-bytes = \"lots\"\nMAX", &[(2, "invalid-value", "768 KiB")]),
    (
        "a size of another unit",
        "[context]\nmax-bytes = \"1 TB\"\nMAX",
        &[(2, "invalid-value", "KiB or MiB")],
    ),
    (
        "fence in quotes",
        "[context]\nfence = \"yes\"\nMAX",
        &[(2, "wrong-type", "write `fence = true`")],
    ),
    (
        "no visibility",
        "[context]\nvisibility = \"none\"\nMAX",
        &[(2, "invalid-value", "\"all\" or \"addressed\"")],
    ),
    (
        "a time without a unit",
        "[limits]\nturn-timeout = \"30\"\nMAX",
        &[(2, "invalid-value", "turn-timeout = \"30m\"")],
    ),
    ("no time", "[limits]\nturn-timeout = \"0s\"\nMAX", &[(2, "invalid-value", "from \"1s\"")]),
    ("a list for a text", "task = [\"a\"]\nMAX", &[(1, "wrong-type", "not a list")]),
    (
        "a sandbox of no kind",
        "MAXsandbox = \"edits\"\n",
        &[(4, "invalid-value", "write `sandbox = \"edit\"`")],
    ),
    (
        "one argument for a list",
        "MAXargs = \"--x\"\n",
        &[(4, "wrong-type", "write `args = [\"--x\"]`")],
    ),
    (
        "a number in the arguments",
        "MAXargs = [\"-n\", 5]\n",
        &[(4, "invalid-value", "a list of strings")],
    ),
    (
        "a number as a variable",
        "MAXenv = { A = 1 }\n",
        &[(4, "invalid-value", "put the value in double quotes")],
    ),
    (
        "a model that is an option",
        "MAXmodel = \"--yolo\"\n",
        &[(4, "invalid-value", "does not begin with `-`")],
    ),
    (
        "no address",
        "[[member]]\nname = \"x\"\nagent = \"api\"\nbase-url = \"localhost:80\"\nmodel = \"m\"\n",
        &[(4, "invalid-value", "http://127.0.0.1:8080/v1")],
    ),
    (
        "a member by name",
        "[member.max]\nagent = \"claude\"\n",
        &[(1, "wrong-type", "with double brackets")],
    ),
    (
        "a list of agents",
        "[[member]]\nname = \"x\"\nagent = [\"claude\"]\n",
        &[(3, "wrong-type", "not a list")],
    ),
    (
        "a person in quotes",
        "[[member]]\nname = \"x\"\nhuman = \"true\"\n",
        &[(3, "wrong-type", "write `human = true`")],
    ),
    (
        "a name as it is written in messages",
        "[[member]]\nname = \"@max\"\nagent = \"claude\"\n",
        &[(2, "invalid-value", "remove the `@`")],
    ),
    (
        "a size with a fraction",
        "[context]\nmax-bytes = \"1.5 MiB\"\nMAX",
        &[(2, "invalid-value", "768 KiB")],
    ),
    ("a negative size", "[context]\nmax-bytes = -1\nMAX", &[(2, "invalid-value", "768 KiB")]),
    (
        "a window of a member in letters",
        "MAXwindow = \"all\"\n",
        &[(4, "wrong-type", "write `window = 5`")],
    ),
    (
        "two units",
        "[limits]\nturn-timeout = \"1h30m\"\nMAX",
        &[(2, "invalid-value", "turn-timeout = \"30m\"")],
    ),
    (
        "seconds as a number",
        "[limits]\nask-timeout = 600\nMAX",
        &[(2, "wrong-type", "ask-timeout = \"10m\"")],
    ),
    (
        "a negative time",
        "[limits]\nturn-timeout = \"-5m\"\nMAX",
        &[(2, "invalid-value", "from \"1s\"")],
    ),
    (
        "turns in letters",
        "[limits]\nturns = \"fifty\"\nMAX",
        &[(2, "wrong-type", "write `turns = 50`")],
    ),
    (
        "parallel in quotes",
        "[limits]\nparallel = \"true\"\nMAX",
        &[(2, "wrong-type", "write `parallel = true`")],
    ),
    (
        "record of another word",
        "record = \"wires\"\nMAX",
        &[(1, "invalid-value", "write `record = \"wire\"`")],
    ),
    ("record as a switch", "record = true\nMAX", &[(1, "wrong-type", "write `record = \"wire\"`")]),
    (
        "require-sandbox in quotes",
        "require-sandbox = \"yes\"\nMAX",
        &[(1, "wrong-type", "write `require-sandbox = true`")],
    ),
    (
        "another word for read-only",
        "MAXsandbox = \"readonly\"\n",
        &[(4, "invalid-value", "write `sandbox = \"read-only\"`")],
    ),
    ("a list of sandboxes", "MAXsandbox = [\"edit\"]\n", &[(4, "wrong-type", "not a list")]),
    (
        "a list of variables",
        "MAXenv = [\"A=B\"]\n",
        &[(4, "wrong-type", "env = { NAME = \"value\" }")],
    ),
    ("a command line", "MAXcommand = [\"claude\", \"-p\"]\n", &[(4, "wrong-type", "not a list")]),
    ("a date as a task", "task = 2026-01-01\nMAX", &[(1, "wrong-type", "not a date")]),
    (
        "a file of no name",
        "MAXinstructions-file = \"\"\n",
        &[(4, "invalid-value", "agents/max.md")],
    ),
    (
        "lines of Windows",
        "[context]\r\nwindow = \"a\"\r\nMAX",
        &[(2, "wrong-type", "write `window = 5`")],
    ),
    ("tabs", "\t[context]\n\t\twindow\t=\t\"a\"\nMAX", &[(2, "wrong-type", "write `window = 5`")]),
    (
        "a budget of nothing",
        "[context]\nmax-bytes = 0\nMAX",
        &[(2, "invalid-value", "16 bytes or more")],
    ),
    (
        "a budget of a word",
        "[context]\nmax-bytes = 10\nMAX",
        &[(2, "invalid-value", "16 bytes or more")],
    ),
    (
        "a member's budget of nothing",
        "MAXmax-bytes = \"0 KiB\"\n",
        &[(4, "invalid-value", "16 bytes or more")],
    ),
    ("no turns", "[limits]\nturns = 0\nMAX", &[(2, "invalid-value", "1 or more")]),
    ("no queue", "[limits]\nqueue = 0\nMAX", &[(2, "invalid-value", "1 or more")]),
    (
        "arguments in one string",
        "MAXargs = \"--model opus\"\n",
        &[(4, "wrong-type", "write `args = [\"--model\", \"opus\"]`")],
    ),
    (
        "a wire of another name",
        "[[member]]\nname = \"x\"\nagent = \"api\"\nmodel = \"m\"\nbase-url = \"http://h/v1\"\nwire = \"openai\"\n",
        &[(6, "invalid-value", "write `wire = \"chat\"`")],
    ),
    (
        "a sandbox of Codex",
        "MAXsandbox = \"workspace-write\"\n",
        &[(4, "invalid-value", "write `sandbox = \"edit\"`")],
    ),
    (
        "a sandbox of no meaning",
        "MAXsandbox = \"maybe\"\n",
        &[(4, "invalid-value", "choose one, such as `sandbox = \"read-only\"`")],
    ),
    (
        "a sandbox as a switch",
        "MAXsandbox = true\n",
        &[(4, "wrong-type", "choose one, such as `sandbox = \"read-only\"`")],
    ),
    (
        "a list of models",
        "MAXmodel = [\"a\", \"b\"]\n",
        &[(4, "wrong-type", "must be a name, not a list")],
    ),
    (
        "a variable of two words",
        "MAXenv = { \"A B\" = \"x\" }\n",
        &[(4, "invalid-value", "`A B` is not the name of a variable")],
    ),
    (
        "a port as a variable",
        "MAX[member.env]\nPORT = 8080\n",
        &[(5, "invalid-value", "put the value in double quotes")],
    ),
    ("a name without end", LONG_NAME, &[(2, "invalid-value", "choose a shorter name")]),
];

/// A name that no line of a prompt should repeat.
const LONG_NAME: &str = concat!(
    "[[member]]\nname = \"",
    "0123456789012345678901234567890123456789012345678901234567890123456789",
    "0123456789012345678901234567890123456789",
    "\"\nagent = \"claude\"\n"
);
