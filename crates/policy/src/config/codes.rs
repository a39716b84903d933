//! The stable codes of diagnostics: the one table. A code is never renumbered and never used for something else.
//!
//! `E00` the file itself and its YAML · `E01` shape · `E02` single values · `E03` meaning · `W04` warnings.

mod help;

/// Whether the configuration is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// It cannot be used.
    Error,
    /// It can, but is probably not what was meant.
    Warning,
}

impl Severity {
    /// The word in every output format.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// A stable code such as `E0203`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(&'static str);

impl Code {
    /// As it is printed.
    pub fn text(self) -> &'static str {
        self.0
    }

    /// Codes with `W` are warnings, all others errors.
    pub fn severity(self) -> Severity {
        if self.0.starts_with('W') { Severity::Warning } else { Severity::Error }
    }

    /// What the code means, in one line.
    pub fn meaning(self) -> &'static str {
        Code::ALL.iter().find(|(code, _)| *code == self).map_or("", |(_, meaning)| meaning)
    }
}

macro_rules! codes {
    ($($name:ident = $code:literal, $meaning:literal;)*) => {
        impl Code {
            $(#[doc = $meaning] pub const $name: Code = Code($code);)*

            /// Every code with its meaning, in order.
            pub const ALL: &'static [(Code, &'static str)] = &[$((Code::$name, $meaning),)*];
        }
    };
}

codes! {
    UNREADABLE = "E0001", "a file or directory cannot be read";
    TOO_LARGE = "E0002", "a file is larger than 4MiB";
    NOT_UTF8 = "E0003", "a file is not UTF-8 text";
    SYNTAX = "E0004", "the text is not YAML";
    DOCUMENTS = "E0005", "a file holds more than one YAML document";
    EMPTY_FILE = "E0006", "a file holds nothing";
    TOO_COMPLEX = "E0007", "the YAML nests too deeply or unfolds to too many nodes";
    UNSUPPORTED_YAML = "E0008", "a part of YAML that policy files do not use: tags, complex keys";
    VARIABLE = "E0009", "a `${…}` that cannot be replaced";
    INCLUDE = "E0010", "an `include:` entry that names nothing allowed";

    SHAPE = "E0101", "a map, list or single value stands where another of them is needed";
    UNKNOWN_FIELD = "E0102", "a field that does not exist here";
    DUPLICATE_FIELD = "E0103", "the same field twice in one map";
    MISSING_FIELD = "E0104", "a field that must be there is not";
    EMPTY_VALUE = "E0105", "a field, list or map without anything in it";
    CONFLICT = "E0106", "fields that exclude each other, or one without the other it needs";

    BAD_NAME = "E0201", "a name that is not of the form `[a-z][a-z0-9_]{0,39}`";
    BAD_DURATION = "E0202", "not a duration such as `250ms`, `10s`, `1h30m`";
    BAD_RATE = "E0203", "not a rate such as `10/s`, `5/m`, `100/10s`";
    BAD_SIZE = "E0204", "not a size such as `64KiB`, `10MiB`";
    BAD_SHARE = "E0205", "not a share such as `10%`";
    BAD_NUMBER = "E0206", "not a whole number such as `200`, `20_000`";
    BAD_WORD = "E0207", "not one of the words allowed here";
    BAD_BOOLEAN = "E0208", "neither `true` nor `false`";
    BAD_ADDRESS = "E0209", "not an address such as `:8080`, `127.0.0.1:3000`, `app.internal:8080`";
    BAD_CIDR = "E0210", "not a network such as `10.0.0.0/8`, `2001:db8::/32`";
    BAD_KEY = "E0211", "not a key such as `client_ip`, `header:x-api-key`";
    BAD_LIMIT_TEXT = "E0212", "not an inline limit: `RATE [burst N] [by KEY] [missing allow|deny] [shadow]`";
    BAD_HEADER = "E0213", "not a header name or header value";
    BAD_TEMPLATE = "E0214", "a header value with an unknown or unclosed placeholder";
    BAD_HOST = "E0215", "not a host such as `shop.example.com`, `*.example.com`";
    BAD_PATH = "E0216", "not a path such as `/x`, `=/x`";
    BAD_REGEX = "E0217", "not a regular expression";
    BAD_METHOD = "E0218", "not an HTTP method";
    OUT_OF_RANGE = "E0219", "a value outside the range that makes sense";
    BAD_TEXT = "E0220", "a text that is not possible here";
    BAD_DATE = "E0221", "not a date such as `2026-11-21`";
    BAD_STORE_URL = "E0222", "not a store's URL such as `redis://127.0.0.1:6379`";
    BAD_TIME_ZONE = "E0223", "not a time zone such as `Europe/Berlin`";
    BAD_WEB_ORIGIN = "E0224", "not the origin of a page such as `https://app.example.com`";
    BAD_BODY = "E0225", "a body of a refusal that cannot be used";
    NEVER_MATCHES = "E0230", "a regular expression that no path can meet";

    UNKNOWN_LIMIT = "E0301", "a limit that is not defined";
    UNKNOWN_ORIGIN = "E0302", "an origin that is neither defined nor an address";
    UNKNOWN_PRESET = "E0303", "a preset that does not exist";
    DUPLICATE_NAME = "E0304", "the same name twice";
    ADDRESS_CLASH = "E0305", "two sockets that want the same address";
    UNREACHABLE_ROUTE = "E0306", "a route that an earlier one hides entirely";
    TOO_MANY_LIMITS = "E0307", "more than 8 limits on one route, or more than one `fair_share`";
    NO_ACTION = "E0308", "a route that says neither `origin` nor `respond`, or both";
    BURST_BELOW_COST = "E0309", "a burst, quota or average that not even one request fits in";
    NO_MISSING_RULE = "E0310", "a key that may be absent, without saying what happens then";
    KEY_NOT_AVAILABLE = "E0311", "a key that cannot be counted by here";
    NOTHING_SERVED = "E0312", "no listener or no routes";
    BAD_SECRET = "E0313", "a secret that is missing, empty or readable by others";
    BAD_VERSION = "E0314", "a schema version that this program does not know";
    BAD_LIST_FILE = "E0315", "a list or preset file that cannot be used";
    UNKNOWN_ROUTE = "E0316", "a route that is not defined";
    BAD_CERTIFICATE = "E0320", "a certificate, key or list of authorities that cannot be used";
    OPEN_ADMIN = "E0321", "an `admin` address that others can reach, without a token";
    UNKNOWN_STORE = "E0322", "a store that is not defined";
    NOT_SHARED = "E0323", "a limit that cannot be shared through a store";
    NO_SHARED_KEY = "E0324", "a shared limit without the key by which all gates name clients";
    NO_STORES = "E0325", "stores, for a program that was built without them";
    NOT_SENT_ON = "E0330", "a header field that concerns one connection, so that no origin ever gets it";

    UNUSED_LIMIT = "W0401", "a limit that no route uses";
    UNUSED_ORIGIN = "W0402", "an origin that no route uses";
    SMALL_BURST = "W0403", "a burst below one second's worth";
    LITERAL_SECRET = "W0404", "a secret written literally";
    WEAK_SECRET = "W0405", "a secret shorter than 16 bytes";
    QUOTED_VARIABLE = "W0406", "a quoted `${…}`, which stays as it is";
    TRUST_EVERYBODY = "W0407", "a trusted network that holds everybody";
    HOST_BITS = "W0408", "a network with host bits, which are masked";
    OLD_PRESET = "W0409", "a preset whose date is more than 180 days past";
    HIDDEN_MATCH = "W0410", "one of several matches that an earlier one hides";
    KEYLESS_REFUSED = "W0411", "an inline limit that refuses requests without its key";
    NO_FILES = "W0412", "an `include:` pattern that matches no file";
    MANY_SERIES = "W0413", "more than 5000 metric series";
    FORGEABLE = "W0415", "an exemption that rests on a header alone";
    UNVERIFIED_ORIGIN = "W0416", "an origin whose certificate is not verified";
    SMALL_SKETCH = "W0417", "a sketch so small that clients are refused for others";
    OLD_SHADOW = "W0418", "a limit that has been in shadow for more than 30 days";
    NO_MONTH = "W0419", "a window of so many days that is no week or month of the calendar";
    CERTIFICATE_TIME = "W0420", "a certificate that has expired, soon will, or is not yet valid";
    OPEN_KEY = "W0421", "a private key that everybody on the machine can read";
    CERTIFICATE_NAMES = "W0422", "a certificate whose names do not fit, or are those of another";
    IDLE_WORD = "W0430", "a word of a listener that another one leaves without effect";
    UNUSED_STORE = "W0431", "a store that no limit uses";
    PLAIN_STORE = "W0432", "a store far away that is spoken to in clear";
    CLOSED_EVERYWHERE = "W0433", "a limit that refuses every request of every route when its store is silent";
    SLOW_STORE = "W0434", "a limit whose requests may all wait long for its store";
    WALKED_ROUND = "W0440", "a guarded path that another spelling or method walks round";
    DEAD_ALTERNATIVE = "W0441", "an alternative of a regular expression that no path can meet";
    FREE_KEY = "W0442", "a limit that a client escapes by leaving its key out or writing it in another way";
    UNTOLD_FIELD = "W0443", "a field that decides something and that no client may send";
    NO_QUEUE = "W0444", "an origin with a cap and no queue, where whoever comes first has the place";
    OPEN_PAGE = "W0445", "an `admin` address that tells each user of the machine of clients";
    ORIGINS_OWN = "W0446", "a `fair_share` of an origin, which shares out its places itself";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_in_order_and_say_what_they_mean() {
        assert!(Code::ALL.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(Code::ALL.iter().all(|(code, meaning)| !meaning.is_empty() && code.text().len() == 5));
        assert_eq!(Code::BAD_RATE.severity(), Severity::Error);
        assert_eq!(Code::OLD_PRESET.severity(), Severity::Warning);
        assert_eq!(Code::BAD_RATE.meaning(), "not a rate such as `10/s`, `5/m`, `100/10s`");
    }
}
