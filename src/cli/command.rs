//! The command line as a whole: the groups of verbs in `tidegate --help`, and which verb takes which of the [global](super::global)
//! options.

use std::fmt::Write as _;

use clap::{Arg, Command};

/// The verbs as `tidegate --help` groups them.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Start", &["demo", "init", "run", "check", "test", "doctor"]),
    ("Change", &["reload", "upgrade", "pardon", "ban", "unban", "bans"]),
    ("Understand", &["status", "top", "explain", "show"]),
    ("Choose limits", &["suggest", "replay"]),
    ("Shells and editors", &["completions", "man", "schema"]),
];

/// Returns the ids of the global options that a verb takes: `--config` if it reads a policy, `--admin` if it asks a process.
fn taken_by(verb: &str) -> &'static [&'static str] {
    match verb {
        "run" | "doctor" | "reload" | "upgrade" | "explain" | "show" => {
            &["config", "admin", "color", "quiet", "verbose"]
        }
        "check" | "test" | "suggest" | "replay" => &["config", "color", "quiet", "verbose"],
        "status" | "top" | "pardon" | "ban" | "unban" | "bans" => &["admin", "color", "quiet", "verbose"],
        "demo" | "init" => &["color", "quiet", "verbose"],
        // they print what the program knows by itself
        _ => &[],
    }
}

/// Makes the command line whole: before the verb all global options may stand, behind it those that the verb takes.
pub fn completed(command: Command) -> Command {
    let globals: Vec<Arg> = command.get_arguments().cloned().collect();
    let template = template(&command);
    command.help_template(template).mut_subcommands(|verb| with_globals(verb, &globals))
}

/// Gives a verb its global options, which its help names in one line.
fn with_globals(verb: Command, globals: &[Arg]) -> Command {
    let ids = taken_by(verb.get_name());
    let taken: Vec<&Arg> = globals.iter().filter(|option| ids.contains(&option.get_id().as_str())).collect();
    if taken.is_empty() {
        return verb;
    }
    let names: Vec<String> = taken.iter().copied().map(name).collect();
    let line = format!("Global options: {} (see tidegate --help)", names.join(", "));
    let help = match verb.get_after_help() {
        Some(own) => format!("{line}\n\n{own}"),
        None => line,
    };
    // global, so that a value before the verb and one behind it meet
    let taken = taken.into_iter().map(|option| option.clone().global(true).hide_short_help(true).hide_long_help(true));
    verb.args(taken).after_help(help)
}

/// Returns the shortest spelling of an option with its value: `-c FILE`, `--color WHEN`, `-q`.
fn name(option: &Arg) -> String {
    let short = option.get_short().map(|short| format!("-{short}"));
    let mut name = short.unwrap_or_else(|| format!("--{}", option.get_long().unwrap_or_default()));
    if option.get_action().takes_values() {
        for value in option.get_value_names().unwrap_or_default() {
            let _ = write!(name, " {value}");
        }
    }
    name
}

/// Returns the template of the program's own help: the verbs in groups, then the options.
fn template(command: &Command) -> String {
    let styles = command.get_styles();
    let (head, literal) = (styles.get_header(), styles.get_literal());
    let widest = GROUPS.iter().flat_map(|(_, verbs)| verbs.iter()).map(|verb| verb.len()).max().unwrap_or_default();
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n\n".to_owned();
    for (group, verbs) in GROUPS {
        let _ = writeln!(text, "{head}{group}:{head:#}");
        for verb in verbs {
            let about = command.find_subcommand(verb).and_then(Command::get_about).map(ToString::to_string);
            let _ = writeln!(text, "  {literal}{verb:<widest$}{literal:#}  {}", about.unwrap_or_default());
        }
        text.push('\n');
    }
    let _ = write!(
        text,
        "tidegate help VERB shows the options of a verb.\n\n{head}Options:{head:#}\n{{options}}{{after-help}}"
    );
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Arguments;

    #[test]
    fn each_verb_stands_in_one_group() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, verbs)| verbs.iter().copied()).collect();
        let command = Arguments::command();
        let mut verbs: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        grouped.sort_unstable();
        verbs.sort_unstable();
        assert_eq!(grouped, verbs);
    }

    #[test]
    fn a_global_option_may_stand_before_the_verb_and_behind_it() {
        for words in [["tidegate", "--admin", "/a", "status"], ["tidegate", "status", "--admin", "/a"]] {
            let read = Arguments::read(words).unwrap();
            assert_eq!(read.global.admin.as_deref(), Some(std::path::Path::new("/a")), "{words:?}");
        }
        let both = Arguments::read(["tidegate", "-c", "/a", "--color", "never", "run", "-c", "/b"]).unwrap();
        assert_eq!(both.global.config.as_deref(), Some(std::path::Path::new("/b")));
        assert_eq!(both.global.color, crate::cli::global::Color::Never);
    }

    #[test]
    fn verbs_refuse_global_options_that_they_have_no_use_for() {
        for words in [
            ["completions", "--admin"],
            ["schema", "-c"],
            ["init", "--admin"],
            ["suggest", "--admin"],
            ["status", "-c"],
        ] {
            let refused = Arguments::read([["tidegate"].as_slice(), &words, &["/a"]].concat()).unwrap_err();
            assert_eq!(refused.kind(), clap::error::ErrorKind::UnknownArgument, "{words:?}");
        }
    }
}
