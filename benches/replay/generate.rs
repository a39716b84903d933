//! A log like that of a large site on a great day: the arrivals of the World Cup site on 7 July 1998, scaled; clients and
//! paths by Zipf's law (exponent 1); the combined format.

use std::io::{self, Write};

/// The requests of every minute of that day.
const MINUTES: &str = include_str!("worldcup98-07-07.txt");

const AGENTS: [&str; 6] = [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Safari/605.1.15",
    "Mozilla/5.0 (X11; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "curl/8.10.1",
];

/// How many clients and paths there are.
pub const CLIENTS: u64 = 1_000_000;
const PATHS: u64 = 20_000;

/// Writes about so many lines; says how many.
pub fn write(lines: u64, out: &mut impl Write) -> io::Result<u64> {
    let minutes: Vec<u64> = MINUTES.lines().filter_map(|line| line.parse().ok()).collect();
    let total: u64 = minutes.iter().sum();
    let (mut written, mut owed, mut dice) = (0, 0.0, 0x2545_f491_4f6c_dd1d_u64);
    for (minute, count) in minutes.iter().enumerate() {
        owed += *count as f64 * lines as f64 / total as f64;
        let of_minute = owed as u64;
        owed -= of_minute as f64;
        for at in 0..of_minute {
            let second = at * 60 / of_minute;
            let client = scattered(zipf(&mut dice, CLIENTS)).to_be_bytes();
            let rolled = roll(&mut dice);
            let path = zipf(&mut dice, PATHS);
            writeln!(
                out,
                "{}.{}.{}.{} - - [07/Jul/2026:{:02}:{:02}:{second:02} +0000] \"{} /english/{}/page{path}.html HTTP/1.1\" {} {} \"-\" \"{}\"",
                client[0],
                client[1],
                client[2],
                client[3],
                minute / 60,
                minute % 60,
                if rolled.is_multiple_of(50) { "POST" } else { "GET" },
                ["news", "images", "teams", "competition"][path as usize % 4],
                if rolled.is_multiple_of(37) { 304 } else { 200 },
                rolled >> 8 & 0x3fff,
                AGENTS[client[3] as usize % AGENTS.len()],
            )?;
            written += 1;
        }
    }
    Ok(written)
}

/// A rank from 1 to `most`, the n-th with a probability near 1/n: uniform in its logarithm.
fn zipf(dice: &mut u64, most: u64) -> u64 {
    let uniform = (roll(dice) >> 11) as f64 / (1_u64 << 53) as f64;
    (uniform * (most as f64).ln()).exp() as u64
}

/// An address of its own for every rank: multiplying by an odd number permutes.
fn scattered(rank: u64) -> u32 {
    (rank as u32).wrapping_mul(0x9e37_79b1)
}

/// Marsaglia 2003.
fn roll(dice: &mut u64) -> u64 {
    *dice ^= *dice << 13;
    *dice ^= *dice >> 7;
    *dice ^= *dice << 17;
    *dice
}
