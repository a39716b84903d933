//! `path`: what is matched, what is ignored, and expressions that can never match.

use crate::config::compile::checks::exactly_one;
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::pattern::{Expression, IgnoreWord, PathPattern};
use crate::config::quoted::quoted;
use crate::config::read::{At, Field};
use crate::config::schema::PathForm;
use crate::config::shape::{Either, OneOrMany};
use crate::config::tree::Tree;
use crate::policy::route::reach::{Reach, reach};
use crate::policy::route::{Ignore, PathMatch, fold, whole};

type Path = (PathMatch, Option<Ignore>, Option<Tree>);

/// A path, what it ignores, and its long form; without a path every one is taken.
pub fn path(field: &Field<Either<PathPattern, PathForm>>, faults: &mut Faults) -> Path {
    let any = (PathMatch::Prefix(String::new()), None, None);
    let Some(at) = field.get() else { return any };
    let (path, ignore) = match &at.value {
        Either::Short(pattern) => (pattern.0.clone(), pattern.1),
        Either::Long(form) => {
            let given = [("exact", form.exact.key()), ("prefix", form.prefix.key()), ("regex", form.regex.key())];
            if !exactly_one(&given, at.span, faults) {
                return any;
            }
            let ignore = ignored(&form.ignore, faults);
            match (form.exact.value(), form.prefix.value(), form.regex.get()) {
                (Some(exact), ..) => (PathMatch::Exact(exact.0.clone()), ignore),
                (_, Some(prefix), _) => (PathMatch::Prefix(prefix.0.clone()), ignore),
                (.., Some(expression)) => {
                    if let Some(key) = form.ignore.key() {
                        faults.push(
                            Diagnostic::error(Code::CONFLICT, key, "`ignore` beside `regex`")
                                .label("belongs to `exact` and `prefix`")
                                .help("an expression says itself what it takes: `(?i)/login/?` ignores case and a slash at the end"),
                        );
                    }
                    judge(expression, faults);
                    let Expression { text, regex } = &expression.value;
                    return (PathMatch::Regex(regex.clone()), None, Some(Tree::map([("regex", Tree::text(text))])));
                }
                _ => return any,
            }
        }
    };
    let (word, text) = match &path {
        PathMatch::Exact(exact) => ("exact", exact.as_str()),
        PathMatch::Prefix(prefix) if prefix.is_empty() => ("prefix", "/"),
        PathMatch::Prefix(prefix) => ("prefix", prefix.as_str()),
        PathMatch::Regex(_) => return any,
    };
    if let Some(ignore) = ignore.filter(|ignore| *ignore != Ignore::NONE)
        && fold::pattern(text, ignore).is_none()
    {
        faults.push(
            Diagnostic::error(Code::OUT_OF_RANGE, at.span, "a path too long to ignore spellings")
                .label(format!("must be at most {} bytes beside `ignore`", fold::LONGEST)),
        );
    }
    let mut tree = vec![(word, Tree::text(text))];
    tree.extend(ignore.map(|ignore| ("ignore", long_form(ignore))));
    (path, ignore, Some(Tree::map(tree)))
}

fn long_form(ignore: Ignore) -> Tree {
    match ignore {
        Ignore::NONE => Tree::text("none"),
        Ignore::ALL => Tree::text("all"),
        some => Tree::texts(some.words()),
    }
}

fn ignored(field: &Field<OneOrMany<IgnoreWord>>, faults: &mut Faults) -> Option<Ignore> {
    let at = field.get()?;
    let OneOrMany(list) = &at.value;
    let words: Vec<IgnoreWord> = list.items.iter().map(|item| item.value).collect();
    let together = IgnoreWord::together(&words);
    if together.is_none() && !list.bad {
        faults.push(if words.is_empty() {
            Diagnostic::error(Code::EMPTY_VALUE, at.span, "a list of nothing to ignore")
                .label("needs a word")
                .help("`ignore: none` says that the origin reads every spelling as a path of its own")
        } else {
            Diagnostic::error(Code::CONFLICT, at.span, "`none` or `all` beside another word").label("stands alone")
        });
    }
    together
}

/// Reports an expression that no path can meet, or only by some of its alternatives.
fn judge(expression: &At<Expression>, faults: &mut Faults) {
    let Expression { text, regex } = &expression.value;
    // nothing of what came from a variable is shown
    let with_way_out =
        |fault: Diagnostic, text: &str| if expression.masked { fault } else { fault.help(way_out(text)) };
    if reach(regex.as_str()) == Reach::Never {
        let fault =
            Diagnostic::error(Code::NEVER_MATCHES, expression.span, format!("no path can meet {}", expression.shown))
                .label("never matches: an expression has to meet the whole path");
        return faults.push(with_way_out(fault, text));
    }
    for branch in branches(text) {
        if whole(branch).is_ok_and(|branch| reach(branch.as_str()) == Reach::Never) {
            let which = if expression.masked {
                "an alternative".to_owned()
            } else {
                format!("the alternative {}", quoted(branch))
            };
            let fault = Diagnostic::new(Code::DEAD_ALTERNATIVE, expression.span, format!("no path can meet {which}"))
                .label("each alternative has to meet the whole path");
            faults.push(with_way_out(fault, branch));
        }
    }
}

/// The spellings that were probably meant, as far as a path can meet them.
fn way_out(text: &str) -> String {
    let core = text.strip_prefix('^').unwrap_or(text);
    let core = core.strip_suffix('$').filter(|core| !core.ends_with('\\')).unwrap_or(core);
    let core = if core.contains('|') { format!("(?:{core})") } else { core.to_owned() };
    let can = |text: &String| whole(text).is_ok_and(|whole| matches!(reach(whole.as_str()), Reach::Path(_)));
    let capitals = capital_escapes(&core);
    let exact = [format!("/{core}"), capitals.clone()].into_iter().find(can);
    let anywhere = [format!(".*{core}.*"), format!(".*{capitals}.*")].into_iter().find(can);
    match (exact, anywhere) {
        (Some(exact), Some(anywhere)) => format!("`{exact}` meets that path alone, `{anywhere}` every path that holds it"),
        (None, Some(anywhere)) => format!("`{anywhere}` meets every path that holds it"),
        _ => "a path begins with `/`, ends before `?`, and has no blank, no `//`, no `.` or `..` between slashes; its escapes \
              have capital digits, as in `%2F`, and none is of a letter, digit, `-`, `.`, `_` or `~`"
            .to_owned(),
    }
}

/// The text with `%2f` as `%2F`.
fn capital_escapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        let of_escape = letter.is_ascii_hexdigit() && out.bytes().rev().take(2).any(|byte| byte == b'%');
        out.push(if of_escape { letter.to_ascii_uppercase() } else { letter });
    }
    out
}

/// The alternatives of which an expression consists; none when it is no plain choice, or has flags, which hold for what
/// follows them.
fn branches(text: &str) -> Vec<&str> {
    let mut branches = Vec::new();
    let (mut depth, mut in_class, mut escaped, mut from) = (0_usize, false, false, 0);
    if text.replace("(?:", "(").contains("(?") {
        return branches;
    }
    for (at, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            _ if in_class => {}
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '|' if depth == 0 => {
                branches.extend(text.get(from..at));
                from = at + 1;
            }
            _ => {}
        }
    }
    if from > 0 {
        branches.extend(text.get(from..));
    }
    branches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_cut_at_its_outer_alternatives() {
        assert_eq!(branches("/login|signin"), ["/login", "signin"]);
        assert_eq!(branches("/(a|b)|[|]\\|c"), ["/(a|b)", "[|]\\|c"]);
        for whole in ["/login", "/(a|b)", "(?i)/a|b", "/a\\|b"] {
            assert!(branches(whole).is_empty(), "{whole}");
        }
    }

    #[test]
    fn the_way_out_is_one() {
        assert_eq!(way_out("login"), "`/login` meets that path alone, `.*login.*` every path that holds it");
        assert_eq!(way_out("^login$"), way_out("login"));
        assert_eq!(way_out("a|b"), "`/(?:a|b)` meets that path alone, `.*(?:a|b).*` every path that holds it");
        assert!(way_out("/a%2fb").starts_with("`/a%2Fb` meets"), "{}", way_out("/a%2fb"));
        assert!(way_out("/a b").starts_with("a path begins with"));
    }
}
