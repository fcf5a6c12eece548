//! `convoke review`: has the change in the working tree reviewed by agents of another vendor.

mod author;
mod hook;
mod report;
mod reviewers;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use convoke_agent::config::Catalog;
use convoke_changes::UsersRepository;
use convoke_core::name::nearest;
use convoke_inspect::HostEnvironment;
use convoke_review::answer::{self, Answer};
use convoke_review::part::{Limits, SourceText, Sources, write};
use convoke_review::verdict::of_reviewer;
use convoke_review::{Change, CheckedFinding, Parts, Severity, Verdict, panel, verdict};
use convoke_team::quantity::duration;
use serde_json::Value;

use self::author::Author;
use self::report::{Claim, Review, Reviewed};
use self::reviewers::{Reply, Reviewers};
use crate::commands::continue_session;
use crate::commands::explain::format::Format;
use crate::conversation::change_recorder::git_host;
use crate::conversation::home::Home;
use crate::conversation::{self, Rehearse};
use crate::host_environment;
use crate::outcome::{Outcome, UsageError};

/// The file with the rules of a repository for reviews.
const RULES: &str = ".convoke/review.md";
/// The names of instruction files, the one that counts first.
const INSTRUCTIONS: [&str; 3] = ["AGENTS.md", "CLAUDE.md", "GEMINI.md"];
/// The tokens of one prompt.
const PART_TOKENS: u64 = 60_000;
const BYTES_PER_TOKEN: u64 = 4;
const DEADLINE: Duration = Duration::from_mins(15);
const MAX_TOKENS: u64 = 2_000_000;
/// The maximum number of prompts.
const MAX_PARTS: usize = 40;
/// The tokens of the intent.
const INTENT_TOKENS: u64 = 4_000;

/// Have the change in the working tree reviewed by an agent of another vendor than the one that wrote it.
///
/// The reviewers may only read, which the kernel enforces, and see the change, its files, the repository's instructions and
/// .convoke/review.md as they are in the merge base. Only a complete and well-formed answer is a verdict: exit 0 approved, 3 rejected, 1 no verdict.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  convoke review
  convoke review --by codex,claude --against main --fail-on high
  convoke review --session claude:3f2a --format markdown")]
pub struct Arguments {
    /// The directory whose repository is reviewed
    #[arg(default_value = ".")]
    path: PathBuf,
    /// The reviewers: claude, codex, gemini, or any other agent that a team file can name
    /// [default: an installed one of another vendor than the author's]
    #[arg(long, value_name = "AGENT", value_delimiter = ',')]
    by: Vec<String>,
    /// Review what differs from where the work branched off this revision [default: the main branch]
    #[arg(long, value_name = "REVISION")]
    against: Option<String>,
    /// Reject the change if a finding that counts is at least as serious
    #[arg(long, value_name = "SEVERITY", value_enum)]
    fail_on: Option<FailOn>,
    /// The session that wrote the change: the reviewers are told what it was asked for
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Let the reviewers vote on each other's findings
    #[arg(long)]
    panel: bool,
    /// The time for the whole review
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = parse_time)]
    deadline: Duration,
    /// The tokens that all reviewers may use together
    #[arg(long, value_name = "TOKENS", default_value_t = MAX_TOKENS, value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens: u64,
    /// The dollars that all reviewers may cost together, at API prices where the agent does not say
    #[arg(long, value_name = "DOLLARS", value_parser = parse_dollars)]
    max_cost: Option<f64>,
    /// Write the review in another format
    #[arg(long, value_name = "FORMAT", value_enum)]
    format: Option<Format>,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write the review into a file too, as in `sarif=review.sarif`; may be repeated
    #[arg(long, value_name = "FORMAT=FILE", value_parser = parse_copy)]
    also: Vec<(Format, PathBuf)>,
    /// Be the Stop hook of an agent's program: read its input, review what its session wrote, and send it back to work, once, unless
    /// the change is approved
    #[arg(long, conflicts_with_all = ["format", "json"])]
    hook: bool,
    /// Run without an account; see `convoke run`
    #[arg(long, value_name = "WITH", num_args = 0..=1, require_equals = true, default_missing_value = "stand-in")]
    rehearse: Option<Rehearse>,
}

/// The severities of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FailOn {
    Low,
    Medium,
    High,
    Critical,
}

impl From<FailOn> for Severity {
    fn from(severity: FailOn) -> Self {
        match severity {
            FailOn::Low => Self::Low,
            FailOn::Medium => Self::Medium,
            FailOn::High => Self::High,
            FailOn::Critical => Self::Critical,
        }
    }
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let time = duration(text).filter(|time| !time.is_zero());
    time.ok_or_else(|| "a time has a unit, as in 90s or 15m".to_owned())
}

fn parse_dollars(text: &str) -> Result<f64, String> {
    let amount = text.trim_start_matches('$').parse().ok();
    amount
        .filter(|it: &f64| it.is_finite() && *it > 0.0)
        .ok_or_else(|| "write an amount such as 1.50".to_owned())
}

fn parse_copy(text: &str) -> Result<(Format, PathBuf), String> {
    let parsed = text.split_once('=').filter(|(_, file)| !file.is_empty());
    let (format, file) =
        parsed.ok_or_else(|| "write a format and a file, as in sarif=review.sarif".to_owned())?;
    Ok((Format::from_str(format, true)?, PathBuf::from(file)))
}

/// Runs `convoke review`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    if arguments.hook {
        return hook::run(arguments, review);
    }
    let review = review(arguments)?;
    for (format, file) in &arguments.also {
        let text = review.rendered(*format)?;
        std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    review.write(arguments.format.or(arguments.json.then_some(Format::Json)))?;
    Ok(review.outcome())
}

/// Reviews the change of a directory, and returns the review as JSON.
pub(in crate::commands) fn reviewed(
    path: PathBuf,
    by: Vec<String>,
    against: Option<String>,
) -> anyhow::Result<Value> {
    let arguments = Arguments {
        path,
        by,
        against,
        fail_on: None,
        session: None,
        panel: false,
        deadline: DEADLINE,
        max_tokens: MAX_TOKENS,
        max_cost: None,
        format: None,
        json: true,
        also: Vec::new(),
        hook: false,
        rehearse: None,
    };
    Ok(review(&arguments)?.json())
}

/// What is reviewed, and by whom.
struct Plan {
    change: Change,
    parts: Parts,
    base: String,
    author: Option<Author>,
    reviewers: Vec<String>,
    /// Why no reviewer is started.
    unconfined: Option<String>,
}

fn review(arguments: &Arguments) -> anyhow::Result<Review> {
    let began = Instant::now();
    let host = host_environment::of_process()?;
    let plan = plan(arguments, &host)?;
    let mut answers = Answers::default();
    let mut session = None;
    let mut incomplete = None;
    let mut spent = BTreeMap::new();
    if let Some(why) = &plan.unconfined {
        incomplete = Some(why.clone());
    } else if plan.change.is_empty() {
        incomplete =
            Some(format!("nothing differs from {}: there is nothing to review", plan.base));
    } else {
        let runtime = conversation::runtime()?;
        runtime.block_on(async {
            let names = plan.reviewers.clone();
            let left = arguments.deadline.saturating_sub(began.elapsed());
            let mut reviewers = Reviewers::open(names, left, arguments.rehearse, &host).await?;
            session = Some(reviewers.session());
            incomplete = answers.ask(&plan, arguments, &mut reviewers).await?;
            spent.clone_from(&reviewers.spent);
            reviewers.close().await;
            anyhow::Ok(())
        })?;
        // A program that does not end must not keep the verdict back.
        runtime.shutdown_background();
    }
    if !plan.parts.is_complete {
        incomplete
            .get_or_insert_with(|| "a part of the change did not fit into the prompts".to_owned());
    }
    let verdicts: Vec<Verdict> =
        plan.reviewers.iter().map(|name| answers.verdict(name, plan.parts.parts.len())).collect();
    let checked: Vec<CheckedFinding> = answers.claims.iter().map(|it| it.checked.clone()).collect();
    let limit = arguments.fail_on.map(Severity::from);
    let reviewers = plan.reviewers.iter().zip(&verdicts).map(|(name, verdict)| Reviewed {
        name: name.clone(),
        verdict: *verdict,
        why: answers.whys.get(name).cloned(),
        spent: spent.get(name).cloned().unwrap_or_default(),
    });
    Ok(Review {
        verdict: verdict(&verdicts, &checked, limit, incomplete.is_none()),
        reviewers: reviewers.collect(),
        claims: answers.claims,
        left_out: plan.parts.left_out,
        incomplete,
        base: plan.base,
        author: plan.author,
        session,
        parts: plan.parts.parts.len(),
        files: plan.change.files.len(),
        elapsed: began.elapsed(),
    })
}

/// Reads the change and chooses the reviewers.
fn plan(arguments: &Arguments, host: &HostEnvironment) -> anyhow::Result<Plan> {
    let directory = host.cwd.join(&arguments.path);
    let directory = directory.canonicalize().map_err(|error| {
        UsageError(format!("PATH: {} cannot be opened: {error}", arguments.path.display()))
    })?;
    let repository = UsersRepository::find(&git_host(host), &directory)?;
    let repository = repository.ok_or_else(|| {
        UsageError(format!(
            "{} is not in a git repository: there is no change to review",
            directory.display()
        ))
    })?;
    let base = base(&repository, arguments.against.as_deref())?;
    let intent =
        arguments.session.as_deref().map(|name| continue_session::told(name, INTENT_TOKENS, host));
    let intent = intent.transpose()?;
    let is_vendors = |program: &str| convoke_vendors::cli(program).is_ok();
    let of_session = intent.as_ref().filter(|(program, _)| is_vendors(program));
    let of_session = of_session.map(|(program, _)| Author {
        program: program.clone(),
        because: "its session was named".to_owned(),
    });
    let author = match of_session {
        Some(author) => Some(author),
        None => author::find(&repository, &base)?,
    };
    let catalog = Home::new(host).read_catalog()?;
    let reviewers = chosen(&arguments.by, author.as_ref(), &catalog, host)?;
    let definitions = reviewers.iter().filter_map(|name| catalog.get(name));
    let is_real = !matches!(arguments.rehearse, Some(Rehearse::StandIn));
    let unconfined = definitions.filter(|_| is_real).find_map(|it| reviewers::unconfined(it, host));
    let change = Change::of_working_tree(&repository, &base)?;
    let sources = Sources {
        change: &change,
        rules: text_of(&repository, &base, RULES)?,
        instructions: instructions(&repository, &base, &change)?,
        intent: intent
            .map(|(_, text)| text)
            .map(|text| SourceText { name: arguments.session.clone().unwrap_or_default(), text }),
    };
    let parts = write(&sources, limits(arguments, reviewers.len()));
    Ok(Plan { change, parts, base, author, reviewers, unconfined })
}

/// Returns the limits of the prompts: what all reviewers may use together is shared among them.
fn limits(arguments: &Arguments, reviewers: usize) -> Limits {
    let own = arguments.max_tokens / reviewers.max(1) as u64;
    let tokens = PART_TOKENS.min(own);
    Limits {
        part_bytes: usize::try_from(tokens * BYTES_PER_TOKEN).unwrap_or(usize::MAX),
        parts: MAX_PARTS,
    }
}

/// Returns the commit from which the work began.
fn base(repository: &UsersRepository, against: Option<&str>) -> anyhow::Result<String> {
    let unknown = |revision: &str| {
        UsageError(format!("--against: `{revision}` names no commit of this repository"))
    };
    let revision = match against {
        Some(revision) => revision.to_owned(),
        None => repository.main_branch()?.unwrap_or_else(|| "HEAD".to_owned()),
    };
    let other = repository.commit(&revision)?.ok_or_else(|| unknown(&revision))?;
    let head = repository.commit("HEAD")?.ok_or_else(|| unknown("HEAD"))?;
    let base = repository.merge_base(&head, &other)?;
    Ok(base.ok_or_else(|| {
        UsageError(format!(
            "--against: HEAD and {revision} have no common commit; fetch the whole history"
        ))
    })?)
}

/// Returns the names of the reviewers.
fn chosen(
    by: &[String],
    author: Option<&Author>,
    catalog: &Catalog,
    host: &HostEnvironment,
) -> Result<Vec<String>, UsageError> {
    let mut names: Vec<String> = Vec::new();
    for name in by.iter().map(|name| name.trim()) {
        if catalog.get(name).is_none() {
            let hint = nearest(name, catalog.iter().map(|(name, _)| name));
            let hint = hint.map_or_else(String::new, |it| format!("; did you mean `{it}`?"));
            return Err(UsageError(format!("--by: no agent is called `{name}`{hint}")));
        }
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    match (names.is_empty(), author) {
        (false, _) => Ok(names),
        (true, Some(author)) => Ok(vec![author::other_vendor(author, catalog, host)?]),
        (true, None) => Err(UsageError(
            "it is not known which program wrote the change: no commit and no session names one; choose a reviewer with --by".to_owned(),
        )),
    }
}

/// Returns a file of the base as a text.
fn text_of(
    repository: &UsersRepository,
    base: &str,
    path: &str,
) -> anyhow::Result<Option<SourceText>> {
    let bytes = repository.file(base, Path::new(path))?;
    Ok(bytes.map(|bytes| SourceText {
        name: path.to_owned(),
        text: String::from_utf8_lossy(&bytes).into_owned(),
    }))
}

/// Returns the instructions of the root and of the directories of changed files, as they are in the base.
fn instructions(
    repository: &UsersRepository,
    base: &str,
    change: &Change,
) -> anyhow::Result<Vec<SourceText>> {
    let changed = change.files.iter().flat_map(|file| Path::new(&file.path).ancestors().skip(1));
    let mut directories: Vec<&Path> = changed.collect();
    directories.sort();
    directories.dedup();
    let mut texts: Vec<SourceText> = Vec::new();
    let known = repository.files(base)?;
    for directory in directories {
        for name in INSTRUCTIONS {
            let path = directory.join(name);
            if known.binary_search(&path).is_err() {
                continue;
            }
            let text = text_of(repository, base, &path.to_string_lossy())?;
            // A link to another of them is its name alone.
            let text = text.filter(|it| !INSTRUCTIONS.iter().any(|name| it.text.ends_with(name)));
            texts.extend(text.filter(|it| texts.iter().all(|known| known.text != it.text)));
        }
    }
    Ok(texts)
}

/// The answers of all reviewers so far.
#[derive(Default)]
struct Answers {
    /// By reviewer, one for each part that was asked.
    parts: BTreeMap<String, Vec<Option<Answer>>>,
    claims: Vec<Claim>,
    /// Why a reviewer has no verdict.
    whys: BTreeMap<String, String>,
}

impl Answers {
    /// Asks the reviewers about every part. Returns why not everything was asked.
    async fn ask(
        &mut self,
        plan: &Plan,
        arguments: &Arguments,
        reviewers: &mut Reviewers,
    ) -> anyhow::Result<Option<String>> {
        for part in &plan.parts.parts {
            let names = reviewers.names.clone();
            if let Some(why) = over_budget(arguments, reviewers, part.text.len(), names.len()) {
                return Ok(Some(why));
            }
            let replies = reviewers.ask(&names, &part.text).await?;
            for (name, reply) in replies {
                let answer = self.answer(&name, reply, &part.text, arguments, reviewers).await?;
                if let Some((answer, turn)) = &answer {
                    let claims = answer.findings.iter().map(|finding| Claim {
                        checked: CheckedFinding::new(finding.clone(), &plan.change),
                        reviewer: name.clone(),
                        turn: *turn,
                        votes: Vec::new(),
                    });
                    self.claims.extend(claims);
                }
                let answer = answer.map(|(answer, _)| answer);
                self.parts.entry(name).or_default().push(answer);
            }
        }
        if arguments.panel {
            return self.vote(arguments, reviewers).await;
        }
        Ok(None)
    }

    /// Parses a reply; one that is no answer may be corrected once.
    async fn answer(
        &mut self,
        name: &str,
        reply: Reply,
        question: &str,
        arguments: &Arguments,
        reviewers: &mut Reviewers,
    ) -> anyhow::Result<Option<(Answer, Option<convoke_protocol::id::TurnId>)>> {
        let parsed =
            corrected(name, reply, question, answer::FORM, answer::parse, arguments, reviewers)
                .await?;
        match parsed {
            Ok(found) => Ok(Some(found)),
            Err(why) => {
                self.whys.entry(name.to_owned()).or_insert(why);
                Ok(None)
            }
        }
    }

    /// Has every reviewer vote on the findings of the others.
    async fn vote(
        &mut self,
        arguments: &Arguments,
        reviewers: &mut Reviewers,
    ) -> anyhow::Result<Option<String>> {
        for name in reviewers.names.clone() {
            let of_others = |claim: &&mut Claim| claim.reviewer != name && claim.checked.counts();
            let mut claims: Vec<&mut Claim> = self.claims.iter_mut().filter(of_others).collect();
            if claims.is_empty() {
                continue;
            }
            let findings: Vec<_> = claims.iter().map(|it| &it.checked.finding).collect();
            let question = panel::question(&findings);
            if let Some(why) = over_budget(arguments, reviewers, question.len(), 1) {
                return Ok(Some(why));
            }
            let mut replies = reviewers.ask(std::slice::from_ref(&name), &question).await?;
            let Some(reply) = replies.remove(&name) else { continue };
            let expected = claims.len();
            let parse = |reply: &str| panel::parse(reply, expected);
            let ballot =
                corrected(&name, reply, &question, panel::FORM, parse, arguments, reviewers)
                    .await?;
            let ballot = match ballot {
                Ok((ballot, _)) => ballot,
                Err(why) => return Ok(Some(format!("{name} has not voted: {why}"))),
            };
            for vote in ballot.votes {
                if let Some(claim) = claims.get_mut(vote.finding - 1) {
                    claim.votes.push((name.clone(), vote.vote, vote.reason));
                }
            }
        }
        Ok(None)
    }

    /// Returns the verdict of a reviewer on so many parts.
    fn verdict(&self, name: &str, parts: usize) -> Verdict {
        let mut answers = self.parts.get(name).cloned().unwrap_or_default();
        answers.resize(parts, None);
        of_reviewer(&answers)
    }
}

/// Parses a reply. One that cannot be parsed is asked for once more; the error says why there is no answer.
async fn corrected<T>(
    name: &str,
    reply: Reply,
    question: &str,
    form: &str,
    parse: impl Fn(&str) -> Result<T, answer::AnswerError>,
    arguments: &Arguments,
    reviewers: &mut Reviewers,
) -> anyhow::Result<Result<(T, Option<convoke_protocol::id::TurnId>), String>> {
    let text = match reply.text {
        Ok(text) => text,
        Err(why) => return Ok(Err(why)),
    };
    let error = match parse(&text) {
        Ok(answer) => return Ok(Ok((answer, reply.turn))),
        Err(error) => error,
    };
    if reviewers.is_late() {
        return Ok(Err(error.to_string()));
    }
    let repair = format!("{question}\n{}", answer::repair(&error, form));
    if let Some(why) = over_budget(arguments, reviewers, repair.len(), 1) {
        return Ok(Err(why));
    }
    let names = [name.to_owned()];
    let second = reviewers.ask(&names, &repair).await?.remove(name);
    let Some(Reply { turn, text }) = second else { return Ok(Err(error.to_string())) };
    Ok(text.and_then(|text| parse(&text).map_err(|error| error.to_string())).map(|it| (it, turn)))
}

/// Returns why a prompt of so many bytes is over the budget, if it is.
fn over_budget(
    arguments: &Arguments,
    reviewers: &Reviewers,
    bytes: usize,
    times: usize,
) -> Option<String> {
    let (used, cost) = reviewers.total();
    let needed = (bytes as u64 / BYTES_PER_TOKEN) * times as u64;
    if used.saturating_add(needed) > arguments.max_tokens {
        return Some(format!(
            "the budget of {} tokens is used up; raise --max-tokens",
            arguments.max_tokens
        ));
    }
    let limit = arguments.max_cost?;
    (cost.amount >= limit || cost.unknown > 0 && cost.known == 0).then(|| {
        format!(
            "the budget of {limit} dollars is used up, or the price is not known; raise --max-cost"
        )
    })
}
