//! A paragraph on each code: what is wrong, why it is no small matter, and the way out.

use super::Code;

impl Code {
    /// The code of this text, in any case.
    pub fn parse(text: &str) -> Option<Code> {
        Code::ALL.iter().map(|(code, _)| *code).find(|code| code.text().eq_ignore_ascii_case(text))
    }

    /// What the code means, why it matters and what to do, in a paragraph.
    pub fn paragraph(self) -> &'static str {
        match self {
            Code::UNREADABLE => {
                "The path does not exist, is a directory where a file is needed, or may not be read by this user. The system's own word stands beside it. In a package the process runs as `tidegate`: `sudo -u tidegate cat FILE` shows whether that user may."
            }
            Code::TOO_LARGE => {
                "A file of more than 4 MiB is not read, because it is more likely a log or an archive than a policy. Ten thousand routes are about 2 MiB. Move parts into files of their own and name them under `include:`."
            }
            Code::NOT_UTF8 => {
                "Policy files are UTF-8. The message names the first byte that is not; an editor that saves in Latin-1 or UTF-16 is the usual reason."
            }
            Code::SYNTAX => {
                "The YAML parser could not go on at this place, so nothing behind it was looked at. Most often: a tab in the indentation, a missing space behind a colon, a value that begins with `*`, `&`, `[` or `{` and needs quotes, an unclosed quote, a line that begins in another column than those of its map, a backslash in double quotes."
            }
            Code::DOCUMENTS => {
                "A line of `---` begins another document, and only one makes a policy. Put the parts into one document, or into files that `include:` names."
            }
            Code::EMPTY_FILE => {
                "There is nothing in the file but comments. The smallest policy is `listen: \":8080\"` and `routes: [{ origin: \"127.0.0.1:3000\" }]`; `tidegate schema` has every word."
            }
            Code::TOO_COMPLEX => {
                "Anchors and aliases can make a short text unfold to millions of nodes, so there is a bound. A policy that people wrote does not come near it; write repeated parts out, or give a limit a name and use that."
            }
            Code::UNSUPPORTED_YAML => {
                "Tags such as `!!binary` and keys that are lists or maps mean nothing in a policy file. Write plain scalars; what a value is follows from the field that it stands in."
            }
            Code::VARIABLE => {
                "`${NAME}` is replaced from the environment of the process, `${NAME:-default}` falls back. The variable is not set, or its name is not closed or not a name. Under systemd the environment is the unit's: `Environment=` or `EnvironmentFile=`."
            }
            Code::INCLUDE => {
                "Entries of `include:` are paths relative to the main file, with at most one `*`, in the last part. Included files include nothing themselves, and no file is read twice."
            }
            Code::SHAPE => {
                "A list stands where a map is needed, or the other way round, or a single value in place of either. Indentation is the usual reason: the items of a list begin with `-`, the fields of a map with `name:`."
            }
            Code::UNKNOWN_FIELD => {
                "No field of this name exists at this place. It is refused rather than skipped, because a limit that was misspelt and silently ignored protects nothing. The nearest field is suggested; `tidegate schema` lists all."
            }
            Code::DUPLICATE_FIELD => {
                "A map has the same field twice. Most YAML readers keep the last one without a word, so that two limits called `login` become one. Rename or remove one of them."
            }
            Code::MISSING_FIELD => {
                "The map cannot mean anything without this field, and there is no default that would be right for everybody."
            }
            Code::EMPTY_VALUE => {
                "The field is there and says nothing. Remove it to have its default, or write what was meant: an empty list of trusted networks is more often a lost line than a decision."
            }
            Code::CONFLICT => {
                "Two fields say different things about one matter, or one needs another that is not there. Which of them wins is not guessed."
            }
            Code::BAD_NAME => {
                "Names of limits, routes, listeners and origins are lower case, begin with a letter and have at most 40 letters, digits and `_`, because they become metric labels and appear in header fields."
            }
            Code::BAD_DURATION => {
                "Durations are numbers with units, the largest first: `250ms`, `10s`, `1h30m`, `7d`. A number alone has no unit, and guessing one would be off by a thousand for somebody."
            }
            Code::BAD_RATE => {
                "Rates are a whole number per time: `10/s`, `5/m`, `1000/h`, `100000/d`, or per a duration: `100/10s`. Where bytes are counted: `20MiB/s`."
            }
            Code::BAD_SIZE => "Sizes are a whole number with a binary unit: `64KiB`, `10MiB`, `1GiB`, or `500B`.",
            Code::BAD_SHARE => "Shares are percentages, `0%` to `100%`, with up to four decimals.",
            Code::BAD_NUMBER => {
                "A whole number is needed here, without sign or exponent; `_` may stand between digits, as in `20_000`."
            }
            Code::BAD_WORD => "Only the words in the message are known here. The nearest is suggested.",
            Code::BAD_BOOLEAN => {
                "Write `true` or `false`. `yes`, `on` and `1` mean something else to every reader of YAML, and so nothing here."
            }
            Code::BAD_ADDRESS => {
                "An address is a port alone (`:8080`), an IP address with a port (`127.0.0.1:3000`, `[::1]:3000`), a host with a port where one is asked for (`app.internal:8080`), or `unix:/full/path`."
            }
            Code::BAD_CIDR => {
                "Networks are written as address and length: `10.0.0.0/8`, `2001:db8::/32`; an address alone is that one address. An entry that cannot be read would leave a hole, or trust somebody who was not named, so it is no warning."
            }
            Code::BAD_KEY => {
                "A limit counts by `client_ip`, `header:NAME`, `cookie:NAME`, `query:NAME`, `host`, `path`, `method`, `method_class`, `route`, `tls_sni`, `origin` or `global`, or by several of them as a list."
            }
            Code::BAD_LIMIT_TEXT => {
                "A limit in one line is `RATE [burst N] [by KEY] [missing allow|deny] [shadow]`, such as `50/s burst 100 by header:x-api-key missing deny`. What does not fit into that belongs under `limits:` with a name."
            }
            Code::BAD_HEADER => {
                "Header names are letters, digits and `-_`; values are one line of visible text. Fields that frame the message or belong to the connection cannot be edited."
            }
            Code::BAD_TEMPLATE => {
                "Placeholders stand in braces, such as `{client_ip}`; a brace itself is written twice. This one is not known, or not closed."
            }
            Code::BAD_HOST => {
                "Hosts are names without scheme, port or path: `shop.example.com`; `*.example.com` takes one label or more in front of the suffix."
            }
            Code::BAD_PATH => {
                "Paths begin with `/`: `/x` takes `/x` and all below it by whole segments, `=/x` takes just that one. Write them in their canonical form, as requests have theirs when they are matched: no `..`, no `//`, no needless `%`."
            }
            Code::BAD_REGEX => {
                "The expression is faulty, or too large to be compiled. Expressions match a path or value as a whole and run in linear time, so look-around and back-references do not exist."
            }
            Code::BAD_METHOD => {
                "Methods are upper-case words such as `GET`. `CONNECT` and `TRACE` are never forwarded."
            }
            Code::OUT_OF_RANGE => {
                "The value can be read and makes no sense: the message names the range. Bounds are there because a number beyond them is more often a missing unit or a slip than a wish."
            }
            Code::BAD_TEXT => {
                "The text is empty where it must not be, too long, or has characters that cannot stand here."
            }
            Code::BAD_DATE => {
                "A date is a day of the calendar, year first: `2026-11-21`. Other orders are not guessed, because `03/04` is two days in two countries; a day that does not exist, such as the 30th of February, is none."
            }
            Code::BAD_TIME_ZONE => {
                "A time zone has a name of the IANA database, such as `Europe/Berlin`, `America/New_York` or `UTC`, spelled as there. Abbreviations such as `EST` are not guessed from, and an offset such as `+02:00` is no zone: it has no clocks that change. The rules are those that this version was built with; `docs/limits/quota.md` says which."
            }
            Code::UNKNOWN_LIMIT => {
                "A route, or another limit, names a limit that is not defined under `limits:`. A route that silently lost its limit would be unprotected, so the file is refused. If a limit was meant that is written right here, it needs a rate: `limits: [\"50/s burst 100\"]`."
            }
            Code::UNKNOWN_ROUTE => {
                "A test says by which route a request must go, and there is none of that name. A route without `name:` is called after its place in the list; `tidegate show routes` prints all names. A test that waits for a route that does not exist would fail for ever, or worse, be taken out."
            }
            Code::SMALL_SKETCH => {
                "A sketch never admits too much, but one that is too small for its load refuses clients for what others did. The message has the probability at the load that the numbers allow, and the size that would bring it down. Raise `memory:`."
            }
            Code::NO_MONTH => {
                "A window is always as long as it says, and windows are counted from 1970. So windows of 30 or 31 days drift away from the months, and windows of 7 days begin on Thursdays at midnight UTC. `per: month`, `per: week` or `per: day` beside `max` follows the calendar of a `time_zone`. Windows of so many days are right where a contract says days; the warning can be ignored then."
            }
            Code::UNKNOWN_ORIGIN => {
                "The route's `origin:` is neither the name of one under `origins:` nor an address with a port. `app` alone is a name; `app:8080` is an address."
            }
            Code::UNKNOWN_PRESET => {
                "There is no list of this name, neither built in nor as `presets.d/NAME.txt` beside the policy file. Such a file has one network per line and a `# date:`."
            }
            Code::DUPLICATE_NAME => {
                "Two things of one kind have the same name, in one file or in several that make one configuration. Metrics and logs could not tell them apart."
            }
            Code::ADDRESS_CLASH => {
                "Two listeners, or a listener and the metrics or admin address, want the same socket. The second would fail when the process starts; it is told now."
            }
            Code::UNREACHABLE_ROUTE => {
                "Every request that this route asks for is taken by an earlier one with the same precedence, so that it never serves anything. Precedence is: host, path (exact, regex, longest prefix), method, number of headers, number of parameters, then the order in the file."
            }
            Code::TOO_MANY_LIMITS => {
                "A request's record has room for 8 limits, and a `fair_share` shares out one capacity. Join limits that have the same key, or move some to another route."
            }
            Code::NO_ACTION => {
                "A route forwards (`origin:`) or answers by itself (`respond:`), and exactly one of these."
            }
            Code::BURST_BELOW_COST => {
                "The budget, when full, holds less than one request costs, so that nobody would ever be admitted. Raise the burst (`max`, or rate × half-life of a recent average) or lower the cost."
            }
            Code::NO_MISSING_RULE => {
                "A header, cookie or parameter may be absent. Then `missing: allow` lets the request pass unlimited, `missing: deny` refuses it, and `missing: { use: OTHER }` asks another limit. None of them is a safe guess: the first lets a client escape by leaving something out."
            }
            Code::KEY_NOT_AVAILABLE => {
                "This kind of limit, or this place, cannot count by that: an exact `inflight` has `global`, `route` or `origin` alone, and what only an answer knows is no key."
            }
            Code::NOTHING_SERVED => "Without a listener or without a route the process would do nothing at all.",
            Code::BAD_SECRET => {
                "A secret is missing, empty, or readable by everybody on the machine. It makes the pseudonyms of clients: who reads it can lead them back. `chmod 600`, or a systemd credential. Or the previous key of `secrets.client_hmac` is that key itself, and every shared limit would count twice."
            }
            Code::BAD_VERSION => {
                "The file says that it is of another version of this format than this program knows. Install the program that knows it, or write `version: 1`."
            }
            Code::BAD_LIST_FILE => {
                "A list of networks cannot be read or holds no network, or its `# date:` is no date. An empty list where one was meant is a hole in `trusted_proxies`."
            }
            Code::BAD_CERTIFICATE => {
                "A certificate, its key, or a list of authorities cannot be read, holds none, or the two do not belong together. It is told when the file is loaded, not in the first handshake."
            }
            Code::OPEN_ADMIN => {
                "The admin pages tell routes, limits, origins and whom they refuse. Where others than this machine can reach the address, they must know a token: `token: { file: … }`; or listen on 127.0.0.1."
            }
            Code::OPEN_PAGE => {
                "Each process on this machine can connect to 127.0.0.1, whoever runs it. With `open: true` it reads there whom the limits refuse, why, and the configuration. Give the address a `token`, or leave `open` out: without it the address tells numbers, and `tidegate` asks the rest on the admin socket, which hears its owner and root alone."
            }
            Code::BAD_STORE_URL => {
                "A store is named by `redis://HOST:PORT`, or `rediss://` for TLS; several servers stand with commas between, and a database as `/1` behind them. A user and a password have words of their own, `username` and `password`, because URLs are shown and logged."
            }
            Code::UNKNOWN_STORE => {
                "The limit is to be shared through a store that the file does not define. It is refused rather than counted by each gate for itself: with ten gates that would be ten times the limit. Define it under `stores:`."
            }
            Code::NOT_SHARED => {
                "Through a store, gates share limits of type `rate` and `quota`, also where the answer or bytes that pass decide what is charged, `inflight` by key, and `distinct` whose values count when they pass. A moment in the future (`delay`) cannot be booked there, and no store divides a `fair_share`. With `sharing: estimate`, gates tell each other what they have charged: so `recent_average` can be shared as well, and places and different values cannot. Without `store`, every gate counts for itself: with N of them, divide the numbers by N."
            }
            Code::NO_SHARED_KEY => {
                "Clients are known to the store by a keyed hash, never by their address. Every gate must have the same key, or each would count under names of its own, and N gates would grant N times the limit. Without `secrets.client_hmac` a gate makes its own key at start. Make one with `head -c 32 /dev/urandom | base64` and give it to all."
            }
            Code::NO_STORES => {
                "The program was built without the feature `store`, so it cannot reach Redis or Valkey. Counting by itself would admit each limit once per gate, so it does not start. Use a program with the feature, which is on by default (`tidegate --version` lists what is in), or delete `stores:` and each limit's `store:`."
            }
            Code::UNUSED_STORE => {
                "No limit names this store, so it shares no more than bans. Most often the limit's `store:` is missing, and every gate counts for itself."
            }
            Code::PLAIN_STORE => {
                "What goes over `redis://` can be read and changed by whoever is on the way, the password among it; and whoever has that can give every client a new budget, or none. Within a machine or a network of one's own that may be fine; this address is neither. Say `rediss://` and name the authority in `ca:`."
            }
            Code::CLOSED_EVERYWHERE => {
                "With `on_store_error: closed` a limit refuses what the store does not answer. On every route, that makes the store a part whose failure takes the whole site down with it. `local` goes on by this gate's own part of the limit; keep `closed` for what must never pass uncounted, such as a login."
            }
            Code::SLOW_STORE => {
                "With `sharing: exact`, every request waits for the store's answer, and for as long as `timeout` when none comes. More than 50ms is what people notice. Shorten the timeout, or share by `lease`, where one request in many waits."
            }
            Code::UNUSED_LIMIT => {
                "The limit is defined and no route asks it, so it protects nothing. Most often a route was to name it."
            }
            Code::UNUSED_ORIGIN => {
                "The origin is defined and no route sends anything to it: a route was to name it, or the origin can go."
            }
            Code::SMALL_BURST => {
                "The burst is less than what the rate gives in a second, so an ordinary page load, a dozen requests at once, may be refused although the client is far below its rate."
            }
            Code::LITERAL_SECRET => {
                "The secret stands in the policy file, which is copied, reviewed and backed up. Name a file, or a variable: `file: ${CREDENTIALS_DIRECTORY}/client_hmac.key`."
            }
            Code::WEAK_SECRET => "Fewer than 16 bytes can be guessed. `openssl rand -hex 32` makes a good one.",
            Code::QUOTED_VARIABLE => {
                "In quotes `${…}` stays as it is. Take the quotes away to have the variable's value; keep them if the text is meant."
            }
            Code::TRUST_EVERYBODY => {
                "A network of length 0 holds every address there is: anybody who reaches the listener can name any client, and so escape every limit or fill somebody else's. List the networks of your proxies."
            }
            Code::HOST_BITS => {
                "Bits behind the length do not count: `10.0.0.1/8` is `10.0.0.0/8`, sixteen million addresses. If the one address was meant, write it without a length."
            }
            Code::OLD_PRESET => {
                "Providers change their networks. One that is missing makes its traffic one single client; one that was given away makes strangers trusted. Put a fresh list into `presets.d/`."
            }
            Code::HIDDEN_MATCH => {
                "One of the route's matches can never be the one that takes a request, because an earlier one asks for the same or less."
            }
            Code::KEYLESS_REFUSED => {
                "An inline limit by a header refuses requests without that header, as a client must not escape by leaving it out. Say `missing deny` if that is meant, or `missing allow`."
            }
            Code::NO_FILES => {
                "The pattern matches nothing, so nothing was included. A directory that has moved looks just like this."
            }
            Code::MANY_SERIES => {
                "Every route and every limit on it makes metric series, more than 5,000 in all. That costs a Prometheus server dearly; join routes or limits that are alike."
            }
            Code::ORIGINS_OWN => {
                "`capacity: origin:NAME` was how a `fair_share` followed what an origin can take. The origin's own `inflight` does that now: its queue gives each place to the client that holds and used the fewest. The limit is read and does nothing."
            }
            Code::NO_QUEUE => {
                "Without a queue a place goes to whoever comes first, so that one client with many requests leaves the others none. Remove `queue: 0`: of a queue the lightest goes next, and the heaviest is refused."
            }
            Code::FORGEABLE => {
                "The exemption rests on a header, which anybody can send. Add `cidr:`, or have a proxy in front that removes the header from strangers."
            }
            Code::UNVERIFIED_ORIGIN => {
                "`verify: false` encrypts to whoever answers: somebody on the way can read and change everything. Name the authority that signed the origin's certificate instead: `ca:`."
            }
            Code::OLD_SHADOW => {
                "A limit in `shadow` protects nothing; it is for trying numbers out. By its `since:` this one has been tried for more than 30 days, so it is more likely forgotten than still on trial. Look at what it would have refused (the page, `tidegate_limit_decisions_total`), then `mode: enforce`, or `enforce: 10%` for a start; or remove it; or write today's date if the trial goes on."
            }
            Code::CERTIFICATE_TIME => {
                "Clients refuse a certificate that has expired or is not valid yet. Renew it; the new file is taken over without a restart."
            }
            Code::OPEN_KEY => {
                "Everybody on the machine can read the private key and pretend to be this site. `chmod 600`, owned by the user that the process runs as."
            }
            Code::CERTIFICATE_NAMES => {
                "The certificate is not for the hosts that it would be shown to, or another one has the same names and is never shown. Clients would refuse it. Or it covers the host of no route, so that whoever asks for its names meets no route: a path was mixed up, or a route has gone."
            }
            Code::IDLE_WORD => {
                "Another word of the same listener leaves this one without any effect. Remove it, or the other."
            }
            Code::BAD_WEB_ORIGIN => {
                "The origin of a page is what browsers send in `Origin`: a scheme, a host in lower case (in its `xn--` form) and a port if it is not the scheme's own, without a path or a slash at the end. It is compared byte for byte, so another spelling would never fit. `https://*.example.com` takes every host below a domain, `*` everything; `null` is refused, as any site can make its pages send it."
            }
            Code::BAD_BODY => {
                "A body that clients get in the place of the gate's own is checked when the policy is loaded: it has at most 16 KiB, is UTF-8, is JSON if it says so, and holds no placeholder but `{status}`, `{title}`, `{detail}`, `{retry_after}`, `{limit}`, `{request.id}` and `{route}`. A value is escaped for where it stands. In a script, a style, a comment or a tag outside of quotes no escape holds, so none may stand there. `{{limit}}` is the text `{limit}`; every other brace is a brace."
            }
            Code::NEVER_MATCHES => {
                "An expression under `path:` has to meet the whole path, from its slash to its end, so `login` never matches and its route takes nothing: what it should protect stands open. Write `/login` for that path alone or `.*login.*` for every path that holds the word. A path ends before `?`, and has no blank, no `//`, no `.` or `..` between slashes and no small letters in escapes (`%2F`), so an expression that needs one of these cannot match either."
            }
            Code::DEAD_ALTERNATIVE => {
                "Each alternative of an expression has to meet the whole path by itself: in `/login|signin` the second one never matches, because every path begins with a slash. Write `/login|/signin`, or `/(login|signin)`."
            }
            Code::WALKED_ROUND => {
                "The route asks a limit or refuses, and another spelling of its path (`/Login`, `/login/`, `/login;a=1`, `/login%20`, `/admin%2Fx`) or another method reaches the same origin by a route that does not. Many origins take such a spelling for the path itself, and then whoever writes it is not limited. Write `ignore: all` beside the path, or `=/login ignore all`, and leave `method` out. If the origin takes each spelling for a path of its own, say `ignore: none`; if other methods may pass, give them a route of their own for the same path."
            }
            Code::NOT_SENT_ON => {
                "`Connection`, `Keep-Alive`, `TE`, `Upgrade` and the like are about the connection between the client and the gate. They are taken out or written anew before the request goes on, so a key or a match by one of them would judge another request than the origin gets. Match by path or by a field that travels."
            }
            Code::FREE_KEY => {
                "Nothing on the route counts who is asking. A client that leaves the header, cookie or parameter out is not counted at all with `missing: allow`, and `Authorization` has as many spellings as its scheme has letters. Add a limit by `client_ip` to the route, or `client_ip` to the key, or say `missing: deny`."
            }
            Code::UNTOLD_FIELD => {
                "The field says who the client is, or which request it made. From a peer that is not in `trusted_proxies` it is taken out before the request is judged, as no origin gets it either, and some from every peer. So a key of it is always missing, and an exception or match that asks for it never holds. List the proxies that write it, or use another field."
            }
            // every code has one, which a test sees to
            other => other.meaning(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_paragraph_of_its_own() {
        for (code, meaning) in Code::ALL {
            assert_ne!(code.paragraph(), *meaning, "{} has none", code.text());
            assert!(code.paragraph().ends_with(['.', '`']), "{}", code.text());
            assert!(code.paragraph().len() > 60, "{}", code.text());
        }
    }

    #[test]
    fn codes_are_read_in_any_case() {
        assert_eq!(Code::parse("e0301"), Some(Code::UNKNOWN_LIMIT));
        assert_eq!(Code::parse("W0407"), Some(Code::TRUST_EVERYBODY));
        assert_eq!(Code::parse("E9999"), None);
    }
}
