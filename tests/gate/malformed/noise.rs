//! Good requests with a few bytes changed, doubled or lost, by dice whose seed is in the file: always the same ones.

use super::Want::Survived;
use super::{Case, Then};

const SEED: u64 = 0x7469_6465_6761_7465;
const CASES: usize = 250;

pub fn cases() -> Vec<Case> {
    let mut dice = Dice(SEED);
    (0..CASES).map(|_| Case { name: "noise", bytes: dice.spoilt_request(), then: Then::Ends, want: Survived }).collect()
}

struct Dice(u64);

impl Dice {
    /// xorshift64 (Marsaglia 2003).
    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }

    fn spoilt_request(&mut self) -> Vec<u8> {
        let good: [&[u8]; 4] = [
            b"GET /a/b?c=d HTTP/1.1\r\nHost: gate.example\r\nAccept: */*\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n",
            b"POST /a HTTP/1.1\r\nHost: gate.example\r\nContent-Length: 5\r\n\r\nhello",
            b"POST /a HTTP/1.1\r\nHost: gate.example\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            b"HEAD / HTTP/1.1\r\nHost: gate.example:80\r\nConnection: keep-alive\r\nForwarded: for=\"[::1]:1\"\r\n\r\n",
        ];
        let mut bytes = good[self.roll(good.len())].to_vec();
        for _ in 0..=self.roll(3) {
            let at = self.roll(bytes.len());
            match self.roll(4) {
                0 => bytes[at] = self.roll(256) as u8,
                1 => bytes[at] = b"\r\n\0 \t:;,/%#?"[self.roll(12)],
                2 => {
                    bytes.remove(at);
                }
                _ => bytes.insert(at, bytes[at]),
            }
        }
        bytes
    }
}
