//! Tasks and threads whose failure nobody learns of. A panic, or a task that was aborted, is an error of the handle;
//! where that error is dropped, the work is missing and everything looks well.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, Group, Spacing, TokenTree};

use crate::code::{Code, is, sources};

/// Methods of a result that forget its error.
const FORGETTING: [&str; 10] = [
    "ok",
    "unwrap_or",
    "unwrap_or_default",
    "map_or",
    "is_ok",
    "is_err",
    "is_some",
    "is_none",
    "is_ok_and",
    "flatten",
];
/// Methods of a result that forget its error if their function does.
const FORGETTING_BY_FUNCTION: [&str; 3] = ["unwrap_or_else", "map_or_else", "or_else"];
/// Methods of a set of tasks that return the results of those that ended.
const OF_SETS: [&str; 4] = ["join_next", "try_join_next", "join_next_with_id", "join_all"];
/// Functions that run other work as a task or a thread, and return its failure as an error of their own.
const RUNNERS: [&str; 3] = ["blocking", "in_thread", "off_the_runtime"];

/// Calls whose value contains their argument.
const PASSING_ON: [&str; 5] = ["Some", "Ok", "map", "take", "lock"];

/// A place that drops the error of a task or a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    pub function: String,
    /// Its code, shortened.
    pub code: String,
}

/// The kind of a name or an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    /// A running task or thread.
    Handle,
    /// The result of one that ended.
    Joined,
}

/// Returns the places of a module that drop the error of a task or a thread.
pub fn dropped(tokens: &[TokenTree]) -> Vec<Dropped> {
    let mut search = Search::default();
    search.fields(tokens);
    search.keepers(tokens);
    search.statements(tokens, "");
    let never_joined = search.fields.iter().filter(|(_, is_joined)| !**is_joined);
    let never_joined = never_joined.map(|(field, _)| Dropped {
        function: String::new(),
        code: format!("{field}: JoinHandle is never joined"),
    });
    let mut found: Vec<Dropped> = never_joined.collect();
    found.append(&mut search.found);
    found
}

#[derive(Default)]
struct Search {
    function: String,
    names: BTreeMap<String, Value>,
    /// The names that the function gave.
    bound: BTreeSet<String>,
    /// The fields and arguments that are handles, and whether they are joined somewhere.
    fields: BTreeMap<String, bool>,
    /// The names of scopes, and of sets whose tasks are joined somewhere.
    keepers: BTreeSet<String>,
    found: Vec<Dropped>,
}

/// The use that a statement makes of the value of its expression.
#[derive(Debug, PartialEq, Eq)]
enum Sink {
    /// It is the value of the statement.
    Value,
    /// `let _ =` and the like.
    Nothing,
    /// Only a success is looked at.
    Success,
    Name(String),
    Match,
}

impl Search {
    /// Collects the fields that are handles.
    fn fields(&mut self, tokens: &[TokenTree]) {
        for (at, token) in tokens.iter().enumerate() {
            if let TokenTree::Group(group) = token {
                let inner = tree(group);
                let word = at.checked_sub(1).map(|before| tokens[before].to_string());
                let is_struct =
                    tokens[..at].iter().rev().take(6).any(|it| it.to_string() == "struct");
                if group.delimiter() == Delimiter::Brace && is_struct && word.is_some() {
                    for field in inner.split(|token| is(token, ',')) {
                        let is_handle = field.iter().any(|it| it.to_string() == "JoinHandle");
                        let colon = field.iter().position(|it| is(it, ':'));
                        if let Some(at) = colon.filter(|at| is_handle && *at > 0) {
                            self.fields.insert(field[at - 1].to_string(), false);
                        }
                    }
                }
                self.fields(&inner);
            }
        }
    }

    /// Collects the names of what keeps the handles of its tasks: the argument of `scope(|name| …)`, an argument `name:
    /// &Scope`, and `name` in `name.join_next()`.
    fn keepers(&mut self, tokens: &[TokenTree]) {
        for (at, token) in tokens.iter().enumerate() {
            let TokenTree::Group(group) = token else { continue };
            let inner = tree(group);
            let word = at.checked_sub(1).map(|it| tokens[it].to_string()).unwrap_or_default();
            if word == "scope" && inner.first().is_some_and(|it| is(it, '|')) {
                self.keepers.extend(inner.get(1).map(ToString::to_string));
            }
            if OF_SETS.contains(&&*word) {
                // `(…)` is `name.lock().await`, or the like.
                let before = tokens[..at - 1].iter().rev().skip(1);
                let receiver = before.take_while(|it| !is(it, '=') && !is(it, ';'));
                let names = receiver.filter(|it| matches!(it, TokenTree::Ident(_)));
                self.keepers.extend(names.map(ToString::to_string));
            }
            for argument in inner.split(|token| is(token, ',')) {
                let is_scope = argument.iter().any(|it| it.to_string() == "Scope");
                let colon = argument.iter().position(|it| is(it, ':'));
                if let Some(at) = colon.filter(|at| is_scope && *at > 0) {
                    self.keepers.insert(argument[at - 1].to_string());
                }
            }
            self.keepers(&inner);
        }
    }

    /// Looks at every statement of a block; returns what its value is, if it is a handle or a result.
    fn statements(&mut self, tokens: &[TokenTree], caller: &str) -> Option<Value> {
        let mut value = None;
        let mut from = 0;
        for at in 0..tokens.len() {
            let next = tokens.get(at + 1);
            // The types of a function may have commas between them.
            let is_signature = tokens[from..at].iter().any(|it| it.to_string() == "fn");
            let is_end = match &tokens[at] {
                TokenTree::Punct(mark) => {
                    mark.as_char() == ';'
                        || mark.as_char() == ',' && !is_signature
                        || mark.as_char() == '>' && at > 0 && is_joint(&tokens[at - 1], '=')
                }
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                    !next.is_some_and(|it| is(it, '.') || is(it, '?') || it.to_string() == "else")
                        && !next.is_some_and(|it| is(it, ';'))
                }
                _ => next.is_none(),
            };
            if is_end || next.is_none() {
                let statement = &tokens[from..=at];
                from = at + 1;
                value = self.statement(statement, caller).or(value);
            }
        }
        value
    }

    fn statement(&mut self, tokens: &[TokenTree], caller: &str) -> Option<Value> {
        let words: Vec<String> = tokens.iter().map(short).collect();
        if let Some(at) = words.iter().position(|it| it == "fn") {
            return self.function(&words, tokens, at);
        }
        let is_arm = words.ends_with(&["=".to_owned(), ">".to_owned()]);
        let ends_with_semicolon = words.last().is_some_and(|it| it == ";");
        let end = tokens.len() - if is_arm { 2 } else { usize::from(ends_with_semicolon) };
        let (sink, from) = sink(&tokens[..end], &words[..end], is_arm);
        let mut value = None;
        let mut at = from;
        while at < end {
            if let TokenTree::Group(group) = &tokens[at] {
                // The block of `while let` knows the name.
                if let (Sink::Name(name), Some(value)) = (&sink, value)
                    && group.delimiter() == Delimiter::Brace
                {
                    self.names.insert(name.clone(), value);
                }
                let before = at.checked_sub(1).map_or("", |it| &words[it]);
                let is_passed_on = PASSING_ON.contains(&before)
                    || !is_word(before)
                    || group.delimiter() == Delimiter::Brace;
                let inner = self.statements(&tree(group), before);
                if inner.is_some() && is_passed_on {
                    value = inner;
                }
            }
            if let Some((source, next)) = self.source(tokens, &words, at, end) {
                let next = if is_arm && source == Value::Handle && next == end {
                    // `select!` waits for it.
                    value = Some(Value::Joined);
                    next
                } else {
                    value = Some(source);
                    next
                };
                if source == Value::Joined {
                    value = self.chain(tokens, &words, next, end);
                }
                // The arguments of the call that starts it are code, too.
                for token in &tokens[at + 1..next] {
                    if let TokenTree::Group(group) = token {
                        self.statements(&tree(group), "");
                    }
                }
                let is_whole = source == Value::Handle
                    && (next == end || words[next..end].contains(&"abort_handle".to_owned()));
                let is_detached = is_whole
                    && (ends_with_semicolon && sink == Sink::Value && next == end
                        || words[next..end].contains(&"abort_handle".to_owned()));
                if is_detached {
                    self.report(&words[..end]);
                    return None;
                }
                at = next.max(at + 1);
                continue;
            }
            at += 1;
        }
        if value == Some(Value::Joined) {
            self.joined(&words);
        }
        match (sink, value) {
            (Sink::Name(name), Some(value)) => {
                self.bound.insert(name.clone());
                self.names.insert(name, value);
            }
            (Sink::Name(name), None) => {
                self.names.remove(&name);
            }
            (Sink::Nothing | Sink::Success, Some(Value::Joined)) => self.report(&words[..end]),
            (Sink::Match, Some(Value::Joined)) => {
                let arms = tokens[..end].iter().rev().find_map(|token| match token {
                    TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group),
                    _ => None,
                });
                if arms.is_some_and(forgets_errors) {
                    self.report(&words[..end]);
                }
            }
            (Sink::Value, Some(Value::Joined)) if caller == "drop" => self.report(&words[..end]),
            (Sink::Value, value) if !ends_with_semicolon => return value,
            _ => {}
        }
        None
    }

    /// Looks at a function with names of its own.
    fn function(&mut self, words: &[String], tokens: &[TokenTree], at: usize) -> Option<Value> {
        let name = words.get(at + 1).cloned().unwrap_or_default();
        let outer = (
            std::mem::take(&mut self.names),
            std::mem::take(&mut self.bound),
            std::mem::replace(&mut self.function, name),
        );
        for token in &tokens[at..] {
            let TokenTree::Group(group) = token else { continue };
            let inner = tree(group);
            if group.delimiter() == Delimiter::Parenthesis {
                for argument in inner.split(|token| is(token, ',')) {
                    let is_handle = argument.iter().any(|it| it.to_string() == "JoinHandle");
                    let colon = argument.iter().position(|it| is(it, ':'));
                    if let Some(at) = colon.filter(|at| is_handle && *at > 0) {
                        self.names.insert(argument[at - 1].to_string(), Value::Handle);
                    }
                }
            } else if group.delimiter() == Delimiter::Brace {
                self.statements(&inner, "");
                let mut uses = BTreeMap::new();
                count_uses(&inner, &mut uses);
                let is_aborted = |name: &&String| {
                    self.names.get(*name) == Some(&Value::Handle) && uses.get(*name) == Some(&1)
                };
                let aborted: Vec<String> = self.bound.iter().filter(is_aborted).cloned().collect();
                for name in aborted {
                    self.report(&[format!("{name} is never joined")]);
                }
            }
        }
        (self.names, self.bound, self.function) = outer;
        None
    }

    /// Returns the handle or the result that begins at a token, and where it ends.
    fn source(
        &mut self,
        tokens: &[TokenTree],
        words: &[String],
        at: usize,
        end: usize,
    ) -> Option<(Value, usize)> {
        let word = &*words[at];
        let before = at.checked_sub(1).map_or("", |it| &*words[it]);
        let arguments = |at: usize| match tokens[..end].get(at) {
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => {
                Some(group.stream().is_empty())
            }
            _ => None,
        };
        let awaited = |next: usize| {
            let is_awaited = words[..end].get(next).is_some_and(|it| it == ".")
                && words[..end].get(next + 1).is_some_and(|it| it == "await");
            if is_awaited { (Value::Joined, next + 2) } else { (Value::Handle, next) }
        };
        if ["spawn", "spawn_blocking", "spawn_local", "spawn_scoped"].contains(&word) {
            let receiver = at.checked_sub(2).map_or("", |it| &*words[it]);
            let is_kept = before == "." && self.keepers.contains(receiver);
            // The one method without an argument starts a program.
            if arguments(at + 1) != Some(false) || is_kept {
                return None;
            }
            let is_question = words[..end].get(at + 2).is_some_and(|it| it == "?");
            return Some(awaited(at + 2 + usize::from(is_question)));
        }
        if RUNNERS.contains(&word) && before != "fn" && arguments(at + 1) == Some(false) {
            let (_, next) = awaited(at + 2);
            return Some((Value::Joined, next));
        }
        if before == "." && OF_SETS.contains(&word) && arguments(at + 1) == Some(true) {
            let (_, next) = awaited(at + 2);
            return Some((Value::Joined, next));
        }
        if before == "." && word == "join" && arguments(at + 1) == Some(true) {
            self.joined(&words[..at]);
            return Some((Value::Joined, at + 2));
        }
        if word == "join" && before == ":" && words[..at].contains(&"JoinHandle".to_owned()) {
            return Some((Value::Joined, at + 1));
        }
        if word == "await" && before == "." {
            let inner = match tokens.get(at.checked_sub(2)?)? {
                TokenTree::Group(group) => tree(group).last().map(ToString::to_string)?,
                name => name.to_string(),
            };
            let is_field = self.fields.contains_key(&inner);
            if is_field {
                self.joined(&[inner]);
            } else if self.names.get(&inner) != Some(&Value::Handle) {
                return None;
            }
            return Some((Value::Joined, at + 1));
        }
        let follows_path = [".", ":"].contains(&before);
        match self.names.get(word) {
            Some(Value::Joined) if !follows_path => Some((Value::Joined, at + 1)),
            Some(Value::Handle) if !follows_path => {
                let is_used = words[..end].get(at + 1).is_some_and(|it| it == ".");
                (!is_used).then_some((Value::Handle, at + 1))
            }
            _ if before == "." && self.fields.contains_key(word) => {
                let is_aborted = words[..end].get(at + 2).is_some_and(|it| it == "abort");
                if !is_aborted {
                    // It is taken out, and joined by another name.
                    self.joined(&[word.to_owned()]);
                }
                (!self.names.contains_key(word)).then_some((Value::Handle, at + 1))
            }
            _ => None,
        }
    }

    /// Notes that the fields among these words are joined.
    fn joined(&mut self, words: &[String]) {
        for word in words {
            if let Some(is_joined) = self.fields.get_mut(word) {
                *is_joined = true;
            }
        }
    }

    /// Follows the methods of a result; returns it if its error is still there.
    fn chain(
        &mut self,
        tokens: &[TokenTree],
        words: &[String],
        from: usize,
        end: usize,
    ) -> Option<Value> {
        let mut at = from;
        while at < end {
            match &*words[at] {
                "?" => return None,
                "." => {
                    let method = words[..end].get(at + 1).map_or("", |it| it);
                    let arguments = tokens[..end].get(at + 2);
                    let forgets = FORGETTING.contains(&method)
                        || FORGETTING_BY_FUNCTION.contains(&method)
                            && arguments.is_some_and(ignores_argument);
                    if forgets {
                        self.report(&words[..at + 3]);
                    }
                    if forgets || FORGETTING_BY_FUNCTION.contains(&method) {
                        return None;
                    }
                    at += 2;
                }
                "(…)" | "()" => at += 1,
                _ => break,
            }
        }
        Some(Value::Joined)
    }

    fn report(&mut self, words: &[String]) {
        let mut code = String::new();
        for word in words.iter().filter(|word| *word != ",") {
            if code.ends_with(is_name) && word.starts_with(is_name)
                || word == "="
                || code.ends_with('=')
            {
                code.push(' ');
            }
            code += word;
        }
        let dropped = Dropped { function: self.function.clone(), code };
        if !self.found.contains(&dropped) {
            self.found.push(dropped);
        }
    }
}

/// Returns what a statement does with its value, and where the expression begins.
fn sink(tokens: &[TokenTree], words: &[String], is_arm: bool) -> (Sink, usize) {
    let first = words.first().map_or("", |it| it);
    if first == "match" {
        return (Sink::Match, 1);
    }
    if first == "for"
        && let Some(at) = words.iter().position(|it| it == "in")
    {
        return (Sink::Name(words[at - 1].clone()), at + 1);
    }
    let is_assignment = |at: &usize| {
        is(&tokens[*at], '=')
            && !is_joint(&tokens[*at], '=')
            && !at.checked_sub(1).is_some_and(|it| {
                matches!(&tokens[it], TokenTree::Punct(mark) if mark.spacing() == Spacing::Joint)
            })
    };
    let Some(at) = (0..tokens.len()).find(is_assignment) else { return (Sink::Value, 0) };
    let has_let = words[..at].contains(&"let".to_owned());
    if !has_let && !is_arm {
        return (Sink::Value, at + 1);
    }
    let pattern: Vec<&str> = words[..at]
        .iter()
        .map(|it| &**it)
        .filter(|it| !["let", "mut", "if", "while", "else"].contains(it))
        .collect();
    let inner = match tokens[..at].iter().rev().find(|it| matches!(it, TokenTree::Group(_))) {
        Some(TokenTree::Group(group)) => group.stream().to_string(),
        _ => String::new(),
    };
    let sink = match &pattern[..] {
        ["_"] => Sink::Nothing,
        ["Some", _] if inner == "_" => Sink::Nothing,
        ["Some", _] if inner.starts_with("Ok") => Sink::Success,
        ["Some", _] => Sink::Name(inner),
        ["Ok", _] => Sink::Success,
        [name, ..] => Sink::Name((*name).to_owned()),
        [] => Sink::Value,
    };
    (sink, at + 1)
}

/// Returns whether the arms of a match have one that takes any error.
fn forgets_errors(arms: &Group) -> bool {
    let words: String = tree(arms)
        .iter()
        .map(|token| match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => "{},".to_owned(),
            token => token.to_string(),
        })
        .collect();
    let words: String = words.split_whitespace().collect();
    words.contains("Err(_)=>") || words.contains(",_=>") || words.contains("Some(Err(_))=>")
}

/// Returns whether a closure ignores its argument.
fn ignores_argument(arguments: &TokenTree) -> bool {
    let text: String = arguments.to_string().split_whitespace().collect();
    text.starts_with("(|_|")
}

/// Counts the uses of each name that do more than to abort a task.
fn count_uses(tokens: &[TokenTree], uses: &mut BTreeMap<String, usize>) {
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => count_uses(&tree(group), uses),
            TokenTree::Ident(name) => {
                let next = tokens.get(at + 2).map(ToString::to_string).unwrap_or_default();
                let aborts = tokens.get(at + 1).is_some_and(|it| is(it, '.'))
                    && ["abort", "abort_handle", "is_finished"].contains(&&*next);
                *uses.entry(name.to_string()).or_default() += usize::from(!aborts);
            }
            _ => {}
        }
    }
}

fn tree(group: &Group) -> Vec<TokenTree> {
    group.stream().into_iter().collect()
}

/// Returns a token, or a mark for a group.
fn short(token: &TokenTree) -> String {
    let TokenTree::Group(group) = token else { return token.to_string() };
    let is_empty = group.stream().is_empty();
    let text = match group.delimiter() {
        Delimiter::Parenthesis if is_empty => "()",
        Delimiter::Parenthesis => "(…)",
        Delimiter::Bracket => "[…]",
        _ => "{…}",
    };
    text.to_owned()
}

fn is_joint(token: &TokenTree, mark: char) -> bool {
    is(token, mark) && matches!(token, TokenTree::Punct(punct) if punct.spacing() == Spacing::Joint)
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_word(word: &str) -> bool {
    word.starts_with(is_name)
}

#[test]
fn no_failure_of_a_task_or_a_thread_is_dropped_without_a_reason() {
    let found: BTreeSet<(String, String, String)> = sources()
        .iter()
        .flat_map(|code| {
            code.dropped.iter().map(|it| (code.path.clone(), it.function.clone(), it.code.clone()))
        })
        .collect();
    let allowed = ALLOWED.iter().map(|(file, function, code, _)| {
        ((*file).to_owned(), (*function).to_owned(), (*code).to_owned())
    });
    let allowed: BTreeSet<_> = allowed.collect();
    let new: Vec<_> = found.difference(&allowed).collect();
    assert!(new.is_empty(), "these drop the failure of a task: {new:#?}");
    let gone: Vec<_> = allowed.difference(&found).collect();
    assert!(gone.is_empty(), "these are repaired; remove them from the list: {gone:#?}");
}

/// The places that may drop a failure: file, function, code, and what still tells of it.
#[rustfmt::skip]
const ALLOWED: &[(&str, &str, &str, &str)] = &[
    ("crates/runtime/agent/src/adapter/mod.rs", "start", "tokio::spawn(…)", "the turn, whose side it held, ends as failed"),
    ("crates/runtime/agent/src/adapter/stand_in.rs", "start", "tokio::spawn(…)", "the turn, whose side it held, ends as failed"),
    ("crates/runtime/agent/src/process/guardian.rs", "first_connection", "thread::Builder::new().spawn(…)?", "the other thread tells of the end of the keeper, and without either the wait fails"),
    ("crates/runtime/agent/src/process/guardian.rs", "guard", "thread::spawn(…)", "the guardian goes on when its channel closes"),
    ("crates/runtime/agent/src/process/guardian.rs", "run_keeper", "thread::spawn(…)", "the guardian sees the end of the connection"),
    ("crates/runtime/agent/src/process/private_dir.rs", "sweep_in_background", "std::thread::spawn(…)", "what it leaves is removed at the next start"),
    ("crates/runtime/agent/src/process/running.rs", "start", "tokio::spawn(…)", "the program sees the end of its input"),
    ("crates/runtime/agent/src/process/terminal.rs", "end", "let _ = task.await", "the task drops its child, which is all that is waited for"),
    ("crates/runtime/agent/src/team_tools/socket.rs", "", "accepting: JoinHandle is never joined", "it ends with the turn, by being aborted"),
    ("crates/runtime/agent/src/team_tools/socket.rs", "accept", "while calls.try_join_next().is_some()", "the caller sees its connection close"),
    ("crates/runtime/changes/src/copier.rs", "copy", "thread::spawn(…)", "a panic ends the copy, and the records say which files have none"),
    ("crates/runtime/changes/src/interruption.rs", "drop", "let _ = self.thread.take().map(…)", "without the touches, changes of the turn count as perhaps a person's"),
    ("crates/runtime/changes/src/store.rs", "lock", "std::thread::spawn(…)", "the wait for the lock fails"),
    ("crates/front/cli/src/commands/acp/mod.rs", "read_messages", "std::thread::spawn(…)", "the reader of its channel sees the end of the input"),
    ("crates/front/cli/src/commands/chat/lines.rs", "read_lines", "std::thread::spawn(…)", "the reader of its channel sees the end of the input"),
    ("crates/front/cli/src/commands/run/answers.rs", "read_lines", "std::thread::spawn(…)", "the reader of its channel sees the end of the input"),
    ("crates/front/cli/src/commands/serve/opening.rs", "open", "std::thread::spawn(…)", "it only reaps the browser"),
    ("crates/front/cli/src/commands/serve/page.rs", "", "serving: JoinHandle is never joined", "the page ends with the chat, by being aborted"),
    ("crates/front/cli/src/commands/serve/page.rs", "into_remote", "tokio::spawn(…)", "the page is told that the chat has ended"),
    ("crates/front/cli/src/commands/watch.rs", "", "serving: JoinHandle is never joined", "the page ends with the program, by being aborted"),
    ("crates/front/cli/src/terminal/progress.rs", "drop", "let _ = line.join()", "the line shows nothing else, and the work goes on"),
    ("crates/front/cli/src/following.rs", "follow", "interrupt is never joined", "it ends with the turn, by being aborted"),
    ("crates/front/cli/src/conversation/change_recorder.rs", "begin", "let _ = in_thread(…).await", "the diagnostic that the turn is not recorded stands"),
    ("crates/lab/inspect/src/capture/child.rs", "start", "tokio::spawn(…)", "the turn, whose side it held, ends as failed"),
    ("crates/lab/inspect/src/record/mod.rs", "start", "tokio::spawn(…)", "the turn, whose side it held, ends as failed"),
    ("crates/lab/inspect/src/record/relaying.rs", "start", "tokio::spawn(…)", "the turn, whose side it held, ends as failed"),
    ("crates/lab/inspect/src/record/watching.rs", "start", "tokio::spawn(…)", "the requests of the program are counted as not recorded"),
    ("crates/runtime/model/src/member.rs", "begin", "tokio::spawn(…)", "the turn, whose side it held, ends as failed"),
    ("crates/runtime/rehearsal/src/server.rs", "shutdown", "let _ = (…).await", "clients see their connections close"),
    ("crates/runtime/relay/src/connect.rs", "", "driver: JoinHandle is never joined", "the request that it carries fails"),
    ("crates/front/server/src/feed.rs", "get", "tokio::spawn(…)", "viewers read the store when they connect again"),
    ("crates/front/server/src/running_sessions.rs", "start", "tokio::spawn(…)", "the request that it was answering fails"),
    ("crates/front/server/src/stream.rs", "follow", "tokio::spawn(…)", "the stream ends, and the browser connects again"),
    ("crates/conversation/session/src/participation/signals.rs", "watch_signals", "watch.spawn(…)", "what it runs begins again (`kept_running`), and it ends with the set"),
    ("crates/conversation/session/src/store/postgres/commits.rs", "listen", "let task = tokio::spawn(…).abort_handle()", "its readers see the end of their channel"),
    ("crates/conversation/session/src/store/postgres/lease.rs", "claimed", "heartbeat:heartbeat.abort_handle()", "the lease is lost, and nothing is written any more"),
    ("crates/conversation/session/src/store/postgres/signal.rs", "attend", "beats:beats.abort_handle()", "the heartbeat begins again (`kept_running`)"),
];

#[test]
fn every_way_to_drop_a_failure_is_seen() {
    for planted in [
        "async fn f() { spawn_blocking(work).await.ok() }",
        "async fn f() { tokio::task::spawn_blocking(work).await.unwrap_or_default() }",
        "async fn f() { let it = spawn_blocking(work).await; it.unwrap_or(3) }",
        "async fn f() { let it = match n { 0 => Ok(now()), _ => spawn_blocking(work).await }; it.unwrap_or_default() }",
        "async fn f() { let task = tokio::spawn(work()); other(); task.await.ok() }",
        "async fn f() { let task = tokio::spawn(work()); let _ = task.await; }",
        "async fn f() { let task = tokio::spawn(work()); if let Ok(it) = task.await { g(it) } }",
        "async fn f() { let Ok(it) = spawn_blocking(work).await else { return }; g(it) }",
        "async fn f() { match spawn_blocking(work).await { Ok(it) => g(it), Err(_) => h() } }",
        "async fn f() { match spawn_blocking(work).await { Ok(Some(it)) => g(it), _ => h() } }",
        "async fn f(task: JoinHandle<()>) { drop(task.await) }",
        "struct A { task: Option<JoinHandle<()>> } impl A { async fn f(self) { if let Some(task) = self.task { let _ = task.await; } } }",
        "struct A { task: JoinHandle<()> } impl A { async fn f(&mut self) { let _ = (&mut self.task).await; } }",
        "struct A { task: JoinHandle<()> } impl A { fn f(&self) { self.task.abort() } }",
        "fn f() { let other = thread::spawn(work); other.join().unwrap_or_default() }",
        "fn f() { scope(|s| { let other = s.spawn(work); let _ = other.join(); }) }",
        "fn f() { other.join().unwrap_or_else(|_| Ok(Vec::new())) }",
        "fn f() { let _ = self.thread.take().map(JoinHandle::join); }",
        "async fn f() { while set.join_next().await.is_some() {} }",
        "async fn f() { while let Some(it) = set.join_next().await { let Ok(it) = it else { continue }; } }",
        "async fn f() { select! { Some(_) = set.join_next() => {} } }",
        "async fn f() { select! { it = spawn_blocking(work) => match it { Ok(it) => g(it), _ => return } } }",
        "fn f() { tokio::spawn(work()); }",
        "fn f() { std::thread::spawn(move || work()); g() }",
        "fn f() { let beats = tokio::spawn(work()); g(beats.abort_handle()) }",
        "fn f() { let task = tokio::spawn(work()).abort_handle(); g(task) }",
        "fn f() { self.runtime.spawn(work()); }",
        "fn f() { Builder::new().spawn(work)?; }",
        "fn f() { thread::Builder::new().name(n).spawn(move || work())?; g() }",
        "fn f() { Handle::current().spawn(work()); }",
        "async fn f() { tokio::task::spawn_local(work()); }",
        "fn f() { let mut set = JoinSet::new(); set.spawn(work()); g(set) }",
        "async fn f() { let _ = in_thread(work).await; }",
        "async fn f() { if let Ok(it) = off_the_runtime(work).await { g(it) } }",
        "async fn f() { blocking(work).await.ok() }",
        "#[cfg(test)]\nmod tests;\nfn f() { tokio::spawn(work()); }",
    ] {
        let code = Code::parse("crates/a/src/planted.rs", planted);
        assert!(!code.dropped.is_empty(), "{planted}");
    }
    for kept in [
        "async fn f() { spawn_blocking(work).await? }",
        "async fn f() { spawn_blocking(work).await.map_err(|error| E::Task(error))? }",
        "async fn f() { let it = spawn_blocking(work).await; let it = it.map_err(E::Task)?; it.ok() }",
        "async fn f() { spawn_blocking(work).await.unwrap_or_else(|error| Err(error.to_string())) }",
        "async fn f() { match spawn_blocking(work).await { Ok(it) => g(it), Err(error) => h(error) } }",
        "fn f() { let other = Builder::new().spawn_scoped(scope, work); match other { Ok(other) => other.join().unwrap_or_else(|panic| resume_unwind(panic)), Err(_) => work() } }",
        "fn f() { match other.join() { Ok(it) => it, Err(panic) => resume_unwind(panic) } }",
        "async fn f() { let mut set = JoinSet::new(); set.spawn(work()); let it = set.join_next().await; g(it) }",
        "fn f() { path.join(name).ok(); names.join(\", \"); }",
        "fn f() { let child = Command::new(program).spawn().ok(); }",
        "fn f() { scope(|s| { s.spawn(work); }) }",
        "fn f(s: &Scope<'_, '_>) { s.spawn(work); }",
        "async fn f() { in_thread(work).await? }",
        "async fn blocking(work: impl FnOnce()) -> Result<(), E> { spawn_blocking(work).await.map_err(E::Task) }",
        "#[cfg(test)]\nmod tests { fn f() { tokio::spawn(work()); } }",
    ] {
        let code = Code::parse("crates/a/src/planted.rs", kept);
        assert!(code.dropped.is_empty(), "{kept}: {:?}", code.dropped);
    }
}
