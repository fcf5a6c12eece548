//! Finds the TCP ports in a program's own configuration.

use std::collections::BTreeSet;

/// URL schemes and their default ports.
const SCHEMES: &[(&str, u16)] = &[
    ("http://", 80),
    ("https://", 443),
    ("ws://", 80),
    ("wss://", 443),
    ("socks5://", 1080),
    ("socks5h://", 1080),
];

/// Adds the port of every address in a text.
pub(super) fn add_ports(text: &str, ports: &mut BTreeSet<u16>) {
    for (scheme, usual) in SCHEMES {
        for (at, _) in text.match_indices(scheme) {
            let rest = &text[at + scheme.len()..];
            let end =
                rest.find(['/', '?', '#', '"', '\'', ' ', '\n', ',', '}']).unwrap_or(rest.len());
            let host = rest[..end].rsplit('@').next().unwrap_or_default();
            // The colons of an IPv6 address are in brackets.
            let after = host.rsplit(']').next().unwrap_or_default();
            let named = after.rsplit_once(':').map(|(_, port)| port.parse());
            match named {
                Some(Ok(port)) => drop(ports.insert(port)),
                Some(Err(_)) => {}
                None => drop(ports.insert(*usual)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_of_every_address_is_found() {
        for (text, expected) in [
            ("http://127.0.0.1:8080/v1", &[8080][..]),
            ("https://api.example.com", &[443]),
            ("http://u:p@proxy:3128", &[3128]),
            ("http://[::1]:4000/v1", &[4000]),
            ("http://[::1]/v1", &[80]),
            ("base_url=\"http://a:1/v1\", other='https://b:2'", &[1, 2]),
            ("http://a:99999 and no address: a:3", &[]),
        ] {
            let mut ports = BTreeSet::new();
            add_ports(text, &mut ports);
            assert_eq!(ports.into_iter().collect::<Vec<_>>(), expected, "{text}");
        }
    }
}
