//! Which server of a cluster has a key: its slots, and how keys fall into them. Pure.

use redis::Value;

use super::fault::is_host;
use super::wire::Address;

/// How many slots a cluster has.
const SLOTS: u16 = 16_384;

/// More servers that hold slots than a cluster can sensibly have; one that names more is not believed.
pub const MOST_SERVERS: usize = 512;

/// Which server has which slots, by its own word.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Slots {
    /// The servers, each once, in the order of their addresses.
    pub servers: Vec<Address>,
    /// First slot, last slot, position of the server; in order.
    ranges: Vec<(u16, u16, usize)>,
}

impl Slots {
    /// The position of the server of this slot.
    pub fn server(&self, slot: u16) -> Option<usize> {
        let after = self.ranges.partition_point(|(first, ..)| *first <= slot);
        let (_, last, server) = self.ranges.get(after.checked_sub(1)?)?;
        (slot <= *last).then_some(*server)
    }

    /// What `CLUSTER SLOTS` says: ranges, each with its ends, its primary and its replicas; a server with its address first.
    /// `asked` is who said it: a server that does not know its own address is that one.
    pub fn read(said: Value, asked: &Address) -> Option<Slots> {
        let mut found = Vec::new();
        for range in items(said)? {
            let mut range = items(range)?.into_iter();
            let mut end = || redis::from_redis_value::<u16>(range.next()?).ok().filter(|slot| *slot < SLOTS);
            let (first, last) = (end()?, end()?);
            let mut primary = items(range.next()?)?.into_iter();
            let host = match primary.next()? {
                Value::Nil => String::new(),
                host => redis::from_redis_value(host).ok()?,
            };
            let host = if host.is_empty() || host == "?" { asked.0.clone() } else { host };
            let port: u16 = redis::from_redis_value(primary.next()?).ok()?;
            if first > last || !is_host(&host) {
                return None;
            }
            found.push((first, last, (host, port)));
        }
        let mut servers: Vec<Address> = found.iter().map(|(.., server)| server.clone()).collect();
        servers.sort_unstable();
        servers.dedup();
        if servers.is_empty() || servers.len() > MOST_SERVERS {
            return None;
        }
        let place = |server: &Address| servers.binary_search(server).ok();
        let ranges = found.iter().map(|(first, last, server)| Some((*first, *last, place(server)?)));
        let mut ranges = ranges.collect::<Option<Vec<_>>>()?;
        ranges.sort_unstable();
        Some(Slots { servers, ranges })
    }
}

/// What most of several said; of equally many what was said first.
pub fn most_said<T: PartialEq>(said: Vec<T>) -> Option<T> {
    let votes = |one: &T| said.iter().filter(|other| *other == one).count();
    // of several greatest `max_by_key` takes the last
    let (place, _) = said.iter().enumerate().rev().max_by_key(|(_, one)| votes(one))?;
    said.into_iter().nth(place)
}

fn items(value: Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(items) => Some(items),
        _ => None,
    }
}

/// The slot of a key: of what stands between its first `{` and the next `}`, or of all of it.
pub fn slot(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(key).as_bytes()) % SLOTS
}

/// CRC-16/XMODEM, as the Redis Cluster specification says.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(
            crc ^ (u16::from(*byte) << 8),
            |crc, _| {
                if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Address {
        ("10.0.0.9".to_owned(), 7_000)
    }

    fn read(text: &str) -> Option<Slots> {
        Slots::read(redis::parse_redis_value(text.as_bytes()).unwrap(), &asked())
    }

    fn range(first: u16, last: u16, host: &str, port: u16) -> String {
        format!("*3\r\n:{first}\r\n:{last}\r\n*3\r\n${}\r\n{host}\r\n:{port}\r\n$2\r\nid\r\n", host.len())
    }

    #[test]
    fn a_key_is_in_the_slot_that_the_specification_says() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot("123456789"), 12_739);
        assert_eq!(slot("{user1000}.following"), slot("user1000"));
        assert_eq!(slot("foo{bar}{zap}"), slot("bar"));
        assert_eq!(slot("foo{{bar}}zap"), slot("{bar"));
        assert_ne!(slot("foo{}{bar}"), slot("bar"), "an empty tag is none");
    }

    #[test]
    fn slots_are_found_at_their_servers_and_holes_at_none() {
        let text = format!("*3\r\n{}{}{}", range(9, 20, "b", 1), range(0, 5, "a", 1), range(21, 16_383, "b", 1));
        let slots = read(&text).unwrap();
        assert_eq!(slots.servers, [("a".to_owned(), 1), ("b".to_owned(), 1)]);
        let servers = [0, 5, 6, 8, 9, 20, 21, 16_383].map(|slot| slots.server(slot));
        assert_eq!(servers, [Some(0), Some(0), None, None, Some(1), Some(1), Some(1), Some(1)]);
        assert_eq!(read(&format!("*1\r\n{}", range(0, 9, "", 7))).unwrap().servers, [("10.0.0.9".to_owned(), 7)]);
    }

    #[test]
    fn what_names_no_servers_is_not_believed() {
        for range in [range(5, 4, "a", 1), range(0, 16_384, "a", 1), range(0, 1, "a b", 1), range(0, 1, "a\r\nb", 1)] {
            assert_eq!(read(&format!("*1\r\n{range}")), None, "{range}");
        }
        for text in ["*0\r\n", ":1\r\n", "*1\r\n*1\r\n:1\r\n"] {
            assert_eq!(read(text), None, "{text}");
        }
        let many: String = (0..513).map(|n| range(n, n, "a", n)).collect();
        assert_eq!(read(&format!("*513\r\n{many}")), None);
    }

    #[test]
    fn what_most_say_counts() {
        assert_eq!(most_said(vec![1, 2, 2]), Some(2));
        assert_eq!(most_said(vec![1, 2]), Some(1), "the first of as many");
        assert_eq!(most_said(Vec::<u8>::new()), None);
    }
}
