//! The numbered vectors for `Forwarded`, one row each, and what the grammar of RFC 7239 says beyond them.

use crate::support::{Row, check, row};
use crate::vectors::FORWARDED;
use tidegate_policy::client::ForwardHeader;

/// Examples of RFC 7239 itself, and the corners of its grammar.
const BEYOND: &[Row] = &[
    row("§4", "hops 1", "10.0.0.1", &["for=\"_gazonk\""], "10.0.0.1 (degraded)", "obfuscated"),
    row("§7.1a", "hops 3", "10.0.0.1", &["for=192.0.2.43,for=\"[2001:db8:cafe::17]\",for=unknown"], "192.0.2.43", ""),
    row(
        "§7.1b",
        "hops 2",
        "10.0.0.1",
        &["for=192.0.2.43,for=\"[2001:db8:cafe::17]\",for=unknown"],
        "2001:db8:cafe::/64",
        "",
    ),
    row(
        "§7.1c",
        "hops 3",
        "10.0.0.1",
        &["for=192.0.2.43", "for=\"[2001:db8:cafe::17]\", for=unknown"],
        "192.0.2.43",
        "",
    ),
    row("port", "hops 1", "10.0.0.1", &["for=\"192.0.2.1:_http\""], "192.0.2.1", "obfuscated port"),
    row(
        "port _",
        "hops 1",
        "10.0.0.1",
        &["for=\"192.0.2.1:_\""],
        "10.0.0.1 (degraded)",
        "nothing behind the underscore",
    ),
    row("port 99999", "hops 1", "10.0.0.1", &["for=\"192.0.2.1:99999\""], "10.0.0.1 (degraded)", "port out of range"),
    row("bare v6", "hops 1", "10.0.0.1", &["for=\"2001:db8::1\""], "10.0.0.1 (degraded)", "IPv6 needs brackets"),
    row("mapped", "hops 1", "10.0.0.1", &["for=\"[::ffff:192.0.2.1]\""], "192.0.2.1", "mapped is IPv4"),
    row("v4 in []", "hops 1", "10.0.0.1", &["for=\"[192.0.2.1]\""], "10.0.0.1 (degraded)", "brackets are for IPv6"),
    row("empty node", "hops 1", "10.0.0.1", &["for=\"\""], "10.0.0.1 (degraded)", "an empty node is no address"),
    row("empty pairs", "hops 1", "10.0.0.1", &[";;for=192.0.2.1; ;"], "192.0.2.1", "pairs may be empty"),
    row("empty elements", "hops 1", "10.0.0.1", &[", for=192.0.2.1 ,\t, "], "192.0.2.1", "empties do not count"),
    row("only empties", "hops 1", "10.0.0.1", &[" , ,"], "10.0.0.1 (short)", "no element"),
    row(
        "semicolon",
        "hops 1",
        "10.0.0.1",
        &["for=192.0.2.1, ;"],
        "10.0.0.1 (degraded)",
        "an element without pairs is a hop",
    ),
    row(
        "other twice",
        "hops 1",
        "10.0.0.1",
        &["proto=a;for=192.0.2.1;Proto=b"],
        "10.0.0.1 (degraded)",
        "any name once",
    ),
    row(
        "twice left",
        "hops 1",
        "10.0.0.1",
        &["for=6.6.6.6;for=7.7.7.7, for=192.0.2.1"],
        "192.0.2.1",
        "well-formed, left",
    ),
    row("extension", "hops 1", "10.0.0.1", &["secret=\"a;b,c=\\\"d\";for=192.0.2.1"], "192.0.2.1", "quoted specials"),
    row("obs-text", "hops 1", "10.0.0.1", &["host=\"é\";for=192.0.2.1"], "10.0.0.1 (degraded)", "byte outside ASCII"),
    row(
        "obs-text left",
        "hops 1",
        "10.0.0.1",
        &["host=\"é\";for=6.6.6.6, for=192.0.2.1"],
        "192.0.2.1",
        "left of the client",
    ),
    row(
        "not token",
        "hops 1",
        "10.0.0.1",
        &["é=a, for=192.0.2.1"],
        "10.0.0.1 (degraded)",
        "malformed left of the client",
    ),
    row(
        "host:port",
        "hops 1",
        "10.0.0.1",
        &["for=192.0.2.1;host=a:80"],
        "10.0.0.1 (degraded)",
        "only nodes go unquoted",
    ),
    row("by node", "hops 1", "10.0.0.1", &["by=[2001:db8::1]:80;for=192.0.2.1"], "192.0.2.1", "`by` is a node"),
    row("no value", "hops 1", "10.0.0.1", &["for="], "10.0.0.1 (degraded)", "an empty token is malformed"),
    row("no name", "hops 1", "10.0.0.1", &["=192.0.2.1"], "10.0.0.1 (degraded)", "an empty name is malformed"),
    row(
        "bare",
        "hops 1",
        "10.0.0.1",
        &["192.0.2.1"],
        "10.0.0.1 (degraded)",
        "X-Forwarded-For's syntax is malformed here",
    ),
    row("junk", "hops 1", "10.0.0.1", &["for=192.0.2.1 x"], "10.0.0.1 (degraded)", "text behind a value"),
    row(
        "no semicolon",
        "hops 1",
        "10.0.0.1",
        &["for=192.0.2.1 by=_a"],
        "10.0.0.1 (degraded)",
        "pairs need a semicolon",
    ),
    row("no blank", "hops 1", "10.0.0.1", &["for=\"192.0.2.1\"by=_a"], "10.0.0.1 (degraded)", "also behind quotes"),
    row("escape end", "hops 1", "10.0.0.1", &["for=\"192.0.2.1\\"], "10.0.0.1 (degraded)", "nothing behind the escape"),
    row("any line", "hops 1", "10.0.0.1", &["host=\"x", "for=192.0.2.1"], "10.0.0.1 (degraded)", "a line is malformed"),
    row(
        "any line 2",
        "hops 2",
        "10.0.0.1",
        &["x", "for=192.0.2.1, for=192.0.2.2"],
        "10.0.0.1 (degraded)",
        "nothing is read",
    ),
    row("walk", "proxies 10.0.0.0/8", "10.0.0.1", &["\"", "for=192.0.2.1, for=10.0.0.2"], "10.0.0.1 (degraded)", ""),
    row("all", "proxies 10.0.0.0/8", "10.0.0.1", &["for=10.0.0.3, for=10.0.0.2"], "10.0.0.3 (all-trusted)", ""),
    row("absent", "proxies 10.0.0.0/8", "10.0.0.1", &[], "10.0.0.1", "trusted peer, no header"),
    row("untrusted", "proxies 10.0.0.0/8", "203.0.113.9", &["for=6.6.6.6"], "203.0.113.9", "header ignored"),
];

#[test]
fn every_row_resolves_to_its_key_and_mark() {
    check(FORWARDED, ForwardHeader::Forwarded);
}

#[test]
fn the_grammar_is_strict_in_lists_and_tolerant_in_nodes() {
    check(BEYOND, ForwardHeader::Forwarded);
}

#[test]
fn rows_f1_to_f21_are_all_there() {
    let numbers: Vec<&str> = FORWARDED.iter().map(|row| row.number).collect();
    let expected: Vec<String> = (1..=21).map(|number: u32| format!("F{number}")).collect();
    assert_eq!(numbers, expected);
}

#[test]
fn long_elements_are_read_and_long_nodes_are_not() {
    let host = "h".repeat(300);
    let zone = "z".repeat(60);
    let long_element = format!("for=192.0.2.1;host={host}");
    let long_node = format!("for=\"[fe80::1%{zone}]\"");
    let many_pairs = (0..17).map(|n| format!("x{n}=1;")).collect::<String>() + "for=192.0.2.1";
    check(
        &[
            row("host", "hops 1", "10.0.0.1", &[&long_element], "192.0.2.1", "the bound is on the node"),
            row("node", "hops 1", "10.0.0.1", &[&long_node], "10.0.0.1 (degraded)", "a node over 64 bytes"),
            row("pairs", "hops 1", "10.0.0.1", &[&many_pairs], "10.0.0.1 (degraded)", "more pairs than are compared"),
        ],
        ForwardHeader::Forwarded,
    );
}

#[test]
fn the_thirty_third_element_from_the_right_is_never_read() {
    let thirty_two = ["for=10.0.0.9"; 32].join(", ");
    let line = format!("for=1.2.3.4, {thirty_two}");
    check(
        &[
            row("32", "hops 32", "10.0.0.1", &[&thirty_two], "10.0.0.9", "the last that counts"),
            row("33", "hops 33", "10.0.0.1", &[&line], "10.0.0.1 (short)", "does not count"),
            row("walk", "proxies 10.0.0.0/8", "10.0.0.1", &[&line], "10.0.0.9 (all-trusted)", "is not reached"),
        ],
        ForwardHeader::Forwarded,
    );
}
