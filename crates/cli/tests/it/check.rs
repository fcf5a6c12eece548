//! `convoke check`: bad team files, each with its line and its fix.

use serde_json::Value;

use crate::context::TestContext;

/// A right member, for files that are wrong elsewhere.
const MAX: &str = "[[member]]\nname = \"max\"\nagent = \"claude\"\n";

/// The line, the code without its prefix, and words of one error.
type Expected = (usize, &'static str, &'static str);

/// Bad team files: what is wrong, the text, and for each error its line, its code and words of its report.
/// `MAX` stands for a right member of three lines.
const BAD: &[(&str, &str, &[Expected])] = &[
    (
        "an acp agent without a program",
        "[[member]]\nname = \"x\"\nagent = \"acp\"\n",
        &[(3, "missing-setting", "an acp agent needs a program")],
    ),
    (
        "requests of an acp agent on record",
        "[[member]]\nname = \"x\"\nagent = \"copilot\"\nrecord = \"wire\"\n",
        &[(4, "unused-setting", "cannot be recorded")],
    ),
    (
        "nearly copilot",
        "[[member]]\nname = \"x\"\nagent = \"copliot\"\n",
        &[(3, "unknown-agent", "write `agent = \"copilot\"`")],
    ),
    ("an empty file", "", &[(1, "missing-setting", "add a `[[member]]`")]),
    ("no members", "name = \"x\"\n", &[(1, "missing-setting", "at least one member")]),
    ("members", "[[members]]\nname = \"max\"\n", &[(1, "unknown-setting", "write `[[member]]`")]),
    ("agents", "[[agents]]\nname = \"max\"\n", &[(1, "unknown-setting", "write `[[member]]`")]),
    ("one bracket", "[member]\nname = \"max\"\n", &[(1, "wrong-type", "write `[[member]]`")]),
    ("members by name", "member = [\"max\"]\n", &[(1, "wrong-type", "write `[[member]]`")]),
    (
        "a nameless member",
        "[[member]]\nagent = \"claude\"\n",
        &[(1, "missing-setting", "name = \"max\"")],
    ),
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
    (
        "neither agent nor person",
        "[[member]]\nname = \"x\"\n",
        &[(1, "missing-setting", "human = true")],
    ),
    (
        "both",
        "[[member]]\nname = \"x\"\nhuman = true\nagent = \"claude\"\n",
        &[(4, "conflict", "remove one")],
    ),
    (
        "a person with a model",
        "[[member]]\nname = \"x\"\nhuman = true\nmodel = \"m\"\n",
        &[(4, "unknown-setting", "x is a person")],
    ),
    (
        "two of a name",
        "MAX[[member]]\nname = \"M-ax\"\nhuman = true\n",
        &[(5, "duplicate-member", "rename one")],
    ),
    (
        "a display name that is taken",
        "MAX[[member]]\nname = \"y\"\ndisplay-name = \"Max\"\nhuman = true\n",
        &[(6, "duplicate-member", "`max`")],
    ),
    (
        "an unknown agent",
        "[[member]]\nname = \"x\"\nagent = \"cluade\"\n",
        &[(3, "unknown-agent", "write `agent = \"claude\"`")],
    ),
    (
        "an agent like no other",
        "[[member]]\nname = \"x\"\nagent = \"somebody\"\n",
        &[(3, "unknown-agent", "choose one of acp, api, claude")],
    ),
    (
        "a misspelt setting",
        "MAXinstructons = \"x\"\n",
        &[(4, "unknown-setting", "write `instructions`")],
    ),
    (
        "a misspelt name",
        "[[member]]\nnam = \"x\"\nagent = \"claude\"\n",
        &[(2, "unknown-setting", "write `name`")],
    ),
    (
        "a misspelt agent",
        "[[member]]\nname = \"x\"\nagnt = \"claude\"\nmodel = \"m\"\n",
        &[(3, "unknown-setting", "write `agent = \"claude\"`")],
    ),
    (
        "an underscore",
        "[context]\nmax_bytes = 5\nMAX",
        &[(2, "unknown-setting", "write `max-bytes`")],
    ),
    ("camel case", "[context]\nmaxBytes = 5\nMAX", &[(2, "unknown-setting", "write `max-bytes`")]),
    ("another word", "MAXpermissions = \"edit\"\n", &[(4, "unknown-setting", "write `sandbox`")]),
    ("the wrong table", "turns = 5\nMAX", &[(1, "unknown-setting", "move it below `[limits]`")]),
    ("no such table", "[contxt]\nwindow = 5\nMAX", &[(1, "unknown-setting", "write `[context]`")]),
    (
        "like nothing",
        "colour = 5\nMAX",
        &[(1, "unknown-setting", "the settings here are name, task")],
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
        "a size beyond all numbers",
        "[context]\nmax-bytes = 99999999999999999999\nMAX",
        &[(2, "", "max-bytes")],
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
        "base-url of a CLI",
        "MAXbase-url = \"http://h/v1\"\n",
        &[(4, "unused-setting", "ANTHROPIC_BASE_URL")],
    ),
    ("key-env of a CLI", "MAXkey-env = \"K\"\n", &[(4, "unused-setting", "claude auth login")]),
    (
        "tools of a CLI",
        "MAXtools = \"read\"\n",
        &[(4, "unused-setting", "sandbox = \"read-only\"")],
    ),
    (
        "command of a model",
        "[[member]]\nname = \"x\"\nagent = \"api\"\ncommand = \"c\"\nmodel = \"m\"\nbase-url = \"http://h\"\n",
        &[(4, "unused-setting", "runs no program")],
    ),
    (
        "sandbox of a model",
        "[[member]]\nname = \"x\"\nagent = \"api\"\nbase-url = \"http://h\"\nsandbox = \"edit\"\nmodel = \"m\"\n",
        &[(5, "unused-setting", "runs no program")],
    ),
    (
        "model of a program",
        "[[member]]\nname = \"x\"\nagent = \"plain\"\ncommand = \"c\"\nmodel = \"m\"\n",
        &[(5, "unused-setting", "`args`")],
    ),
    (
        "a program without a command",
        "[[member]]\nname = \"x\"\nagent = \"plain\"\n",
        &[(3, "missing-setting", "command = ")],
    ),
    (
        "no address",
        "[[member]]\nname = \"x\"\nagent = \"api\"\nbase-url = \"localhost:80\"\nmodel = \"m\"\n",
        &[(4, "invalid-value", "http://127.0.0.1:8080/v1")],
    ),
    (
        "a missing file",
        "MAXinstructions-file = \"gone.md\"\n",
        &[(4, "bad-file", "cannot be read")],
    ),
    (
        "a directory for a file",
        "MAXinstructions-file = \".\"\n",
        &[(4, "bad-file", "Is a directory")],
    ),
    (
        "a file elsewhere",
        "MAXinstructions-file = \"/etc/hostname\"\n",
        &[(4, "needs-trust", "convoke trust")],
    ),
    ("a missing directory", "MAXcwd = \"gone\"\n", &[(4, "bad-file", "create the directory")]),
    ("no quotes", "name = auth\nMAX", &[(1, "syntax", "double quotes")]),
    ("no value", "name =\nMAX", &[(1, "syntax", "write a value after `=`")]),
    ("an open string", "name = \"auth\nMAX", &[(1, "syntax", "close the string")]),
    ("an open header", "[[member\nname = \"x\"\n", &[(1, "syntax", "close the header with `]]`")]),
    ("an open list", "MAXargs = [\"a\"\n", &[(4, "syntax", "close the list")]),
    (
        "a setting twice",
        "name = \"a\"\nname = \"b\"\nMAX",
        &[(2, "syntax", "remove one of the two")],
    ),
    ("a member without a header", "MAXname = \"y\"\n", &[(4, "syntax", "new `[[member]]`")]),
    ("not TOML at all", "{\"members\": []}\n", &[(1, "syntax", "`name = value`")]),
    ("a colon", "name: auth\nMAX", &[(1, "syntax", "write `name = value`")]),
    (
        "several errors",
        "nme = \"x\"\n[context]\nwindow = \"5\"\nMAXsandbox = \"none\"\nbase-url = \"http://h\"\n[[member]]\nname = \"max\"\nhuman = true\nmodel = \"m\"\n",
        &[
            (1, "unknown-setting", "write `name`"),
            (3, "wrong-type", "write `window = 5`"),
            (7, "invalid-value", "\"read-only\""),
            (8, "unused-setting", "ANTHROPIC_BASE_URL"),
            (10, "duplicate-member", "rename one"),
            (12, "unknown-setting", "max is a person"),
        ],
    ),
    (
        "errors of both kinds",
        "name = auth\ntask = 5\nMAXwindow = -1\n",
        &[
            (1, "syntax", "double quotes"),
            (2, "wrong-type", "task"),
            (6, "invalid-value", "window"),
        ],
    ),
    // What a clumsy writer does.
    ("a comment of another language", "// team\nMAX", &[(1, "syntax", "begin a comment with `#`")]),
    ("curly quotes", "name = “auth”\nMAX", &[(1, "syntax", "straight quotes")]),
    ("a colon before quotes", "name : \"auth\"\nMAX", &[(1, "syntax", "instead of `:`")]),
    (
        "YAML",
        "name: auth\nmembers:\n  - name: max\n",
        &[(1, "syntax", "`=`"), (2, "syntax", "`=`"), (3, "syntax", "`=`")],
    ),
    ("a Windows path", "task = \"C:\\users\"\nMAX", &[(1, "syntax", "write a backslash as")]),
    ("an unknown escape", "task = \"a\\qb\"\nMAX", &[(1, "syntax", "write a backslash as")]),
    (
        "a control character",
        "name = \"a\u{7}b\"\nMAX",
        &[(1, "syntax", "remove the control character")],
    ),
    ("True", "[context]\nfence = True\nMAX", &[(2, "syntax", "in lower case")]),
    ("a number with a zero", "[context]\nwindow = 05\nMAX", &[(2, "syntax", "leading zeros")]),
    (
        "an open text of several lines",
        "task = \"\"\"\nReview\nMAX",
        &[(1, "syntax", "close the string")],
    ),
    ("an open inline table", "MAXenv = { A = \"1\"\n", &[(4, "syntax", "")]),
    (
        "one bracket too few",
        "[[member]\nname = \"x\"\n",
        &[(1, "syntax", "close the header with `]]`")],
    ),
    ("no equals sign", "name \"auth\"\nMAX", &[(1, "syntax", "write `name = value`")]),
    ("two equals signs", "name == \"auth\"\nMAX", &[(1, "syntax", "")]),
    (
        "a table twice",
        "[limits]\nturns = 1\n[limits]\nqueue = 1\nMAX",
        &[(3, "syntax", "remove one of the two")],
    ),
    (
        "members in a table",
        "[members]\nname = \"max\"\n",
        &[(1, "unknown-setting", "write `[[member]]`")],
    ),
    (
        "a member by name",
        "[member.max]\nagent = \"claude\"\n",
        &[(1, "wrong-type", "with double brackets")],
    ),
    ("members as a list", "members = [\"max\"]\n", &[(1, "unknown-setting", "write `[[member]]`")]),
    (
        "a member of the context",
        "[context]\n[[context.member]]\nname = \"x\"\nMAX",
        &[(2, "unknown-setting", "context.member")],
    ),
    ("an upper-case setting", "Name = \"x\"\nMAX", &[(1, "unknown-setting", "write `name`")]),
    (
        "an upper-case agent",
        "[[member]]\nname = \"x\"\nagent = \"Claude\"\n",
        &[(3, "unknown-agent", "write `agent = \"claude\"`")],
    ),
    (
        "an agent with a version",
        "[[member]]\nname = \"x\"\nagent = \"claude@2\"\n",
        &[(3, "unknown-agent", "did you mean `claude`")],
    ),
    ("an agent of no name", "[[member]]\nname = \"x\"\nagent = \"\"\n", &[(3, "", "agent")]),
    (
        "a list of agents",
        "[[member]]\nname = \"x\"\nagent = [\"claude\"]\n",
        &[(3, "wrong-type", "not a list")],
    ),
    (
        "type for agent",
        "[[member]]\nname = \"x\"\ntype = \"claude\"\n",
        &[(3, "unknown-setting", "write `agent = \"claude\"`")],
    ),
    (
        "prompt for instructions",
        "MAXprompt = \"You are Max.\"\n",
        &[(4, "unknown-setting", "write `instructions`")],
    ),
    (
        "a person in quotes",
        "[[member]]\nname = \"x\"\nhuman = \"true\"\n",
        &[(3, "wrong-type", "write `human = true`")],
    ),
    (
        "people only",
        "[[member]]\nname = \"kai\"\nhuman = true\n",
        &[(2, "missing-setting", "the team has no agent")],
    ),
    (
        "a name as it is written in messages",
        "[[member]]\nname = \"@max\"\nagent = \"claude\"\n",
        &[(2, "invalid-value", "remove the `@`")],
    ),
    (
        "a name in another case",
        "MAX[[member]]\nname = \"Max \"\nagent = \"codex\"\n",
        &[(5, "duplicate-member", "rename one")],
    ),
    (
        "a name with another dash",
        "[[member]]\nname = \"a-b\"\nagent = \"claude\"\n[[member]]\nname = \"a_b\"\nagent = \"codex\"\n",
        &[(5, "duplicate-member", "`a-b`")],
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
    ("limit", "[limit]\nturns = 5\nMAX", &[(1, "unknown-setting", "write `[limits]`")]),
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
    ("a byte order mark", "\u{feff}nmae = \"x\"\nMAX", &[(1, "unknown-setting", "write `name`")]),
    (
        "lines of Windows",
        "[context]\r\nwindow = \"a\"\r\nMAX",
        &[(2, "wrong-type", "write `window = 5`")],
    ),
    ("tabs", "\t[context]\n\t\twindow\t=\t\"a\"\nMAX", &[(2, "wrong-type", "write `window = 5`")]),
    ("nothing but white space", "\n\n  \n", &[(1, "missing-setting", "at least one member")]),
    ("nothing but a comment", "# a team\n", &[(1, "missing-setting", "at least one member")]),
    // What a new user gets wrong.
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
        "a model without a name",
        "[[member]]\nname = \"x\"\nagent = \"api\"\nbase-url = \"http://h/v1\"\n",
        &[(3, "missing-setting", "add a line such as `model = ")],
    ),
    (
        "a model without an address",
        "[[member]]\nname = \"x\"\nagent = \"api\"\nmodel = \"m\"\n",
        &[(3, "missing-setting", "add a line such as `base-url = ")],
    ),
    (
        "files for a workspace that nobody has",
        "MAXworkspace-copy = [\".env\"]\n",
        &[(4, "unused-setting", "add `workspace = \"own\"`")],
    ),
    (
        "the same for the team",
        "workspace = \"shared\"\nworkspace-link = [\"node_modules\"]\nMAX",
        &[(2, "unused-setting", "no member has its own workspace")],
    ),
    (
        "a command line as a command",
        "MAXcommand = \"npx claude --verbose\"\n",
        &[(
            4,
            "invalid-value",
            "write `command = \"npx\"` and `args = [\"claude\", \"--verbose\"]`",
        )],
    ),
    (
        "a directory as a command",
        "MAXcommand = \"/tmp\"\n",
        &[(4, "bad-file", "names a directory, not a program")],
    ),
    (
        "arguments in one string",
        "MAXargs = \"--model opus\"\n",
        &[(4, "wrong-type", "write `args = [\"--model\", \"opus\"]`")],
    ),
    (
        "the task in a table",
        "[context]\ntask = \"x\"\nMAX",
        &[(2, "unknown-setting", "move it above the first")],
    ),
    (
        "the task after a member",
        "MAX\ntask = \"Review\"\n",
        &[(5, "unknown-setting", "is a setting of the top of the file")],
    ),
    ("tokens", "MAXmax-tokens = 4096\n", &[(4, "unknown-setting", "write `max-bytes = ")]),
    (
        "a time limit at the top",
        "timeout = \"30m\"\nMAX",
        &[(1, "unknown-setting", "write `turn-timeout`, and move it below `[limits]`")],
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
        "another file",
        "include = \"base.toml\"\nMAX",
        &[(1, "unknown-setting", "a team file includes no other")],
    ),
    ("a temperature", "MAXtemperature = 0.2\n", &[(4, "unknown-setting", "its own configuration")]),
    (
        "an unknown setting of a member",
        "MAXcolour = \"red\"\n",
        &[(4, "unknown-setting", "`convoke docs team-file` lists the settings")],
    ),
    (
        "members of a table by name",
        "[members.max]\nagent = \"claude\"\n",
        &[(
            1,
            "unknown-setting",
            "write `[[member]]`, with double brackets, and below it `name = \"max\"`",
        )],
    ),
    (
        "roles",
        "[[role]]\nname = \"x\"\nagent = \"claude\"\n",
        &[(1, "unknown-setting", "[[member]]")],
    ),
    (
        "the name of a company",
        "[[member]]\nname = \"x\"\nagent = \"anthropic\"\n",
        &[(3, "unknown-agent", "write `agent = \"claude\"`")],
    ),
    (
        "the name of a model",
        "[[member]]\nname = \"x\"\nagent = \"gpt-12\"\n",
        &[(3, "unknown-agent", "write `agent = \"codex\"`")],
    ),
    (
        "a server of models",
        "[[member]]\nname = \"x\"\nagent = \"ollama\"\n",
        &[(3, "unknown-agent", "write `agent = \"api\"`, with `base-url` and `model`")],
    ),
    (
        "a person as an agent",
        "MAX[[member]]\nname = \"kim\"\nagent = \"human\"\n",
        &[(6, "unknown-agent", "write `human = true`")],
    ),
    (
        "a person by type",
        "MAX[[member]]\nname = \"kim\"\ntype = \"human\"\n",
        &[(6, "unknown-setting", "write `human = true`")],
    ),
    (
        "an agent by type",
        "[[member]]\nname = \"x\"\nprovider = \"codex\"\n",
        &[(3, "unknown-setting", "write `agent = \"codex\"`")],
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
    ("a comma at the end of a line", "name = \"x\",\nMAX", &[(1, "syntax", "remove the comma")]),
    ("a semicolon", "name = \"x\";\nMAX", &[(1, "syntax", "remove the `;`")]),
    ("three brackets", "[[[member]]]\nname = \"x\"\n", &[(1, "syntax", "with double brackets")]),
    (
        "Markdown around it",
        "```toml\nMAX```\n",
        &[(1, "syntax", "without Markdown"), (5, "syntax", "without Markdown")],
    ),
    ("JSON in lines", "{\n  \"name\": \"x\"\n}\n", &[(1, "syntax", "`name = value`")]),
    (
        "a header that is not closed, with settings below",
        "[[member]\nname = \"x\"\nagent = \"claude\"\nmodl = \"m\"\n",
        &[(1, "syntax", "close the header with `]]`")],
    ),
    (
        "a table twice with settings",
        "[context]\nwindow = 1\n[context]\nfence = true\nMAX",
        &[(3, "syntax", "keep the settings of both")],
    ),
    ("a name without end", LONG_NAME, &[(2, "invalid-value", "choose a shorter name")]),
    (
        "a file as a directory",
        "MAXcwd = \"bad.toml\"\n",
        &[(4, "bad-file", "names a file, not a directory")],
    ),
    (
        "a home in a path",
        "MAXinstructions-file = \"~/max.md\"\n",
        &[(4, "bad-file", "`~` is not replaced")],
    ),
];

/// A name that no line of a prompt should repeat.
const LONG_NAME: &str = concat!(
    "[[member]]\nname = \"",
    "0123456789012345678901234567890123456789012345678901234567890123456789",
    "0123456789012345678901234567890123456789",
    "\"\nagent = \"claude\"\n"
);

#[test]
fn every_error_is_shown_with_its_line_and_its_fix() {
    assert!(BAD.len() >= 100);
    for (what, text, expected) in BAD {
        let context = TestContext::new().file("bad.toml", text.replace("MAX", MAX));
        let output = context.output(&["check", "bad.toml", "--json"], b"");
        assert_eq!(output.status.code(), Some(2), "{what}");
        let report = String::from_utf8(output.stderr).expect("UTF-8");
        let starts = report.lines().filter(|line| line.starts_with("bad.toml:"));
        let starts: Vec<&str> = starts.collect();
        assert_eq!(starts.len(), expected.len(), "{what}: {report}");
        assert_eq!(report.matches("= fix: ").count(), expected.len(), "{what}: {report}");
        let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(json["file"], "bad.toml");
        for (index, (line, code, words)) in expected.iter().enumerate() {
            let start = format!("bad.toml:{line}: ");
            assert!(starts[index].starts_with(&start), "{what}: {report}");
            let error = &json["errors"][index];
            assert_eq!(error["line"], *line, "{what}: {json}");
            assert!(error["column"].as_u64().is_some_and(|column| column > 0), "{what}: {json}");
            let found = error["code"].as_str().expect("a code");
            assert!(code.is_empty() || found == format!("team.{code}"), "{what}: {report}");
            let told = format!("{} {}", error["message"], error["fix"]).replace("\\\"", "\"");
            assert!(told.contains(words), "{what}: {report}");
        }
    }
}

#[test]
fn an_error_is_shown_below_its_place() {
    let text = format!("{MAX}\n[context]\nwindow = \"five\"\n\n[limit]\nturns = 5\n");
    let context = TestContext::new().file("convoke.toml", text);
    insta::assert_snapshot!(context.run(&["check"]));
}

#[test]
fn run_chat_prompt_and_doctor_give_the_same_report() {
    let context =
        TestContext::new().file("convoke.toml", format!("{MAX}modle = \"x\"\nwindow = \"\"\n"));
    let report = context.output(&["check"], b"");
    assert_eq!(report.status.code(), Some(2));
    for arguments in [&["run", "Hi"][..], &["chat"], &["prompt", "--for", "max"], &["doctor"]] {
        let output = context.output(arguments, b"");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(
            String::from_utf8_lossy(&output.stderr),
            String::from_utf8_lossy(&report.stderr),
            "{arguments:?}"
        );
    }
}

#[test]
fn a_right_file_has_no_errors() {
    let context = TestContext::new().file("sub/convoke.toml", MAX);
    insta::assert_snapshot!(
        [
            context.run(&["check", "sub/convoke.toml"]),
            context.run(&["check", "sub/convoke.toml", "--json"]),
        ]
        .join("\n")
    );
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let large = format!("{MAX}# {}\n", "x".repeat(1 << 20));
    let context = TestContext::new()
        .file("large.toml", large)
        .file("latin.toml", b"name = \"a\"\ntask = \"caf\xe9\"\n")
        .file("utf16.toml", b"\xff\xfen\0a\0m\0e\0")
        .file("d/x", "");
    let said = ["gone.toml", "large.toml", "latin.toml", "utf16.toml", "d"]
        .map(|file| context.run(&["check", file]));
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn a_team_file_that_is_no_file_is_an_error_of_every_command() {
    let context = TestContext::new();
    let made =
        std::process::Command::new("mkfifo").arg(context.path().join("convoke.toml")).status();
    assert!(made.unwrap().success());
    for arguments in [&["check"][..], &["run", "--rehearse", "Hi"], &["chat"], &["doctor"]] {
        let shown = context.run(arguments);
        assert!(shown.contains("exit code: 2"), "{arguments:?}: {shown}");
        assert!(
            shown.contains("convoke.toml:1: cannot read the team file"),
            "{arguments:?}: {shown}"
        );
    }
}

#[test]
fn a_key_in_the_file_is_not_repeated() {
    let key = "sk-0123456789abcdefghijklmnop";
    for setting in [
        format!("key-env = \"{key}\""),
        format!("key-env = {key}"),
        format!("key = \"{key}\""),
        format!("env = {{ A = 1, OPENAI_API_KEY = \"{key}\" }}"),
        format!("api-key = \"{key}\""),
    ] {
        let text = format!("[[member]]\nname = \"x\"\nagent = \"api\"\n{setting}\n");
        let context = TestContext::new().file("convoke.toml", text);
        let report = context.run(&["check", "--json"]);
        assert!(report.contains("convoke.toml:4: ") && !report.contains("0123"), "{report}");
    }
}

#[test]
fn the_users_own_files_are_reported_in_the_same_form() {
    for (file, text, line, fix) in [
        ("agents.toml", "[agent.claude]\nmodl = \"x\"\n", 2, "write `model`"),
        ("permissions.toml", "[[directory]]\npath = \"shop\"\n", 2, "write `path = "),
        ("agents.toml", "[agent.claude\n", 1, "close the header with `]`"),
    ] {
        let context = TestContext::new().file("convoke.toml", MAX);
        let config = context.home().join("config");
        std::fs::create_dir_all(&config).expect("a directory");
        std::fs::write(config.join(file), text).expect("a file");
        let start = format!("{}:{line}: ", config.join(file).display());
        for arguments in [&["check"][..], &["run", "Hi"], &["chat"], &["prompt", "--for", "max"]] {
            let output = context.output(arguments, b"");
            let report = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{arguments:?}: {report}");
            assert!(report.starts_with(&start) && report.contains(fix), "{report}");
        }
        let doctor = context.output(&["doctor"], b"");
        let report = String::from_utf8_lossy(&doctor.stdout).into_owned()
            + &String::from_utf8_lossy(&doctor.stderr);
        assert!(report.contains(&format!("{file}:{line}: ")), "{report}");
        let json = context.output(&["check", "--json"], b"").stdout;
        let json: Value = serde_json::from_slice(&json).expect("JSON");
        assert_eq!(json["errors"][0]["line"], line, "{json}");
    }
}
