//! The dearest heads: each of the longest that a listener takes costs little more than an ordinary one of its length.

use super::linear::{ATTEMPTS, headers, judge, read_head_within, repeated};
use super::targets::cost::{Work, nanos};
use super::targets::limits::limits;
use tidegate_http::head::{HeadLimits, parse};

/// As the connection and the judgement read it, one after the other; of a head that is refused there is no judgement.
fn read_and_judge(target: &str, field: (&'static str, String)) -> Work<'static> {
    /// Those of a listener that is not told otherwise.
    const USUAL: HeadLimits = limits(32 << 10, 8 << 10, 100);
    let (name, value) = field;
    let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\n{name}: {value}\r\n\r\n");
    let found = parse(head.as_bytes(), &USUAL);
    let read = read_head_within(head, &USUAL);
    let Ok(found) = found else { return read };
    let target = found.and_then(|head| head.canonical_target).unwrap_or_else(|| target.to_owned());
    let (path, query) = target.split_once('?').map_or((&*target, None), |(path, query)| (path, Some(query.to_owned())));
    let judge = judge(path.to_owned(), query, headers(name, &value));
    Box::new(move || {
        read();
        judge();
    })
}

/// Beside an ordinary head of the same kind and length. `benches/heads.py` measures the program that is shipped, where 3 times as
/// much is the most that is wanted; with little optimisation, what is made of a byte costs many times what it takes to pass over
/// one, and the bounds here are above what is measured then.
#[test]
fn no_head_costs_much_more_than_an_ordinary_one() {
    const LENGTH: usize = 7_500;
    let in_path = |piece: &str| (format!("/{}", repeated(piece, LENGTH)), ("x-other", String::new()));
    let in_query = |piece: &str| (format!("/?{}", repeated(piece, LENGTH)), ("x-other", String::new()));
    let in_field = |name: &'static str| move |piece: &str| ("/".to_owned(), (name, repeated(piece, LENGTH)));
    /// The target and a field of a head that is made of pieces.
    type Head = (String, (&'static str, String));
    let is_cheap = |kind: &str, most: u64, ordinary: &str, pieces: &[&str], head: &dyn Fn(&str) -> Head| {
        let cost = |piece: &str| {
            let (target, field) = head(piece);
            (0..5).map(|_| nanos(read_and_judge(&target, field.clone()))).min().unwrap_or(0)
        };
        for piece in pieces {
            let mut measured = Vec::new();
            let holds = (0..ATTEMPTS).any(|_| {
                let (usual, dear) = (cost(ordinary), cost(piece));
                measured.push((usual, dear));
                dear <= most * usual
            });
            let tenths = measured.iter().map(|(usual, dear)| 10 * dear / usual).min().unwrap_or(0);
            println!("{kind} {piece:?}: {}.{} times {ordinary:?}, at most {most}", tenths / 10, tenths % 10);
            assert!(holds, "{kind} {piece:?} beside {ordinary:?}: {measured:?} ns");
        }
    };
    let pieces = ["%20", ".%20a/", "%2F", ".a%2Fa", "//.a", ";a", "|", "%61", "%40", "%C5%BF", "Ab."];
    is_cheap("path", 7, "abcdefghij/", &pieces, &in_path);
    // so many parameters that they are refused, and as many as are read
    let pieces = [
        "k;",
        "k&",
        "k=;",
        "k=1;",
        "+k;",
        "%6b;",
        "%6b=%31&",
        "l;",
        "q;",
        "mode;",
        ";",
        "&",
        "%;",
        "%3d;",
        "\"",
        "\"<&",
        "\"&\"",
        "+mode;",
        "+q;",
        "+q&",
        "%71=%;",
        "k=vvvvv;",
        "+k=vvvv;",
        "%6b=%31;",
        "q=vvvvv;",
        "+q=vvvv;",
        "%71=%31;",
        "mode=vv;",
        "+mode=v;",
        "%6dode=;",
        "vvvvvvv;",
        "%31%31%;",
        "+++++++;",
        "\"vvvvvv;",
        "q=%31%3;",
    ];
    is_cheap("query", 8, "abcdefghij", &pieces, &in_query);
    let few = ["k", "+k", "%6b", "q", "+q", "%71", "mode", "+mode", "%6dode"]
        .map(|name| format!("{name:v<31};").replacen('v', "=", 1));
    is_cheap("query", 8, "abcdefghij", &few.each_ref().map(String::as_str), &in_query);
    let pieces = [
        "k;",
        " k ;",
        "k=1; ",
        "k=\"1;",
        "k=%31;",
        "%6b;",
        "+k=1;",
        ";",
        "l;",
        "m=\"\\1\";",
        "a=b; ",
        "k=vvvvv;",
        "k=\"vvv\";",
        "k=%31%31;",
        "%6b=%31;",
        "%6b=\"1\";",
        "+k=vvvv;",
        "+++++++;",
        "  k=v  ;",
        "vvvvvvv;",
        "m=\"\\1\\1;",
    ];
    is_cheap("cookie", 10, "abcdefghij", &pieces, &in_field("cookie"));
    let few = ["k", "+k", "%6b", "  k", "l"].map(|name| format!("{name:v<31};").replacen('v', "=", 1));
    is_cheap("cookie", 10, "abcdefghij", &few.each_ref().map(String::as_str), &in_field("cookie"));
    let pieces = ["10.0.0.1,", "10.0.0.1:80, ", "::1,", ",", ", ", "unknown,", "[", "1."];
    is_cheap("x-forwarded-for", 3, "abcdefghij", &pieces, &in_field("x-forwarded-for"));
    is_cheap("x-other", 3, "abcdefghij", &["a\tb", "\t,", "\"", "bot", "ab"], &in_field("x-other"));
    // of a field and no option, of options, and what comes between them
    let options = |piece: &str| ("/".to_owned(), ("connection", format!("a{},b", repeated(piece, LENGTH))));
    is_cheap("connection", 3, "abcdefghij", &[",", ", ", " ,", "a,", "\t", " ", "close,", ",,,,,,,,,,,,,,"], &options);
}
