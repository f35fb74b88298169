//! Replaces SIPp's flags by netrig's, so that command lines of SIPp work unchanged.

use std::ffi::OsString;

/// Flags of SIPp that take one word, each with netrig's flag.
const ONE: [(&str, &str); 11] = [
    ("-m", "--count"),
    ("-mp", "--media-port"),
    ("-users", "--users"),
    ("-sf", "--scenario-file"),
    ("-inf", "--inject"),
    ("-s", "--service"),
    ("-au", "--auth-user"),
    ("-ap", "--auth-password"),
    ("-3pcc", "--3pcc"),
    ("-slave_cfg", "--processes"),
    ("-master", "--process"),
];

/// Flags of SIPp that take a bare number: SIPp's flag, netrig's flag, and the unit to append.
const NUMBERS: [(&str, &str, &str); 3] =
    [("-r", "--rate", "/s"), ("-d", "--hold", "ms"), ("-recv_timeout", "--message-timeout", "ms")];

/// Flags of SIPp that take two words, each with netrig's flag.
const TWO: [(&str, &str); 3] = [("-key", "--key"), ("-set", "--variable"), ("-infindex", "--inject-index")];

/// The command line. In `sip load` and `sip serve scenario`, SIPp's flags are replaced by netrig's.
pub fn spelled(words: Vec<OsString>) -> Vec<OsString> {
    let own: Vec<&str> = words.iter().skip(1).take(3).filter_map(|word| word.to_str()).collect();
    let is_meant = own.starts_with(&["sip", "load"]) || own.starts_with(&["sip", "serve", "scenario"]);
    if !is_meant {
        return words;
    }
    let mut spelled = Vec::with_capacity(words.len());
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let text = word.to_str().unwrap_or_default();
        let two = TWO.iter().find(|(own, _)| *own == text);
        if let Some((_, flag)) = two {
            spelled.push((*flag).into());
            if let (Some(name), value) = (words.next(), words.next()) {
                let mut joined = name;
                if let Some(value) = value {
                    joined.push("=");
                    joined.push(value);
                }
                spelled.push(joined);
            }
            continue;
        }
        if let Some((_, flag, unit)) = NUMBERS.iter().find(|(own, ..)| *own == text) {
            spelled.push((*flag).into());
            spelled.extend(words.next().map(|mut number| {
                // A value with a unit is already in netrig's form.
                if number.to_str().is_some_and(|number| number.parse::<f64>().is_ok()) {
                    number.push(unit);
                }
                number
            }));
            continue;
        }
        let known = match text {
            "-aa" => Some("--answer-requests"),
            "-slave" => Some("--process"),
            text => ONE.iter().find(|(own, _)| *own == text).map(|(_, flag)| *flag),
        };
        spelled.push(known.map_or(word, OsString::from));
    }
    spelled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_sipp_are_understood_where_scenarios_are() {
        let words = |text: &str| -> Vec<OsString> { text.split(' ').map(OsString::from).collect() };
        let spelled = spelled(words(
            "netrig sip load udp:127.0.0.1 -sf a.xml -key tenant acme -inf u.csv -s 1 -aa -r 5 -d 100 -m 10",
        ));
        let own = "netrig sip load udp:127.0.0.1 --scenario-file a.xml --key tenant=acme --inject u.csv --service 1 --answer-requests \
                   --rate 5/s --hold 100ms --count 10";
        assert_eq!(spelled, words(own));
        let other = words("netrig sip serve uas -s 1");
        assert_eq!(super::spelled(other.clone()), other);
    }
}
