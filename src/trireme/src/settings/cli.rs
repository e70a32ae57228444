//! The command line: which command, and the flags as text. What the flags mean is read elsewhere.

mod cluster;

use std::path::Path;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command};
use trireme_edge::VersionInfo;

use super::errors::{SettingError, SettingsErrors};
use super::keys::{self, KEYS};
use super::layers::nearest;
use super::pki_init;
use super::upstream_flags::UPSTREAM_FLAGS;
use crate::cluster::{Access, Action};

/// The command that serves.
const SERVE: &str = "serve";
/// A copy or a link of this name takes flags without a command, as that program does.
const UPSTREAM_PROGRAM: &str = "kube-apiserver";

/// The command of the command line.
#[derive(Debug)]
pub(super) enum ParsedCommand {
    /// `trireme serve`, with the flags as given and what is wrong with them so far.
    Serve(Vec<(String, String)>, Vec<SettingError>),
    /// `trireme cluster …`.
    Cluster(Action, Access),
    /// `trireme pki init`.
    PkiInit(pki_init::PkiInitArgs),
    /// `trireme version`.
    Version,
    /// Help, or the version as kube-apiserver says it, to print as it is.
    Help(String),
}

/// Reads the command line. Fails only if no command can be made out.
pub(super) fn read(args: &[String], env: &[(String, String)]) -> Result<ParsedCommand, SettingsErrors> {
    let args = with_command(args);
    if args.get(1).is_some_and(|command| command == SERVE) && args.iter().any(|arg| asks_for_version(arg)) {
        let version = VersionInfo::default().git_version;
        return Ok(ParsedCommand::Help(format!("Kubernetes {version}\n")));
    }
    let (known, errors) = match args.get(1).map(String::as_str) {
        Some(SERVE) => drop_unknown_flags(&args),
        _ => (args, Vec::new()),
    };
    match command().try_get_matches_from(known) {
        Ok(matches) => match matches.subcommand() {
            Some(("version", _)) => Ok(ParsedCommand::Version),
            Some((cluster::NAME, given)) => {
                let (action, access) = cluster::read(given, env);
                Ok(ParsedCommand::Cluster(action, access))
            }
            Some(("pki", pki)) => Ok(ParsedCommand::PkiInit(pki_init::words(pki))),
            Some((_, serve)) => Ok(ParsedCommand::Serve(flags(serve), errors)),
            None => Ok(ParsedCommand::Help(command().render_help().to_string())),
        },
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            Ok(ParsedCommand::Help(error.to_string()))
        }
        Err(error) => {
            let mut errors = errors;
            let text = error.to_string();
            errors.push(SettingError {
                origin: "command line".to_owned(),
                value: None,
                allowed: text.trim_start_matches("error: ").trim_end().to_owned(),
            });
            Err(SettingsErrors(errors))
        }
    }
}

/// Adds `serve` where kube-apiserver's command line has no command: programs that start an API server for their tests are told
/// where the binary is, and give it flags.
fn with_command(args: &[String]) -> Vec<String> {
    let mut args = args.to_vec();
    let is_upstream = |program: &String| {
        Path::new(program)
            .file_name()
            .is_some_and(|name| name == UPSTREAM_PROGRAM)
    };
    let own_flag = |flag: &String| matches!(flag.as_str(), "--help" | "--version");
    let begins_with_flag = args
        .get(1)
        .is_some_and(|first| first.starts_with("--") && !own_flag(first));
    let is_told = args.get(1).is_some_and(|first| first == SERVE);
    if begins_with_flag || (args.first().is_some_and(is_upstream) && !is_told) {
        args.insert(1, SERVE.to_owned());
    }
    args
}

/// Returns true for kube-apiserver's flag that has the version printed; with a version it has another one reported.
fn asks_for_version(arg: &str) -> bool {
    matches!(arg, "--version" | "--version=true" | "--version=raw")
}

fn command() -> Command {
    let serve = Command::new(SERVE)
        .about("Serve the Kubernetes API")
        .after_help(
            "Every flag can also be given as TRIREME_<NAME> in the environment or as a key of the --config file.",
        )
        .args(KEYS.iter().map(argument))
        .next_help_heading("Flags of kube-apiserver that change nothing here, and why")
        .args(UPSTREAM_FLAGS.iter().map(|flag| argument(&flag.key)));
    Command::new("trireme")
        .about("A Kubernetes API server")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(serve)
        .subcommand(cluster::command())
        .subcommand(pki_init::command())
        .subcommand(Command::new("version").about("Print the version"))
}

fn argument(key: &'static keys::SettingKey) -> Arg {
    let help = match key.default {
        Some(default) => format!("{} [default: {default}]", key.help),
        None => key.help.to_owned(),
    };
    let arg = Arg::new(key.name)
        .value_name(key.value)
        .help(help)
        .action(ArgAction::Append)
        .allow_hyphen_values(true);
    let arg = match key.name.chars().next() {
        Some(letter) if key.name.len() == 1 => arg.short(letter).long(key.name),
        _ => arg.long(key.name),
    };
    if key.is_switch() {
        arg.num_args(0..=1).require_equals(true).default_missing_value("true")
    } else {
        arg
    }
}

fn flags(serve: &ArgMatches) -> Vec<(String, String)> {
    keys::all()
        .flat_map(|key| {
            let values = serve.get_many::<String>(key.name).into_iter().flatten();
            values.map(|value| (key.name.to_owned(), value.clone()))
        })
        .collect()
}

/// clap stops at the first flag that it does not know; taking these out beforehand lets all errors be reported at once.
fn drop_unknown_flags(args: &[String]) -> (Vec<String>, Vec<SettingError>) {
    let mut known = Vec::new();
    let mut errors = Vec::new();
    let mut rest = args.iter().peekable();
    while let Some(arg) = rest.next() {
        let Some(flag) = arg.strip_prefix("--").filter(|flag| !flag.is_empty()) else {
            known.push(arg.clone());
            continue;
        };
        let (name, value) = flag
            .split_once('=')
            .map_or((flag, None), |(name, value)| (name, Some(value)));
        if name == "help" {
            known.push(arg.clone());
            continue;
        }
        if let Some(key) = keys::find(name) {
            known.push(arg.clone());
            if value.is_none() && !key.is_switch() {
                known.extend(rest.next().cloned());
            }
            continue;
        }
        let follows = rest.next_if(|next| value.is_none() && !next.starts_with('-'));
        errors.push(SettingError {
            origin: format!("--{name}"),
            value: value.or(follows.map(String::as_str)).map(str::to_owned),
            allowed: format!("no such flag; {}", nearest(name, "`trireme serve --help` lists them")),
        });
    }
    (known, errors)
}
