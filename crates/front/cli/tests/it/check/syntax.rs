//! Team files that are not TOML.

use super::BadFile;

pub(super) const BAD: &[BadFile] = &[
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
];
