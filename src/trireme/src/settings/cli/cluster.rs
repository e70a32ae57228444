//! `trireme cluster …`: what is asked of the replica group, and of which replica.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::cluster::{Access, Action};

/// The command's name.
pub(super) const NAME: &str = "cluster";

/// The command with all below it.
pub(super) fn command() -> Command {
    let flag = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help).global(true)
    };
    let status = Command::new("status")
        .about("Show who is in the group, who leads and who does which duty")
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("As JSON, with revisions and lags"),
        );
    let add = Command::new("add")
        .about("Make a replica that waits (--cluster-advertise without --cluster-peers) a member")
        .arg(
            Arg::new("address")
                .value_name("HOST:PORT")
                .required(true)
                .help("Its --cluster-advertise"),
        );
    let remove = Command::new("remove")
        .about("Take a replica out of the group for good")
        .arg(
            Arg::new("replica")
                .value_name("ID|HOST:PORT")
                .required(true)
                .help("As `status` shows it"),
        );
    Command::new(NAME)
        .about("Look at the replica group, or change who is in it")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .arg(flag(
            "kubeconfig",
            "FILE",
            "Which replica to ask, and as whom; default $KUBECONFIG, then ~/.kube/config",
        ))
        .arg(flag(
            "server",
            "URL",
            "https://HOST:PORT of any replica, in place of the kubeconfig's",
        ))
        .arg(flag(
            "certificate-authority",
            "FILE",
            "CA of the server's certificate, in place of the kubeconfig's",
        ))
        .arg(flag(
            "token",
            "TOKEN",
            "Bearer token, in place of the kubeconfig's user",
        ))
        .subcommand(status)
        .subcommand(add)
        .subcommand(remove)
}

/// The request.
pub(super) fn read(given: &ArgMatches, env: &[(String, String)]) -> (Action, Access) {
    let (name, given) = given.subcommand().expect("a command below is required");
    let text = |id: &str| given.get_one::<String>(id).cloned();
    let action = match name {
        "add" => Action::Add(text("address").unwrap_or_default()),
        "remove" => Action::Remove(text("replica").unwrap_or_default()),
        _ => Action::Status {
            as_json: given.get_flag("json"),
        },
    };
    let server = text("server");
    let kubeconfig = text("kubeconfig").map(PathBuf::from);
    let access = Access {
        kubeconfig: kubeconfig.or_else(|| server.is_none().then(|| usual_kubeconfig(env)).flatten()),
        server,
        certificate_authority: text("certificate-authority").map(PathBuf::from),
        token: text("token"),
    };
    (action, access)
}

/// The path where kubectl would look first.
fn usual_kubeconfig(env: &[(String, String)]) -> Option<PathBuf> {
    let value = |wanted: &str| {
        let found = env.iter().find(|(name, value)| name == wanted && !value.is_empty());
        found.map(|(_, value)| value.as_str())
    };
    let named = value("KUBECONFIG").and_then(|list| list.split(':').find(|path| !path.is_empty()));
    let at_home = || {
        value("HOME")
            .map(|home| Path::new(home).join(".kube/config"))
            .filter(|path| path.is_file())
    };
    named.map(PathBuf::from).or_else(at_home)
}
