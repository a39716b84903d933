//! `tidegate man`: the manual pages, made from what the program itself knows.

mod page;
mod policy;

use std::process::ExitCode;

use clap::{Args, Command, ValueEnum};

use self::page::Page;
use super::output::print;
use crate::config::schema::json_schema;

/// Print a manual page
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tidegate man tidegate.yaml | man -l -")]
pub struct Arguments {
    /// Which page: the command line, or the policy file
    #[arg(value_enum, default_value_t = Which::Tidegate)]
    page: Which,
}

/// The pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Which {
    /// tidegate(1)
    Tidegate,
    /// tidegate.yaml(5)
    #[value(name = "tidegate.yaml")]
    PolicyFile,
}

/// Prints it; `command` is the whole command line.
pub fn run(arguments: &Arguments, command: Command) -> ExitCode {
    print(&match arguments.page {
        Which::Tidegate => of_commands(command),
        Which::PolicyFile => policy::page(json_schema().as_value()),
    });
    ExitCode::SUCCESS
}

/// tidegate(1): all verbs on one page, each with its options and examples.
fn of_commands(mut command: Command) -> String {
    command.build();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut page = Page::new("tidegate", 1, about.trim_end_matches('.'));
    page.section("SYNOPSIS");
    page.line("\\fBtidegate\\fR [\\fIOPTIONS\\fR] \\fIVERB\\fR [\\fIARGUMENTS\\fR]");
    page.section("DESCRIPTION");
    page.text(&about);
    page.text("Data goes to standard output, talk to standard error.");
    page.section("GLOBAL OPTIONS");
    page.text("Each verb names those that it takes. All of them may stand before the verb.");
    options(&mut page, &command, |_| true);
    for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
        page.section(&format!("tidegate {}", verb.get_name()));
        page.text(&verb.get_about().map(ToString::to_string).unwrap_or_default());
        options(&mut page, verb, |argument| !argument.is_global_set());
        if let Some(example) = verb.get_after_help() {
            page.verbatim(&example.to_string());
        }
    }
    page.section("EXIT STATUS");
    for (code, meaning) in EXIT_CODES {
        page.item(code, meaning);
    }
    page.section("FILES");
    page.item("/etc/tidegate/tidegate.yaml", "The policy file; see tidegate.yaml(5).");
    page.item("/run/tidegate/private/admin.sock", "The admin socket of the packaged service.");
    page.section("SEE ALSO");
    page.line("\\fBtidegate.yaml\\fR(5)");
    page.finish()
}

const EXIT_CODES: [(&str, &str); 6] = [
    ("0", "Done, nothing wrong."),
    (
        "1",
        "The answer is no: warnings under --deny-warnings, a test that failed, a --fail-if that holds, a reload, upgrade, pardon or ban that did not happen, a second signal to stop.",
    ),
    ("2", "Wrong usage."),
    ("69", "No server answers on the admin socket."),
    ("71", "The system refused: an address, a file, a permission, a full disk under standard output."),
    ("78", "The policy file is invalid."),
];

fn options(page: &mut Page, command: &Command, wanted: impl Fn(&clap::Arg) -> bool) {
    for argument in command.get_arguments().filter(|argument| !argument.is_hide_set() && wanted(argument)) {
        if matches!(argument.get_id().as_str(), "help" | "version") {
            continue;
        }
        let short = argument.get_short().map(|short| format!("-{short}"));
        let long = argument.get_long().map(|long| format!("--{long}"));
        let values: Vec<String> = match argument.get_action().takes_values() {
            true => argument.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect(),
            false => Vec::new(),
        };
        let names: Vec<String> = short.into_iter().chain(long).collect();
        let term = [names.join(", "), values.join(" ")].join(" ");
        let mut text = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let possible: Vec<String> =
            argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        if !possible.is_empty() && argument.get_action().takes_values() {
            text.push_str(&format!(" [{}]", possible.join(", ")));
        }
        let defaults: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        if !defaults.is_empty() && argument.get_action().takes_values() {
            text.push_str(&format!(" [default: {}]", defaults.join(" ")));
        }
        if let Some(variable) = argument.get_env() {
            text.push_str(&format!(" [variable: {}]", variable.to_string_lossy()));
        }
        page.item(term.trim(), &text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_and_every_option_is_on_the_page() {
        let page = of_commands(crate::cli::whole()).replace("\\-", "-");
        for verb in crate::cli::whole().get_subcommands() {
            assert!(
                page.contains(&format!(".SH \"TIDEGATE {}\"", verb.get_name().to_uppercase())),
                "{}",
                verb.get_name()
            );
            for long in verb.get_arguments().filter_map(clap::Arg::get_long) {
                assert!(page.contains(&format!("--{long}")), "{long}");
            }
        }
    }

    #[test]
    fn every_word_of_the_policy_file_is_on_its_page() {
        let schema = json_schema();
        let page = policy::page(schema.as_value()).replace("\\-", "-");
        for definition in schema.as_value()["$defs"].as_object().unwrap().values() {
            for word in definition["properties"].as_object().into_iter().flatten().map(|(word, _)| word) {
                assert!(page.contains(&format!("\\fB{word}\\fR")), "{word}");
            }
        }
    }
}
